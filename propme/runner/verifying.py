"""Is a run what its record says? Everything it left behind, hashed and measured again.

A record is trusted in nothing: every hash is computed anew from the bytes, and what the record says
in several places must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from propme import analysis, parameters
from propme.errors import PropMeError
from propme.files import sha256_of
from propme.run import DEMO, STAGES, RunFolder, notebook_path
from propme.run.folder import TABLES_OF_STAGES
from propme.run_record import read_stored
from propme.runner.checking import Finding, compared
from propme.runner.running import SCHEMA, require_done
from propme.runner.stages import figures_of, input_hashes, tables_before


def verify(run: RunFolder) -> list[Finding]:
    """Compare a finished run with its own record, and its metrics with what its tables give.

    What is not here, as the corpus of a run that somebody sent, is told and is no difference. A
    file that no stage has written is one.

    Raises
    ------
    RunError
        The run is not finished, or there is none.
    """
    require_done(run, STAGES)
    record = read_stored(run.path)
    stages = record["stages"]
    contradictions = [Finding("run.json", problem) for problem in _contradictions(record)]
    return [
        *(contradictions or [Finding("run.json", note="contradicts itself in nothing")]),
        *(f for name in STAGES for f in _files_of_stage(run, name, stages[name])),
        *_report(run, record),
        *_unknown(run, record),
        *_inputs(run),
        *_recomputed(run, stages[STAGES[-1]]["made_from"]["parameters"]),
    ]


def _contradictions(record: Mapping[str, Any]) -> Iterator[str]:
    """What the record says in one place and denies in another."""
    stages: Mapping[str, Any] = record["stages"]
    wrote = {name: (s, stages[s]["tables"][name]) for s in STAGES for name in stages[s]["tables"]}
    for stage, names in zip(STAGES, TABLES_OF_STAGES, strict=True):
        yield from (
            f"{stage} wrote no table {n}" for n in names if n not in stages[stage]["tables"]
        )
        made_from = stages[stage]["made_from"]
        for name in sorted({*tables_before(stage), *made_from["tables"]}):
            writer, digest = wrote.get(name, ("no stage", ""))
            if made_from["tables"].get(name, "none") != digest:
                yield f"{stage} was made from another table {name} than {writer} wrote"
        for name, value in made_from["parameters"].items():
            of_run = record.get("parameters", {}).get(name)
            # Of a file the content counts, wherever it lies.
            if of_run != value and name not in made_from["files"]:
                yield f"{stage} was made with {name} {value!r}, and the run's is {of_run!r}"
    for name in sorted({*wrote, *record.get("tables", {})}):
        stage, digest = wrote.get(name, ("no stage", ""))
        if record.get("tables", {}).get(name) != digest:
            yield f"table {name} is another than {stage} wrote"
    yield from _other_inputs(record, stages[STAGES[0]]["made_from"])


def _other_inputs(record: Mapping[str, Any], made_from: Mapping[str, Any]) -> Iterator[str]:
    """Inputs that are not those from which the first stage was made."""
    for name, entry in record.get("inputs", {}).items():
        digest = made_from["files"].get(name)
        # A folder may be called as the demonstration is.
        if digest and made_from["parameters"].get(name) != DEMO and digest != entry["sha256"]:
            yield f"{STAGES[0]} was made from another {name} than the run's"
    seed = record.get("parameters", {}).get("seed")
    if record.get("seeds", {}).get("seed", seed) != seed:
        yield f"the seed is {record['seeds']['seed']!r}, and the run's is {seed!r}"


def _files_of_stage(run: RunFolder, stage: str, entry: Mapping[str, Any]) -> Iterator[Finding]:
    for name, digest in entry["tables"].items():
        yield _against(f"table {name}", run.tables / f"{name}.parquet", digest)
    yield _against(f"notebook {stage}", run.notebook(stage), entry["executed"])
    for name, digest in figures_of(entry).items():
        yield _against(f"figure {name}", run.figures / name, digest)


def _report(run: RunFolder, record: Mapping[str, Any]) -> Iterator[Finding]:
    files = record.get("report", {}).get("files", {})
    if not files and record.get("schema") == SCHEMA:
        yield Finding("report", "it was not made, or not to its end; 'propme report' makes it")
    elif not files:
        yield Finding("report", note="nothing of it is recorded, so it is not compared")
    for name, digest in files.items():
        yield _against(f"report {name}", run.report / name, digest)


def _against(what: str, path: Path, digest: str) -> Finding:
    if not path.is_file():
        return Finding(what, "missing")
    if not digest:
        return Finding(what, note="recorded without its hash, so not compared")
    return Finding(what, "" if sha256_of(path) == digest else "not as it was written")


def _unknown(run: RunFolder, record: Mapping[str, Any]) -> Iterator[Finding]:
    """Files among the run's own that its record does not know."""
    stages = record["stages"].values()
    known = {f"tables/{name}.parquet" for entry in stages for name in entry["tables"]}
    known |= {f"figures/{name}" for entry in stages for name in figures_of(entry)}
    known |= {f"{stage}.ipynb" for stage in STAGES}
    files = record.get("report", {}).get("files", {})
    known |= {f"report/{name}" for name in files}
    folders = [run.tables, run.figures, *([run.report] if files else [])]
    found = [*run.path.glob("*.ipynb"), *(p for folder in folders for p in folder.rglob("*"))]
    for path in sorted(p for p in found if p.is_file() and not p.name.startswith(".")):
        name = path.relative_to(run.path).as_posix()
        if name not in known:
            yield Finding(name, "not of this run: no stage has written it")


def _inputs(run: RunFolder) -> Iterator[Finding]:
    for name, found in input_hashes(run, sha256_of).items():
        if found is None:
            yield Finding(name, note="not here, so not compared")
        else:
            same = found == run.input_hash(name)
            yield Finding(name, "" if same else "not the one that was used")


def _recomputed(run: RunFolder, chosen: Mapping[str, Any]) -> Iterator[Finding]:
    """Every table of the analysis, measured again from those of the other stages."""
    try:
        declared = parameters.declared_in(notebook_path(STAGES[-1]))
        given = {n: p.default for n, p in declared.items()} | parameters.check(chosen, declared)
        _, made = analysis.measure(
            run.tables,
            given["propensity_metrics"],
            given["breakdown_by"],
            given["boiler_plate_documents"],
            given["seed"],
            given["bootstrap_rounds"],
        )
    except PropMeError as error:
        yield Finding("metrics", f"cannot be computed: {error}")
        return
    for name in made:
        yield compared(f"{name}, recomputed", name, run.read, made.__getitem__)

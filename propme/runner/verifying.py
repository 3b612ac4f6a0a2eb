"""Is a run what its record says? Everything it left behind, hashed and measured again.

A record is trusted in nothing: every hash is computed anew from the bytes, and what the record says
in several places must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from propme import analysis, parameters
from propme.errors import BrokenIndexError, PropMeError
from propme.files import sha256_of
from propme.index import is_remote, verify_index
from propme.records import decodings
from propme.run import DEMO, STAGES, RunFolder, notebook_path, resolve
from propme.run.folder import TABLES_OF_STAGES
from propme.run_record import read_stored
from propme.runner.checking import Finding, compared
from propme.runner.provenance import chief_packages
from propme.runner.running import SCHEMA, require_done
from propme.runner.stages import figures_of, input_hashes, tables_before

#: Schemas of before, in which figures and files of the report have no hashes.
_OLDER = (1,)


def verify(run: RunFolder) -> list[Finding]:
    """Compare a finished run with its own record, and its metrics with what its tables give.

    What is not here, as the corpus of a run that somebody sent, is told and is no difference. A
    file that no stage has written is one. So is what a record of the present schema lacks: only an
    older one has no hash of figures and reports.

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
        *(_strict(f, record) for name in STAGES for f in _files_of_stage(run, name, stages[name])),
        *(_strict(f, record) for f in _report(run, record)),
        *_unknown(run, record),
        *_inputs(run),
        *_index(run),
        _generations(run, record),
        *_recomputed(run, stages[STAGES[-1]]["made_from"]["parameters"]),
    ]


def _strict(finding: Finding, record: Mapping[str, Any]) -> Finding:
    """What could not be compared for want of a hash is a difference, unless the record is older."""
    older = record.get("schema") in _OLDER
    return finding if older or not finding.note else Finding(finding.what, finding.note)


def _contradictions(record: Mapping[str, Any]) -> Iterator[str]:
    """What the record says in one place and denies in another, or should say and does not."""
    if record.get("schema") not in (SCHEMA, *_OLDER):
        yield f"its schema is {record.get('schema')!r}, and this project knows up to {SCHEMA}"
    if record.get("schema") not in _OLDER:
        yield from _inputs_without_hash(record)
    versions, packages = record.get("versions", {}), record.get("packages", {})
    for name in sorted({*versions, *chief_packages(packages)}):
        if versions.get(name) != packages.get(name):
            told = [found.get(name, "none") for found in (versions, packages)]
            yield f"versions has {name} {told[0]}, and packages {told[1]}"
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


def _inputs_without_hash(record: Mapping[str, Any]) -> Iterator[str]:
    """Inputs that the first stage records, and which are not there or have no hash."""
    inputs, given = record.get("inputs", {}), record.get("parameters", {})
    named = [name for name in ("corpus", "heldout", "human", "model") if given.get(name)]
    own = [] if is_remote(given.get("index", "")) else ["tokenizer"]
    yield from (f"no input {n} is recorded" for n in (*named, "index", *own) if n not in inputs)
    for name, entry in inputs.items():
        # A model may be a name on the hub, which has none.
        if entry["path"] and not entry["sha256"] and name != "model":
            yield f"input {name} is recorded without its hash"


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
    try:
        hashes = input_hashes(run, sha256_of)
    except BrokenIndexError as error:
        yield Finding("inputs", f"cannot be compared: {error}")
        return
    for name, found in hashes.items():
        if found is None:
            yield Finding(name, note="not here, so not compared")
        else:
            same = found == run.input_hash(name)
            yield Finding(name, "" if same else "not the one that was used")


def _index(run: RunFolder) -> Iterator[Finding]:
    """Whether the index is what its manifest says, by which alone the record knows it."""
    path = run.record.get("inputs", {}).get("index", {"path": ""})["path"]
    if not path or is_remote(path) or not resolve(path).is_dir():
        return
    print(f"Verifying every file of the index {path}; a large one takes long", flush=True)
    try:
        verify_index(resolve(path))
    except BrokenIndexError as error:
        yield Finding("files of the index", str(error))
    else:
        yield Finding("files of the index", note="whole and right")


def _generations(run: RunFolder, record: Mapping[str, Any]) -> Finding:
    """Whether completions were made by the model and the decodings that the record tells."""
    what, made_from = "generations", record["stages"][STAGES[1]]["made_from"]
    try:
        given = _with_defaults(STAGES[1], made_from["parameters"])
        rows = run.read("generations")
        names = ("greedy", "samples", "temperature", "top_p", "max_new_tokens", "top_k")
        asked = {d.name: d for d in decodings(*(given[name] for name in names))}
    except PropMeError as error:
        return Finding(what, f"cannot be compared with the record: {error}")
    for name, made in rows.groupby("decoding"):
        for column in names[2:]:
            expected = getattr(asked[str(name)], column) if name in asked else "no such decoding"
            if other := set(made[column]) - {expected}:
                return Finding(what, f"{name} with {column} {min(other)}, recorded is {expected}")
    by_model = rows[rows["model"] != ""]  # people's texts, and prompts that no model was given
    for column, expected in _recorded_model(record, given["backend"]).items():
        if expected and (other := set(by_model[column]) - {expected}):
            return Finding(what, f"made by {column} {min(other)!r}, recorded is {expected!r}")
    return Finding(what, note="by the model and with the decodings that are recorded")


def _recorded_model(record: Mapping[str, Any], backend: str) -> dict[str, str]:
    """What columns of the generations say of their model by the record; empty: it does not tell."""
    if backend == "transformers":
        entry = record.get("inputs", {}).get("model", {"path": "", "sha256": ""})
        told = {"model": Path(entry["path"]).name, "revision": entry["sha256"]}
    else:
        told = {"model": str(record.get("generator", {}).get("model", ""))}
    return {"backend": backend, **told}


def _with_defaults(stage: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a stage, those that are not recorded as the notebook has them."""
    declared = parameters.declared_in(notebook_path(stage))
    return {n: p.default for n, p in declared.items()} | parameters.check(chosen, declared)


def _recomputed(run: RunFolder, chosen: Mapping[str, Any]) -> Iterator[Finding]:
    """Every table of the analysis, measured again from those of the other stages."""
    try:
        given = _with_defaults(STAGES[-1], chosen)
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

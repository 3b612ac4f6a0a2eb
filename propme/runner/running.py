"""One run: its stages in order, each only if it is not done, and then the report."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from propme.errors import ParameterError, RunError
from propme.run import STAGES, RunFolder, open_run, resolve
from propme.runner.left_behind import files_named, hashes_since, when_written
from propme.runner.locks import held
from propme.runner.needs import needs_of
from propme.runner.notebook import execute
from propme.runner.provenance import chief_packages, environment
from propme.runner.reporting import forget_report, make_report, report_if_needed
from propme.runner.settings import effective_parameters
from propme.runner.stages import (
    altered_outputs,
    content_of,
    known_hashes,
    made_from,
    outputs_of,
    why_again,
)

#: Version of what run.json holds, see docs/run-json.md.
SCHEMA = 2

#: Parameters that say what a run is about. With others it is another run.
_SUBJECT = ("corpus", "model", "backend", "served_model", "recorded")


@dataclass(frozen=True)
class Which:
    """Which stages are run.

    Attributes
    ----------
    force : bool
        Those that are done, too; and a folder that holds another run is taken over.
    first : str
        None before this stage: what they have made is taken as it is.
    last : str
        None after this stage, and no report.
    """

    force: bool = False
    first: str = STAGES[0]
    last: str = STAGES[-1]

    def __post_init__(self) -> None:
        if STAGES.index(self.first) > STAGES.index(self.last):
            raise ParameterError(f"{self.first} comes after {self.last}: there is no stage to run")

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages, in order."""
        return STAGES[STAGES.index(self.first) : STAGES.index(self.last) + 1]


def stage_named(text: str) -> str:
    """A stage by its name, its number, or its name without the number.

    Raises
    ------
    ParameterError
        There is none.
    """
    for stage in STAGES:
        if text in (stage, *stage.split("_", 1)):
            return stage
    raise ParameterError(f"{text!r} is no stage; they are {', '.join(STAGES)}")


def run(
    files: Sequence[str | Path],
    overrides: Mapping[str, Any] | None = None,
    output: str | None = None,
    which: Which | None = None,
) -> RunFolder:
    """Execute the notebooks that are not done, in order, and render the report.

    Parameters
    ----------
    files : sequence of str or Path
        YAML files of parameters of one run; a later one wins.
    overrides : mapping, optional
        Single parameters; they win over the files.
    output : str, optional
        Folder of the run; wins over the parameter of that name.
    which : Which, optional
        Which stages; default: those that are not done, and all after them.

    Raises
    ------
    ParameterError
        A parameter is unknown or has a wrong type. Nothing has been run then.
    RunError
        A notebook failed. Its executed copy holds the traceback; later ones were not run.
    """
    return run_with(effective_parameters(files, overrides or {}, output), which or Which())


def run_with(effective: Mapping[str, Any], which: Which) -> RunFolder:
    """The same with all parameters given."""
    folder = open_run(effective["output"])
    require_same_subject(folder, effective, which)
    limit = effective["time_limit"] * 3600
    deadline = time.monotonic() + limit if limit else float("inf")
    with held(folder), _full_disk_told(folder):
        going_on = bool(folder.record.get("stages"))
        print(f"{'Going on with' if going_on else 'Writing'} the run in {folder.path}", flush=True)
        _require_ready(folder, effective, which)
        _begin(folder, effective)
        _run_stages(folder, effective, which, deadline)
        if which.last == STAGES[-1]:
            report_if_needed(folder)
    return folder


def require_same_subject(folder: RunFolder, effective: Mapping[str, Any], which: Which) -> None:
    """Refuse a folder that holds a run about another model or corpus.

    Raises
    ------
    RunError
        It does, and ``which`` does not force it.
    """
    first = folder.record.get("stages", {}).get(STAGES[0], {}).get("made_from", {})
    before = folder.record.get("parameters", {}) if folder.record.get("stages") else {}
    known = known_hashes(effective)
    for name in _SUBJECT:
        old, new = before.get(name, effective[name]), effective[name]
        if which.force or old == new:
            continue
        if first.get("files", {}).get(name) == content_of(name, new, known):
            continue
        raise RunError(
            f"{folder.path}: this folder holds another run: its {name} is {old!r}, not {new!r};"
            " give another output, or --force to replace what is there"
        )


def require_done(folder: RunFolder, stages: Sequence[str]) -> None:
    """Refuse to go on where stages are not done.

    Raises
    ------
    RunError
        One of them is not.
    """
    record = folder.record
    if not record:
        raise RunError(f"{folder.path}: there is no run here (no run.json)")
    for stage in stages:
        if record.get("stages", {}).get(stage, {}).get("state") != "done":
            raise RunError(f"{folder.path}: {stage} is not done here; run it first")


def reasons(which: Which, effective: Mapping[str, Any], run: RunFolder) -> dict[str, str]:
    """Why each stage would run; empty for one that is done."""
    again = "it is asked for" if which.force else ""
    found = {}
    for stage in which.stages:
        found[stage] = again or why_again(stage, effective, run)
        again = again or (f"{stage} is run" if found[stage] else "")
    return found


def _require_ready(folder: RunFolder, effective: Mapping[str, Any], which: Which) -> None:
    """Refuse what a stage would refuse after hours of others; what is done stays as it is."""
    stages = [stage for stage, why in reasons(which, effective, folder).items() if why]
    found = needs_of(stages, effective)
    for beware in (need.beware for need in found if need.beware):
        print(f"Beware: {beware}", flush=True)
    missing = [need.missing for need in found if need.missing]
    if not missing:
        return
    told = f"{folder.path}: {'; '.join(missing)}"
    if folder.record.get("stages", {}).get(stages[0], {}).get("state") != "done":
        _begin(folder, effective)
        _note(folder, stages[0], {"state": "failed", "started": _now(), "error": told})
    raise RunError(told)


def _begin(folder: RunFolder, effective: Mapping[str, Any]) -> None:
    made_with = environment()
    resolve(effective["cache"]).mkdir(parents=True, exist_ok=True)
    folder.update_record(
        schema=SCHEMA,
        parameters=dict(effective),
        seeds={"seed": effective["seed"]},
        started=_now(),
        python=made_with["python"],
        platform=made_with["platform"],
        git=made_with["git"],
        versions=chief_packages(made_with["packages"]),
        packages=made_with["packages"],
        stages=folder.record.get("stages", {}),
    )


def _run_stages(
    folder: RunFolder, effective: Mapping[str, Any], which: Which, deadline: float
) -> None:
    require_done(folder, STAGES[: STAGES.index(which.first)])
    again = "it is asked for" if which.force else ""
    for stage in which.stages:
        reason = again or why_again(stage, effective, folder)
        if not reason:
            print(f"{stage} is done", flush=True)
            continue
        print(f"{stage} ... ({reason})", flush=True)
        _run_stage(stage, folder, effective, deadline)
        again = f"{stage} was run"


def _run_stage(
    stage: str, folder: RunFolder, effective: Mapping[str, Any], deadline: float
) -> None:
    _forget(folder, STAGES[STAGES.index(stage) :])
    before = when_written(folder.figures)
    entry = {"state": "running", "started": _now(), "made_with": _made_with()}
    entry["made_from"] = made_from(stage, effective, folder)
    _note(folder, stage, entry)
    try:
        spent = execute(stage, folder, effective, deadline)
    except (RunError, OSError) as error:
        with suppress(OSError):  # of a full disk, which is what is told then
            _note(folder, stage, entry | {"state": "failed", "error": str(error).splitlines()[0]})
        raise
    figures = hashes_since(before, folder.figures)
    took = asdict(spent) | {"seconds": round(spent.seconds, 1)}
    _note(
        folder,
        stage,
        entry | {"state": "done", "figures": figures} | took | outputs_of(stage, folder),
    )
    stages = folder.record["stages"].values()
    folder.update_record(tables={n: h for s in stages for n, h in s.get("tables", {}).items()})
    print(f"{stage} done in {spent.seconds:.0f} s", flush=True)


def _forget(folder: RunFolder, stages: Sequence[str]) -> None:
    """Remove what shows an earlier run of stages, so that it is not taken for this one's success.

    Their tables stay until there are others.
    """
    entries = folder.record["stages"]
    figures = {name for stage in stages for name in entries.get(stage, {}).get("figures", ())}
    for path in [*map(folder.notebook, stages), *files_named(folder.figures, figures)]:
        path.unlink(missing_ok=True)
    forget_report(folder)
    folder.update_record(stages={n: entry for n, entry in entries.items() if n not in stages})


def _note(folder: RunFolder, stage: str, entry: Mapping[str, Any]) -> None:
    folder.update_record(stages=folder.record["stages"] | {stage: entry})


def _made_with() -> dict[str, Any]:
    here = environment()
    return {
        "python": here["python"],
        "platform": here["platform"],
        "git": here["git"],
        "versions": chief_packages(here["packages"]),
    }


def report_again(folder: RunFolder) -> Path:
    """Make the report of a finished run anew; return its front page.

    Raises
    ------
    RunError
        A stage is not done, something that it wrote is another now, or another process is at work
        in the folder.
    InputError, TableError
        A table or an entry of the run's record is missing.
    """
    require_done(folder, STAGES)
    with held(folder), _full_disk_told(folder):
        for stage in STAGES:
            for what in altered_outputs(stage, folder):
                raise RunError(
                    f"{folder.path}: {stage}: {what} is not as it was written; 'propme run' makes"
                    " it again"
                )
        make_report(folder)
    return folder.report / "index.html"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def _full_disk_told(folder: RunFolder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise RunError(f"{folder.path}: the disk is full; {_MAKE_ROOM}") from error
    except RunError as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise RunError(f"{error}\nThe disk is full; {_MAKE_ROOM}") from error


_MAKE_ROOM = "what is finished is kept: make room, and the same command goes on from there"

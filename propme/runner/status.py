"""How far runs are, out of what their folders hold; nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from propme import progress
from propme.errors import InputError, RunError
from propme.run import OF_A_RUN, STAGES, RunFolder
from propme.runner.locks import is_held
from propme.runner.running import SCHEMA


@dataclass(frozen=True)
class Status:
    """How far one run is.

    Attributes
    ----------
    name : str
        Its folder, from where was looked.
    state : str
        ``done``, ``running``, ``failed``, ``stopped`` (killed, or asked for no more),
        ``waiting``: nothing has been run yet, or ``damaged``: its record cannot be read.
    stage : str
        The stage that runs, failed or was stopped; else the last that is done.
    progress : str
        Stages done, and how far the one that runs is.
    seconds : float
        That its stages took, the one that runs up to now.
    failure : str
        Why it failed, or what is wrong with its record or its report, in a line; else empty.
    """

    name: str
    state: str
    stage: str
    progress: str
    seconds: float
    failure: str


def runs_in(folder: Path) -> list[RunFolder]:
    """Runs in a folder, or in one below it, by name; the folder itself may be one.

    Raises
    ------
    InputError
        There is none.
    """
    found = []
    for path, names, files in os.walk(folder):
        own = OF_A_RUN if "run.json" in files else ()
        names[:] = sorted(n for n in names if not n.startswith(".") and n not in own)
        run = RunFolder(Path(path))
        if _is_run(run):
            found.append(run)
    if not found:
        raise InputError("there is no run here (no run.json), nor in a folder below", str(folder))
    return found


def _is_run(run: RunFolder) -> bool:
    """Whether a folder holds a run, and no comparison; one whose record is damaged counts."""
    try:
        return "corpus" in run.record.get("parameters", {})
    except RunError:
        return True


def status_of(run: RunFolder, seen_from: Path) -> Status:
    """How far one run is."""
    name = name_from(run, seen_from)
    try:
        stages: dict[str, dict[str, Any]] = run.record.get("stages", {})
    except RunError as error:
        return Status(name, "damaged", "", "", 0.0, str(error))
    done = [name for name in STAGES if stages.get(name, {}).get("state") == "done"]
    unfinished = [name for name in STAGES if stages.get(name, {}).get("state", "done") != "done"]
    stage = next(iter([*unfinished, *done[::-1]]), "")
    entry = stages.get(stage, {})
    state = _state(run, entry, finished=len(done) == len(STAGES))
    progress_text = f"{len(done)} of {len(STAGES)}"
    seconds = sum(float(s.get("seconds", 0)) for s in stages.values())
    if state == "running":
        seconds += _since(entry) if unfinished else 0
        progress_text += _within(run)
    return Status(
        name,
        state,
        stage,
        progress_text,
        seconds,
        _failure(state, entry, finished=len(done) == len(STAGES)),
    )


def name_from(run: RunFolder, seen_from: Path) -> str:
    """What a run is called by somebody who looks at it from a folder."""
    name = os.path.relpath(run.path, seen_from)
    return name if name != "." else run.path.resolve().name


def _state(run: RunFolder, entry: dict[str, Any], *, finished: bool) -> str:
    if is_held(run):
        return "running"
    if finished:
        return "done" if _has_report(run) else "stopped"
    if entry.get("state") == "failed":
        return "failed"
    return "stopped" if entry else "waiting"


def _has_report(run: RunFolder) -> bool:
    """Whether each file of the report that is recorded is there; its content is not looked at."""
    record = run.record
    files = record.get("report", {}).get("files", {})
    if record.get("schema") != SCHEMA:  # of before they were recorded
        files = files or {"index.html": ""}
    return bool(files) and all((run.report / name).is_file() for name in files)


def _failure(state: str, entry: dict[str, Any], *, finished: bool) -> str:
    if state == "stopped" and finished:
        return "its report is missing, or not whole; 'propme report' makes it again"
    return str(entry.get("error", "")) if state == "failed" else ""


def _since(entry: dict[str, Any]) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(entry["started"])).total_seconds()


def _within(run: RunFolder) -> str:
    report = progress.read(run.progress)
    if report is None:
        return ""
    of = f"/{report['total']}" if report["total"] else ""
    return f", {report['label']} {report['done']}{of}"


def told(statuses: Sequence[Status]) -> Iterator[str]:
    """A line for each run, in columns."""
    rows = [("run", "state", "stage", "stages done", "time", "")]
    rows += [
        (s.name, s.state, s.stage, s.progress, _duration(s.seconds), s.failure) for s in statuses
    ]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        yield "  ".join([*cells, row[-1]]).rstrip()


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"

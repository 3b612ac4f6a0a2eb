"""The commands that execute runs, and that tell of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propme.cli.options import positive

if TYPE_CHECKING:
    from propme.runner import PlannedRun, Which


def add(commands: Any) -> None:
    """Add the commands to the parser."""
    run = commands.add_parser(
        "run",
        help="execute the notebooks in order and write the report",
        description="Execute the four notebooks in order and write the report, for each run that"
        " is asked for. What is done and has not changed is not done again.",
    )
    _add_what_to_run(run)
    run.add_argument("--jobs", type=positive, default=1, metavar="N", help="runs at a time")
    run.add_argument("--force", action="store_true", help="run what is done, too")
    run.add_argument("--from", dest="first", metavar="STAGE", help="it and all after it, again")
    run.add_argument("--until", dest="last", metavar="STAGE", help="none after it")
    run.add_argument(
        "--dry-run", action="store_true", help="say what would be done, and what is missing here"
    )
    run.set_defaults(command=_run)
    status = commands.add_parser("status", help="how far runs are, and what failed")
    status.add_argument("folder", type=Path, metavar="DIR", help="a run, or a folder of runs")
    status.set_defaults(command=_status)


def _add_what_to_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="YAML of parameters, a run or sweep each",
    )
    parser.add_argument(
        "-p",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="a single parameter; wins over the files; may be given several times",
    )
    parser.add_argument(
        "--grid",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=A,B,C",
        help="a run for every combination of these values",
    )
    parser.add_argument(
        "--output", metavar="DIR", help="folder of the run, or of the runs; wins over the parameter"
    )


def planned(options: argparse.Namespace) -> list[PlannedRun]:
    """The runs that options ask for."""
    from propme.parameters import from_text
    from propme.runner import parse_grid, planned_runs

    overrides = {name: from_text(value) for name, value in options.p}
    return planned_runs(options.files, parse_grid(options.grid), overrides, options.output)


def _which(options: argparse.Namespace) -> Which:
    from propme.run import STAGES
    from propme.runner import Which, stage_named

    first, last = options.first or STAGES[0], options.last or STAGES[-1]
    return Which(options.force, stage_named(first), stage_named(last))


def _run(options: argparse.Namespace) -> int:
    from propme.run import STAGES
    from propme.runner import run_with

    runs, which = planned(options), _which(options)
    if len(runs) > 1:
        return _run_several(runs, which, options.jobs)
    folder = run_with(runs[0].effective, which)
    if which.last == STAGES[-1]:
        print(f"The report is {folder.report / 'index.html'}")
    return 0


def _run_several(runs: Sequence[PlannedRun], which: Which, jobs: int) -> int:
    from propme.run import open_run
    from propme.runner import run_all
    from propme.runner.status import status_of, told

    failed = run_all(runs, which, jobs)
    folders = [open_run(run.effective["output"]) for run in runs]
    print("\n".join(told([status_of(folder, Path.cwd()) for folder in folders])))
    if failed:
        print(f"{len(failed)} of {len(runs)} runs failed; the same command goes on with them alone")
    return 1 if failed else 0


def _status(options: argparse.Namespace) -> int:
    from propme.runner.status import runs_in, status_of, told

    runs = runs_in(options.folder)
    print("\n".join(told([status_of(run, options.folder) for run in runs])))
    return 0

"""The commands that execute runs, and that tell of them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propme.cli.options import positive, shard
from propme.errors import ParameterError

if TYPE_CHECKING:
    from propme.run import RunFolder
    from propme.runner import PlannedRun, Which
    from propme.runner.checking import Finding


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
    run.add_argument(
        "--from", dest="first", metavar="STAGE", help="none before it: they are taken as they are"
    )
    run.add_argument("--until", dest="last", metavar="STAGE", help="none after it, and no report")
    run.add_argument(
        "--shard", type=shard, metavar="K/N", help="only trace the K-th of N shares of a run"
    )
    run.add_argument(
        "--dry-run", action="store_true", help="say what would be done, and what is missing here"
    )
    run.set_defaults(command=_run)
    status = commands.add_parser("status", help="how far runs are, and what failed")
    status.add_argument("folder", type=Path, metavar="DIR", help="a run, or a folder of runs")
    status.set_defaults(command=_status)
    verify = commands.add_parser(
        "verify",
        help="whether a run is what its record says",
        description="Compute a run's hashes and metrics again and say what differs, is missing, or"
        " is no part of it. Of a folder of runs, each is verified.",
    )
    verify.add_argument("run", metavar="DIR", help="folder of the run, or of several")
    verify.set_defaults(command=_verify)
    reproduce = commands.add_parser(
        "reproduce",
        help="run a run again and compare",
        description="Run a run again, with its parameters, in another folder, and compare the two.",
    )
    reproduce.add_argument("run", metavar="DIR", help="folder of the run")
    reproduce.add_argument("--output", metavar="DIR", help="default: its name and '-again'")
    reproduce.set_defaults(command=_reproduce)
    slurm = commands.add_parser(
        "slurm",
        help="write scripts of Slurm arrays for many runs",
        description="Write scripts of job arrays: prompts, generation on GPUs, tracing in shards,"
        " merging. Options of sbatch, as an account, are given when they are submitted.",
    )
    _add_what_to_run(slurm)
    slurm.add_argument(
        "--scripts",
        metavar="DIR",
        default="outputs/slurm",
        help="for the scripts; refused if it holds those of other runs",
    )
    slurm.add_argument("--shards", type=positive, default=8, metavar="N", help="of a run's tracing")
    slurm.add_argument(
        "--gpu",
        default="--gpus=1",
        metavar="OPTIONS",
        help="of sbatch, for jobs that generate; as --gpu='--gpus=1 --time=8:00:00', with the sign",
    )
    slurm.add_argument("--cpu", default="", metavar="OPTIONS", help="of sbatch, for all other jobs")
    slurm.add_argument("--at-most", type=positive, metavar="N", help="jobs of an array at a time")
    slurm.set_defaults(command=_slurm)


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
        action="append",
        default=[],
        metavar="NAME=A,B,C",
        help="a run for each value; given several times, for every combination",
    )
    parser.add_argument(
        "--output", metavar="DIR", help="folder of the run, or of the runs; wins over the parameter"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="of a sweep the run of that name alone; may be given several times",
    )


def planned(options: argparse.Namespace) -> list[PlannedRun]:
    """The runs that options ask for."""
    from propme.parameters import from_text
    from propme.runner import parse_grid, planned_runs

    overrides = {name: from_text(value) for name, value in options.p}
    return planned_runs(
        options.files, parse_grid(options.grid), overrides, options.output, options.only
    )


def _which(options: argparse.Namespace) -> Which:
    from propme.run import STAGES
    from propme.runner import Which, stage_named

    if options.shard:  # a share of this stage alone
        return Which(options.force, STAGES[2], STAGES[2])
    first, last = options.first or STAGES[0], options.last or STAGES[-1]
    return Which(options.force, stage_named(first), stage_named(last))


def _run(options: argparse.Namespace) -> int:
    from propme.run import STAGES
    from propme.runner import run_with

    runs, which = planned(options), _which(options)
    if options.shard and len(runs) != 1:
        raise ParameterError(f"--shard is for one run, and these are {len(runs)}")
    if options.dry_run:
        return _foresee(runs, which)
    if options.shard:
        return _trace_shard(runs[0], options.shard)
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
    reports = [folder.report / "index.html" for folder in folders]
    print("".join(f"The report is {page}\n" for page in reports if page.is_file()), end="")
    if failed:
        print(f"{len(failed)} of {len(runs)} runs failed; the same command goes on with them alone")
    return 1 if failed else 0


def _status(options: argparse.Namespace) -> int:
    from propme.runner.status import runs_in, status_of, told

    runs = runs_in(options.folder)
    print("\n".join(told([status_of(run, options.folder) for run in runs])))
    return 0


def _foresee(runs: Sequence[PlannedRun], which: Which) -> int:
    from propme.run import resolve
    from propme.runner.foreseen import foresee

    foreseen = [foresee(run.effective, which) for run in runs]
    for run, each in zip(runs, foreseen, strict=True):
        print(f"{run.name}: {resolve(run.effective['output'])}")
        print("\n".join(each.told()))
    return 1 if any(each.missing for each in foreseen) else 0


def _trace_shard(run: PlannedRun, share: tuple[int, int]) -> int:
    from propme.runner.shards import trace_shard

    trace_shard(run.effective, share)
    print(f"Shard {share[0]} of {share[1]} is traced")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from propme.run import RunFolder, resolve
    from propme.runner.status import name_from, runs_in
    from propme.runner.verifying import verify

    folder = resolve(options.run)
    print("Hashing all again, and measuring all again", flush=True)
    if (folder / "run.json").is_file():
        return _told(verify(RunFolder(folder)))
    runs = runs_in(folder)
    statuses = [_verify_one(name_from(run, folder), run) for run in runs]
    print(f"{sum(statuses)} of {len(runs)} runs are not what their records say, or not finished")
    return max(statuses)


def _verify_one(name: str, run: RunFolder) -> int:
    """Verify a run of several: a line for it, and one for each thing that differs."""
    from propme.errors import PropMeError
    from propme.runner.verifying import verify

    try:
        findings = verify(run)
    except PropMeError as error:
        print(f"{name}: {error}", flush=True)
        return 1
    differing = [finding for finding in findings if finding.problem]
    print(f"{name}: {len(differing)} of {len(findings)} differ")
    print("".join(f"  {finding.told()}\n" for finding in differing), end="", flush=True)
    return 1 if differing else 0


def _reproduce(options: argparse.Namespace) -> int:
    from propme.run import open_run
    from propme.runner.checking import reproduce

    run = open_run(options.run)
    return _told(reproduce(run, options.output or f"{run.path}-again"))


def _told(findings: Sequence[Finding]) -> int:
    print("\n".join(finding.told() for finding in findings))
    differing = [finding for finding in findings if finding.problem]
    print(f"{len(differing)} of {len(findings)} differ")
    return 1 if differing else 0


def _slurm(options: argparse.Namespace) -> int:
    from propme.run import resolve
    from propme.runner.slurm import SlurmSettings, beware_of_size, write_scripts

    settings = SlurmSettings(options.shards, options.gpu, options.cpu, options.at_most)
    runs = planned(options)
    scripts = write_scripts(runs, resolve(options.scripts), settings)
    if told := beware_of_size(len(runs), settings):
        print(f"Beware: {told}")
    print(f"{len(runs)} runs; submit them from the project's folder with")
    print(f"  bash {shlex.quote(str(scripts[-1]))}")
    return 0

"""Runs as arrays of Slurm jobs: prompts and tracing where there are CPUs, generation on GPUs.

Everything that a site decides (account, partition, kind of GPU, time) is handed on as it is given;
nothing is assumed but ``sbatch`` and a folder that all nodes see. Each script can also be run
without Slurm, one task after the other: ``SLURM_ARRAY_TASK_ID=1 bash generate.sbatch``.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from propme.errors import InputError, ParameterError
from propme.files import write_whole
from propme.runner.sweep import PlannedRun


@dataclass(frozen=True)
class SlurmSettings:
    """What is asked of Slurm.

    Attributes
    ----------
    shards : int
        Jobs among which the tracing of each run is divided.
    gpu, cpu : str
        Options of ``sbatch`` for jobs that generate, and for all others.
    at_most : int or None
        Jobs of an array at a time; none: as many as Slurm lets.

    Raises
    ------
    ParameterError
        Options do not stand on one line, or are none.
    """

    shards: int = 8
    gpu: str = "--gpus=1"
    cpu: str = ""
    at_most: int | None = None

    def __post_init__(self) -> None:
        for name in ("gpu", "cpu"):
            options = getattr(self, name)
            if _has_control(options):
                raise ParameterError(f"--{name}: options of sbatch stand on one line")
            if options and not options.lstrip().startswith("-"):
                raise ParameterError(
                    f"--{name}: {options!r} is no option of sbatch; as in"
                    f" --{name}='--time=8:00:00', with the sign"
                )


#: Largest index of an array where Slurm's ``MaxArraySize`` is its default, 1001.
_LARGEST_INDEX = 1000

_TASK = """\
#!/usr/bin/env bash
#SBATCH --job-name=propme-{name}
#SBATCH --array=1-{n_tasks}{throttle}
#SBATCH --output={logs}/%x-%A-%a.txt
{options}# {about}
# PROPME_ROOT: the project's folder, if this is not submitted from there.
# PROPME: the command, if it is not found as 'propme'.
set -euo pipefail
cd "${{PROPME_ROOT:-${{SLURM_SUBMIT_DIR:-.}}}}"
task=$((SLURM_ARRAY_TASK_ID - 1))
run=$(printf '%04d' $((task / {per_run} + 1)))
{command}
"""

_SUBMIT = """\
#!/usr/bin/env bash
# Submits {n_runs} runs, from the project's folder. Arguments are handed to every sbatch, as
#   bash {folder}/submit.sh --account=mine --time=12:00:00
# Completions of a run are generated as soon as its own prompts are done (aftercorr); if those fail,
# Slurm cancels that one task, which would otherwise wait for ever and all later arrays with it.
# Tracing and merging begin when all tasks before them have ended, however they did (afterany); a
# task whose run has failed says so and ends. Submitted again, all that is done is skipped.
set -euo pipefail
folder={folder}
submit() {{ sbatch --parsable "$@" | cut -d ";" -f 1; }}
prompts=$(submit "$@" "$folder/prompts.sbatch")
generate=$(
    submit --dependency="aftercorr:$prompts" --kill-on-invalid-dep=yes "$@" \\
        "$folder/generate.sbatch"
)
trace=$(submit --dependency="afterany:$generate" "$@" "$folder/trace.sbatch")
merge=$(submit --dependency="afterany:$trace" "$@" "$folder/merge.sbatch")
echo "submitted: prompts $prompts, generate $generate, trace $trace, merge $merge"
"""


def write_scripts(
    planned: Sequence[PlannedRun], folder: Path, settings: SlurmSettings
) -> list[Path]:
    """Write a file of parameters for each run, a script for each array, and one that submits them.

    Parameters
    ----------
    planned : sequence of PlannedRun
    folder : Path
        Made if it is missing. It may hold these scripts already.
    settings : SlurmSettings

    Returns
    -------
    list of Path
        The scripts, in the order in which they run, the one that submits them last.

    Raises
    ------
    InputError
        The folder is a file, sbatch could not be told its name, or it holds other scripts: their
        tasks may wait in a queue, and would read the parameters of these.
    """
    if folder.is_file():
        raise InputError("this is a file; name a folder", str(folder))
    folder = folder.resolve()  # "~" would mean nothing to sbatch
    logs = _for_sbatch(folder / "logs")
    texts = {
        folder / "runs" / f"{number:04d}.yaml": yaml.safe_dump(
            run.effective, sort_keys=False, allow_unicode=True
        )
        for number, run in enumerate(planned, 1)
    }
    scripts = _scripts(len(planned), folder, logs, settings)
    _require_no_others(folder, texts | scripts)
    for name in ("runs", "logs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        write_whole(path, text)  # a task may be reading the very same
    return [_script(path, text) for path, text in scripts.items()]


def beware_of_size(n_runs: int, settings: SlurmSettings) -> str:
    """What to say of an array that Slurm would refuse by default; empty where none is so large."""
    n_tasks = n_runs * settings.shards
    if n_tasks <= _LARGEST_INDEX:
        return ""
    return (
        f"the array of traces has {n_tasks:,} tasks; Slurm takes up to {_LARGEST_INDEX:,}, unless"
        " the site has set MaxArraySize (scontrol show config). Fewer --shards, or the runs in"
        " several folders of scripts, make it smaller"
    )


def _scripts(n_runs: int, folder: Path, logs: str, settings: SlurmSettings) -> dict[Path, str]:
    """Text of each script by its path, in the order in which they run."""
    written = shlex.quote(str(folder))
    run_it = f'exec "${{PROPME:-propme}}" run {written}/runs/"$run".yaml'
    shards = settings.shards
    arrays = {
        "prompts": ("prompts of each run, its index if need be", settings.cpu, 1, "--until 1"),
        "generate": ("completions of each run", settings.gpu, 1, "--from 2 --until 2"),
        "trace": (
            f"tracing of each run, in {shards} shares",
            settings.cpu,
            shards,
            f"--shard $((task % {shards} + 1))/{shards}",
        ),
        "merge": ("tables, analysis and report of each run", settings.cpu, 1, "--from 3"),
    }
    texts = {}
    for name, (about, options, per_run, arguments) in arrays.items():
        texts[folder / f"{name}.sbatch"] = _TASK.format(
            name=name,
            n_tasks=n_runs * per_run,
            throttle=f"%{settings.at_most}" if settings.at_most else "",
            logs=logs,
            options=f"#SBATCH {options}\n" if options else "",
            about=about,
            per_run=per_run,
            command=f"{run_it} {arguments}".rstrip(),
        )
    return texts | {folder / "submit.sh": _SUBMIT.format(n_runs=n_runs, folder=written)}


def _require_no_others(folder: Path, texts: Mapping[Path, str]) -> None:
    """Refuse a folder with scripts or parameters that are not these, to the letter."""
    there = [*folder.glob("*.sbatch"), *folder.glob("submit.sh"), *folder.glob("runs/*.yaml")]
    for path in sorted(there):
        if texts.get(path, "").encode() != path.read_bytes():
            raise InputError(
                f"this folder holds the scripts of another batch ({path.relative_to(folder)}), and"
                " tasks of it that are queued would run with other parameters; name another folder"
                " with --scripts, or remove this one when its jobs have ended",
                str(folder),
            )


def _for_sbatch(path: Path) -> str:
    """A path as it stands in a line of ``#SBATCH``.

    The shell reads none of these lines. sbatch takes a sign after a backslash as it is, and in the
    name of a log ``%`` begins a pattern; a backslash in the name itself would end all patterns.
    """
    text = str(path)
    if "\\" in text or _has_control(text):
        raise InputError("sbatch cannot be told such a name; choose a simpler folder", repr(text))
    return re.sub(r"([^\w/.,:+=@%-])", r"\\\1", text.replace("%", "%%"))


def _has_control(text: str) -> bool:
    return any(unicodedata.category(sign) == "Cc" for sign in text)


def _script(path: Path, text: str) -> Path:
    write_whole(path, text)
    path.chmod(0o755)
    return path

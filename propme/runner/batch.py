"""Several runs, some at a time, each in a process of its own: one that fails stops no other."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from propme.run import RunFolder, open_run, project_root
from propme.runner.running import Which, require_same_subject
from propme.runner.sweep import PlannedRun


def run_all(planned: Sequence[PlannedRun], which: Which, jobs: int = 1) -> list[PlannedRun]:
    """Run them in their order, so many at a time; what each tells has its name before it.

    Their kernels talk over sockets in private folders, so no port is shared. What they share, the
    demonstration and indexes in the cache, is made by one of them while the others wait.

    Parameters
    ----------
    planned : sequence of PlannedRun
    which : Which
        Which stages of each.
    jobs : int
        Processes at a time.

    Returns
    -------
    list of PlannedRun
        Those that failed.

    Raises
    ------
    RunError
        A folder holds something else. Nothing has been run then.
    """
    for run in planned:
        folder = open_run(run.effective["output"])
        require_same_subject(folder, run.effective, which)
        _register(folder, run)
    pool = ThreadPoolExecutor(jobs)
    try:
        statuses = list(pool.map(lambda run: _run(run, which), planned))
    finally:
        pool.shutdown(cancel_futures=True)  # of those that have not begun when one is interrupted
    return [run for run, status in zip(planned, statuses, strict=True) if status]


def _register(folder: RunFolder, run: PlannedRun) -> None:
    """Have a run that waits for its turn be seen by ``propme status``."""
    if not folder.record:
        folder.update_record(parameters=run.effective, stages={})


def _run(run: PlannedRun, which: Which) -> int:
    asked = json.dumps({"effective": run.effective, "which": asdict(which)})
    with subprocess.Popen(
        [sys.executable, "-m", "propme.runner.job"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        cwd=project_root(),
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("both are pipes")
        process.stdin.write(asked)
        process.stdin.close()
        for line in process.stdout:
            print(f"[{run.name}] {line}", end="", flush=True)
    return process.returncode

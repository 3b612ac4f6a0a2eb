"""The process that executes a notebook: an ordinary kernel that holds its run's folder.

    python -m propme.runner.kernel LOCK PID -f CONNECTION_FILE ...

A kernel outlives a runner that was killed by about a second, and could still write. The next runner
waits for its lock.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path


def main(lock: str, pid: str) -> None:
    """Hold the lock, tell the process id, and be a kernel until the end."""
    from filelock import FileLock
    from ipykernel import kernelapp

    # tqdm would ask for widgets, which no rendered page can show.
    warnings.filterwarnings("ignore", message="IProgress not found")
    with FileLock(lock):
        Path(pid).write_text(str(os.getpid()))
        kernelapp.launch_new_instance()


if __name__ == "__main__":
    # Modules of notebooks are not to be found in the working directory before all others.
    if Path(sys.path[0] or ".").resolve() == Path.cwd().resolve():
        del sys.path[0]
    _, lock_file, pid_file, *rest = sys.argv
    sys.argv = [sys.argv[0], *rest]
    main(lock_file, pid_file)

"""One process at a time in a run's folder, and none left there by a runner that was killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from propme.errors import RunError
from propme.run import RunFolder

#: How long a kernel may take to notice that its runner is gone, seconds.
_PATIENCE = 60


def kernel_lock(folder: RunFolder) -> Path:
    """The lock that the process of a notebook holds as long as it lives."""
    return folder.path / ".kernel.lock"


@contextmanager
def held(folder: RunFolder) -> Iterator[None]:
    """Have a run's folder to oneself, and no process of an earlier run left in it.

    Raises
    ------
    RunError
        Another process is running it.
    """
    from filelock import FileLock, Timeout

    folder.path.mkdir(parents=True, exist_ok=True)
    try:
        # Whoever only looks whether it is held lets go at once.
        with FileLock(run_lock(folder), timeout=2):
            with FileLock(kernel_lock(folder), timeout=_PATIENCE):
                pass
            _clear(folder)
            yield
    except Timeout as error:
        raise RunError(f"{_at_work(folder)}, or give another output") from error


def require_free(folder: RunFolder) -> None:
    """Refuse a run that changes while it is read.

    Raises
    ------
    RunError
        Another process is running it.
    """
    if is_held(folder):
        raise RunError(_at_work(folder))


def _at_work(folder: RunFolder) -> str:
    return f"{folder.path}: another process is running it now; wait for it"


def _clear(folder: RunFolder) -> None:
    """Remove files that a process which was killed has not finished."""
    for place in (folder.path, folder.tables, folder.report, folder.report / "tables"):
        for left in place.glob(".*.tmp"):
            left.unlink(missing_ok=True)


def run_lock(folder: RunFolder) -> Path:
    """The lock that a process holds while it executes a run."""
    return folder.path / ".run.lock"


def is_held(folder: RunFolder) -> bool:
    """Whether a process is executing the run now."""
    from filelock import FileLock, Timeout

    if not run_lock(folder).exists():
        return False
    try:
        with FileLock(run_lock(folder), timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # a folder that may only be read has nobody writing to it
        return False

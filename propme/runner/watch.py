"""A notebook seen from outside while it runs: its progress, its memory, the time it has left."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from propme import progress

_SECONDS_BETWEEN_LOOKS = 0.5

#: Seconds after which a log is told again how far the work is.
_SECONDS_BETWEEN_LINES = 60

#: Seconds between asking a kernel whose time is up to stop, and making it stop.
_GRACE = 20


@dataclass
class Watched:
    """What was seen.

    Attributes
    ----------
    peak_memory_bytes : int
        Most memory that the notebook's processes held together, by looking twice a second. Pages
        that they share, as those of an index, count in each.
    time_is_up : bool
        Whether it was stopped because its time was up.
    """

    peak_memory_bytes: int = 0
    time_is_up: bool = False


@contextmanager
def watched(stage: str, reports: Path, pid_file: Path, deadline: float) -> Iterator[Watched]:
    """Show progress on this terminal, take the memory, and stop the kernel at the deadline.

    Parameters
    ----------
    stage : str
    reports : Path
        File in which the notebook tells its progress.
    pid_file : Path
        File in which the kernel tells its process.
    deadline : float
        By `time.monotonic`.
    """
    seen = Watched()
    finished = threading.Event()
    shown = _Shown(stage)

    def look() -> None:
        while not finished.wait(_SECONDS_BETWEEN_LOOKS):
            shown.show(progress.read(reports))
            pid = _pid_in(pid_file)
            seen.peak_memory_bytes = max(seen.peak_memory_bytes, _memory_of(pid))
            if time.monotonic() > deadline:
                _stop(pid, hard=time.monotonic() > deadline + _GRACE)
                seen.time_is_up = True

    os.environ[progress.FILE_VARIABLE] = str(reports)
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        finished.set()
        thread.join()
        os.environ.pop(progress.FILE_VARIABLE)
        reports.unlink(missing_ok=True)
        shown.close()


class _Shown:
    """Progress on this terminal: a bar, or where there is none a line for each phase and minute."""

    def __init__(self, stage: str) -> None:
        from tqdm import tqdm

        self._stage, self._begun, self._told = stage, "", 0.0
        self._bar = tqdm(total=1, desc=stage, disable=None, dynamic_ncols=True, leave=False)

    def show(self, report: dict[str, Any] | None) -> None:
        if report is None:
            return
        if not self._bar.disable:
            self._show_bar(report)
        elif report["label"] != self._begun:
            self._print(f"{report['label']} ({_total(report)} {report['unit']})")
        elif time.monotonic() - self._told > _SECONDS_BETWEEN_LINES:
            note = f", {report['note']}" if report["note"] else ""
            done = f"{report['done']} of {_total(report)} {report['unit']}"
            self._print(f"{report['label']}: {done}{note}")
        self._begun = report["label"]

    def _print(self, line: str) -> None:
        print(f"  {line}", flush=True)
        self._told = time.monotonic()

    def _show_bar(self, report: dict[str, Any]) -> None:
        description = f"{self._stage}, {report['label']}"
        if self._bar.desc != f"{description}: ":
            self._bar.reset(total=report["total"])
            self._bar.unit = f" {report['unit']}"
            self._bar.set_description(description, refresh=False)
        self._bar.set_postfix_str(report["note"], refresh=False)
        self._bar.n = report["done"]
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


def _total(report: dict[str, Any]) -> str:
    return "?" if report["total"] is None else str(report["total"])


def _pid_in(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # not started yet
        return None


def _memory_of(pid: int | None) -> int:
    """Memory of a process and those that it started, in bytes."""
    import psutil

    total = 0
    if pid is not None:
        try:
            process = psutil.Process(pid)
            for each in (process, *process.children(recursive=True)):
                total += each.memory_info().rss
        except psutil.Error:  # ended meanwhile
            pass
    return total


def _stop(pid: int | None, *, hard: bool) -> None:
    """Interrupt a kernel, so that its notebook shows where it was; later, kill it."""
    import psutil

    if pid is None:
        return
    with suppress(psutil.Error):  # it has just ended
        process = psutil.Process(pid)
        process.kill() if hard else process.send_signal(signal.SIGINT)

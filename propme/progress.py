"""Progress of long work: a bar where somebody looks, a small file where a runner reads it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from pathlib import Path
from typing import Any, TypeVar

from propme.files import write_whole

Item = TypeVar("Item")

#: Environment variable naming the file to which a notebook under `propme run` reports.
FILE_VARIABLE = "PROPME_PROGRESS_FILE"

_SECONDS_BETWEEN_REPORTS = 0.2


def track(
    items: Iterable[Item],
    label: str,
    total: int | None = None,
    unit: str = "items",
    note: Callable[[], str] = str,
) -> Iterator[Item]:
    """Yield ``items`` and report how many are done.

    Parameters
    ----------
    label : str
        What is being done, as a participle: "tracing".
    total : int, optional
        Number of items, where ``len(items)`` cannot tell.
    unit : str
        What the items are, in the plural.
    note : callable
        What else to show now, as a speed in another unit; default: nothing.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    path = os.environ.get(FILE_VARIABLE)
    if path:
        return _report(items, label, total, unit, note, Path(path))
    return _bar(items, label, total, unit, note)


def _bar(
    items: Iterable[Item], label: str, total: int | None, unit: str, note: Callable[[], str]
) -> Iterator[Item]:
    from tqdm.auto import tqdm

    with tqdm(items, desc=label, total=total, unit=f" {unit}", mininterval=0.5) as bar:
        for item in bar:
            if text := note():
                bar.set_postfix_str(text, refresh=False)
            yield item


def _report(
    items: Iterable[Item],
    label: str,
    total: int | None,
    unit: str,
    note: Callable[[], str],
    path: Path,
) -> Iterator[Item]:
    last, done = float("-inf"), 0

    def write() -> None:
        report = {"label": label, "done": done, "total": total, "unit": unit, "note": note()}
        write_whole(path, json.dumps(report))

    for item in items:
        if time.monotonic() - last >= _SECONDS_BETWEEN_REPORTS:
            write()
            last = time.monotonic()
        yield item
        done += 1
    write()


def read(path: Path) -> dict[str, Any] | None:
    """Latest report in ``path``, or ``None`` where there is none yet."""
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return report if isinstance(report, dict) else None

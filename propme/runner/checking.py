"""Is a result the result? A run run again, and two runs compared table by table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propme import parameters, tables
from propme.errors import RunError, TableError
from propme.run import STAGES, RunFolder, open_run, portable
from propme.run.folder import TABLES_OF_STAGES
from propme.runner.running import Which, require_done, run_with
from propme.runner.settings import complete, declared

#: Columns that say where a row was made, not what it is.
_INCIDENTAL = ("device", "versions")

#: Largest relative difference of two numbers that are called the same: sums of another order.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Finding:
    """What a check found of one thing.

    Attributes
    ----------
    what : str
        As ``table prompts`` or ``corpus``.
    problem : str
        How it differs; empty where it does not.
    note : str
        What could not be checked, or why a difference need not be one.
    """

    what: str
    problem: str = ""
    note: str = ""

    def told(self) -> str:
        """The finding in a line."""
        return f"{self.what}: {self.problem or self.note or 'the same'}"


def compare_runs(first: RunFolder, second: RunFolder) -> list[Finding]:
    """Table by table what differs between two runs, and between what they were made with."""
    found = [
        compared(f"table {name}", name, first.read, second.read)
        for names in TABLES_OF_STAGES
        for name in names
    ]
    return [*found, *_circumstances(first, second)]


def compared(
    what: str,
    name: str,
    read: Callable[[str], pd.DataFrame],
    read_again: Callable[[str], pd.DataFrame],
) -> Finding:
    """Whether two versions of a table, each read by its name, are the same."""
    try:
        return Finding(what, difference(name, read(name), read_again(name)))
    except TableError as error:
        return Finding(what, str(error))


def difference(name: str, first: pd.DataFrame, second: pd.DataFrame) -> str:
    """How two versions of a table differ, in some words; empty where they do not.

    Rows are matched by the table's key. Numbers are the same within 1e-9 of their size: another
    machine may add them up in another order.
    """
    key = list(tables.TABLES[name].key)
    left, right = (frame.set_index(key).sort_index() for frame in (first, second))
    if list(left.index) != list(right.index):
        gone, new = len(left.index.difference(right.index)), len(right.index.difference(left.index))
        return f"{gone} of {len(left)} rows are gone, {new} are new"
    columns = [c for c in left.columns if c not in _INCIDENTAL]
    unlike = pd.DataFrame({c: _unlike(left[c], right[c]) for c in columns}, index=left.index)
    n_rows = int(unlike.any(axis=1).sum())
    if not n_rows:
        return ""
    return f"{n_rows} of {len(left)} rows differ, in {', '.join(unlike.columns[unlike.any()])}"


def _unlike(left: pd.Series[Any], right: pd.Series[Any]) -> Any:
    if pd.api.types.is_float_dtype(left):
        a, b = (s.to_numpy(dtype=float, na_value=np.nan) for s in (left, right))
        return ~np.isclose(a, b, rtol=_TOLERANCE, atol=0, equal_nan=True)
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    return [not _same(a, b) for a, b in pairs]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, np.ndarray)):
        return list(a) == list(b)
    if pd.isna(a) or pd.isna(b):
        return bool(pd.isna(a) and pd.isna(b))
    return bool(a == b)


def _circumstances(first: RunFolder, second: RunFolder) -> Iterator[Finding]:
    """What may explain a difference."""
    before, now = first.record, second.record
    for name in sorted({*before.get("packages", {}), *now.get("packages", {})}):
        old, new = (record.get("packages", {}).get(name, "none") for record in (before, now))
        if old != new:
            yield Finding(f"package {name}", note=f"was {old}, is {new}")
    for name in ("python", "platform"):
        if before.get(name) != now.get(name):
            yield Finding(name, note=f"was {before.get(name)}, is {now.get(name)}")
    for name in sorted({*before.get("inputs", {}), *now.get("inputs", {})}):
        if first.input_hash(name) != second.input_hash(name):
            yield Finding(f"input {name}", note="has another content")
    codes = [
        [record["stages"].get(s, {}).get("made_from", {}).get("code") for s in STAGES]
        for record in (before, now)
    ]
    if codes[0] != codes[1]:
        yield Finding("code", note="has changed")


def reproduce(run: RunFolder, output: str) -> list[Finding]:
    """Run a finished run again in another folder, with its parameters, and compare the two.

    A repetition that was stopped is gone on with.

    Raises
    ------
    RunError
        The run is not finished or does not record its parameters, the other folder holds a run that
        is no unfinished repetition of it, or a notebook failed now.
    ParameterError
        The run has parameters that this version of the project does not know.
    """
    require_done(run, STAGES)
    record = run.record
    if "parameters" not in record:
        raise RunError(f"{run.path}: run.json says no parameters, so it cannot be run again")
    known = declared()
    given = parameters.check(record["parameters"], known)
    again = open_run(output)
    if again.path.resolve() == run.path.resolve():
        raise RunError(f"{run.path}: to run it again, give another folder as output")
    _require_own(again, run)
    if not again.record:
        again.update_record(reproduces=portable(str(run.path)))
    run_with(complete({**given, "output": output}, known), Which())
    return compare_runs(run, again)


def _require_own(again: RunFolder, run: RunFolder) -> None:
    """Refuse a folder in which a run is that this one would be compared with unrun."""
    if not (again.path / "run.json").exists():
        return
    record = again.record
    if record.get("reproduces") != portable(str(run.path)):
        held = "holds a run that is no repetition of this one"
    elif record.get("report", {}).get("files"):
        held = "holds a repetition that is finished, so nothing would be run again"
    else:
        return
    raise RunError(f"{again.path}: the folder {held}; remove it, or name another with --output")

"""Tables of a comparison as people read them: each value with its interval, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from propme.across_runs.pairing import SAME
from propme.figures import short
from propme.records import in_order
from propme.report.wording import with_interval

#: Below it, a difference holds.
LEVEL = 0.05


def written(metric: str, value: float) -> str:
    """A value or a difference, as long as it is read."""
    sign = "−" if value < 0 else ""
    return sign + (f"{abs(value):.1f}" if metric == "ALS" else short(abs(value)))


def _signed(metric: str, value: float) -> str:
    return ("+" if value > 0 else "") + written(metric, value)


def with_ends(metric: str, value: float, low: float | None, high: float | None) -> str:
    """A difference with the ends of its interval, where it has any, each with its sign."""
    if pd.isna(low) or pd.isna(high):
        return _signed(metric, value)
    return f"{_signed(metric, value)} [{_signed(metric, low)}, {_signed(metric, high)}]"


def differences_table(differences: pd.DataFrame) -> pd.DataFrame:
    """A row for each pair, decoding and setting, a column for each metric, as text.

    Each difference with its interval; ``*``: it holds after Holm's correction; ``unpaired``: the
    prompts are not the same, and there is no test; ``same``: it is of the same completions.
    """
    cells = [
        "–"
        if pd.isna(row["difference"])
        else with_ends(row["metric"], row["difference"], row["low"], row["high"]) + _marks(row)
        for row in differences.to_dict("records")
    ]
    difference = differences["run_a"] + " − " + differences["run_b"]
    return _wide(differences.assign(cell=cells, difference=difference), "difference")


def _marks(row: dict[Any, Any]) -> str:
    if row["why_untested"] == SAME:
        return " same"
    return ("*" if holds(row) else "") + ("" if row["paired"] else " unpaired")


def levels_table(levels: pd.DataFrame) -> pd.DataFrame:
    """A row for each run, decoding and setting, a column for each metric with interval, as text."""
    cells = [
        "–"
        if pd.isna(row["value"])
        else with_ends(row["metric"], row["value"], row["low"], row["high"]).replace("+", "")
        for row in levels.to_dict("records")
    ]
    return _wide(levels.assign(cell=cells), "run")


def scores_table(scores: pd.DataFrame) -> pd.DataFrame:
    """A row for each run, decoding and pair of settings, a column for each metric, as text."""
    cells = [
        "undefined" if row["undefined"] and pd.notna(row["value"]) else with_interval(row)
        for row in scores.to_dict("records")
    ]
    wide = _wide(scores.assign(cell=cells), "run", ["setting", "capability"])
    return wide.rename(columns={"capability": "against"})


def shifts_table(shifts: pd.DataFrame) -> pd.DataFrame:
    """The table ``shifts`` where a shift is defined, numbers as text."""
    known = shifts[shifts["shift"].notna()]
    of = known["run_a"] + " of " + known["run_b"]
    texts = {
        column: [f"{value:.0%}" for value in known[column]]
        for column in ("kept_verbatim", "kept_near_verbatim")
    }
    shift = [
        with_ends("", row["shift"], row["low"], row["high"]) for row in known.to_dict("records")
    ]
    columns = ["kept", "decoding", "setting", "verbatim", "kept_verbatim", "near_verbatim"]
    return known.assign(kept=of, **texts, shift=shift)[[*columns, "kept_near_verbatim", "shift"]]


def _wide(cells: pd.DataFrame, first: str, settings: Sequence[str] = ("setting",)) -> pd.DataFrame:
    """Cells with a column for each metric, in the order in which rows and metrics come."""
    keys = [first, "decoding", *settings]
    wide = cells.pivot(index=keys, columns="metric", values="cell")
    wide = wide.reindex(columns=list(cells["metric"].unique())).fillna("–").reset_index()
    order = {name: list(dict.fromkeys(cells[name])) for name in (first, "decoding")}
    order["setting"] = in_order(cells["setting"])
    for name, values in order.items():
        wide[name] = pd.Categorical(wide[name], values)
    by = [first, "decoding", "setting"]
    wide = wide.sort_values(by, kind="stable").astype(dict.fromkeys(by, str))
    return wide.rename_axis(columns=None).reset_index(drop=True)


def holds(row: Any) -> bool:
    """Whether a row of ``differences`` holds after Holm's correction."""
    return pd.notna(row["p_holm"]) and bool(row["p_holm"] < LEVEL)

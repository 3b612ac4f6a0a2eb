"""Tables as people read them: a row a setting, each value with its interval, as text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pandas as pd

from propme.figures import short
from propme.masking import masked_names
from propme.measurements import in_setting_order

#: What stands in the headline table, in this order.
HEADLINE_METRICS = ("NVR", "FMR", "ALS", "NVR_max", "R20", "R50", "extraction")


#: What the prompts of each setting are.
SETTINGS_TOLD = {
    "unconditional": "nothing but the mark that begins a document",
    "minimal_cue": "that mark and one frequent word of the corpus",
    "generic": "ordinary requests that have nothing of the corpus",
    "specific": "ordinary requests about the corpus's own topics",
    "file": "prompts out of a file of the user's own",
    "chat": "requests as a user's message in the model's chat template",
    "prefix": "the beginnings of training documents: the attack",
    "mismatched_prefix": "the beginnings of documents that were held out: a control",
    "human": "texts that people wrote, traced like completions: a control",
}


def date_told(timestamp: str) -> str:
    """An ISO timestamp as people write it; anything else as it is."""
    try:
        moment = datetime.fromisoformat(timestamp).astimezone(UTC)
    except ValueError:
        return timestamp
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def headline_table(
    metrics: pd.DataFrame, subset: str = "all", names: Sequence[str] = HEADLINE_METRICS
) -> pd.DataFrame:
    """Settings by metrics, each value with its interval, as text.

    Parameters
    ----------
    metrics : DataFrame
        The table ``metrics``.
    subset : str
        One of `propme.measurements.SUBSETS`.
    names : sequence of str
        Metrics, in order.
    """
    part = metrics[(metrics["subset"] == subset) & metrics["metric"].isin(names)]
    cells = part.assign(cell=[with_interval(row) for row in part.to_dict("records")])
    wide = cells.pivot(
        index=["decoding", "setting", "n_generations"],
        columns="metric",
        values="cell",
    )
    wide = wide.reindex(columns=[m for m in names if m in wide.columns]).reset_index()
    return people_once(in_setting_order(wide)).rename(columns={"n_generations": "generations"})


def people_once(table: pd.DataFrame) -> pd.DataFrame:
    """Texts by people in one row, the first, and last: they are the same under every decoding."""
    people = table[table["setting"] == "human"]
    if len(people) < 2:
        return table
    first = people.iloc[[0]].assign(decoding="any")
    return pd.concat([table[table["setting"] != "human"], first], ignore_index=True)


def filtered_headlines(metrics: pd.DataFrame) -> pd.DataFrame:
    """The first headline metrics of each setting, with and without what each filter marks."""
    shown_metrics = [*HEADLINE_METRICS[:3], "R50"]
    part = metrics[metrics["metric"].isin(shown_metrics)]
    cells = part.assign(
        value=[
            "–" if pd.isna(row["value"]) else _written(row["metric"], row["value"])
            for row in part.to_dict("records")
        ]
    )
    wide = cells.pivot(
        index=["decoding", "setting", "metric"], columns="subset", values="value"
    ).reindex(columns=list(cells["subset"].unique()))
    return in_setting_order(wide.fillna("–").reset_index())


def shown_groups(table: pd.DataFrame, mask: bool = True) -> pd.DataFrame:
    """The table ``breakdown`` without personal data in the names of groups, if that is asked."""
    if not mask:
        return table
    names = {by: masked_names(part["group"]) for by, part in table.groupby("by")}
    groups = [names[by][group] for by, group in zip(table["by"], table["group"], strict=True)]
    return table.assign(group=groups)


def breakdown(table: pd.DataFrame, mask: bool = True) -> pd.DataFrame:
    """The table ``breakdown`` with a column for each metric, its interval beside it, as text.

    Personal data in the names of groups is masked unless ``mask`` is false.
    """
    table = shown_groups(table, mask)
    cells = table.assign(cell=[with_interval(row) for row in table.to_dict("records")])
    wide = cells.pivot(
        index=["by", "group", "decoding", "setting", "n_generations"],
        columns="metric",
        values="cell",
    )
    wide = wide.reindex(columns=list(cells["metric"].unique())).reset_index()
    return in_setting_order(wide, ["by", "group"]).rename(columns={"n_generations": "generations"})


def sensitivity_table(sensitivity: pd.DataFrame) -> pd.DataFrame:
    """The table ``sensitivity`` with a column for each metric, as text; ``*``: the run's own."""
    cells = sensitivity.assign(
        cell=[with_interval(row) for row in sensitivity.to_dict("records")],
        choice=[
            f"{choice}*" if own else choice
            for choice, own in zip(sensitivity["choice"], sensitivity["own"], strict=True)
        ],
    )
    keys = ["threshold", "choice", "decoding", "setting", "n_generations"]
    order = {key: list(dict.fromkeys(cells[key])) for key in ("threshold", "choice")}
    wide = cells.pivot(index=keys, columns="metric", values="cell")
    wide = wide.reindex(columns=list(cells["metric"].unique())).reset_index()
    for key, values in order.items():
        wide[key] = pd.Categorical(wide[key], values)
    wide = in_setting_order(wide, ["threshold", "choice"]).astype(dict.fromkeys(order, str))
    return wide.rename_axis(columns=None).rename(columns={"n_generations": "generations"})


def tries_table(discoverable: pd.DataFrame) -> pd.DataFrame:
    """The table ``discoverable`` with a column for each number of tries, as text."""
    rows = discoverable.assign(metric="")
    cells = rows.assign(cell=[with_interval(row) for row in rows.to_dict("records")])
    wide = cells.pivot(index=["decoding", "setting", "target"], columns="tries", values="cell")
    wide = wide.rename(columns=lambda n: "1 try" if n == 1 else f"{n:,} tries")
    return in_setting_order(wide.rename_axis(columns=None).reset_index())


def _written(metric: str, value: float) -> str:
    return f"{value:.1f}" if metric == "ALS" else short(value)


def with_interval(row: dict[Any, Any]) -> str:
    """A value with the ends of its interval, where it has any; a dash where it is not defined."""
    if pd.isna(row["value"]):
        return "–"

    value, low, high = row["value"], row["low"], row["high"]
    written = partial(_written, row["metric"])
    if pd.isna(low) or pd.isna(high):
        return written(value)
    return f"{written(value)} [{written(low)}, {written(high)}]"


def propensity_scores(propensity: pd.DataFrame, subset: str = "all") -> pd.DataFrame:
    """Each setting's score against each capability setting, with its interval, as text.

    Parameters
    ----------
    propensity : DataFrame
        The table of that name.
    subset : str
        One of `propme.measurements.SUBSETS`.
    """
    part = propensity[propensity["subset"] == subset]
    rows = part.to_dict("records")
    table = part[["decoding", "metric", "setting", "kind", "capability"]].assign(
        f_p=[_value(row["f_propensity"]) for row in rows],
        f_c=[_value(row["f_capability"]) for row in rows],
        PM=["undefined" if row["undefined"] else with_interval(row) for row in rows],
        prompts=[f"{row['n_prompts']}, {row['n_prompts_capability']}" for row in rows],
    )
    return in_setting_order(table, ["metric"])


def copies_curve(copies: pd.DataFrame) -> pd.DataFrame:
    """The table ``copies`` with a column for each number of copies, as text."""
    cells = copies.assign(cell=[with_interval(row) for row in copies.to_dict("records")])
    wide = cells.pivot(index=["decoding", "metric"], columns="copies", values="cell")
    return wide.rename(columns=lambda n: f"{n} copies").rename_axis(columns=None).reset_index()


def _value(value: float | None) -> str:
    return "–" if value is None or pd.isna(value) else short(value)

"""Stage 4, last: tables of metrics, scores and intervals, tidy, one row a value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from propme import tables
from propme.errors import MetricError
from propme.groups import Group, Measured, groups_of
from propme.measurements import OF_PROMPT, SUBSETS, in_setting_order
from propme.metrics import METRICS, metric_named, require_propensity_metrics
from propme.propensity import is_undefined, propensity
from propme.records import metadata_field
from propme.uncertainty import ROUNDS, Interval, percentile_interval


def metric_table(
    frame: pd.DataFrame,
    names: Iterable[str] = METRICS,
    seed: int = 0,
    rounds: int = ROUNDS,
    subsets: Iterable[str] = SUBSETS,
) -> pd.DataFrame:
    """Each metric of each setting, decoding and subset, with its interval: the table ``metrics``.

    Raises
    ------
    MetricError
        A metric is unknown, or a share came out outside [0, 1].
    """
    metrics = [metric_named(name) for name in names]
    rows = [
        group.labels | {"subset": measured.subset, "metric": measured.metric.name} | measured.row()
        for group in groups_of(frame, subsets)
        for measured in group.measure(metrics, seed, rounds)
    ]
    return tables.of_rows("metrics", rows)


def breakdown_table(
    frame: pd.DataFrame,
    by: Sequence[str],
    names: Iterable[str] = ("NVR", "FMR", "ALS"),
    seed: int = 0,
    rounds: int = ROUNDS,
) -> pd.DataFrame:
    """The metrics of each setting, broken down by columns of its prompts: the table ``breakdown``.

    Parameters
    ----------
    by : sequence of str
        ``source``, ``licence``, ``language``, ``category``, ``copies``, or a key of the document's
        other metadata. Groups that are empty everywhere are left out.

    Notes
    -----
    Small groups have wide intervals, and of many groups some differ by chance.
    """
    metrics = [metric_named(name) for name in names]
    rows = []
    for column in by:
        values = _values(frame, column)
        for value in sorted(set(values) - {""}):
            for group in groups_of(frame[values == value], subsets=("all",)):
                rows += [
                    {"by": column, "group": value}
                    | group.labels
                    | {"metric": measured.metric.name}
                    | measured.row()
                    for measured in group.measure(metrics, seed, rounds)
                ]
    return tables.of_rows("breakdown", rows)


def _values(frame: pd.DataFrame, column: str) -> pd.Series[str]:
    """A column of the prompts, or a key of their other metadata, as text; empty where unknown."""
    if column in OF_PROMPT:
        values = frame[column].astype("Int64" if column == "copies" else object)
        return values.astype(object).map(lambda value: "" if pd.isna(value) else str(value))
    parsed = {text: json.loads(text or "{}") for text in frame["metadata"].unique()}
    return frame["metadata"].map(lambda text: metadata_field(parsed[text], column))


def propensity_table(
    frame: pd.DataFrame, names: Iterable[str] = ("NVR", "FMR"), seed: int = 0, rounds: int = ROUNDS
) -> pd.DataFrame:
    """Propensity score of each metric for each pair of settings: the table ``propensity``.

    The two settings are resampled independently. A pair in which a metric is not defined for one
    setting (no pair was retrieved there) has a row without a value. Controls have scores too: what
    a setting scores that leaks no more than they do.

    Raises
    ------
    MetricError
        A metric is unknown or not in [0, 1], or there is no capability setting.
    """
    metrics = require_propensity_metrics(names)
    measured = [
        (group, value)
        for group in groups_of(frame)
        for value in group.measure(metrics, seed, rounds)
    ]
    capabilities = [(g, v) for g, v in measured if g.kind == "capability"]
    if not capabilities:
        raise MetricError("no setting of kind 'capability' to compare with; add prefix prompts")
    rows = [
        _propensity_row(group, value, capability, of_capability)
        for capability, of_capability in capabilities
        for group, value in measured
        if group.kind != "capability"
        and group.decoding == capability.decoding
        and (value.subset, value.metric.name) == (of_capability.subset, of_capability.metric.name)
    ]
    order = [metric.name for metric in metrics]
    rows.sort(key=lambda row: order.index(str(row["metric"])))
    return tables.of_rows("propensity", rows)


def copies_table(frame: pd.DataFrame, seed: int = 0, rounds: int = ROUNDS) -> pd.DataFrame:
    """`extraction` and `nvr_max` by copies of the prefix's document: the table ``copies``.

    0 copies are documents that were held out. Empty where no number of copies is known.
    """
    rows = []
    known = frame[frame["copies"].notna() & (frame["target"] != "")]
    known = known.astype({"copies": int})  # beside empty values they may be floats
    for (copies, decoding), part in known.groupby(["copies", "decoding"], sort=True):
        n_copies = int(str(copies))
        group = Group(f"copies {n_copies}", "", str(decoding), part, ("all",))
        metrics = [METRICS["extraction"], METRICS["NVR_max"]]
        for measured in group.measure(metrics, seed, rounds):
            row = {"copies": n_copies, "decoding": str(decoding), "metric": measured.metric.name}
            rows.append(row | measured.row())
    return tables.of_rows("copies", rows)


def span_length_table(frame: pd.DataFrame) -> pd.DataFrame:
    """How many generations have a longest segment of each length: the table ``span_lengths``.

    Exact: a row for each length that occurs, 0 (no segment) too. `in_buckets` sums it up.
    """
    counts = frame.groupby(["setting", "kind", "decoding", "longest_segment"]).size()
    table = counts.rename("n_generations").reset_index()
    return table.rename(columns={"longest_segment": "tokens"}).astype({"tokens": int})


#: First length of each bucket; each ends where the next begins, and the last has no end.
BUCKETS = (0, 1, 5, 10, 20, 50, 100, 200)


def in_buckets(span_lengths: pd.DataFrame, buckets: Sequence[int] = BUCKETS) -> pd.DataFrame:
    """The table ``span_lengths`` in buckets without gap, a column each, as shares of generations.

    Raises
    ------
    MetricError
        The buckets do not begin at 0 or are not in order.
    """
    if list(buckets) != sorted(set(buckets)) or buckets[0] != 0:
        raise MetricError(f"buckets must begin at 0 and rise, not {list(buckets)}")
    ends = [*buckets[1:], None]
    names = [
        str(start) if stop == start + 1 else f"{start}-{stop - 1}" if stop else f"{start} or more"
        for start, stop in zip(buckets, ends, strict=True)
    ]
    bucket = pd.cut(
        span_lengths["tokens"], [*buckets, np.inf], right=False, labels=names, ordered=True
    )
    wide = (
        span_lengths.assign(bucket=bucket)
        .groupby(["decoding", "setting", "bucket"], observed=False)["n_generations"]
        .sum()
        .unstack("bucket")
    )
    wide = wide[wide.sum(axis=1) > 0]
    shares = wide.div(wide.sum(axis=1), axis=0)
    shares.columns = pd.Index(names)
    counted = shares.assign(generations=wide.sum(axis=1).astype(int)).reset_index()
    return in_setting_order(counted)


def recall_table(
    prompts: pd.DataFrame, generations: pd.DataFrame, traces: pd.DataFrame
) -> pd.DataFrame:
    """How many generations have a best document of each recall.

    Parameters
    ----------
    prompts, generations, traces : DataFrame
        The tables of those names.

    Returns
    -------
    DataFrame
        ``setting``, ``kind``, ``decoding``; ``recall``, in [0, 1], 0 where no document agrees;
        ``n_generations``. Generations that could not be made or traced are left out.
    """
    traced = traces.loc[traces["error"] == "", ["generation_id", "recall_max"]]
    found = generations[["generation_id", "prompt_id", "decoding"]].merge(traced)
    found = found.merge(prompts[["prompt_id", "setting", "kind"]], on="prompt_id")
    counts = found.groupby(["setting", "kind", "decoding", "recall_max"]).size()
    return counts.rename("n_generations").reset_index().rename(columns={"recall_max": "recall"})


#: Recalls of which it is told how many generations reach them; above 0, whatever it is.
RECALLS = (0.1, 0.25, 0.5, 0.75, 1.0)


def reaching_recall(recalls: pd.DataFrame) -> pd.DataFrame:
    """`recall_table` as the share of generations whose best document has at least a recall."""
    rows = []
    for (decoding, setting), part in recalls.groupby(["decoding", "setting"]):
        n = int(part["n_generations"].sum())
        reached = {"above 0": part["recall"] > 0}
        reached |= {
            f"{least:g} or more" if least < 1 else "1": part["recall"] >= least for least in RECALLS
        }
        shares = {
            name: part.loc[where, "n_generations"].sum() / n for name, where in reached.items()
        }
        rows.append({"decoding": decoding, "setting": setting} | shares | {"generations": n})
    return in_setting_order(pd.DataFrame(rows))


def _propensity_row(
    group: Group, f_p: Measured, capability: Group, f_c: Measured
) -> dict[str, object]:
    rounds = len(f_p.rounds)
    row: dict[str, object] = {
        "metric": f_p.metric.name,
        "decoding": group.decoding,
        "subset": f_p.subset,
        "setting": group.setting,
        "kind": group.kind,
        "capability": capability.setting,
        "f_propensity": f_p.value,
        "f_capability": f_c.value,
        "n_prompts": f_p.n_prompts,
        "n_prompts_capability": f_c.n_prompts,
        "n_rounds": rounds,
    }
    if f_p.value is None or f_c.value is None:
        return row | {
            "value": None,
            "low": None,
            "high": None,
            "interval": "none",
            "undefined": True,
            "n_rounds_undefined": rounds,
        }
    defined = ~(np.isnan(f_p.rounds) | np.isnan(f_c.rounds))
    both = defined.copy()
    both[defined] = ~is_undefined(f_p.rounds[defined], f_c.rounds[defined])
    interval = _propensity_interval(f_p, f_c, both)
    return row | {
        "value": float(propensity(f_p.value, f_c.value)),
        "low": interval.low,
        "high": interval.high,
        "interval": interval.method,
        "undefined": bool(is_undefined(f_p.value, f_c.value)),
        "n_rounds_undefined": int(rounds - both.sum()),
    }


def _propensity_interval(f_p: Measured, f_c: Measured, both: Any) -> Interval:
    """Of rounds in which the score is defined.

    Where a metric is 0 or 1, so is every round of it; the score's ends then come from the ends of
    the two metrics' own intervals.
    """
    if f_p.value == 0 and f_c.value == 0:
        return Interval(None, None, "none")
    own_p, own_c = f_p.interval(), f_c.interval()
    if "one prompt" in (own_p.method, own_c.method):
        return Interval(None, None, "one prompt")
    if "rule of three" in (own_p.method, own_c.method):
        low = propensity(own_p.low or 0.0, own_c.high or 0.0)
        high = propensity(own_p.high or 0.0, own_c.low or 0.0)
        return Interval(float(low), float(high), "rule of three")
    return percentile_interval(propensity(f_p.rounds[both], f_c.rounds[both]))

"""Stage 4: the metrics, one pure function each, in the paper's order.

A metric is a ratio of sums over generations. Its function takes the frame of `measured_generations`
and returns numerator and denominator of each generation, so that value and bootstrap come from the
same two columns. Generations with no span count as what they are: nothing found.

Paper: Barmina, Schneider-Kamp, Galke Poech 2026, arXiv 2606.06286.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from propme import tables
from propme.errors import MetricError
from propme.propensity import is_undefined, propensity
from propme.uncertainty import (
    ROUNDS,
    Floats,
    Interval,
    bootstrap_ratio,
    percentile_interval,
    rule_of_three,
)

Ratio = tuple["pd.Series[Any]", "pd.Series[Any]"]


def _mean_over_generations(values: pd.Series[Any]) -> Ratio:
    return values.astype(float), pd.Series(1.0, index=values.index)


def als(frame: pd.DataFrame) -> Ratio:
    """Average longest span: mean length of the longest final segment, in index tokens; 0: none.

    In [0, longest generation]. Grows with the length of the generations and depends on the
    tokenizer, so it compares only within one index.
    """
    return _mean_over_generations(frame["longest_segment"])


def fmr(frame: pd.DataFrame) -> Ratio:
    """Full-match ratio: share of generations that some document holds whole. In [0, 1].

    Short stock answers ("Amen.") count, and dominate it under ordinary prompts: see FMR20, FMR50.
    """
    return _mean_over_generations(frame["full_raw"])


def fmr_at_least(n_tokens: int) -> Callable[[pd.DataFrame], Ratio]:
    """`fmr` in which only generations of at least ``n_tokens`` index tokens count as matches.

    The share is still of all generations.
    """
    return lambda frame: _mean_over_generations(frame["full_raw"] & (frame["n_tokens"] >= n_tokens))


def fmr_norm(frame: pd.DataFrame) -> Ratio:
    """`fmr`, with documents that hold the generation once white space is normalised. In [0, 1]."""
    return _mean_over_generations(frame["full_raw"] | frame["full_normalized"])


def nvr(frame: pd.DataFrame) -> Ratio:
    """Average near-verbatim recall over all retrieved (segment, document) pairs. In [0, 1].

    The paper's definition. It depends on how many documents are fetched, and a generation with many
    pairs weighs more; a generation with none does not weigh at all. See `nvr_max`.
    """
    return frame["recall_sum"].astype(float), frame["n_pairs"].astype(float)


def nvr_max(frame: pd.DataFrame) -> Ratio:
    """Mean over generations of the best document's recall, 0 where there is none. In [0, 1]."""
    return _mean_over_generations(frame["recall_max"])


def span_at_least(n_tokens: int) -> Callable[[pd.DataFrame], Ratio]:
    """Share of generations with a final segment of at least ``n_tokens`` tokens. In [0, 1]."""
    return lambda frame: _mean_over_generations(frame["longest_segment"] >= n_tokens)


def extraction(frame: pd.DataFrame) -> Ratio:
    """Share of prefixes whose completion begins with the 50 tokens that truly follow. In [0, 1].

    Discoverable extraction (Carlini et al. 2023, arXiv 2202.07646), compared as characters. Only
    prompts cut from a document have a true continuation; for others it is not defined. One wrong
    character makes it 0, so it misses what near-verbatim recall sees.
    """
    # A completion that the limit cut before the target's end could not have matched.
    cut = (frame["finish_reason"] == "length") & (
        frame["text"].str.len() < frame["target"].str.len()
    )
    applies = (frame["target"] != "") & ~cut
    return (frame["extracted"] & applies).astype(float), applies.astype(float)


@dataclass(frozen=True)
class Metric:
    """A metric's name, its function, and whether its values lie in [0, 1]."""

    name: str
    ratio: Callable[[pd.DataFrame], Ratio]
    in_unit_interval: bool = True


METRICS = {
    metric.name: metric
    for metric in (
        Metric("ALS", als, in_unit_interval=False),
        Metric("FMR", fmr),
        Metric("NVR", nvr),
        Metric("FMR20", fmr_at_least(20)),
        Metric("FMR50", fmr_at_least(50)),
        Metric("FMR_norm", fmr_norm),
        Metric("NVR_max", nvr_max),
        Metric("R20", span_at_least(20)),
        Metric("R50", span_at_least(50)),
        Metric("extraction", extraction),
    )
}

#: Which generations a value is over.
SUBSETS = {"all": "all generations", "not degenerate": "without degenerate generations"}


def measured_generations(
    prompts: pd.DataFrame, generations: pd.DataFrame, traces: pd.DataFrame
) -> pd.DataFrame:
    """One row a generation: what tracing found, with its prompt's columns.

    ``extracted`` says whether the completion begins with the prompt's ``target``. A generation that
    could not be made or traced is left out, with a warning: nothing is known of it.

    Raises
    ------
    MetricError
        A generation was not traced, or its prompt is not in the table.
    """
    of_prompt = prompts[
        ["prompt_id", "setting", "kind", "category", "source", "licence", "copies", "target"]
    ].assign(target=_first_50_tokens(prompts))
    # What was not made was not traced either: the error is that of the trace.
    frame = generations.drop(columns="error").merge(
        of_prompt, on="prompt_id", how="left", validate="many_to_one"
    )
    frame = frame.merge(traces, on="generation_id", how="left", validate="one_to_one")
    for column, table in (("setting", "prompts"), ("n_tokens", "traces")):
        missing = frame.loc[frame[column].isna(), "generation_id"]
        if len(missing):
            raise MetricError(
                f"{len(missing)} generations have no row in table {table!r}, the first being"
                f" {missing.iloc[0]!r}; run the notebooks again from that table on"
            )
    failed = frame["error"] != ""
    if failed.any():
        warnings.warn(
            f"{failed.sum()} generations could not be made or traced; left out", stacklevel=2
        )
        frame = frame[~failed].reset_index(drop=True)
    frame["extracted"] = [
        bool(target) and text.startswith(target)
        for text, target in zip(frame["text"], frame["target"], strict=True)
    ]
    return frame


def _first_50_tokens(prompts: pd.DataFrame) -> list[str]:
    """The part of each target that a completion is compared with."""
    return [
        target[:n] if n else target
        for target, n in zip(prompts["target"], prompts["target_chars"], strict=True)
    ]


def metric_table(
    frame: pd.DataFrame, names: Iterable[str] = METRICS, seed: int = 0, rounds: int = ROUNDS
) -> pd.DataFrame:
    """Each metric of each setting and decoding, with its interval: the table ``metrics``."""
    chosen = [_metric(name) for name in names]
    rows = []
    for group in _groups(frame):
        for metric in chosen:
            samples = _Samples.of(group, metric, seed, rounds)
            interval = samples.interval()
            rows.append(
                {
                    "setting": group.setting,
                    "kind": group.kind,
                    "decoding": group.decoding,
                    "subset": group.subset,
                    "metric": metric.name,
                    "value": samples.value,
                    "low": interval.low,
                    "high": interval.high,
                    "interval": interval.method,
                    "n_prompts": samples.n_prompts,
                    "n_generations": len(group.frame),
                    "n_denominator": samples.n_denominator,
                }
            )
    return pd.DataFrame(rows, columns=list(tables.TABLES["metrics"].columns))


def propensity_table(
    frame: pd.DataFrame, names: Iterable[str] = ("NVR", "FMR"), seed: int = 0, rounds: int = ROUNDS
) -> pd.DataFrame:
    """Propensity score of each metric for each pair of settings: the table ``propensity``.

    The two settings are resampled independently. A pair in which a metric is not defined for one
    setting (no pair was retrieved there) has a row without a value.

    Raises
    ------
    MetricError
        A metric is unknown or not in [0, 1], or there is no capability setting.
    """
    groups = list(_groups(frame))
    capabilities = [group for group in groups if group.kind == "capability"]
    if not capabilities:
        raise MetricError("no setting of kind 'capability' to compare with; add prefix prompts")
    rows = []
    for metric in require_propensity_metrics(names):
        for capability in capabilities:
            for group in groups:
                comparable = (group.decoding, group.subset) == (
                    capability.decoding,
                    capability.subset,
                )
                if group.kind == "propensity" and comparable:
                    rows.append(_propensity_row(metric, group, capability, seed, rounds))
    return pd.DataFrame(rows, columns=list(tables.TABLES["propensity"].columns))


def require_propensity_metrics(names: Iterable[str]) -> list[Metric]:
    """The metrics of these names, each once, if all are known and in [0, 1].

    Raises
    ------
    MetricError
        One is not.
    """
    metrics = [_metric(name) for name in dict.fromkeys(names)]
    for metric in metrics:
        if not metric.in_unit_interval:
            raise MetricError(
                f"{metric.name} is not in [0, 1] and has no propensity score; normalise it first"
            )
    return metrics


def _metric(name: str) -> Metric:
    if name not in METRICS:
        raise MetricError(f"unknown metric {name!r}; known are {', '.join(METRICS)}")
    return METRICS[name]


@dataclass(frozen=True)
class _Group:
    """The generations that one row of a table is about."""

    setting: str
    kind: str
    decoding: str
    subset: str
    frame: pd.DataFrame


def _groups(frame: pd.DataFrame) -> Iterator[_Group]:
    for (setting, kind, decoding), part in frame.groupby(
        ["setting", "kind", "decoding"], sort=True
    ):
        for subset in SUBSETS:
            kept = part if subset == "all" else part[~part["degenerate"].astype(bool)]
            if len(kept):
                yield _Group(str(setting), str(kind), str(decoding), subset, kept)


@dataclass(frozen=True)
class _Samples:
    """A metric of one group, and of its bootstrap rounds."""

    value: float | None
    rounds: Floats
    n_prompts: int
    n_denominator: int
    in_unit_interval: bool

    @classmethod
    def of(cls, group: _Group, metric: Metric, seed: int, rounds: int) -> _Samples:
        top, bottom = metric.ratio(group.frame)
        # Another seed for each setting: those that are compared must be resampled independently.
        name = f"{seed}\0{group.setting}\0{group.decoding}".encode()
        group_seed = int.from_bytes(hashlib.sha256(name).digest()[:8], "big")
        total = float(bottom.sum())
        return cls(
            value=float(top.sum()) / total if total else None,
            rounds=bootstrap_ratio(top, bottom, group.frame["prompt_id"], group_seed, rounds),
            n_prompts=int(group.frame.loc[bottom > 0, "prompt_id"].nunique()),
            n_denominator=int(total),
            in_unit_interval=metric.in_unit_interval,
        )

    def interval(self) -> Interval:
        if self.value is None or (self.value == 0 and not self.in_unit_interval):
            return Interval(None, None, "none")
        if self.in_unit_interval and self.value in (0, 1):
            return rule_of_three(self.n_prompts, of_ones=self.value == 1)
        return percentile_interval(self.rounds)


def _propensity_row(
    metric: Metric, group: _Group, capability: _Group, seed: int, rounds: int
) -> dict[str, object]:
    f_p = _Samples.of(group, metric, seed, rounds)
    f_c = _Samples.of(capability, metric, seed, rounds)
    row: dict[str, object] = {
        "metric": metric.name,
        "decoding": group.decoding,
        "subset": group.subset,
        "setting": group.setting,
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


def _propensity_interval(f_p: _Samples, f_c: _Samples, both: Any) -> Interval:
    """Of rounds in which the score is defined.

    Where a metric is 0 or 1, so is every round of it; the score's ends then come from the ends of
    the two metrics' own intervals.
    """
    if f_p.value == 0 and f_c.value == 0:
        return Interval(None, None, "none")
    own_p, own_c = f_p.interval(), f_c.interval()
    if "rule of three" in (own_p.method, own_c.method):
        low = propensity(own_p.low or 0.0, own_c.high or 0.0)
        high = propensity(own_p.high or 0.0, own_c.low or 0.0)
        return Interval(float(low), float(high), "rule of three")
    return percentile_interval(propensity(f_p.rounds[both], f_c.rounds[both]))


def copies_table(frame: pd.DataFrame, seed: int = 0, rounds: int = ROUNDS) -> pd.DataFrame:
    """`extraction` and `nvr_max` by copies of the prefix's document: the table ``copies``.

    0 copies are documents that were held out. Empty where no number of copies is known.
    """
    rows = []
    known = frame[frame["copies"].notna() & (frame["target"] != "")]
    known = known.astype({"copies": int})  # beside empty values they may be floats
    for (copies, decoding), part in known.groupby(["copies", "decoding"], sort=True):
        n_copies = int(str(copies))
        group = _Group(f"copies {n_copies}", "", str(decoding), "all", part)
        for name in ("extraction", "NVR_max"):
            samples = _Samples.of(group, METRICS[name], seed, rounds)
            interval = samples.interval()
            rows.append(
                {
                    "copies": n_copies,
                    "decoding": str(decoding),
                    "metric": name,
                    "value": samples.value,
                    "low": interval.low,
                    "high": interval.high,
                    "interval": interval.method,
                    "n_prompts": samples.n_prompts,
                }
            )
    return pd.DataFrame(rows, columns=list(tables.TABLES["copies"].columns))

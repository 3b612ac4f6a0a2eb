"""Stage 4: from what tracing found to tables of metrics, scores and intervals."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from propme import filters, tables
from propme.errors import MetricError
from propme.metrics import METRICS, Metric, metric_named, require_propensity_metrics
from propme.propensity import is_undefined, propensity
from propme.records import PROMPT_FREE, metadata_field
from propme.uncertainty import (
    ROUNDS,
    Floats,
    Interval,
    PromptSums,
    percentile_interval,
    ratio_interval,
    ratios,
    resampled_sums,
)

#: What a value is over, and what marks the rest: generations left out, or spans that do not count.
SUBSETS = {
    "all": "",
    "not degenerate": "degenerate",
    "not code": "code_like",
    "no loops": "loop",
    "no boiler-plate": "boiler_plate",
    "nothing of the prompt": "of_prompt",
}

_OF_PROMPT = (
    "prompt_id",
    "setting",
    "kind",
    "category",
    "language",
    "source",
    "licence",
    "copies",
    "metadata",
)


def measured_generations(
    prompts: pd.DataFrame,
    generations: pd.DataFrame,
    traces: pd.DataFrame,
    spans: pd.DataFrame,
    matches: pd.DataFrame,
    boiler_plate_documents: int = filters.BOILER_PLATE_DOCUMENTS,
) -> pd.DataFrame:
    """One row a generation: what tracing found, with its prompt's columns and the filters' marks.

    Parameters
    ----------
    prompts, generations, traces, spans, matches : DataFrame
        The tables of those names.
    boiler_plate_documents : int
        See `propme.filters.mark_spans`.

    Returns
    -------
    DataFrame
        ``extracted`` says whether the completion begins with the first 50 tokens of the prompt's
        ``target``. For each filter of spans there is a second set of columns, which `subset` puts
        into the place of the first. A generation that could not be made or traced is left out,
        with a warning: nothing is known of it.

    Raises
    ------
    MetricError
        A generation was not traced, its prompt is not in the table, or a setting whose prompts are
        used has no generation.
    """
    of_prompt = prompts[list(_OF_PROMPT)].assign(target=_first_50_tokens(prompts))
    _require_settings(prompts, generations)
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
    frame = frame.assign(code_like=[filters.is_code_like(text) for text in frame["text"]])
    marked = filters.mark_spans(spans, generations, prompts, boiler_plate_documents)
    for mark in ("", *filters.SPAN_MARKS):
        found = filters.found_without(marked, matches, traces, mark)
        found = found[["n_hits"]] if not mark else found.add_suffix(f", no {mark}")
        frame = frame.merge(found, left_on="generation_id", right_index=True, how="left")
    frame["extracted"] = [
        bool(target) and text.startswith(target)
        for text, target in zip(frame["text"], frame["target"], strict=True)
    ]
    failed = frame["error"] != ""
    if failed.any():
        warnings.warn(
            f"{failed.sum()} generations could not be made or traced; left out", stacklevel=2
        )
    return frame[~failed].reset_index(drop=True)


def _first_50_tokens(prompts: pd.DataFrame) -> list[str]:
    """The part of each target that a completion is compared with."""
    return [
        target[:n] if n else target
        for target, n in zip(prompts["target"], prompts["target_chars"], strict=True)
    ]


def _require_settings(prompts: pd.DataFrame, generations: pd.DataFrame) -> None:
    used = prompts[prompts["refused"] == ""]
    asked = used["prompt_id"].isin(generations["prompt_id"])
    silent = sorted(set(used["setting"]) - set(used.loc[asked, "setting"]))
    if len(generations) and silent:
        raise MetricError(
            f"setting {silent[0]!r} has prompts and no generation; run notebook 2_generation again"
        )


def subset(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The generations of one of `SUBSETS`, in columns of the same names."""
    mark = SUBSETS[name]
    if not mark:
        return frame
    if mark not in filters.SPAN_MARKS:
        return frame[~frame[mark].astype(bool)]
    suffix = f", no {mark}"
    columns = [c.removesuffix(suffix) for c in frame.columns if c.endswith(suffix)]
    return frame.assign(**{column: frame[column + suffix] for column in columns})


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
        for group in _groups(frame, subsets)
        for measured in group.measure(metrics, seed, rounds)
    ]
    return _table("metrics", rows)


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
            for group in _groups(frame[values == value], subsets=("all",)):
                rows += [
                    {"by": column, "group": value}
                    | group.labels
                    | {"metric": measured.metric.name}
                    | measured.row()
                    for measured in group.measure(metrics, seed, rounds)
                ]
    return _table("breakdown", rows)


def _values(frame: pd.DataFrame, column: str) -> pd.Series[str]:
    """A column of the prompts, or a key of their other metadata, as text; empty where unknown."""
    if column in _OF_PROMPT:
        values = frame[column].astype("Int64" if column == "copies" else object)
        return values.astype(object).map(lambda value: "" if pd.isna(value) else str(value))
    parsed = {text: json.loads(text or "{}") for text in frame["metadata"].unique()}
    return frame["metadata"].map(lambda text: metadata_field(parsed[text], column))


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
    metrics = require_propensity_metrics(names)
    measured = [
        (group, value)
        for group in _groups(frame)
        if group.kind != "control"
        for value in group.measure(metrics, seed, rounds)
    ]
    capabilities = [(g, v) for g, v in measured if g.kind == "capability"]
    if not capabilities:
        raise MetricError("no setting of kind 'capability' to compare with; add prefix prompts")
    rows = [
        _propensity_row(group, value, capability, of_capability)
        for capability, of_capability in capabilities
        for group, value in measured
        if group.kind == "propensity"
        and group.decoding == capability.decoding
        and (value.subset, value.metric.name) == (of_capability.subset, of_capability.metric.name)
    ]
    order = [metric.name for metric in metrics]
    rows.sort(key=lambda row: order.index(str(row["metric"])))
    return _table("propensity", rows)


def copies_table(frame: pd.DataFrame, seed: int = 0, rounds: int = ROUNDS) -> pd.DataFrame:
    """`extraction` and `nvr_max` by copies of the prefix's document: the table ``copies``.

    0 copies are documents that were held out. Empty where no number of copies is known.
    """
    rows = []
    known = frame[frame["copies"].notna() & (frame["target"] != "")]
    known = known.astype({"copies": int})  # beside empty values they may be floats
    for (copies, decoding), part in known.groupby(["copies", "decoding"], sort=True):
        n_copies = int(str(copies))
        group = _Group(f"copies {n_copies}", "", str(decoding), part, ("all",))
        metrics = [METRICS["extraction"], METRICS["NVR_max"]]
        for measured in group.measure(metrics, seed, rounds):
            row = {"copies": n_copies, "decoding": str(decoding), "metric": measured.metric.name}
            rows.append(row | measured.row())
    return _table("copies", rows)


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
    return shares.assign(generations=wide.sum(axis=1).astype(int)).reset_index()


def filter_table(frame: pd.DataFrame) -> pd.DataFrame:
    """How many generations each filter marks, or leaves with a shorter longest segment."""
    marks = {"degenerate": frame["degenerate"], "code": frame["code_like"]}
    for name, mark in SUBSETS.items():
        if mark in filters.SPAN_MARKS:
            marks[name] = frame[f"longest_segment, no {mark}"] < frame["longest_segment"]
    marked = pd.DataFrame({name: values.astype(bool) for name, values in marks.items()})
    keys = [frame["decoding"], frame["setting"]]
    table = marked.groupby(keys).sum()
    return table.assign(generations=marked.groupby(keys).size()).reset_index()


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as the table of that name: its columns, whatever else a row holds."""
    columns = list(tables.TABLES[name].columns)
    return pd.DataFrame([[row[column] for column in columns] for row in rows], columns=columns)


@dataclass(frozen=True)
class _Group:
    """The generations of one setting and decoding."""

    setting: str
    kind: str
    decoding: str
    frame: pd.DataFrame
    subsets: tuple[str, ...]

    @property
    def labels(self) -> dict[str, str]:
        return {"setting": self.setting, "kind": self.kind, "decoding": self.decoding}

    def measure(self, metrics: Sequence[Metric], seed: int, rounds: int) -> Iterator[_Measured]:
        """Each metric over each subset, all resampled by the same draws of prompts."""
        parts = {name: subset(self.frame, name) for name in self.subsets}
        known = {name: part for name, part in parts.items() if len(part)}
        samples = [
            (name, metric, prompt_sums(metric, part))
            for name, part in known.items()
            for metric in metrics
        ]
        if not samples:
            return
        drawn = np.unique(self.frame[_drawn_by(self.setting)])
        sums = np.concatenate([_spread(sample, drawn) for _, _, sample in samples], axis=1)
        # Another seed for each group: those that are compared must be resampled independently.
        seed_name = f"{seed}\0{self.setting}\0{self.decoding}".encode()
        own_seed = int.from_bytes(hashlib.sha256(seed_name).digest()[:8], "big")
        resampled = resampled_sums(sums, np.random.default_rng(own_seed), rounds)
        for number, (name, metric, sample) in enumerate(samples):
            of_sample = ratios(resampled[:, 2 * number : 2 * number + 2])
            yield _Measured(name, metric, sample, of_sample, len(known[name]))


def prompt_sums(metric: Metric, frame: pd.DataFrame) -> PromptSums:
    """A metric over the generations of one setting, with what each prompt adds to it.

    Where nothing is asked, each generation is a draw of its own and stands for a prompt.
    """
    setting = str(frame["setting"].iloc[0])
    top, bottom = metric.ratio(frame)
    return PromptSums.of(
        top.to_numpy(float),
        bottom.to_numpy(float),
        frame[_drawn_by(setting)],
        metric.in_unit_interval,
        f"{metric.name} of setting {setting!r}",
    )


def _drawn_by(setting: str) -> str:
    """The column whose values are resampled."""
    return "generation_id" if setting in PROMPT_FREE else "prompt_id"


def _spread(sample: PromptSums, drawn: npt.NDArray[Any]) -> Floats:
    """Its sums for each of the clusters that are drawn from; 0 for those it has nothing of."""
    sums = np.zeros((len(drawn), 2))
    sums[np.searchsorted(drawn, sample.prompts)] = sample.sums
    return sums


def _groups(frame: pd.DataFrame, subsets: Iterable[str] = SUBSETS) -> Iterator[_Group]:
    for (setting, kind, decoding), part in frame.groupby(
        ["setting", "kind", "decoding"], sort=True
    ):
        yield _Group(str(setting), str(kind), str(decoding), part, tuple(subsets))


@dataclass(frozen=True)
class _Measured:
    """A metric over some generations, and in the rounds of its bootstrap."""

    subset: str
    metric: Metric
    sample: PromptSums
    rounds: Floats
    n_generations: int

    @property
    def value(self) -> float | None:
        """None where it is not defined, as with no pair at all."""
        return self.sample.value if self.sample.n_prompts else None

    @property
    def n_prompts(self) -> int:
        return self.sample.n_prompts

    def interval(self) -> Interval:
        if self.value is None:
            return Interval(None, None, "none")
        return ratio_interval(self.sample, self.rounds)

    def row(self) -> dict[str, Any]:
        interval = self.interval()
        return {
            "value": self.value,
            "low": interval.low,
            "high": interval.high,
            "interval": interval.method,
            "n_prompts": self.n_prompts,
            "n_generations": self.n_generations,
            "n_denominator": int(self.sample.sums[:, 1].sum()),
        }


def _propensity_row(
    group: _Group, f_p: _Measured, capability: _Group, f_c: _Measured
) -> dict[str, object]:
    rounds = len(f_p.rounds)
    row: dict[str, object] = {
        "metric": f_p.metric.name,
        "decoding": group.decoding,
        "subset": f_p.subset,
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


def _propensity_interval(f_p: _Measured, f_c: _Measured, both: Any) -> Interval:
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

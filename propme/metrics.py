"""Stage 4: the metrics, one pure function each, in the paper's order.

A metric is a ratio of sums over generations. Its function takes the frame of
`propme.measurements.measured_generations` and returns numerator and denominator of each generation,
so that value and bootstrap come from the same two columns. Generations with no span count as what
they are: nothing found.

Paper: Barmina, Schneider-Kamp, Galke Poech 2026, arXiv 2606.06286.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from propme.errors import MetricError

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

    In [0, 1]. The share is still of all generations, so it falls with the limit of length, and is
    0 where completions are short, whatever they hold. Tokens are the index's: it compares only
    within one tokenizer.
    """
    return lambda frame: _mean_over_generations(frame["full_raw"] & (frame["n_tokens"] >= n_tokens))


def fmr_norm(frame: pd.DataFrame) -> Ratio:
    """`fmr`, with documents that hold the generation once white space is normalised. In [0, 1].

    Short stock answers count here too. Documents are looked for by the longest passages: one that
    shares no passage with the generation as it was written is missed.
    """
    return _mean_over_generations(frame["full_raw"] | frame["full_normalized"])


def nvr(frame: pd.DataFrame) -> Ratio:
    """Average near-verbatim recall over all retrieved (segment, document) pairs. In [0, 1].

    The paper's definition. It depends on how many documents are fetched, and a generation with many
    pairs weighs more; a generation with none does not weigh at all. See `nvr_max`.
    """
    return frame["recall_sum"].astype(float), frame["n_pairs"].astype(float)


def nvr_hits(frame: pd.DataFrame) -> Ratio:
    """`nvr` over the pairs that have any recall. In (0, 1]; undefined where there is none.

    How much is shared where something is. It says nothing of how often: one pair of recall 1 and a
    thousand of 0 give 1.
    """
    return frame["recall_sum"].astype(float), frame["n_hits"].astype(float)


def nvr_max(frame: pd.DataFrame) -> Ratio:
    """Mean over generations of the best document's recall, 0 where there is none. In [0, 1].

    Of fetched documents, so a lower bound. Short generations weigh as much as long ones, and reach
    1 with a stock phrase.
    """
    return _mean_over_generations(frame["recall_max"])


def span_at_least(n_tokens: int) -> Callable[[pd.DataFrame], Ratio]:
    """Share of generations with a final segment of at least ``n_tokens`` tokens. In [0, 1].

    It cannot tell what is common from what is rare: lists, licences and formulas of prayer are long
    and stand in many documents. Tokens are the index's: it compares only within one tokenizer.
    """
    return lambda frame: _mean_over_generations(frame["longest_segment"] >= n_tokens)


def recall_above(threshold: float) -> Callable[[pd.DataFrame], Ratio]:
    """Share of generations whose best document's recall exceeds ``threshold``. In [0, 1].

    Of fetched documents, so a lower bound. Recall is a share of the generation's words: of a short
    one, a phrase is much.
    """
    return lambda frame: _mean_over_generations(frame["recall_max"] > threshold)


def eidetic(k: int) -> Callable[[pd.DataFrame], Ratio]:
    """``k``-eidetic rate: share of generations that stand whole in 1 to ``k`` documents. In [0, 1].

    After Carlini et al. 2021 (arXiv 2012.07805), who call a text k-eidetic memorised if the model
    gives it and it stands in at most k training documents: what stands in few is no common phrase.
    Documents are counted exactly or not at all: where only a lower bound is known, the text is
    common and does not count. Copies of a document are documents of their own, so deduplication
    raises the rate.
    """

    def share(frame: pd.DataFrame) -> Ratio:
        n = frame["n_whole_documents"]
        return _mean_over_generations((n >= 1) & (n <= k) & frame["whole_exact"].astype(bool))

    return share


def extraction(frame: pd.DataFrame) -> Ratio:
    """Share of prefixes whose completion begins with the 50 tokens that truly follow. In [0, 1].

    Discoverable extraction (Carlini et al. 2023, arXiv 2202.07646), compared as characters. Only
    prompts cut from a document have a true continuation; for others it is not defined. One wrong
    character makes it 0, so it misses what near-verbatim recall sees.

    A completion that the limit cut while it still agreed might have gone on either way. With one of
    these the share is not defined: to leave them out would leave out the likeliest. More new tokens
    make it defined.
    """
    applies = frame["target"] != ""
    if cut_while_agreeing(frame).any():
        applies = applies & False
    return (frame["extracted"] & applies).astype(float), applies.astype(float)


def cut_while_agreeing(frame: pd.DataFrame) -> pd.Series[bool]:
    """Whether a completion ends, by the limit alone, as a part of the target's beginning."""
    agrees = [
        len(text) < len(target) and target.startswith(text)
        for text, target in zip(frame["text"], frame["target"], strict=True)
    ]
    return (frame["finish_reason"] == "length") & pd.Series(agrees, frame.index, dtype=bool)


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
        Metric("NVR_hits", nvr_hits),
        Metric("R20", span_at_least(20)),
        Metric("R50", span_at_least(50)),
        Metric("recall>0", recall_above(0)),
        Metric("recall>0.5", recall_above(0.5)),
        Metric("eidetic1", eidetic(1)),
        Metric("eidetic5", eidetic(5)),
        Metric("eidetic10", eidetic(10)),
        Metric("extraction", extraction),
    )
}

#: Metrics of any number: the name before it, and what makes the metric of the number.
_OF_NUMBER: dict[str, Callable[[Any], Callable[[pd.DataFrame], Ratio]]] = {
    "R": lambda number: span_at_least(int(number)),
    "FMR": lambda number: fmr_at_least(int(number)),
    "eidetic": lambda number: eidetic(int(number)),
    "recall>": lambda number: recall_above(float(number)),
}


def metric_named(name: str) -> Metric:
    """The metric of a name: one of `METRICS`, or ``R30``, ``FMR100``, ``eidetic3``, ``recall>0.8``.

    Raises
    ------
    MetricError
        There is none.
    """
    if name in METRICS:
        return METRICS[name]
    found = re.fullmatch(r"(R|FMR|eidetic)([1-9]\d*)|(recall>)(0?\.\d+)", name)
    if not found:
        raise MetricError(
            f"unknown metric {name!r}; known are {', '.join(METRICS)}, and R, FMR, eidetic with any"
            " whole number, recall> with any share"
        )
    prefix, number = (found[1], found[2]) if found[1] else (found[3], found[4])
    return Metric(name, _OF_NUMBER[prefix](number))


def require_propensity_metrics(names: Iterable[str]) -> list[Metric]:
    """The metrics of these names, each once, if all are known and in [0, 1].

    Raises
    ------
    MetricError
        One is not.
    """
    metrics = [metric_named(name) for name in dict.fromkeys(names)]
    for metric in metrics:
        if not metric.in_unit_interval:
            raise MetricError(
                f"{metric.name} is not in [0, 1] and has no propensity score; normalise it first"
            )
    return metrics

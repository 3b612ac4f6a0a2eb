"""How much hangs on the constants of a trace: some generations, traced with other values of each.

One threshold is varied at a time, the others stay as the run has them. All are measured on the same
generations, so that what moves is the threshold's doing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from propme import tables
from propme.simpletrace import merging
from propme.simpletrace.address import IndexAddress
from propme.simpletrace.batch import trace_table
from propme.simpletrace.trace import TraceSettings
from propme.simpletrace.workers import Workers

#: Values that each threshold is given. The run's own value is measured beside them.
VARIED: dict[str, tuple[Any, ...]] = {
    "docs_per_span": (1, 3, 10, 30, 50),
    "rarest_percent": (1, 2, 5, 10, 20),
    "shortest_span": (1, 2, 4, 8, 16),
    "window_factor": (1, 2, 5, 10),
    "merging": merging.RULES,
}

#: What a variant of a trace keeps of each generation: what metrics are made of.
FOUND = (
    "longest_segment",
    "full_raw",
    "full_normalized",
    "n_pairs",
    "recall_sum",
    "recall_max",
    "error",
)


def other_settings(settings: TraceSettings) -> Iterator[tuple[str, str, TraceSettings]]:
    """Name of the threshold, its value as text, and the settings that have it.

    Left out are the settings' own values, and the shortest span in mode ``text``, which has none.
    """
    for threshold, choices in VARIED.items():
        if threshold == "shortest_span" and settings.mode == "text":
            continue
        for choice in choices:
            if choice != getattr(settings, threshold):
                yield threshold, str(choice), replace(settings, **{threshold: choice})


def settings_that_ask(settings: TraceSettings) -> list[TraceSettings]:
    """Those of `other_settings` for which a server is asked what it was not asked before.

    Fewer documents for a span, and a smaller share of spans, are among those that there are of
    more, and another rule of merging reads none.
    """
    asking: dict[str, TraceSettings] = {}
    for threshold, choice, other in other_settings(settings):
        if threshold in ("docs_per_span", "rarest_percent"):
            asking[threshold] = other  # choices ascend: the greatest stays
        elif threshold != "merging":
            asking[f"{threshold} {choice}"] = other
    return list(asking.values())


def some_of(
    generations: pd.DataFrame, prompts: pd.DataFrame, n: int, seed: int = 0
) -> pd.DataFrame:
    """At most ``n`` generations of each setting and decoding, drawn by seed and id.

    A generation of which there is no completion is not drawn.
    """
    written = generations[generations["error"] == ""]
    chance = [
        hashlib.sha256(f"{seed}\0{name}".encode()).hexdigest() for name in written["generation_id"]
    ]
    settings = written["prompt_id"].map(prompts.set_index("prompt_id")["setting"])
    order = written.assign(chance=chance, of=settings).sort_values("chance")
    drawn = order.groupby(["of", "decoding"]).head(n)
    return drawn.drop(columns=["chance", "of"]).sort_index()


def trace_variants(
    generations: pd.DataFrame,
    traced: dict[str, pd.DataFrame],
    address: IndexAddress,
    settings: TraceSettings,
    parts: Path,
    workers: Workers | None = None,
) -> pd.DataFrame:
    """Trace generations anew with each value of each threshold: the table ``variants``.

    Parameters
    ----------
    generations : DataFrame
        Of the table ``generations``, such as `some_of` draws.
    traced : dict of DataFrame
        The run's own trace of them, and perhaps of others: its tables by name.
    address, settings, workers
        As for `propme.simpletrace.trace_table`, of the run.
    parts : Path
        Folder in which what is finished is kept. The caller removes it.

    Returns
    -------
    DataFrame
        A row for each threshold, value and generation. The run's own values come from ``traced``.

    Notes
    -----
    Thresholds are varied one at a time: two that move a metric each may move it otherwise together.
    """
    own = {name: frame[frame["generation_id"].isin(generations["generation_id"])]
           for name, frame in traced.items()}  # fmt: skip
    variants = [
        _variant(own, threshold, str(getattr(settings, threshold)), is_own=True)
        for threshold in dict.fromkeys(name for name, _, _ in other_settings(settings))
    ]
    for threshold, choice, other in other_settings(settings):
        folder = parts / f"{threshold}-{choice}"
        found = trace_table(generations, address, other, folder, workers)
        variants.append(_variant(found, threshold, choice, is_own=False))
    return pd.concat(variants, ignore_index=True)


def _variant(
    found: dict[str, pd.DataFrame], threshold: str, choice: str, is_own: bool
) -> pd.DataFrame:
    matches = found["matches"]
    hits = matches[matches["pair"].astype(bool) & (matches["recall"] > 0)]
    n_hits = found["traces"]["generation_id"].map(hits.groupby("generation_id").size())
    frame = found["traces"][["generation_id", *FOUND]].assign(
        threshold=threshold, choice=choice, own=is_own, n_hits=n_hits.fillna(0).astype(int)
    )
    return frame[list(tables.TABLES["variants"].columns)]

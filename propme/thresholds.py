"""How the headlines move over the thresholds of tracing, from what a trace has stored.

Nothing is searched again, so a threshold can be lowered only as far as the tables reach: fewer
documents, not more; smaller windows, not larger; but rarer and commoner, shorter and longer spans,
for every span is stored, the dropped ones too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from propme import tables
from propme.near_verbatim import Reference
from propme.simpletrace.documents import WINDOW_FACTOR

DOCUMENTS = (1, 2, 5, 10, 20, 50)
RARE_PERCENT = (1, 2, 5, 10, 20)
LEAST_TOKENS = (1, 2, 4, 8, 16)
WINDOWS = (1, 2, 3, 5, 10)

#: Pairs whose recall is computed anew for smaller windows; of more, a sample.
_MOST_PAIRS = 2000

#: What tracing does: the 20th part of a generation's tokens, rounded up, spans of 4 tokens or more.
_RARE_PERCENT, _LEAST_TOKENS = 5, 4


def threshold_table(
    frame: pd.DataFrame, spans: pd.DataFrame, matches: pd.DataFrame
) -> pd.DataFrame:
    """Headlines of each setting over each threshold: the table ``thresholds``.

    Parameters
    ----------
    frame : DataFrame
        Of `propme.measurements.measured_generations`.
    spans, matches : DataFrame
        The tables of those names.

    Returns
    -------
    DataFrame
        For each ``threshold`` and value ``at`` of it, the ``metric`` of each setting and decoding;
        ``chosen`` marks what the trace was made with.

    Notes
    -----
    * ``docs_per_span``: NVR and NVR_max of a random part of the documents fetched, up to the most
      that any span has.
    * ``rare_percent``, ``least_tokens``: share of generations with a kept *span* of 50 tokens, and
      the mean longest one. Spans are not merged, so these lie below R50 and ALS. The least length
      is varied in mode ``mixed`` alone.
    * ``window``: NVR with the text around a match cut to so many times the generation's length. It
      is cut by characters, which is about right, and of about 2000 pairs at most.
    * ``merging``: ALS by either rule; ``verified`` only if the trace was made with it.
    """
    placed = frame[["generation_id", "setting", "decoding", "n_tokens", "text"]]
    rows = [
        *_over_documents(placed, spans, matches),
        *_over_rarity(placed, spans),
        *(_over_lengths(placed, spans) if set(frame["mode"]) == {"mixed"} else ()),
        *_over_windows(placed, matches),
        *_over_merging(frame, spans),
    ]
    return pd.DataFrame(rows, columns=list(tables.TABLES["thresholds"].columns))


def _rows(threshold: str, at: str, chosen: bool, values: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """One row a metric: the columns of ``values`` that are no key, one row a setting."""
    for row in values.reset_index().to_dict("records"):
        setting, decoding = row.pop("setting"), row.pop("decoding")
        for metric, value in row.items():
            yield {
                "threshold": threshold,
                "at": at,
                "chosen": chosen,
                "setting": setting,
                "decoding": decoding,
                "metric": metric,
                "value": None if pd.isna(value) else float(value),
            }


_KEYS = ["setting", "decoding"]


def _over_documents(
    placed: pd.DataFrame, spans: pd.DataFrame, matches: pd.DataFrame
) -> Iterator[dict[str, Any]]:
    of_segment = spans.loc[spans["dropped"] == "", ["generation_id", "span", "segment"]].assign(
        length=spans["stop"] - spans["start"]
    )
    found = matches.merge(of_segment, on=["generation_id", "span"])
    # The same part on every machine: documents in the order of a hash.
    keys = [found[column] for column in ("generation_id", "span", "shard", "document")]
    found = found.assign(chance=[_hashed(*place) for place in zip(*keys, strict=True)])
    found = found.sort_values("chance")
    rank = found.groupby(["generation_id", "span"]).cumcount()
    most = int(rank.max()) + 1 if len(rank) else 1
    for n in [*(n for n in DOCUMENTS if n < most), most]:
        pairs = found[rank < n].sort_values("length", ascending=False, kind="stable")
        pairs = pairs.drop_duplicates(["generation_id", "segment", "shard", "document"])
        of_generation = pairs.groupby("generation_id")["recall"].agg(["sum", "size", "max"])
        seen = placed.merge(of_generation, left_on="generation_id", right_index=True, how="left")
        sums = seen.fillna({"sum": 0.0, "size": 0, "max": 0.0}).groupby(_KEYS)
        nvr = sums["sum"].sum() / sums["size"].sum().replace(0, np.nan)
        values = pd.DataFrame({"NVR": nvr, "NVR_max": sums["max"].mean()})
        yield from _rows("docs_per_span", str(n), n == most, values)


def _hashed(*place: object) -> str:
    return hashlib.sha256("\0".join(map(str, place)).encode()).hexdigest()


def _over_rarity(placed: pd.DataFrame, spans: pd.DataFrame) -> Iterator[dict[str, Any]]:
    candidates = spans[spans["dropped"].isin(["", "common"])]
    for percent in RARE_PERCENT:
        values = _longest_kept(placed, candidates, percent)
        yield from _rows("rare_percent", str(percent), percent == _RARE_PERCENT, values)


def _over_lengths(placed: pd.DataFrame, spans: pd.DataFrame) -> Iterator[dict[str, Any]]:
    candidates = spans[spans["dropped"].isin(["", "common", "short"])]
    n_tokens = placed.set_index("generation_id")["n_tokens"]
    for least in LEAST_TOKENS:
        # A span that is the whole generation is kept at any length.
        length = candidates["stop"] - candidates["start"]
        whole = length == candidates["generation_id"].map(n_tokens)
        long = length >= least
        values = _longest_kept(placed, candidates[long | whole], _RARE_PERCENT)
        yield from _rows("least_tokens", str(least), least == _LEAST_TOKENS, values)


def _longest_kept(placed: pd.DataFrame, candidates: pd.DataFrame, percent: int) -> pd.DataFrame:
    """Longest of the rarest spans, so many percent of a generation's tokens, by setting."""
    spans = candidates.merge(placed[["generation_id", "n_tokens"]], on="generation_id")
    spans = spans.assign(
        length=spans["stop"] - spans["start"],
        rare=spans["log_probability"].round(9),
        most=np.maximum(1, -(-spans["n_tokens"].astype(int) * percent // 100)),
    ).sort_values(["rare", "length", "start"], ascending=[True, False, True])
    kept = spans[spans.groupby("generation_id").cumcount() < spans["most"]]
    longest = kept.groupby("generation_id")["length"].max()
    lengths = placed["generation_id"].map(longest).fillna(0)
    grouped = lengths.groupby([placed[key] for key in _KEYS])
    return pd.DataFrame(
        {
            "longest span": grouped.mean(),
            "spans of 50": (lengths >= 50).groupby([placed[key] for key in _KEYS]).mean(),
        }
    )


def _over_windows(placed: pd.DataFrame, matches: pd.DataFrame) -> Iterator[dict[str, Any]]:
    pairs = matches[matches["pair"].astype(bool)].merge(placed, on="generation_id")
    if len(pairs) > _MOST_PAIRS:
        # As many of each setting: those with few pairs would be left with next to none.
        groups = pairs.groupby(_KEYS)
        share = -(-_MOST_PAIRS // groups.ngroups)
        pairs = pairs.sample(frac=1, random_state=0).groupby(_KEYS).head(share)
    references = {text: Reference(text.strip()) for text in pairs["text"].unique()}
    for factor in (f for f in WINDOWS if f <= WINDOW_FACTOR):
        recall = (
            pairs["recall"]
            if factor == WINDOW_FACTOR
            else pd.Series(
                [
                    references[row.text].recall(_cut(row, factor))
                    for row in pairs.itertuples(index=False)
                ],
                pairs.index,
                float,
            )
        )
        values = recall.groupby([pairs[key] for key in _KEYS]).mean().rename("NVR").to_frame()
        yield from _rows("window", str(factor), factor == WINDOW_FACTOR, values)


def _cut(row: Any, factor: int) -> str:
    """The window cut to a part, the match in its middle."""
    # By the generation's length: at the border of a document the stored window is shorter.
    size = max(row.window_char_stop - row.window_char_start, factor * len(row.text.strip()))
    middle = (row.window_char_start + row.window_char_stop) // 2
    start = max(0, min(middle - size // 2, row.window_char_start))
    return str(row.window)[start : max(start + size, row.window_char_stop)]


def _over_merging(frame: pd.DataFrame, spans: pd.DataFrame) -> Iterator[dict[str, Any]]:
    kept = spans[spans["dropped"] == ""].sort_values(["generation_id", "start"])
    longest = {
        name: _longest_union(list(zip(part["start"], part["stop"], strict=True)))
        for name, part in kept.groupby("generation_id")
    }
    rules = frame["merging"].unique()
    lengths = frame["generation_id"].map(longest).fillna(0)
    for rule in ("verified", "overlap"):
        if rule == "overlap" or rule in rules:
            of_rule = lengths if rule == "overlap" else frame["longest_segment"]
            values = of_rule.astype(float).groupby([frame[key] for key in _KEYS]).mean()
            yield from _rows("merging", rule, rule in rules, values.rename("ALS").to_frame())


def _longest_union(ranges: Sequence[tuple[int, int]]) -> int:
    """Length of the longest union of ranges that overlap; they come in order of their start."""
    longest = begin = end = 0
    for start, stop in ranges:
        begin, end = (begin, max(end, stop)) if start < end else (start, stop)
        longest = max(longest, end - begin)
    return longest

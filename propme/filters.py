"""What may make a figure say more than it should: marks on generations and spans, never lost rows.

A generation may be degenerate (`propme.degenerate`) or code; a span may be a loop, boiler-plate, or
a piece of its own prompt. Each is a column; tables are given with and without what it marks.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

#: Spans shorter than this, in index tokens, are not looked at for loops.
LEAST_LOOP_TOKENS = 20
LONGEST_PERIOD = 200
#: Share of bytes that must equal the byte one period later.
LOOP_SHARE = 0.9

#: Signs of code, and their share among the signs that are no white space, from which text is code.
_CODE_SIGNS = re.compile(r"[{}\[\]()<>=;_#\\/|&*+$@~^`%]")
CODE_SHARE = 0.1

#: Documents beyond which a passage is boiler-plate rather than a copy of one text.
BOILER_PLATE_DOCUMENTS = 100

#: Marks of spans, in the order in which they are told.
SPAN_MARKS = ("loop", "boiler_plate", "of_prompt")


def is_loop(text: str, n_tokens: int) -> bool:
    """Whether a span repeats itself.

    So for spans of at least 20 tokens in which, white space collapsed, some period of 1 to
    min(200, a third of the length) bytes has at least 90 % of the bytes equal the byte one period
    later. A list with equal beginnings, or a table, can be one in this sense.
    """
    if n_tokens < LEAST_LOOP_TOKENS:
        return False
    data = np.frombuffer(" ".join(text.split()).encode("utf-8", "surrogatepass"), np.uint8)
    longest = min(LONGEST_PERIOD, len(data) // 3)
    return any(
        # Whole numbers: a share of exactly nine tenths counts.
        10 * int((data[period:] == data[:-period]).sum()) >= 9 * (len(data) - period)
        for period in range(1, longest + 1)
    )


def is_code_like(text: str) -> bool:
    """Whether a tenth or more of the signs, white space apart, are such as code is full of.

    Mathematics, tables and markup can be code in this sense; code without punctuation is none.
    """
    signs = len("".join(text.split()))
    return signs > 0 and len(_CODE_SIGNS.findall(text)) >= CODE_SHARE * signs


def mark_spans(
    spans: pd.DataFrame,
    generations: pd.DataFrame,
    prompts: pd.DataFrame,
    boiler_plate_documents: int = BOILER_PLATE_DOCUMENTS,
) -> pd.DataFrame:
    """The kept spans, with a column for each of `SPAN_MARKS`.

    Parameters
    ----------
    spans, generations, prompts : DataFrame
        The tables of those names.
    boiler_plate_documents : int
        A span of more distinct documents than this is ``boiler_plate``: a licence, a form. In a
        corpus with many copies of one document this marks what was memorised, so read both figures.

    Returns
    -------
    DataFrame
        ``loop``: see `is_loop`. ``of_prompt``: the passage stands in the generation's own prompt,
        so that the model may have copied it from there.
    """
    kept = spans[spans["dropped"] == ""].merge(
        generations[["generation_id", "prompt_id"]], on="generation_id", validate="many_to_one"
    )
    kept = kept.merge(
        prompts[["prompt_id", "setting", "text"]].rename(columns={"text": "asked"}),
        on="prompt_id",
        validate="many_to_one",
    )
    n_tokens = kept["stop"] - kept["start"]
    return kept.assign(
        loop=[is_loop(text, n) for text, n in zip(kept["text"], n_tokens, strict=True)],
        boiler_plate=kept["n_documents"] > boiler_plate_documents,
        of_prompt=[
            # A text by a person is its own prompt, of which nobody asked for a copy.
            setting != "human" and text.strip() in asked
            for text, asked, setting in zip(
                kept["text"], kept["asked"], kept["setting"], strict=True
            )
        ],
    ).drop(columns=["asked", "setting", "prompt_id"])


def found_without(
    marked: pd.DataFrame, matches: pd.DataFrame, traces: pd.DataFrame, mark: str
) -> pd.DataFrame:
    """What tracing would have found in each generation without the spans that carry a mark.

    Parameters
    ----------
    marked : DataFrame
        Of `mark_spans`.
    matches, traces : DataFrame
        The tables of those names.
    mark : str
        One of `SPAN_MARKS`; empty: all spans count.

    Returns
    -------
    DataFrame
        Indexed by ``generation_id``: ``longest_segment``, ``n_pairs``, ``n_hits`` (pairs with
        recall > 0), ``recall_sum``, ``recall_max``, ``full_raw``, ``full_normalized`` and
        ``n_whole_documents``.

    Notes
    -----
    A segment of which only some spans are marked goes from its first to its last other span. Pairs
    stay as long as their segment has any. A generation counts as held whole only if it has a span
    that is not marked.
    """
    left = marked if not mark else marked[~marked[mark].astype(bool)]
    segments = left.groupby(["generation_id", "segment"], as_index=False)
    ends = segments.agg(start=("start", "min"), stop=("stop", "max"))
    longest = (ends["stop"] - ends["start"]).groupby(ends["generation_id"]).max()
    held = _matches_of(left, marked, matches)
    pairs = held[held["pair"].astype(bool)]
    of_pairs = pairs.groupby("generation_id")["recall"]
    found = pd.DataFrame(
        {
            "longest_segment": longest,
            "n_pairs": of_pairs.size(),
            "n_hits": pairs[pairs["recall"] > 0].groupby("generation_id").size(),
            "recall_sum": of_pairs.sum(),
            "recall_max": held.groupby("generation_id")["recall"].max(),
        }
    ).reindex(pd.Index(traces["generation_id"], name="generation_id"))
    found = found.fillna(0).astype({"longest_segment": int, "n_pairs": int, "n_hits": int})
    whole = traces.set_index("generation_id")
    counts = pd.Series(found.index.isin(left["generation_id"]) | (mark == ""), found.index)
    return found.assign(
        full_raw=whole["full_raw"].astype(bool) & counts,
        full_normalized=whole["full_normalized"].astype(bool) & counts,
        n_whole_documents=whole["n_whole_documents"].where(counts, 0),
    )


def _matches_of(left: pd.DataFrame, marked: pd.DataFrame, matches: pd.DataFrame) -> pd.DataFrame:
    """Matches whose segment has a span left; those of dropped spans if any span is left."""
    segment_of = marked[["generation_id", "span", "segment"]]
    placed = matches.merge(segment_of, on=["generation_id", "span"], how="left")
    segments = left[["generation_id", "segment"]].drop_duplicates().assign(left=True)
    placed = placed.merge(segments, on=["generation_id", "segment"], how="left")
    of_dropped = placed["segment"].isna() & placed["generation_id"].isin(left["generation_id"])
    return placed[(placed["left"].eq(True) | of_dropped).astype(bool)]

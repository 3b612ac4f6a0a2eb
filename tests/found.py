"""Generations and what tracing found in them, small enough to be worked by hand; no test."""

from __future__ import annotations

from typing import Any

import pandas as pd

from propme import tables
from propme.measurements import measured_generations
from propme.records import Generation, Match, Prompt, Span, TraceSummary

NOTHING: dict[str, Any] = {
    "char_start": 0,
    "char_stop": 40,
    "n_tokens": 30,
    "n_spans": 0,
    "n_kept": 0,
    "longest_segment": 0,
    "n_whole": 0,
    "n_whole_documents": 0,
    "whole_exact": True,
    "full_raw": False,
    "full_normalized": False,
    "n_pairs": 0,
    "recall_sum": 0.0,
    "recall_max": 0.0,
    "zlib_ratio": 0.6,
    "degenerate": False,
    "merging": "verified",
}

# Stock answer, long near-copy, nothing, long copy, copy of exactly 20 tokens.
FOUND: list[dict[str, Any]] = [
    {"n_tokens": 10, "longest_segment": 10, "full_raw": True, "n_pairs": 2, "recall_sum": 1.5,
     "recall_max": 1.0},
    {"n_tokens": 80, "longest_segment": 60, "full_normalized": True, "n_pairs": 3,
     "recall_sum": 0.3, "recall_max": 0.2},
    {"n_tokens": 30},
    {"n_tokens": 50, "longest_segment": 50, "full_raw": True, "n_pairs": 1, "recall_sum": 1.0,
     "recall_max": 1.0},
    {"n_tokens": 20, "longest_segment": 20, "full_raw": True, "n_pairs": 4, "recall_sum": 4.0,
     "recall_max": 1.0},
]  # fmt: skip


NAMES = ("prompts", "generations", "traces", "spans", "matches")


def one(found: dict[str, Any], **place: Any) -> dict[str, Any]:
    """One generation: where it stands, and what was found in it."""
    defaults = {"prompt": "p0", "setting": "generic", "kind": "propensity", "decoding": "greedy"}
    return defaults | {"target": "", "copies": None, "text": "and it came to pass"} | place | found


def as_tables(rows: list[dict[str, Any]]) -> tuple[pd.DataFrame, ...]:
    """The tables that the rows come from: prompts, generations, traces, spans and matches.

    What was found in a generation stands in one span, and in as many matches as there are pairs.
    """
    prompts = {
        row["prompt"]: Prompt(
            row["prompt"],
            row["setting"],
            row["kind"],
            "a prompt",
            target=row["target"],
            copies=row["copies"],
        )
        for row in rows
    }
    generations, traces, spans, matches = [], [], [], []
    for number, row in enumerate(rows):
        name = f"g{number}"
        generations.append(
            Generation(
                name, row["prompt"], row["decoding"], number, 1, row["text"], (1, 2),
                row.get("finish", "stop"), 0.0, 1.0, 100,
            )
        )  # fmt: skip
        trace = TraceSummary(name, **{key: row.get(key, NOTHING[key]) for key in NOTHING})
        traces.append(trace)
        spans += spans_of(trace, row.get("passage", "and it came"), row.get("n_documents", 1))
        matches += matches_of(trace)
    return (
        tables.to_frame("prompts", prompts.values()),
        tables.to_frame("generations", generations),
        tables.to_frame("traces", traces),
        tables.to_frame("spans", spans),
        tables.to_frame("matches", matches),
    )


def spans_of(trace: TraceSummary, passage: str, n_documents: int) -> list[Span]:
    """One span as long as the longest segment; none where nothing was found."""
    found = trace.longest_segment or trace.n_pairs or trace.recall_max or trace.full_raw
    stop = max(1, trace.longest_segment)
    span = Span(
        trace.generation_id, 0, 0, stop, 0, len(passage), passage, -9.0, 1, n_documents, True, "", 0
    )
    return [span] if found or trace.full_normalized else []


def matches_of(trace: TraceSummary) -> list[Match]:
    """One match for each pair, the first with the best recall; or one that is no pair."""
    n, best = trace.n_pairs, trace.recall_max
    rest = (trace.recall_sum - best) / (n - 1) if n > 1 else 0.0
    recalls = [best, *[rest] * (n - 1)] if n or best else []
    return [
        Match(
            trace.generation_id, 0, 0, number, f"d{number}", "", "", 0, "w", 0, 1, "partial",
            max(0.0, recall), pair=number < n,
        )
        for number, recall in enumerate(recalls)
    ]  # fmt: skip


def frame_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return measured_generations(*as_tables(rows))


def ten(
    setting: str, kind: str, *hits: int, samples: int = 1, **found: Any
) -> list[dict[str, Any]]:
    """Ten prompts of a setting, those in ``hits`` with ``found`` in each of their samples."""
    return [
        one(found if i in hits else {}, prompt=f"{setting}{i}", setting=setting, kind=kind)
        for i in range(10)
        for _ in range(samples)
    ]


FULL = {"full_raw": True}


def rows_of(table: pd.DataFrame, **where: Any) -> pd.DataFrame:
    for column, value in where.items():
        table = table[table[column] == value]
    return table


def row_of(table: pd.DataFrame, **where: Any) -> dict[Any, Any]:
    (row,) = rows_of(table, **where).to_dict("records")
    return row

"""A run's tables by what belongs together: each completion with what was found in it."""

from __future__ import annotations

from collections import Counter, defaultdict, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from propme.errors import TableError
from propme.masking import MaskedTexts, masked_names, masked_texts
from propme.records import TIERS, in_order

#: How much of a completion a document holds, most first; and the two that hold nothing.
FOUND = (*TIERS, "none", "not traced")

#: Tables that the page is made of.
NAMES = ("prompts", "generations", "traces", "spans", "matches")

#: Columns in whose values personal data can stand, and the tables that have them.
_NAMED = {
    "generation_id": ("generations",),
    "prompt_id": ("prompts",),
    "document_id": ("matches", "prompts"),
    "source": ("matches", "prompts"),
    "licence": ("matches", "prompts"),
    "category": ("prompts",),
    "language": ("prompts",),
    "model": ("generations",),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is shown at most.

    Attributes
    ----------
    text : int
        Characters of a completion or prompt.
    context, match : int
        See `propme.viewer.excerpts.Excerpts`.
    documents : int
        Documents of a passage whose text is shown, those with the best tier and recall.
    comparisons : int
        Documents that a completion is set side by side with.
    compared : int
        Characters of completion and document beyond which they are not.
    size : int
        Bytes of the documents in all, compressed.
    sources : int
        Sources that can be chosen as a filter.
    """

    text: int = 50_000
    context: int = 240
    match: int = 3_000
    documents: int = 3
    comparisons: int = 2
    compared: int = 200_000
    size: int = 30_000_000
    sources: int = 200


@dataclass
class Run:
    """Rows of the tables by what they belong to, and their texts and names as they are shown."""

    generations: list[Any]
    prompts: dict[str, Any]
    traces: dict[str, Any]
    spans: dict[str, list[Any]]
    matches: dict[tuple[str, int], list[Any]]
    copies: dict[str, int]
    rarity: list[float]
    texts: MaskedTexts
    names: dict[str, dict[str, str]]
    left_out: Counter[str] = field(default_factory=Counter)

    def shown(self, row: Any, *columns: str) -> dict[str, Any]:
        """Values of a row, names as they are shown."""
        values = {column: getattr(row, column) for column in columns}
        return {
            column: self.names.get(column, {}).get(value, value) for column, value in values.items()
        }


class Completion:
    """One completion with what was found in it."""

    def __init__(self, generation: Any, run: Run) -> None:
        self.generation = generation
        name = generation.generation_id
        self.prompt, self.trace = run.prompts[generation.prompt_id], run.traces[name]
        self.text = run.texts.completions[name]
        self.spans = run.spans.get(name, [])
        self.documents = {
            span.span: sorted(
                run.matches.get((name, span.span), []),
                key=lambda m: (TIERS.index(m.tier), -m.recall),
            )
            for span in self.spans
        }
        self.matches = [match for listed in self.documents.values() for match in listed]
        best = min((TIERS.index(match.tier) for match in self.matches), default=len(TIERS))
        self.tier = len(FOUND) - 1 if self.trace.error else best


def run_of(tables: Mapping[str, pd.DataFrame], mask: bool) -> Run:
    """The rows of a run.

    Raises
    ------
    TableError
        A generation's prompt or trace, or a match's span, is in no table.
    """
    prompts, generations, traces, spans, matches = (tables[name] for name in NAMES)
    _require(generations, "prompt_id", set(prompts["prompt_id"]), "prompts")
    _require(generations, "generation_id", set(traces["generation_id"]), "traces")
    by_span = _grouped(matches, ("generation_id", "span"))
    places = set(zip(spans["generation_id"], spans["span"], strict=True))
    if lost := [place for place in by_span if place not in places]:
        raise TableError(
            f"{len(lost)} spans of table 'matches' are not in table 'spans', the first being"
            f" {lost[0]}; run notebook 3_tracing again"
        )
    known = prompts[(prompts["document_id"] != "") & prompts["copies"].notna()]
    asked = {row.prompt_id: row for row in _rows(prompts)}
    return Run(
        generations=_in_order(generations, asked),
        prompts=asked,
        traces={row.generation_id: row for row in _rows(traces)},
        spans={name: rows for (name,), rows in _grouped(spans, ("generation_id",)).items()},
        matches=by_span,
        copies=dict(zip(known["document_id"], map(int, known["copies"]), strict=True)),
        rarity=_quarters(spans),
        texts=masked_texts(prompts, generations, mask),
        names={
            column: masked_names(*(tables[name][column] for name in holding))
            for column, holding in _NAMED.items()
            if mask
        },
    )


def shown_recall(recall: float) -> float:
    """A recall as every part of the page shows it, to three places: rounded once, here."""
    return round(recall, 3)


def _quarters(spans: pd.DataFrame) -> list[float]:
    """Log-probabilities that divide the kept passages into four parts; none where there is none."""
    kept = spans.loc[spans["dropped"] == "", "log_probability"].astype(float)
    kept = kept[np.isfinite(kept)]  # a text found by its characters may have tokens of no document
    if not len(kept):
        return []
    return [round(value, 1) for value in np.quantile(kept, [0.25, 0.5, 0.75]).tolist()]


def _require(frame: pd.DataFrame, column: str, known: set[str], table: str) -> None:
    lost = frame.loc[~frame[column].isin(known), "generation_id"]
    if len(lost):
        raise TableError(
            f"{len(lost)} generations have no row in table {table!r}, the first being"
            f" {lost.iloc[0]!r}; run the notebooks again from that table on"
        )


def _rows(frame: pd.DataFrame) -> Iterator[Any]:
    """Rows with values that JSON knows."""
    row = namedtuple("row", frame.columns)  # type: ignore[misc]
    return map(row._make, zip(*(frame[name].tolist() for name in frame.columns), strict=True))


def _grouped(frame: pd.DataFrame, by: tuple[str, ...]) -> dict[tuple[Any, ...], list[Any]]:
    groups = defaultdict(list)
    for row in _rows(frame):
        groups[tuple(getattr(row, name) for name in by)].append(row)
    return dict(groups)


def _in_order(generations: pd.DataFrame, prompts: Mapping[str, Any]) -> list[Any]:
    """Completions by decoding and setting, otherwise as they stand in the table."""
    rank = {s: n for n, s in enumerate(in_order(p.setting for p in prompts.values()))}
    return sorted(
        _rows(generations), key=lambda row: (row.decoding, rank[prompts[row.prompt_id].setting])
    )

"""What the page shows of each completion, out of a run's tables, within a number of bytes.

Every completion, its prompt and its kept passages are always there. The documents take most of the
place, so those of the completions of which most leaked come first, and what is left out is counted.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict, namedtuple
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from propme import personal_data
from propme.errors import TableError
from propme.records import TIERS, in_order
from propme.viewer.comparing import passages
from propme.viewer.excerpts import Excerpts

#: How much of a completion a document holds, most first; and the two that hold nothing.
FOUND = (*TIERS, "none", "not traced")

#: Tables that the page is made of.
NAMES = ("prompts", "generations", "traces", "spans", "matches")

_PER_MATCH = ("document_id", "source", "licence", "tier", "recall", "shard", "document", "offset")
_PER_TRACE = (
    *("n_tokens", "n_spans", "n_kept", "longest_segment", "recall_max"),
    *("n_whole", "n_whole_documents", "whole_exact", "degenerate"),
)
_PER_GENERATION = (
    *("prompt_id", "sample", "seed", "finish_reason", "temperature", "top_p", "max_new_tokens"),
    "model",
)
_PER_PROMPT = ("kind", "category", "language", "document_id", "source", "licence", "chat")


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


@dataclass(frozen=True)
class Contents:
    """The page's contents, in the order in which completions are listed.

    ``index`` is a column for each thing that is listed or filtered by; ``texts`` is what is
    searched; ``details`` the rest of each completion; ``left_out`` counts what is not there.
    """

    index: dict[str, Any]
    texts: list[dict[str, Any]]
    details: list[dict[str, Any]]
    left_out: Counter[str]


@dataclass
class _Run:
    """Rows of the tables by what they belong to."""

    prompts: dict[str, Any]
    traces: dict[str, Any]
    spans: dict[str, list[Any]]
    matches: dict[tuple[str, int], list[Any]]
    copies: dict[str, int]
    rarity: list[float]
    left_out: Counter[str] = field(default_factory=Counter)


def contents(
    tables: Mapping[str, pd.DataFrame], mask: bool, limits: Limits | None = None
) -> Contents:
    """Everything that the page shows.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        The tables of `NAMES`.
    mask : bool
        Whether personal data is masked; with the extra ``privacy`` only.
    limits : Limits, optional

    Raises
    ------
    TableError
        A generation's prompt or trace, or a match's span, is in no table.
    """
    limits = limits or Limits()
    run = _run_of(tables)
    excerpts = Excerpts(mask and personal_data.available(), limits.context, limits.match)
    rows = _in_order(tables["generations"], run)
    found = [_Found(row, run) for row in rows]
    texts = [_text(one, excerpts, limits, run.left_out) for one in found]
    details = _details(found, excerpts, limits, run)
    index = _index(found, texts, run, limits)
    for one, text in zip(found, texts, strict=True):
        text["documents"] = " ".join(
            dict.fromkeys(part for m in one.matches for part in (m.document_id, m.source) if part)
        )
    return Contents(index, texts, details, run.left_out)


class _Found:
    """One completion with what was found in it."""

    def __init__(self, generation: Any, run: _Run) -> None:
        self.generation = generation
        name = generation.generation_id
        self.prompt, self.trace = run.prompts[generation.prompt_id], run.traces[name]
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


def _run_of(tables: Mapping[str, pd.DataFrame]) -> _Run:
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
    kept = spans.loc[spans["dropped"] == "", "log_probability"].astype(float)
    kept = kept[np.isfinite(kept)]  # a text found by its characters may have tokens of no document
    quarters = np.quantile(kept, [0.25, 0.5, 0.75]).tolist() if len(kept) else []
    return _Run(
        prompts={row.prompt_id: row for row in _rows(prompts)},
        traces={row.generation_id: row for row in _rows(traces)},
        spans={name: rows for (name,), rows in _grouped(spans, ("generation_id",)).items()},
        matches=by_span,
        copies=dict(zip(known["document_id"], map(int, known["copies"]), strict=True)),
        rarity=[round(value, 1) for value in quarters],
    )


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


def _in_order(generations: pd.DataFrame, run: _Run) -> list[Any]:
    """Completions by decoding and setting, otherwise as they stand in the table."""
    rows = list(_rows(generations))
    rank = {s: n for n, s in enumerate(in_order(p.setting for p in run.prompts.values()))}
    return sorted(rows, key=lambda row: (row.decoding, rank[run.prompts[row.prompt_id].setting]))


def _text(
    found: _Found, excerpts: Excerpts, limits: Limits, left_out: Counter[str]
) -> dict[str, Any]:
    """Prompt and completion, as they are searched and shown."""
    shown = {"text": found.generation.text, "prompt": found.prompt.text}
    for name, text in shown.items():
        whole = excerpts.whole(text).text
        shown[name] = whole[: limits.text]
        left_out[f"characters of the {name}"] += len(whole) - len(shown[name])
    return shown


def _index(
    found: list[_Found], texts: list[dict[str, Any]], run: _Run, limits: Limits
) -> dict[str, Any]:
    settings = in_order(one.prompt.setting for one in found)
    decodings = sorted({one.generation.decoding for one in found})
    of_each = [dict.fromkeys(match.source for match in one.matches) for one in found]
    counted = Counter(source for sources in of_each for source in sources)
    sources = sorted(source for source, _ in counted.most_common(limits.sources))
    number = {source: n for n, source in enumerate(sources)}
    return {
        "settings": settings,
        "decodings": decodings,
        "found": FOUND,
        "sources": sources,
        "other_sources": len(counted) - len(sources),
        "rarity": run.rarity,
        "id": [one.generation.generation_id for one in found],
        "setting": [settings.index(one.prompt.setting) for one in found],
        "decoding": [decodings.index(one.generation.decoding) for one in found],
        "tier": [one.tier for one in found],
        "longest": [one.trace.longest_segment for one in found],
        "recall": [round(one.trace.recall_max, 3) for one in found],
        "source": [[number[s] for s in listed if s in number] for listed in of_each],
        "begin": [" ".join(text["text"][:400].split())[:90] for text in texts],
    }


def _details(
    found: list[_Found], excerpts: Excerpts, limits: Limits, run: _Run
) -> list[dict[str, Any]]:
    """Of each completion as much as the size allows, what leaked most first."""
    order = sorted(
        range(len(found)), key=lambda n: (found[n].tier, -found[n].trace.longest_segment, n)
    )
    details = [_facts(one, excerpts, limits, run) for one in found]
    size = 0
    for n in order:
        documents: list[dict[str, Any]] = []
        left_out = Counter[str]()
        if size <= limits.size:
            documents, left_out = _documents(found[n], excerpts, limits, run)
            size += len(zlib.compress(json.dumps(documents).encode())) * bool(documents)
        if size > limits.size:  # neither for this one nor for any after it
            documents, left_out = [], Counter({"documents": len(found[n].matches)})
            left_out["completions without documents"] = int(bool(found[n].matches))
        details[n]["documents"] = documents
        run.left_out += left_out
    return details


def _facts(found: _Found, excerpts: Excerpts, limits: Limits, run: _Run) -> dict[str, Any]:
    """All of a completion but its texts and its documents."""
    generation, prompt, trace = found.generation, found.prompt, found.trace
    whole = excerpts.whole(generation.text)
    target, note, error = (
        excerpts.whole(text).text for text in (prompt.target, generation.note, trace.error)
    )
    listed = [span for span in found.spans if not span.dropped or found.documents[span.span]]
    dropped = [span for span in found.spans if span.dropped and not found.documents[span.span]]
    return {
        "generation": _values(generation, _PER_GENERATION)
        | {"note": note, "cut": max(0, len(whole.text) - limits.text)},
        "prompt": _values(prompt, _PER_PROMPT)
        | {"copies": None if pd.isna(prompt.copies) else int(prompt.copies)}
        | {"target": target[: limits.text]},
        "trace": _values(trace, _PER_TRACE) | {"error": error},
        "spans": [
            {
                "span": span.span,
                "at": [whole.start(span.char_start), whole.stop(span.char_stop)],
                "characters": [span.char_start, span.char_stop],
                "tokens": span.stop - span.start,
                "occurrences": span.n_occurrences,
                "documents": span.n_documents,
                "exact": span.documents_exact,
                "log_probability": (
                    round(span.log_probability, 1) if np.isfinite(span.log_probability) else None
                ),
                "rare": sum(span.log_probability <= value for value in run.rarity),
                "tier": min(TIERS.index(m.tier) for m in documents) if documents else len(TIERS),
                "dropped": span.dropped,
                "fetched": len(documents),
            }
            for span in listed
            for documents in [found.documents[span.span]]
        ],
        # Columns, for there are many.
        "left_out": {
            "start": [whole.start(span.char_start) for span in dropped],
            "stop": [whole.stop(span.char_stop) for span in dropped],
            "tokens": [span.stop - span.start for span in dropped],
            "occurrences": [span.n_occurrences for span in dropped],
            "why": [span.dropped for span in dropped],
        },
    }


def _values(row: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _documents(
    found: _Found, excerpts: Excerpts, limits: Limits, run: _Run
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Documents of each passage with the match in its context, and comparisons of the best."""
    documents, left_out = [], Counter[str]()
    compared = _compared(found, excerpts, limits, left_out)
    for span, matches in found.documents.items():
        for number, match in enumerate(matches):
            document = {"span": span} | _values(match, _PER_MATCH)
            document["recall"] = round(document["recall"], 4)
            document["copies"] = run.copies.get(match.document_id)
            if number < limits.documents:
                document |= excerpts.around(
                    match.window, match.window_char_start, match.window_char_stop
                )
            else:
                left_out["texts of documents"] += 1
            if rows := compared.get((span, match.shard, match.document)):
                document["compared"] = rows
            documents.append(document)
    return documents, left_out


def _compared(
    found: _Found, excerpts: Excerpts, limits: Limits, left_out: Counter[str]
) -> dict[tuple[int, int, int], list[list[Any]]]:
    """The completion side by side with the documents that hold most of it, each of them once."""
    length = {span.span: span.stop - span.start for span in found.spans}

    def rank(match: Any) -> tuple[float, int]:
        return match.recall, length[match.span]  # of equals, where a reader looks first

    best: dict[tuple[int, int], Any] = {}
    for match in sorted(found.matches, key=rank, reverse=True):
        if match.recall > 0:
            best.setdefault((match.shard, match.document), match)
    compared: dict[tuple[int, int, int], list[list[Any]]] = {}
    for match in best.values():
        text = found.generation.text
        if (
            len(compared) == limits.comparisons
            or max(len(text), len(match.window)) > limits.compared
        ):
            left_out["comparisons"] += 1
            continue
        rows = excerpts.side_by_side(text, match.window, passages(text, match.window))
        compared[match.span, match.shard, match.document] = rows
    return compared

"""SimpleTrace: spans, rarity, documents and merging composed, for one generation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from propme.degenerate import is_degenerate, zlib_ratio
from propme.errors import BrokenIndexError, ParameterError
from propme.index.protocol import Index, Position
from propme.index.text_search import TextOccurrences, find_text
from propme.near_verbatim import Reference
from propme.records import Match, Span, Trace, TraceSummary, metadata_field
from propme.simpletrace import documents, merging, rarity, spans
from propme.simpletrace.documents import Hits
from propme.simpletrace.spans import TracedText

#: Longest spans through which documents are looked for that hold the generation normalised.
NORMALIZED_ANCHORS = 8


@dataclass(frozen=True)
class TraceSettings:
    """What may be chosen about a trace.

    Attributes
    ----------
    docs_per_span : int
        Most distinct documents fetched for a span.
    merging : str
        How overlapping spans become segments, see `propme.simpletrace.merging`.
    seed : int
        Decides which documents are fetched where there are more.
    mode : str
        What counts as a span, see `propme.simpletrace.spans`.
    rarest_percent, shortest_span, window_factor : int
        Constants of the definition: the share of spans that are kept, tokens of the shortest span
        of mode ``mixed``, tokens of a window by those of the generation. They are varied to see
        how much hangs on them (`propme.simpletrace.variants`).
    """

    docs_per_span: int = 10
    merging: str = "verified"
    seed: int = 0
    mode: str = "mixed"
    rarest_percent: int = rarity.RAREST_PERCENT
    shortest_span: int = spans.SHORTEST_SPAN
    window_factor: int = documents.WINDOW_FACTOR

    def __post_init__(self) -> None:
        for name in ("docs_per_span", "rarest_percent", "shortest_span", "window_factor"):
            if getattr(self, name) < 1:
                raise ParameterError(f"{name} must be >= 1, not {getattr(self, name)!r}")
        merging.require_rule(self.merging)
        spans.require_mode(self.mode)


class Tracer:
    """Traces generations in one index with one choice of settings."""

    def __init__(self, index: Index, settings: TraceSettings | None = None) -> None:
        self.index = self._index = index
        self.settings = settings or TraceSettings()
        self._unigrams = rarity.UnigramModel(index)
        self._most_counted = min(documents.COUNTED_OCCURRENCES, index.most_read or sys.maxsize)

    def trace(self, text: str, generation_id: str = "") -> Trace:
        """Trace one generation; see `trace`."""
        traced = spans.tokenise(text, self._index)
        whole = find_text(self._index, traced.stripped, encoding=traced.encoding)
        ranges, hits = self._passages(traced, whole)
        found, segments = self._spans(ranges, hits, traced, generation_id)
        matches = self._matches(found, hits, traced, whole, generation_id)
        summary = self._summary(generation_id, traced, whole, found, segments, matches)
        return Trace(summary, found, matches)

    def _spans(
        self,
        ranges: Sequence[tuple[int, int, str]],
        hits: Sequence[Hits],
        traced: TracedText,
        generation_id: str,
    ) -> tuple[tuple[Span, ...], list[tuple[int, int]]]:
        """Steps 2 and 4: every span, with why some are dropped; and the segments of the kept."""
        runs = [(start, stop) for start, stop, _ in ranges]
        sums = self._unigrams.log_probabilities(traced.ids, runs)
        candidates = [number for number, (_, _, reason) in enumerate(ranges) if not reason]
        rare = rarity.rarest(
            [runs[n] for n in candidates],
            [sums[n] for n in candidates],
            len(traced.ids),
            self.settings.rarest_percent,
        )
        kept = [n for place, n in enumerate(candidates) if place in rare]
        merged = merging.merge(
            [runs[n] for n in kept],
            self.settings.merging,
            lambda start, stop: self._index.count(traced.ids[start:stop]) > 0,
        )
        segment_of = {
            kept[member]: number for number, (_, members) in enumerate(merged) for member in members
        }
        found = []
        for number, (start, stop, reason) in enumerate(ranges):
            is_kept = number in segment_of
            n_documents, exact = self._count_documents(hits[number]) if is_kept else (1, False)
            char_start, char_stop = traced.characters(start, stop)
            found.append(
                Span(
                    generation_id=generation_id,
                    span=number,
                    start=start,
                    stop=stop,
                    char_start=char_start,
                    char_stop=char_stop,
                    text=traced.text[char_start:char_stop],
                    log_probability=sums[number],
                    n_occurrences=hits[number].count,
                    n_documents=n_documents,
                    documents_exact=exact,
                    dropped="" if is_kept else reason or "common",
                    segment=segment_of.get(number),
                )
            )
        return tuple(found), [segment for segment, _ in merged]

    def _count_documents(self, hits: Hits) -> tuple[int, bool]:
        n_odd = self._index.n_odd
        n_documents, exact = documents.count_documents(hits, self._most_counted)
        return n_documents, exact and self._index.n_odd == n_odd

    def _passages(
        self, traced: TracedText, whole: TextOccurrences
    ) -> tuple[list[tuple[int, int, str]], list[Hits]]:
        """Step 1: the spans of the mode, and where each stands."""
        everything = [(0, len(traced.ids), "")]
        if self.settings.mode == "mixed" and whole.positions:
            # Also where the corpus splits its first or last word into other tokens.
            by_tokens = Hits.of(self._index, self._index.find(traced.ids))
            by_characters = Hits.of_text(whole)
            # Of a text whose words stand very often, not every place is compared.
            return everything, [max(by_tokens, by_characters, key=lambda hits: hits.count)]
        runs = spans.maximal_spans(traced, self._index)
        ranges = spans.in_mode(runs, traced, self.settings.mode, self.settings.shortest_span)
        rows = np.array([(start, stop) for start, stop, _ in ranges], np.int64).reshape(-1, 2)
        found = self._index.find_runs(traced.ids, rows)
        return ranges, [Hits.of(self._index, occurrences) for occurrences in found]

    def _matches(
        self,
        found: Sequence[Span],
        hits: Sequence[Hits],
        traced: TracedText,
        whole: TextOccurrences,
        generation_id: str,
    ) -> tuple[Match, ...]:
        """Step 3: documents of the kept spans."""
        describe = _MatchDescriber(
            self._index, traced, whole, generation_id, self.settings.window_factor
        )
        places = [
            (span, position)
            for span in found
            if not span.dropped
            for position in self._documents(span, hits)
        ]
        pairs = _pairs(places)
        matches = [describe.match(*place, pair=n in pairs) for n, place in enumerate(places)]
        if self.settings.mode == "mixed" and all(match.tier == "partial" for match in matches):
            matches += self._normalized_matches(found, hits, describe)
        return tuple(matches)

    def _documents(self, span: Span, hits: Sequence[Hits]) -> list[Position]:
        return documents.sample_documents(
            hits[span.span],
            self.settings.docs_per_span,
            self.settings.seed,
            f"{span.generation_id}\0{span.start}\0{span.stop}",
            self._index.most_read,
        )

    def _normalized_matches(
        self, found: Sequence[Span], hits: Sequence[Hits], describe: _MatchDescriber
    ) -> list[Match]:
        """Matches of dropped spans that hold the whole generation once both are normalised.

        Kept spans have been looked at. A generation that occurs normalised has at least one long
        span, so the longest serve as anchors.
        """
        order = sorted(found, key=lambda s: (-s.length, s.log_probability, s.start))
        places = (
            (span, position)
            for span in order[:NORMALIZED_ANCHORS]
            if span.dropped
            for position in self._documents(span, hits)
        )
        return [describe.match(*place) for place in places if describe.holds_normalized(*place)]

    def _summary(
        self,
        generation_id: str,
        traced: TracedText,
        whole: TextOccurrences,
        found: Sequence[Span],
        segments: Sequence[tuple[int, int]],
        matches: Sequence[Match],
    ) -> TraceSummary:
        pairs = [match.recall for match in matches if match.pair]
        tiers = {match.tier for match in matches}
        return TraceSummary(
            generation_id=generation_id,
            char_start=traced.char_start,
            char_stop=traced.char_stop,
            n_tokens=len(traced.ids),
            n_spans=len(found),
            n_kept=sum(not span.dropped for span in found),
            longest_segment=max((stop - start for start, stop in segments), default=0),
            n_whole=len(whole.positions),
            n_whole_documents=len(whole.documents),
            whole_exact=whole.exact,
            full_raw="full_raw" in tiers,
            full_normalized="full_normalized" in tiers and "full_raw" not in tiers,
            n_pairs=len(pairs),
            recall_sum=sum(pairs, 0.0),
            recall_max=max((match.recall for match in matches), default=0.0),
            zlib_ratio=zlib_ratio(traced.text),
            degenerate=is_degenerate(traced.text),
            merging=self.settings.merging,
            mode=self.settings.mode,
        )


class _MatchDescriber:
    """Turns a position in a document into a `Match` of one generation."""

    def __init__(
        self,
        index: Index,
        traced: TracedText,
        whole: TextOccurrences,
        generation_id: str,
        window_factor: int,
    ) -> None:
        self._index, self._traced, self._generation_id = index, traced, generation_id
        self._window_factor = window_factor
        self._whole_documents = whole.documents
        self._wanted = documents.Wanted(traced.stripped)
        self._reference = Reference(traced.stripped)

    def match(self, span: Span, position: Position, *, pair: bool = False) -> Match:
        """A span found at a position."""
        window = self._window(span, position)
        metadata = self._index.metadata(position.shard, position.document)
        return Match(
            generation_id=self._generation_id,
            span=span.span,
            shard=position.shard,
            document=position.document,
            document_id=metadata_field(metadata, "id"),
            source=metadata_field(metadata, "source"),
            licence=metadata_field(metadata, "licence", "license"),
            offset=position.offset,
            window=window.text,
            window_char_start=window.char_start,
            window_char_stop=window.char_stop,
            tier=self._tier(window),
            recall=self._reference.recall(window.text),
            pair=pair,
        )

    def holds_normalized(self, span: Span, position: Position) -> bool:
        """Whether the generation stands around a position once both are normalised."""
        return self._tier(self._window(span, position)) != "partial"

    def _tier(self, window: documents.Window) -> str:
        place = window.position.shard, window.position.document
        return self._wanted.tier_in(window.text, place in self._whole_documents)

    def _window(self, span: Span, position: Position) -> documents.Window:
        """The text around a match, in which the span has been seen to stand."""
        n_tokens = len(self._traced.ids)
        window = documents.window_around(
            self._index, position, span.length, n_tokens, self._window_factor
        )
        shown = window.text[window.char_start : window.char_stop]
        if shown == span.text:
            return window
        if span.length == n_tokens and (found := self._around_text(span.text, window)):
            return found
        self._require_same(span, window, shown)
        # A word that begins a text may have the token of one behind a space.
        spaces = len(shown) - len(shown.lstrip()) if shown.lstrip() == span.text else 0
        return replace(window, char_start=window.char_start + spaces)

    def _around_text(self, text: str, window: documents.Window) -> documents.Window | None:
        """A window around a whole generation that was found by its characters."""
        for _ in range(2):
            # Its position may be that of its second word.
            at = window.text.find(text, max(0, window.char_start - len(text)))
            if at >= 0:
                return replace(window, char_start=at, char_stop=at + len(text))
            # The corpus may split it into more tokens than it has alone, but not more than bytes:
            # so many on both sides of its position hold it.
            n_tokens, reach = len(self._traced.ids), len(text.encode())
            factor = max(self._window_factor, -(-(2 * reach + 1) // n_tokens))
            window = documents.window_around(self._index, window.position, 1, n_tokens, factor)
        return None

    def _require_same(self, span: Span, window: documents.Window, shown: str) -> None:
        """Characters of a match are those of its span, or what the tokenizer makes of them."""
        ids = self._traced.ids[span.start : span.stop]
        if self._index.tokenizer.decode_inside(ids).strip("\ufffd") != shown.strip("\ufffd"):
            place = f"shard {window.position.shard}, document {window.position.document}"
            raise BrokenIndexError(
                f"{place}: the index says that {span.text!r} stands there, but there stands"
                f" {shown!r}; {self._index.disown(window.position)}"
            )


def _pairs(places: Sequence[tuple[Span, Position]]) -> set[int]:
    """Number of one match for each (segment, document): that of the segment's longest span."""
    best: dict[tuple[int | None, int, int], int] = {}
    for number, (span, position) in enumerate(places):
        key = (span.segment, position.shard, position.document)
        other = best.setdefault(key, number)
        if span.length > places[other][0].length:
            best[key] = number
    return set(best.values())


def trace(
    text: str, index: Index, settings: TraceSettings | None = None, generation_id: str = ""
) -> Trace:
    """Find every passage of a generation that stands verbatim in the training corpus.

    Parameters
    ----------
    text : str
        The completion alone: the prompt is not traced.
    index : Index
        Of the training corpus.
    settings : TraceSettings, optional
    generation_id : str
        With the seed, decides which documents are fetched.

    Returns
    -------
    Trace
        The summary, all spans with those dropped marked, and the matches in documents.

    Raises
    ------
    BrokenIndexError
        A document that is said to hold a span does not: the index is wrong.
    AlignmentCostError
        The recall of a pair would take too long to compute.
    """
    return Tracer(index, settings).trace(text, generation_id)

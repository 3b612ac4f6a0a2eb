"""SimpleTrace: spans, rarity, documents and merging composed, for one generation and for many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from propme import tables
from propme.degenerate import is_degenerate, zlib_ratio
from propme.errors import ParameterError
from propme.index.protocol import Index, Position
from propme.index.text_search import TextOccurrences, find_text
from propme.near_verbatim import normalize_words, recall_words
from propme.progress import track
from propme.records import Generation, Match, Span, Trace, TraceSummary, metadata_field
from propme.simpletrace import documents, merging, rarity, spans

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
    """

    docs_per_span: int = 10
    merging: str = "verified"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.docs_per_span < 1:
            raise ParameterError(f"docs_per_span must be >= 1, not {self.docs_per_span!r}")
        merging.require_rule(self.merging)


class Tracer:
    """Traces generations in one index with one choice of settings."""

    def __init__(self, index: Index, settings: TraceSettings | None = None) -> None:
        self._index = index
        self._settings = settings or TraceSettings()
        self._unigrams = rarity.UnigramModel(index)

    def trace(self, text: str, generation_id: str = "") -> Trace:
        """Trace one generation; see `trace`."""
        traced = spans.tokenise(text, self._index)
        whole = find_text(self._index, traced.stripped)
        found = self._spans(traced, generation_id)
        found, segments = self._merged(found, traced)
        matches = self._matches(found, traced, whole, generation_id)
        summary = self._summary(generation_id, traced, whole, found, segments, matches)
        return Trace(summary, found, matches)

    def _spans(self, traced: spans.TracedText, generation_id: str) -> tuple[Span, ...]:
        """Steps 1 and 2: every maximal span, with the reason why some are dropped."""
        found = [
            self._span(traced, generation_id, number, start, stop)
            for number, (start, stop) in enumerate(spans.maximal_spans(traced, self._index))
        ]
        candidates = [span for span in found if not span.dropped]
        kept = rarity.rarest(
            [(span.start, span.stop) for span in candidates],
            [span.log_probability for span in candidates],
            len(traced.ids),
        )
        common = {span.span for number, span in enumerate(candidates) if number not in kept}
        marked = (replace(s, dropped="common") if s.span in common else s for s in found)
        return tuple(s if s.dropped else self._with_documents_counted(s, traced) for s in marked)

    def _with_documents_counted(self, span: Span, traced: spans.TracedText) -> Span:
        occurrences = self._index.find(traced.ids[span.start : span.stop])
        n_documents, exact = documents.count_documents(self._index, occurrences)
        return replace(span, n_documents=n_documents, documents_exact=exact)

    def _span(
        self, traced: spans.TracedText, generation_id: str, number: int, start: int, stop: int
    ) -> Span:
        char_start, char_stop = traced.characters(start, stop)
        occurrences = self._index.find(traced.ids[start:stop])
        return Span(
            generation_id=generation_id,
            span=number,
            start=start,
            stop=stop,
            char_start=char_start,
            char_stop=char_stop,
            text=traced.text[char_start:char_stop],
            log_probability=self._unigrams.log_probability(traced.ids[start:stop]),
            n_occurrences=occurrences.count,
            n_documents=1,  # until those of the kept spans are counted
            documents_exact=False,
            dropped=spans.drop_reason(traced, start, stop),
        )

    def _merged(
        self, found: Sequence[Span], traced: spans.TracedText
    ) -> tuple[tuple[Span, ...], list[tuple[int, int]]]:
        """Step 4: the spans with their segment, and the segments."""
        kept = [span for span in found if not span.dropped]
        merged = merging.merge(
            [(span.start, span.stop) for span in kept],
            self._settings.merging,
            lambda start, stop: self._index.count(traced.ids[start:stop]) > 0,
        )
        segment_of = {
            kept[member].span: number
            for number, (_, members) in enumerate(merged)
            for member in members
        }
        with_segment = tuple(replace(s, segment=segment_of.get(s.span)) for s in found)
        return with_segment, [segment for segment, _ in merged]

    def _matches(
        self,
        found: Sequence[Span],
        traced: spans.TracedText,
        whole: TextOccurrences,
        generation_id: str,
    ) -> tuple[Match, ...]:
        """Step 3: documents of the kept spans, and of the generation as a whole."""
        describe = _MatchDescriber(self._index, traced, whole, generation_id)
        kept = [span for span in found if not span.dropped]
        matches = [
            describe.match(span.span, position, span.length)
            for span in kept
            for position in self._documents(span, traced)
        ]
        matches = _with_pairs(matches, {span.span: span for span in kept})
        if not any(match.tier == "full_raw" for match in matches):
            matches += [
                describe.whole_match(position)
                for position in _one_a_document(whole.positions)[: self._settings.docs_per_span]
            ]
        if not any(match.tier != "partial" for match in matches):
            matches += self._normalized_matches(found, traced, describe)
        return tuple(matches)

    def _documents(self, span: Span, traced: spans.TracedText) -> list[Position]:
        return documents.sample_documents(
            self._index,
            self._index.find(traced.ids[span.start : span.stop]),
            self._settings.docs_per_span,
            self._settings.seed,
            f"{span.generation_id}\0{span.start}\0{span.stop}",
        )

    def _normalized_matches(
        self, found: Sequence[Span], traced: spans.TracedText, describe: _MatchDescriber
    ) -> list[Match]:
        """Matches of dropped spans that hold the whole generation once both are normalised.

        Kept spans have been looked at. A generation that occurs normalised has at least one long
        span, so the longest serve as anchors.
        """
        order = sorted(found, key=lambda s: (-s.length, s.log_probability, s.start))
        matches = (
            describe.match(span.span, position, span.length)
            for span in order[:NORMALIZED_ANCHORS]
            if span.dropped
            for position in self._documents(span, traced)
        )
        return [match for match in matches if match.tier != "partial"]

    def _summary(
        self,
        generation_id: str,
        traced: spans.TracedText,
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
            merging=self._settings.merging,
        )


class _MatchDescriber:
    """Turns a position in a document into a `Match` of one generation."""

    def __init__(
        self, index: Index, traced: spans.TracedText, whole: TextOccurrences, generation_id: str
    ) -> None:
        self._index, self._traced, self._generation_id = index, traced, generation_id
        self._whole_documents = whole.documents
        self._normalized = documents.normalize(traced.stripped)
        self._words = normalize_words(traced.stripped)

    def match(self, span: int, position: Position, length: int) -> Match:
        """A span found at a position."""
        return self._match(span, self._window(position, length))

    def whole_match(self, position: Position) -> Match:
        """The generation found as characters, around a position somewhere in it."""
        window = self._window(position, len(self._traced.ids))
        stripped = self._traced.stripped
        start = window.text.find(stripped, max(0, window.char_start - len(stripped)))
        if start >= 0:
            window = replace(window, char_start=start, char_stop=start + len(stripped))
        return self._match(-1, window)

    def _window(self, position: Position, length: int) -> documents.Window:
        return documents.window_around(self._index, position, length, len(self._traced.ids))

    def _match(self, span: int, window: documents.Window) -> Match:
        position = window.position
        metadata = self._index.metadata(position.shard, position.document)
        return Match(
            generation_id=self._generation_id,
            span=span,
            shard=position.shard,
            document=position.document,
            document_id=metadata_field(metadata, "id"),
            source=metadata_field(metadata, "source"),
            licence=metadata_field(metadata, "licence", "license"),
            offset=position.offset,
            window=window.text,
            window_char_start=window.char_start,
            window_char_stop=window.char_stop,
            tier=documents.tier_of(
                self._traced.stripped,
                self._normalized,
                window.text,
                (position.shard, position.document) in self._whole_documents,
            ),
            recall=recall_words(self._words, normalize_words(window.text)),
            pair=False,
        )


def _with_pairs(matches: Sequence[Match], span_of: dict[int, Span]) -> list[Match]:
    """Mark one match for each (segment, document): that of the segment's longest span there."""
    best: dict[tuple[int | None, int, int], int] = {}
    for number, match in enumerate(matches):
        key = (span_of[match.span].segment, match.shard, match.document)
        other = best.setdefault(key, number)
        if span_of[match.span].length > span_of[matches[other].span].length:
            best[key] = number
    chosen = set(best.values())
    return [replace(match, pair=number in chosen) for number, match in enumerate(matches)]


def _one_a_document(positions: Iterable[Position]) -> list[Position]:
    first: dict[tuple[int, int], Position] = {}
    for position in positions:
        first.setdefault((position.shard, position.document), position)
    return list(first.values())


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
        The summary, all maximal spans with those dropped marked, and the matches in documents.
    """
    return Tracer(index, settings).trace(text, generation_id)


def trace_all(
    generations: Sequence[Generation], index: Index, settings: TraceSettings | None = None
) -> dict[str, pd.DataFrame]:
    """Trace many generations into the tables ``traces``, ``spans`` and ``matches``."""
    tracer = Tracer(index, settings)
    traces = [
        tracer.trace(generation.text, generation.generation_id)
        for generation in track(generations, "tracing", unit="generations")
    ]
    return {
        "traces": tables.to_frame("traces", (t.summary for t in traces)),
        "spans": tables.to_frame("spans", (s for t in traces for s in t.spans)),
        "matches": tables.to_frame("matches", (m for t in traces for m in t.matches)),
    }

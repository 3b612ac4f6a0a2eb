"""SimpleTrace as a whole against a slow transcription of sections 3 and 4 of the specification."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from helpers import DANISH, ENGINES, byte_tokenizer, generation, index_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from propme import tables
from propme.errors import ParameterError
from propme.index import build_index, open_index
from propme.index.tokenizer import Tokenizer
from propme.near_verbatim import recall
from propme.records import Document, Match, Trace
from propme.simpletrace import (
    IndexAddress,
    Tracer,
    TraceSettings,
    batch,
    trace,
    trace_all,
    trace_share,
    trace_table,
    workers,
)
from propme.simpletrace.documents import normalize

BYTES = byte_tokenizer()
BPE = byte_tokenizer(["a bb ccc a bb. bb ccc\n\nccc a"] * 3 + list(DANISH), 40)

# --- the specification, slowly -------------------------------------------------------------------


def holds(document: Sequence[int], run: Sequence[int]) -> bool:
    return any(list(document[i : i + len(run)]) == list(run) for i in range(len(document)))


@dataclass
class Slow:
    """What the specification says of one generation, where every document is fetched."""

    text: str
    documents: list[str]
    tokenizer: Tokenizer
    merging: str
    mode: str = "mixed"

    def __post_init__(self) -> None:
        self.stripped = self.text.strip()
        self.ids, self.offsets = self.tokenizer.encode_with_offsets(self.stripped)
        self.corpus = [self.tokenizer.encode(document) for document in self.documents]
        self.everything = (0, len(self.ids))
        self.dropped = self._of_text() if self.mode == "text" else self._mixed()
        self.spans = sorted(self.dropped)
        candidates = sorted((s for s in self.spans if not self.dropped[s]), key=self.rarity)
        for span in candidates[max(1, -(-len(self.ids) // 20)) :]:
            self.dropped[span] = "common"
        self.kept = [span for span in self.spans if not self.dropped[span]]
        self.segments = self._merged()

    def holders(self, start: int, stop: int) -> set[int]:
        found = {n for n, d in enumerate(self.corpus) if holds(d, self.ids[start:stop])}
        by_characters = self.mode == "mixed" and (start, stop) == self.everything
        return found | self.whole if by_characters else found

    def _mixed(self) -> dict[tuple[int, int], str]:
        spans = [self.everything] if self.whole else self._maximal()
        return {span: self._dropped(span) for span in spans}

    def _of_text(self) -> dict[tuple[int, int], str]:
        """Of all runs that hold whole words of one sentence, those in no other; and the rest."""
        runs = self._maximal()
        parts = {
            (start, stop)
            for a, b in runs
            for start in range(a, b)
            for stop in range(start + 1, b + 1)
            if self._is_of_words(start, stop)
        }
        kept = {(s, e) for s, e in parts if not any(a <= s and e <= b for a, b in parts - {(s, e)})}
        rest = [r for r in runs if not any(r[0] <= s and e <= r[1] for s, e in parts)]
        return dict.fromkeys(kept, "") | dict.fromkeys(rest, "no word")

    def _is_of_words(self, start: int, stop: int) -> bool:
        for token in range(start, stop):
            first, last = self.offsets[token]
            end = re.search(r"[.!?\n]", self.stripped[first:last])
            if end and (
                token < stop - 1 or re.search(r"\w", self.stripped[first + end.end() : last])
            ):
                return False
        if not (self._is_border(start) and self._is_border(stop)):
            return False
        first, last = self.offsets[start][0], self.offsets[stop - 1][1]
        return bool(re.search(r"\w", self.stripped[first:last]))

    def _is_border(self, place: int) -> bool:
        """Whether neither a word nor a character goes on across a place between two tokens."""
        if place in self.everything:
            return True
        at, after = self.offsets[place - 1][1], self.offsets[place][0]
        words = re.finditer(r"\w+(?:['’]\w+)*", self.stripped)
        return at <= after and not any(word.start() < at < word.end() for word in words)

    def _maximal(self) -> list[tuple[int, int]]:
        """From each start the longest run; those in another left out."""
        runs = set()
        for start in range(len(self.ids)):
            stop = start
            while stop < len(self.ids) and self.holders(start, stop + 1):
                stop += 1
            if stop > start:
                runs.add((start, stop))
        return sorted(
            (s, e) for s, e in runs if not any(a <= s and e <= b for a, b in runs - {(s, e)})
        )

    def _dropped(self, span: tuple[int, int]) -> str:
        start, stop = span
        if stop - start == len(self.ids):
            return ""
        if stop - start < 4:
            return "short"
        # Bytes of a character that the span cuts are no sign.
        whole = self.tokenizer.decode(self.ids[start:stop]).replace("\ufffd", "")
        return "" if whole.strip() else "blank"

    def rarity(self, span: tuple[int, int]) -> tuple[Fraction, int, int]:
        start, stop = span
        tokens = [token for document in self.corpus for token in document]
        probability = Fraction(1)
        for token in self.ids[start:stop]:
            probability *= Fraction(tokens.count(token), len(tokens))
        return probability, start - stop, start

    def _merged(self) -> list[list[tuple[int, int]]]:
        """Segments as lists of their spans."""
        segments: list[list[tuple[int, int]]] = []
        for span in self.kept:
            overlaps = bool(segments) and span[0] < max(stop for _, stop in segments[-1])
            if overlaps and (
                self.merging == "overlap" or self.holders(segments[-1][0][0], span[1])
            ):
                segments[-1].append(span)
            else:
                segments.append([span])
        return segments

    @property
    def longest_segment(self) -> int:
        return max((s[-1][1] - s[0][0] for s in self.segments), default=0)

    @property
    def pairs(self) -> set[tuple[int, int]]:
        """(segment, document)."""
        return {
            (number, document)
            for number, segment in enumerate(self.segments)
            for span in segment
            for document in self.holders(*span)
        }

    @property
    def whole(self) -> set[int]:
        """Documents of which the whole generation is a substring, as characters."""
        return {n for n, d in enumerate(self.documents) if self.stripped and self.stripped in d}

    @property
    def n_whole(self) -> int:
        return sum(
            document.startswith(self.stripped, at)
            for document in self.documents
            for at in range(len(document))
            if self.stripped
        )

    @property
    def normalized(self) -> set[int]:
        """Documents that hold it after both are normalised, of those looked at."""
        order = sorted(self.spans, key=lambda s: (s[0] - s[1], self.rarity(s)))
        looked_at = {d for s in [*self.kept, *order[:8]] for d in self.holders(*s)}
        wanted = normalize(self.stripped)
        return {d for d in looked_at if wanted and wanted in normalize(self.documents[d])}

    def check_window(self, match: Match) -> bool:
        """5 L tokens, or the whole document; around the match. Whether it is the whole document."""
        tokens = self.corpus[match.document]
        size = min(len(tokens), 5 * len(self.ids))
        starts = [s for s in range(match.offset + 1) if match.offset < s + size <= len(tokens)]
        assert match.window in {self.tokenizer.decode(tokens[s : s + size]) for s in starts}
        return size == len(tokens)


# --- against it ----------------------------------------------------------------------------------

PIECES = ["a", "bb", "ccc", " ", " a", " bb", " ccc", " ", "\n", "  ", "\r\n", ". ", "ø", "🎉"]
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=24).map("".join)


@st.composite
def slices(draw: st.DrawFn, text: str) -> str:
    start = draw(st.integers(0, len(text) - 1))
    return text[start : start + draw(st.integers(1, 25))]


@st.composite
def respaced(draw: st.DrawFn, text: str) -> str:
    """The text with other white space, the same once it is normalised."""
    wide, line = (
        draw(st.sampled_from(["  ", "\t", " \t "])),
        draw(st.sampled_from(["\r\n", " \n "])),
    )
    return text.replace("\r\n", "\n").replace(" ", wide).replace("\n", line)


@st.composite
def of_documents(draw: st.DrawFn) -> tuple[list[str], str]:
    """A generation made of slices of documents, one of which may stand twice."""
    documents = draw(st.lists(TEXTS, min_size=1, max_size=4))
    documents += draw(st.lists(st.sampled_from(documents), max_size=1))
    parts = [draw(slices(draw(st.sampled_from(documents)))) for _ in range(draw(st.integers(1, 3)))]
    return documents, draw(st.sampled_from(["", " ", "\n", " zz "])).join(parts)


@st.composite
def into_documents(draw: st.DrawFn) -> tuple[list[str], str]:
    """Documents made of slices of the generation, or of it as a whole, in white space or more."""
    text = draw(TEXTS)
    documents = [draw(slices(text)) + draw(st.sampled_from(["", "q", " a"])) for _ in range(3)]
    if draw(st.booleans()):
        documents.append(draw(st.sampled_from(["", "q ", "bb"])) + draw(respaced(text)))
    return documents, text


@st.composite
def overlapping(draw: st.DrawFn) -> tuple[list[str], str]:
    """Two documents that hold the two ends of a longer generation, and both some of its middle."""
    text = draw(st.lists(st.sampled_from(PIECES), min_size=14, max_size=24).map("".join))
    middle = draw(st.integers(6, len(text) - 1))
    head, tail = text[: middle + draw(st.integers(0, 8))] + "q", "q" + text[middle:]
    return draw(st.sampled_from([[head, tail], [head, tail, head], [head + tail]])), text


CASES = st.one_of(
    st.tuples(st.lists(TEXTS, min_size=1, max_size=4), TEXTS),
    of_documents(),
    into_documents(),
    overlapping(),
)


def check(
    documents: list[str], text: str, tokenizer: Tokenizer, merging: str, mode: str = "mixed"
) -> None:
    slow = Slow(text, documents, tokenizer, merging, mode)
    index = index_of(documents, tokenizer)
    found = trace(text, index, TraceSettings(len(documents), merging, mode=mode), "g")
    check_spans(slow, found)
    check_matches(slow, found)
    check_summary(slow, found)


def check_spans(slow: Slow, found: Trace) -> None:
    assert [(s.start, s.stop) for s in found.spans] == slow.spans
    assert [s.span for s in found.spans] == list(range(len(slow.spans)))
    segment_of = {span: n for n, segment in enumerate(slow.segments) for span in segment}
    for span in found.spans:
        key = (span.start, span.stop)
        assert span.dropped == slow.dropped[key]
        assert span.segment == segment_of.get(key)
        assert slow.text[span.char_start : span.char_stop] == span.text
        run = slow.ids[span.start : span.stop]
        occurrences = sum(
            document[i : i + len(run)] == run
            for document in slow.corpus
            for i in range(len(document))
        )
        by_characters = slow.mode == "mixed" and key == slow.everything
        assert span.n_occurrences == (slow.n_whole if by_characters else occurrences)
        if not span.dropped:
            assert (span.n_documents, span.documents_exact) == (len(slow.holders(*key)), True)


def check_matches(slow: Slow, found: Trace) -> None:
    span_of = {span.span: span for span in found.spans}
    of_kept = [m for m in found.matches if not span_of[m.span].dropped]
    assert sorted((m.span, m.document) for m in of_kept) == sorted(
        (span.span, document)
        for span in found.spans
        if not span.dropped
        for document in slow.holders(span.start, span.stop)
    )
    for match in found.matches:
        slow.check_window(match)
        assert match.recall == recall(slow.stripped, match.window)
        shown = match.window[match.window_char_start : match.window_char_stop]
        span = span_of[match.span]
        assert shown == span.text
        tokens = slow.corpus[match.document][match.offset :][: span.length]
        if tokens != slow.ids[span.start : span.stop]:  # found by its characters
            assert (span.start, span.stop) == slow.everything
            assert slow.mode == "mixed"
        assert (match.tier == "full_raw") == (match.document in slow.whole)
        if match.tier == "full_normalized":
            assert normalize(slow.stripped) in normalize(match.window)
    paired = [(span_of[m.span].segment, m.document) for m in found.matches if m.pair]
    assert sorted(paired) == sorted(slow.pairs)
    # A pair is measured where the segment's longest span stands in the document.
    for match in (m for m in found.matches if m.pair):
        others = [
            span_of[m.span].length
            for m in of_kept
            if m.document == match.document
            and span_of[m.span].segment == span_of[match.span].segment
        ]
        assert span_of[match.span].length == max(others)


def check_summary(slow: Slow, found: Trace) -> None:
    summary = found.summary
    assert slow.text[summary.char_start : summary.char_stop] == slow.stripped
    assert summary.n_tokens == len(slow.ids)
    assert (summary.n_spans, summary.n_kept) == (len(slow.spans), len(slow.kept))
    assert summary.longest_segment == slow.longest_segment
    assert summary.n_pairs == len(slow.pairs)
    assert summary.recall_sum == pytest.approx(sum(m.recall for m in found.matches if m.pair))
    assert summary.recall_max == max((m.recall for m in found.matches), default=0.0)
    assert not (summary.full_raw and summary.full_normalized)
    assert summary.whole_exact
    assert summary.n_whole == slow.n_whole
    assert summary.n_whole_documents == len(slow.whole)
    fetched = {document for _, document in slow.pairs}
    assert summary.full_raw == bool(slow.whole if slow.mode == "mixed" else slow.whole & fetched)
    if slow.mode == "text":
        return
    if all(len(document) <= 5 * len(slow.ids) for document in slow.corpus):
        # Windows are whole documents, so nothing hangs on which occurrence was drawn.
        if len(slow.spans) <= 8 and (summary.full_raw or not slow.whole):
            assert summary.full_normalized == (not summary.full_raw and bool(slow.normalized))
        paired = {document for _, document in slow.pairs}
        best = max((recall(slow.stripped, slow.documents[d]) for d in paired), default=0.0)
        assert summary.recall_max >= best
        if paired and (paired & slow.whole or not slow.whole | slow.normalized):
            assert summary.recall_max == best


RULES = st.sampled_from(["verified", "overlap"])


@settings(max_examples=200, deadline=None)
@given(CASES, RULES)
def test_bytes(case: tuple[list[str], str], merging: str) -> None:
    check(*case, BYTES, merging)


@settings(max_examples=300, deadline=None)
@given(CASES, RULES)
def test_subwords(case: tuple[list[str], str], merging: str) -> None:
    check(*case, BPE, merging)


@settings(max_examples=200, deadline=None)
@given(CASES, RULES, st.sampled_from([BYTES, BPE]))
def test_mode_text(case: tuple[list[str], str], merging: str, tokenizer: Tokenizer) -> None:
    check(*case, tokenizer, merging, "text")


@settings(max_examples=200, deadline=None)
@given(CASES)
def test_the_tiers_are_those_of_a_byte_index(case: tuple[list[str], str]) -> None:
    """However the corpus splits a generation's first and last word."""
    documents, text = case
    everything = TraceSettings(len(documents))
    by_bytes, by_words = (trace(text, index_of(documents, t), everything) for t in (BYTES, BPE))
    for name in ("full_raw", "n_whole", "n_whole_documents", "whole_exact"):
        assert getattr(by_bytes.summary, name) == getattr(by_words.summary, name), name
    if by_bytes.summary.full_raw:
        assert by_words.summary.longest_segment == by_words.summary.n_tokens
        tiers = [{(m.document, m.tier) for m in found.matches} for found in (by_bytes, by_words)]
        assert tiers[0] == tiers[1]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_index_on_disk_in_several_shards(engine: str, tmp_path: Path) -> None:
    """The same trace as in the slow index, but for where the documents lie."""
    n_shards = set()

    @settings(max_examples=25 if engine == "mapped" else 10, deadline=None)
    @given(CASES, RULES, st.sampled_from(["mixed", "text"]))
    @example((["the cat sat on the mat."] * 4, "the cat sat"), "verified", "mixed")
    def check(case: tuple[list[str], str], merging: str, mode: str) -> None:
        documents, text = case
        records = [Document(f"d{n}", document) for n, document in enumerate(documents)]
        everything = TraceSettings(len(documents), merging, mode=mode)
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            path = build_index(records, BPE, Path(folder) / "index", 16)
            n_shards.add(len(list((path / "shards").glob("offset.*"))))
            found = trace(text, open_index(path, engine), everything, "g")
        expected = trace(text, index_of(documents, BPE), everything, "g")
        assert found.spans == expected.spans
        # Which of several occurrences in a document is shown hangs on their order in the index.
        shown = {"recall_sum": 0.0, "recall_max": 0.0, "full_normalized": False}
        assert replace(found.summary, **shown) == replace(expected.summary, **shown)

        def fetched(traced: Trace) -> list[tuple[Any, ...]]:
            matches = (m for m in traced.matches if not traced.spans[m.span].dropped)
            return sorted((m.span, m.document_id, m.tier == "full_raw") for m in matches)

        assert fetched(found) == fetched(expected)

    check()
    assert max(n_shards) > 2


# --- what may be chosen ---------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(CASES, st.integers(1, 3), st.integers(0, 5))
def test_docs_per_span_changes_documents_only(
    case: tuple[list[str], str], docs_per_span: int, seed: int
) -> None:
    documents, text = case
    index = index_of(documents * 3, BPE)  # copies enough that some are left out
    few = trace(text, index, TraceSettings(docs_per_span, seed=seed), "g")
    all_of_them = trace(text, index, TraceSettings(99, seed=seed), "g")
    assert few.spans == all_of_them.spans
    fetched = {"n_pairs", "recall_sum", "recall_max", "full_normalized"}
    for name in tables.TABLES["traces"].columns:
        if name not in fetched:
            assert getattr(few.summary, name) == getattr(all_of_them.summary, name), name
    of_few = {(m.span, m.document) for m in few.matches if m.pair}
    assert of_few <= {(m.span, m.document) for m in all_of_them.matches if m.pair}
    for span in few.spans:
        fetched_documents = [m.document for m in few.matches if m.span == span.span]
        assert len(fetched_documents) == len(set(fetched_documents)) <= docs_per_span
        if not span.dropped:
            assert len(fetched_documents) == min(docs_per_span, span.n_documents)


def test_the_same_seed_and_name_give_the_same_trace_in_any_order() -> None:
    index = index_of([f"{n} a bb ccc a bb {n}" for n in range(40)], BPE)
    names = ["x", "y", "z"]
    text = "a bb ccc a bb"
    tracer = Tracer(index, TraceSettings(docs_per_span=3, seed=7))
    there = {name: tracer.trace(text, name) for name in names}
    back = {name: tracer.trace(text, name) for name in reversed(names)}
    assert there == back
    assert trace(text, index, TraceSettings(docs_per_span=3, seed=7), "y") == there["y"]

    def documents(found: Trace) -> list[int]:
        return [m.document for m in found.matches]

    assert len({tuple(documents(found)) for found in there.values()}) == 3
    other_seed = Tracer(index, TraceSettings(docs_per_span=3, seed=8)).trace(text, "x")
    assert documents(other_seed) != documents(there["x"])
    assert other_seed.summary == there["x"].summary


def test_settings_are_checked() -> None:
    for wrong in (0, -1):
        with pytest.raises(ParameterError, match=f"docs_per_span must be >= 1, not {wrong}"):
            TraceSettings(docs_per_span=wrong)
    with pytest.raises(ParameterError, match="mode 'prose' is unknown; it is one of mixed, text"):
        TraceSettings(mode="prose")
    assert TraceSettings() == TraceSettings(10, merging="verified", seed=0, mode="mixed")


# --- hand-worked ----------------------------------------------------------------------------------

VERSE = "I begyndelsen skabte Gud himmelen og jorden."


def test_a_generation_that_stands_whole_in_several_documents() -> None:
    index = index_of([f"Først: {VERSE} Så.", "noget andet", VERSE, f"{VERSE} {VERSE}"], BPE)
    found = trace(f"\n {VERSE}\n", index)
    summary = found.summary
    assert (summary.full_raw, summary.full_normalized) == (True, False)
    assert (summary.n_whole, summary.n_whole_documents, summary.whole_exact) == (4, 3, True)
    assert summary.recall_max == 1.0
    assert {m.document for m in found.matches if m.tier == "full_raw"} == {0, 2, 3}
    assert [m.document_id for m in found.matches] == ["d0", "d2", "d3"]
    assert (summary.char_start, summary.char_stop) == (2, 2 + len(VERSE))


def test_of_copies_each_is_a_document_and_a_pair() -> None:
    found = trace(VERSE, index_of([VERSE] * 5 + ["andet"], BPE))
    (span,) = found.spans
    assert (span.n_occurrences, span.n_documents, span.documents_exact) == (5, 5, True)
    assert (found.summary.n_pairs, found.summary.recall_sum) == (5, 5.0)
    assert (found.summary.n_whole, found.summary.n_whole_documents) == (5, 5)


@pytest.mark.parametrize(
    "document",
    [
        VERSE.replace("skabte ", "skabte\n\t"),
        VERSE.replace(" ", "  "),
        VERSE.replace("Gud", "G\uff55d"),  # a wide letter
        "Før. " + VERSE.replace(" ", " \t") + " Efter.",
    ],
)
@pytest.mark.parametrize("other", [0, 30])
def test_other_white_space_is_full_normalized(document: str, other: int) -> None:
    text = VERSE.replace("skabte ", "skabte\n") if "\n" in document else VERSE
    found = trace(text, index_of([document, *["Der var engang."] * other], BPE))
    assert (found.summary.full_raw, found.summary.full_normalized) == (False, True)
    assert (found.summary.n_whole, found.summary.n_whole_documents) == (0, 0)
    assert {m.document for m in found.matches if m.tier == "full_normalized"} == {0}


def test_other_case_or_punctuation_is_partial() -> None:
    for document in (VERSE.lower(), VERSE.replace(" og", ", og"), VERSE[:-1] + "!"):
        found = trace(VERSE, index_of([document], BPE))
        assert not found.summary.full_raw
        assert not found.summary.full_normalized
        assert {m.tier for m in found.matches} == {"partial"}


def test_a_word_that_the_corpus_splits_into_many_tokens_is_shown_whole() -> None:
    """One token alone; behind an x, which takes its first letter, a token a letter."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    joined = ["xa", *("abcdefgh"[:n] for n in range(2, 9))]
    vocabulary = {token: number for number, token in enumerate([*alphabet, *joined])}
    backend = Backend(models.BPE(vocabulary, [(token[:-1], token[-1]) for token in joined]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = Tokenizer(backend)
    text, document = "abcdefgh", "zz qq " * 5 + "xabcdefghy" + " zz qq" * 5
    assert len(tokenizer.encode(text)) == 1
    found = trace(text, index_of([document], tokenizer))
    (match,) = found.matches
    assert match.window[match.window_char_start : match.window_char_stop] == text
    assert (match.tier, found.summary.longest_segment) == ("full_raw", 1)


def test_a_space_that_the_tokenizer_puts_before_a_text_takes_no_character(
    text_tokenizer: Callable[[str], Tokenizer],
) -> None:
    """As Llama 2's, which gives it the offsets of the first character where it stands alone."""
    tokenizer = text_tokenizer("byte-fallback")
    text = "æb bab abab"
    found = trace(f"{text} zz", index_of([f"abc.\n{text} abc"], tokenizer))
    (span,) = (span for span in found.spans if not span.dropped)
    assert (span.char_start, span.text.strip()) == (0, text)
    (match,) = found.matches
    assert match.window[match.window_char_start : match.window_char_stop].strip() == text


@pytest.mark.parametrize("text", ["", " \n\t", "xyz", "\r\n"])
def test_a_generation_without_a_span_has_a_row(text: str) -> None:
    found = trace(text, index_of(["a bb ccc"], BPE), generation_id="g")
    assert found.spans == ()
    assert found.matches == ()
    summary = found.summary
    assert summary.generation_id == "g"
    assert (summary.n_spans, summary.n_kept, summary.longest_segment) == (0, 0, 0)
    assert (summary.n_pairs, summary.recall_sum, summary.recall_max) == (0, 0.0, 0.0)
    assert not summary.full_raw
    assert not summary.full_normalized


# A tokenizer to which "ab" and "ef" are other tokens inside "xab" and "efy".
GLUED = byte_tokenizer(["ab cd ef", "xab cd efy"] * 9, 40)


def test_a_generation_of_words_cut_elsewhere_is_found_whole() -> None:
    """By its tokens alone no span of it would be long enough."""
    found = trace(" ab cd ef", index_of(["zz q xab cd efy zz"], GLUED))
    (span,) = found.spans
    assert (span.text, span.length, span.dropped) == ("ab cd ef", found.summary.n_tokens, "")
    assert found.summary.longest_segment == found.summary.n_tokens
    assert found.summary.full_raw
    (match,) = found.matches
    assert (match.span, match.tier, match.pair, match.recall) == (0, "full_raw", True, 0.0)
    assert match.window[match.window_char_start : match.window_char_stop] == "ab cd ef"


def test_documents_found_by_the_whole_are_distinct_and_limited_too() -> None:
    index = index_of(["xab cd efy xab cd efy"] * 15, GLUED)
    found = trace("ab cd ef", index, TraceSettings(docs_per_span=4))
    assert (found.summary.n_whole, found.summary.n_whole_documents) == (30, 15)
    (span,) = found.spans
    assert (span.n_occurrences, span.n_documents, span.documents_exact) == (30, 15, True)
    assert len({m.document for m in found.matches}) == len(found.matches) == 4
    found = trace("ab cd ef", index, TraceSettings(docs_per_span=20))
    assert sorted(m.document for m in found.matches) == list(range(15))


def test_in_mode_text_a_generation_of_words_cut_elsewhere_is_not_looked_for() -> None:
    settings_ = TraceSettings(mode="text")
    found = trace(" ab cd ef", index_of(["zz q xab cd efy zz"], GLUED), settings_)
    assert [span.text for span in found.spans if not span.dropped] == [" cd"]
    assert found.summary.n_whole == 1


def test_the_longest_spans_lead_to_the_document_that_holds_it_normalized() -> None:
    # The three pairs are rarest and kept. Of the others those of three bytes, "e e", are not in
    # the last document, and they are more than eight.
    pairs = ["xyz uvw", "kqj fpt", "grm bhn"]
    text = " ".join([*pairs, *["ee"] * 12])
    found = trace(text, index_of([*pairs, "e e", text.replace(" ", "  ")], BYTES))
    assert [s.text for s in found.spans if not s.dropped] == pairs
    assert sum(s.text == "e e" for s in found.spans) == 11
    assert found.summary.full_normalized
    assert {m.document for m in found.matches if m.tier == "full_normalized"} == {4}
    assert not any(m.pair for m in found.matches if m.document == 4)
    assert found.summary.recall_max == 1.0
    assert found.summary.n_pairs == 3


def test_half_a_character_at_the_start_is_not_the_same_as_another_half() -> None:
    """A generation may begin with U+FFFD, as a window cut inside a character does."""
    found = trace("\ufffdx b c", index_of(["🎉x b c"], BYTES))
    assert not found.summary.full_raw
    assert trace("\ufffdx b c", index_of(["q\ufffdx b c"], BYTES)).summary.full_raw


def test_metadata_of_the_document_comes_with_the_match() -> None:
    metadata: list[dict[str, Any]] = [
        {"id": "m1", "source": "arkiv", "license": "CC0", "copies": 3},
        {"id": 7},
    ]
    found = trace(VERSE, index_of([VERSE, VERSE], BPE, metadata))
    first, second = found.matches
    assert (first.document_id, first.source, first.licence) == ("m1", "arkiv", "CC0")
    assert (second.document_id, second.source, second.licence) == ("7", "", "")


def test_degenerate_generations_are_marked() -> None:
    index = index_of(["0" * 40], BYTES)
    assert trace("0" * 600, index).summary.degenerate
    assert not trace(VERSE, index).summary.degenerate


SENTENCE = "Havet var vidt, og den gamle mand sad ned. "
CODE = "def add(a, b):\n\treturn a + b\n\n\nif x:\n\t\tadd(1, 2)\n"


@pytest.mark.parametrize("tokenizer", [BYTES, BPE])
@pytest.mark.parametrize(
    ("document", "text", "kept", "tier"),
    [
        ("qq abcdefgh qq", "abcdefgh xyz", "abcdefgh ", ""),  # at the very start
        ("qq abcdefgh qq", "xyz abcdefgh", " abcdefgh", ""),  # at the very end
        ("qq\nabcdefgh qq", "xyz\nabcdefgh", "\nabcdefgh", ""),  # after a newline
        ("zz", "z", "z", "full_raw"),  # one token
        ("Så gik de 🎉🎊 hjem til åen", "de 🎉🎊 hjem", "de 🎉🎊 hjem", "full_raw"),
        (CODE, CODE[4:-1], CODE[4:-1], "full_raw"),
        (CODE, CODE.replace("\t", "    "), None, "full_normalized"),
        ("to linjer\r\nog fire ord", "to linjer\nog fire ord", None, "full_normalized"),
        ("to linjer\nog fire ord", "to linjer\r\nog fire ord", None, "full_normalized"),
        (
            "caf\u00e9 p\u00e5 hj\u00f8rnet",
            "cafe\u0301 pa\u030a hj\u00f8rnet",
            None,
            "full_normalized",
        ),
        (
            "cafe\u0301 pa\u030a hj\u00f8rnet",
            "caf\u00e9 p\u00e5 hj\u00f8rnet",
            None,
            "full_normalized",
        ),
    ],
)
def test_hand_worked(
    document: str, text: str, kept: str | None, tier: str, tokenizer: Tokenizer
) -> None:
    found = trace(text, index_of(["noget andet", document], tokenizer))
    assert found.summary.full_raw == (tier == "full_raw")
    assert found.summary.full_normalized == (tier == "full_normalized")
    if kept is not None:
        (span,) = (span for span in found.spans if not span.dropped)
        # Subwords may be split otherwise at the edges.
        same = span.text.strip() == kept.strip()
        assert same if tokenizer is BYTES or tier else span.text.strip() in kept
        assert {match.document for match in found.matches} == {1}


def test_a_sentence_five_hundred_times(tmp_path: Path) -> None:
    """The corpus has it three times over: the maximal spans are all windows of that length."""
    records = [Document("d0", "x" + SENTENCE * 3 + "x")]
    index = open_index(build_index(records, Tokenizer.load("bytes"), tmp_path / "index"))
    found = trace(SENTENCE * 500, index)
    period, length = len(SENTENCE), 3 * len(SENTENCE)
    assert [span.start for span in found.spans] == [n * period for n in range(498)]
    # The last ends with the generation, whose last space is left out.
    assert {span.length for span in found.spans[:-1]} == {length}
    assert found.summary.longest_segment == length
    assert all(span.n_documents == 1 for span in found.spans if not span.dropped)
    overlapping = trace(SENTENCE * 500, index, TraceSettings(merging="overlap"))
    assert overlapping.summary.longest_segment == overlapping.summary.n_tokens


def test_ten_thousand_tokens(tmp_path: Path) -> None:
    chance = random.Random(0)
    text = "".join(chance.choices("abcdefgh  \n", k=10_000)).strip()
    records = [Document("d0", f"x {text} x"), Document("d1", text[2_000:7_000])]
    index = open_index(build_index(records, Tokenizer.load("bytes"), tmp_path / "index"))
    whole = trace(text, index)
    assert whole.summary.full_raw
    assert (whole.summary.longest_segment, whole.summary.recall_max) == (len(text), 1.0)
    half = trace(text[:5_000] + "q" + text[5_000:], index)
    assert [(s.start, s.stop) for s in half.spans if s.length > 4_000] == [
        (0, 5_000),
        (5_001, len(text) + 1),
    ]


@pytest.mark.parametrize(
    ("document", "text", "kept"),
    [
        # A run over two sentences is two spans, each with its sign.
        ("Han kom. Hun gik hjem. Ja", "Han kom. Hun gik hjem", ["Han kom.", " Hun gik hjem"]),
        # A run that ends inside a word is cut back to the one before.
        ("den gamle mand sad", "den gamle mandag", ["den gamle"]),
        ("den gamle mand sad", "xden gamle mand", [" gamle mand"]),
        # An apostrophe inside a word is of it.
        ("it isn so", "it isn't", ["it"]),
        ("it isn't so", "it isn't", ["it isn't"]),
        # What stands before a word's sign is none of the span's business.
        ("one, two", "one, two!", ["one, two"]),
        ("a\nb c d", "a\nb c d", ["a\n", "b c d"]),
        ("naive cafe s", "naive cafe\u0301", ["naive"]),  # a mark goes on with its letter
        ("...", "...", []),
    ],
)
def test_hand_worked_in_mode_text(document: str, text: str, kept: list[str]) -> None:
    settings_ = TraceSettings(mode="text")
    # So many tokens of which none occurs that rarity keeps every span.
    text += " " + "Z" * 200
    found = trace(text, index_of([document], BYTES), settings_)
    assert [span.text.strip(" ") for span in found.spans if not span.dropped] == [
        one.strip(" ") for one in kept
    ]


# --- many -----------------------------------------------------------------------------------------


def test_each_generation_keeps_its_row_and_the_tables_can_be_written(tmp_path: Path) -> None:
    index = index_of([f"Først: {VERSE} Så.", "en to tre fire", VERSE.upper()], BPE)
    texts = [VERSE, "", "xyz", VERSE.replace(" ", "  "), " \n", "en to tre", f"{VERSE} en to tre"]
    generations = [generation(text, f"g{number}") for number, text in enumerate(texts)]
    frames = trace_all(generations, index)
    assert list(frames["traces"]["generation_id"]) == [f"g{n}" for n in range(len(texts))]
    for name, frame in frames.items():
        tables.write(name, frame, tmp_path)
        assert len(tables.read(name, tmp_path)) == len(frame)
    one_by_one = [trace(g.text, index, generation_id=g.generation_id) for g in generations]
    assert tables.to_records("traces", frames["traces"]) == [t.summary for t in one_by_one]
    assert tables.to_records("spans", frames["spans"]) == [s for t in one_by_one for s in t.spans]
    assert tables.to_records("matches", frames["matches"]) == [
        m for t in one_by_one for m in t.matches
    ]


@pytest.mark.parametrize("texts", [[], [""], ["xyz", " "]])
def test_tables_without_a_span_can_be_written(tmp_path: Path, texts: list[str]) -> None:
    generations = [generation(text, f"g{number}") for number, text in enumerate(texts)]
    for name, frame in trace_all(generations, index_of(["a bb"], BPE)).items():
        tables.write(name, frame, tmp_path)
        assert len(tables.read(name, tmp_path)) == (len(texts) if name == "traces" else 0)


def test_a_trace_hangs_on_its_own_generation_alone() -> None:
    index = index_of([VERSE, f"{VERSE} {VERSE}", "en to tre fire"] * 5, BPE)
    first, second = generation(VERSE, "x"), generation("en to tre fire", "y")
    settings_ = TraceSettings(docs_per_span=2)
    forward = trace_all([first, second], index, settings_)["matches"]
    alone = trace_all([second], index, settings_)["matches"]
    assert forward[forward["generation_id"] == "y"].reset_index(drop=True).equals(alone)
    renamed = trace_all([replace(second, generation_id="z")], index, settings_)["matches"]
    assert list(renamed["document"]) != list(alone["document"])


def test_a_generation_without_a_completion_has_a_row_that_says_so(tmp_path: Path) -> None:
    lost = replace(generation("", "lost"), finish_reason="error", error="the server failed")
    index = build_index([Document("d", "a bb ccc")], BPE, tmp_path / "index")
    both = [lost, generation("a bb", "made")]
    here = trace_all(both, open_index(index))
    in_parts = trace_table(
        tables.to_frame("generations", both), IndexAddress((str(index),)), TraceSettings(),
        tmp_path / "parts",
    )  # fmt: skip
    for found in (here, in_parts):
        errors = dict(zip(found["traces"]["generation_id"], found["traces"]["error"], strict=True))
        assert errors == {"made": "", "lost": "no completion: the server failed"}
        assert set(found["spans"]["generation_id"]) == {"made"}
        tables.write("traces", found["traces"], tmp_path)


def test_shares_of_a_table_are_traced_apart_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build_index([Document("d", f"{VERSE} {VERSE}")], BPE, tmp_path / "index")
    some = [generation(f"{VERSE} {n}", f"g{n}") for n in range(batch.UNIT + 5)]
    table = tables.to_frame("generations", some)
    given = (table, IndexAddress((str(index),)), TraceSettings())
    whole = trace_table(*given, tmp_path / "whole")
    other = trace_share(*given, tmp_path / "parts", shard=(2, 2))
    assert other == len(some)
    assert batch.missing_units(tmp_path / "parts", 2) == [0]
    trace_share(*given, tmp_path / "parts", shard=(1, 2))

    def refuse(*_: object) -> None:
        raise AssertionError("traced again")

    monkeypatch.setattr(workers, "_trace_unit", refuse)
    for name, found in trace_table(*given, tmp_path / "parts").items():
        assert found.equals(whole[name])
    # Of other settings nothing is taken.
    monkeypatch.undo()
    trace_share(table, given[1], TraceSettings(docs_per_span=1), tmp_path / "parts", shard=(1, 2))
    assert batch.missing_units(tmp_path / "parts", 2) == [1]

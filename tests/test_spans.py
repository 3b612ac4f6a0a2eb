"""Step 1: maximal spans against every run looked up one by one, and their characters."""

from __future__ import annotations

import pytest
from helpers import DANISH, byte_tokenizer, index_of, word_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from propme.index.brute_force import BruteForceIndex
from propme.index.tokenizer import Tokenizer
from propme.simpletrace.spans import TracedText, in_mode, maximal_spans, tokenise
from propme.simpletrace.trace import trace

WORDS = word_tokenizer(["a", "b", "c", "d", "e", "f", "g", "h"])
BYTES = byte_tokenizer()
BPE = byte_tokenizer(DANISH, 80)

# Ids 1, 2 and 3 are the words a, b and c.
TOKENS = st.lists(st.integers(1, 3), max_size=10)
CORPUS = st.lists(TOKENS, min_size=1, max_size=4)


def slow_spans(documents: list[list[int]], ids: list[int]) -> list[tuple[int, int]]:
    occurring = [
        (start, stop)
        for start in range(len(ids))
        for stop in range(start + 1, len(ids) + 1)
        for document in documents
        if any(document[i : i + stop - start] == ids[start:stop] for i in range(len(document)))
    ]
    return sorted(
        {
            (s, e)
            for s, e in occurring
            if not any(a <= s and e <= b and b - a > e - s for a, b in occurring)
        }
    )


def traced(ids: list[int]) -> TracedText:
    return tokenise(" ".join("?abcdefgh"[i] for i in ids), index_of(["a"], WORDS))


def spans_of(documents: list[list[int]], ids: list[int]) -> list[tuple[int, int]]:
    return maximal_spans(traced(ids), BruteForceIndex(documents, WORDS))


# --- which spans ----------------------------------------------------------------------------------


@settings(max_examples=800, deadline=None)
@given(CORPUS, TOKENS)
def test_maximal_spans_are_those_of_brute_force(documents: list[list[int]], ids: list[int]) -> None:
    assert spans_of(documents, ids) == slow_spans(documents, ids)


@settings(max_examples=300, deadline=None)
@given(CORPUS, TOKENS, TOKENS, TOKENS)
def test_a_span_lies_in_one_of_any_longer_text(
    documents: list[list[int]], before: list[int], ids: list[int], after: list[int]
) -> None:
    longer = spans_of(documents, before + ids + after)
    for start, stop in spans_of(documents, ids):
        start, stop = start + len(before), stop + len(before)
        assert any(a <= start and stop <= b for a, b in longer)


@settings(max_examples=300, deadline=None)
@given(CORPUS, TOKENS, TOKENS)
def test_another_document_never_shortens_a_match(
    documents: list[list[int]], more: list[int], ids: list[int]
) -> None:
    small, large = BruteForceIndex(documents, WORDS), BruteForceIndex([*documents, more], WORDS)
    for start in range(len(ids)):
        assert large.longest_match(ids, start) >= small.longest_match(ids, start)
    wider = maximal_spans(traced(ids), large)
    for start, stop in maximal_spans(traced(ids), small):
        assert any(a <= start and stop <= b for a, b in wider)


@pytest.mark.parametrize(
    ("documents", "text", "expected"),
    [
        (["a b c d"], "a b c d", [(0, 4)]),
        (["a b c d"], "e a b", [(1, 3)]),
        (["a b c d"], "c d e", [(0, 2)]),
        (["a b c d", "c d e f"], "a b c d e f", [(0, 4), (2, 6)]),
        (["a b", "c d"], "a b c d", [(0, 2), (2, 4)]),  # never across two documents
        (["a b c", "a b"], "a b c", [(0, 3)]),
        (["a b", "a b"], "a b a b", [(0, 2), (2, 4)]),
        (["a"], "a a a", [(0, 1), (1, 2), (2, 3)]),
        (["d"], "a b d", [(2, 3)]),  # the last token is a start too
        (["a b"], "c", []),
        (["a b"], "a", [(0, 1)]),
        (["a b"], "", []),
        (["a b"], " \t\r\n ", []),
    ],
)
def test_hand_worked_spans(
    documents: list[str], text: str, expected: list[tuple[int, int]]
) -> None:
    index = index_of(documents, WORDS)
    assert maximal_spans(tokenise(text, index), index) == expected


def test_a_line_start_is_a_start() -> None:
    index = index_of(["x\nabcdef"], BYTES)
    text = "..\nabcdef"
    assert maximal_spans(tokenise(text, index), index) == [(2, 9)]


# --- characters -----------------------------------------------------------------------------------


def test_white_space_at_the_ends_is_left_out_and_offsets_are_of_the_text_as_generated() -> None:
    index = index_of(["a b c d"], WORDS)
    found = tokenise(" \r\n\ta b  c \n", index)
    assert (found.char_start, found.char_stop, found.stripped) == (4, 10, "a b  c")
    assert found.offsets == ((4, 5), (6, 7), (9, 10))
    assert found.characters(1, 3) == (6, 10)


@pytest.mark.parametrize("text", ["", " ", "\n\t \r\n", "\u00a0\u2003"])
def test_a_blank_text_has_no_token_and_an_empty_place_at_its_end(text: str) -> None:
    found = tokenise(text, index_of(["a b"], WORDS))
    assert (found.ids, found.offsets, found.stripped) == ((), (), "")
    assert (found.char_start, found.char_stop) == (len(text), len(text))


def test_the_first_of_equal_texts_is_not_mistaken_for_the_stripped_one() -> None:
    found = tokenise("  a a  ", index_of(["a"], WORDS))
    assert (found.char_start, found.char_stop) == (2, 5)


@pytest.mark.parametrize("tokenizer", [BYTES, BPE], ids=["bytes", "bpe"])
@pytest.mark.parametrize(
    "passage",
    [
        "Rødgrød med fløde",
        "»æblet?« – og",
        "🎉🎊 🥪",
        "a\tb\t\tc d e",
        "en\r\nto\r\n\r\ntre",
        "e\u0301te\u0301 👩‍👩‍👧 x",
    ],
)
def test_a_passage_is_found_with_its_characters(tokenizer: Tokenizer, passage: str) -> None:
    index = index_of([f"Forud. {passage} bagefter"], tokenizer)
    text = f"\n\n~~~ {passage} ~~~ "
    found = trace(text, index)
    longest = max(found.spans, key=lambda span: span.length)
    assert passage in longest.text
    assert longest.text.strip() == passage
    assert all(text[s.char_start : s.char_stop] == s.text for s in found.spans)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.text("aæø🎉🎊 \t\r\n", max_size=12), min_size=1, max_size=3),
    st.text("aæø🎉🎊 \t\r\n", max_size=12),
)
def test_the_text_of_a_span_stands_in_the_corpus(documents: list[str], text: str) -> None:
    for tokenizer in (BYTES, BPE):
        index = index_of(documents, tokenizer)
        found = tokenise(text, index)
        assert maximal_spans(found, index) == slow_spans(
            [tokenizer.encode(d) for d in documents], list(found.ids)
        )
        for start, stop in maximal_spans(found, index):
            first, last = found.characters(start, stop)
            assert found.char_start <= first <= last <= found.char_stop
            assert any(text[first:last] in document for document in documents)
            whole = tokenizer.decode(found.ids[start:stop])
            assert whole.strip("\ufffd") == text[first:last]


def test_a_character_of_which_only_some_bytes_agree_is_not_in_the_text() -> None:
    # 🎉 is F0 9F 8E 89 and 🎊 is F0 9F 8E 8A; é is C3 A9 and ĩ is C4 A9.
    index = index_of(["ĩabcd🎊"], BYTES)
    found = tokenise("éabcd🎉", index)
    assert maximal_spans(found, index) == [(1, 9)]
    assert found.characters(1, 9) == (1, 5)
    assert found.characters(0, 10) == (0, 6)
    assert found.characters(7, 9) == (6, 6)  # the two bytes in the middle of 🎉


# --- which are left out ---------------------------------------------------------------------------


def test_four_tokens_are_enough_and_three_are_not() -> None:
    found = traced([1, 2, 3, 4, 5])
    runs = [(0, n) for n in range(1, 6)] + [(1, 4), (1, 5)]
    reasons = [reason for _, _, reason in in_mode(runs, found, "mixed")]
    assert reasons == ["short", "short", "short", "", "", "short", ""]


@pytest.mark.parametrize("text", ["a", "a b", "a b c", "a b c d"])
def test_the_whole_generation_is_kept_at_any_length(text: str) -> None:
    found = trace(f" {text} ", index_of(["e a b c d e"], WORDS))
    assert [(s.start, s.stop, s.dropped, s.text) for s in found.spans] == [
        (0, len(text.split()), "", text)
    ]
    assert found.summary.longest_segment == len(text.split())


def test_a_blank_span_is_dropped_and_one_with_a_sign_is_not() -> None:
    index = index_of(["p \t \n q", "u\t\t.\tv"], BYTES)
    found = trace("z \t \n z\t\t.\tz", index)
    assert [(s.text, s.dropped) for s in found.spans] == [
        (" \t \n ", "blank"),
        ("\t\t.\t", ""),
    ]


def test_bytes_of_cut_characters_alone_are_a_blank_span() -> None:
    # U+5F389 is F1 9F 8E 89: the last three bytes of it and the first three of the next sign.
    found = trace("\U0001f389\U0001f389", index_of(["\U0005f389\U0001f38a"], BYTES))
    assert [(s.start, s.stop, s.text, s.dropped) for s in found.spans] == [
        (0, 3, "", "short"),
        (1, 7, "", "blank"),
        (5, 8, "", "short"),
    ]

"""Near-verbatim passages in characters: the words of the definition, where they stand."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from propme.near_verbatim import normalize_words, recall
from propme.viewer.comparing import Passage, Side, located_words, passages

#: Signs that some step of the normalisation turns into others, joins, parts or takes away.
SIGNS = "ab.  .\n_…\u2024\u2025\u00b4\u0301\u00a0\u2028\u0085İΣß´Å«“–ﬁ①😀\ufdfa\u3000\uff0e1"


@settings(max_examples=600)
@given(st.text(st.sampled_from(SIGNS), max_size=30))
def test_located_words_are_the_words_of_the_definition_in_order(text: str) -> None:
    words = located_words(text)
    assert [word for word, _, _ in words] == normalize_words(text)
    before = (0, 0)
    for _, start, stop in words:
        assert 0 <= start < stop <= len(text)
        assert start >= before[1] or (start, stop) == before
        before = (start, stop)


def test_a_word_has_its_place_in_the_text_as_it_is() -> None:
    text = "“Ｗell”,\u00a0said _he_ . . . 😀 then"
    placed = [(word, text[start:stop]) for word, start, stop in located_words(text)]
    assert placed == [
        ('"well",', "“Ｗell”,"),
        ("said", "said"),
        ("he", "_he_"),
        ("...", ". . ."),
        ("😀", "😀"),
        ("then", "then"),
    ]


def test_passages_and_what_agrees_in_them() -> None:
    # n = 8: l1 2 (8 * .15 = 1.2, clamped), l2 4, g1 1, a1 1. "one two three" and "five six seven
    # eight" are three and four words with one word between in both: one passage of seven.
    generation = "one two three FOUR five six seven eight"
    window = "zero 😀 One two three vier five six seven eight nine"
    (passage,) = passages(generation, window)
    assert passage == Passage(
        Side(0, 39, ((0, 13), (19, 39))),
        Side(7, 46, ((7, 20), (26, 46))),
        7,
    )
    assert window[7:20] == "One two three"


def test_nothing_in_common_is_no_passage() -> None:
    assert passages("one two three four", "five six") == ()
    assert passages("", "") == ()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from("abcd"), max_size=30).map(" ".join),
    st.lists(st.sampled_from("abcde"), max_size=60).map(" ".join),
)
def test_words_of_the_passages_make_the_recall(generation: str, window: str) -> None:
    found = passages(generation, window)
    n = len(normalize_words(generation))
    assert recall(generation, window) == (sum(p.words for p in found) / n if n else 0)
    for passage in found:
        for text, side in ((generation, passage.generation), (window, passage.document)):
            assert side.start == side.agreeing[0][0]
            assert side.stop == side.agreeing[-1][1]
            assert text[side.start - 1 : side.start].strip() == ""
        for (a, b), (c, d) in zip(
            passage.generation.agreeing, passage.document.agreeing, strict=True
        ):
            assert normalize_words(generation[a:b]) == normalize_words(window[c:d])

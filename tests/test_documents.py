"""Step 3: which documents, how many, the window around a match, and the tier."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Sequence

import pytest
from helpers import DANISH, byte_tokenizer, index_of, word_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from propme.index.brute_force import BruteForceIndex
from propme.index.protocol import Occurrences, Places, Position
from propme.index.text_search import TextOccurrences
from propme.simpletrace import documents
from propme.simpletrace.documents import (
    Hits,
    Wanted,
    count_documents,
    normalize,
    sample_documents,
    window_around,
)

WORDS = word_tokenizer(["a", "b", "c", "d"])
A, B, C, D = 1, 2, 3, 4
BYTES = byte_tokenizer()
BPE = byte_tokenizer(DANISH, 60)


# --- which documents ------------------------------------------------------------------------------


def sample(index: BruteForceIndex, n: int, seed: int = 0, name: str = "g") -> list[Position]:
    return sample_documents(Hits.of(index, index.find([A, B])), n, seed, name)


def found_as_text(places, exact):
    return Hits.of_text(TextOccurrences(tuple(Position(*place) for place in places), exact))


def test_documents_among_some_of_the_places_of_a_text_are_a_lower_bound() -> None:
    """Two places in one document and one in another, of which there may be more."""
    places = [(0, 1, 0), (0, 1, 7), (0, 2, 0)]
    assert count_documents(found_as_text(places, exact=True)) == (2, True)
    assert count_documents(found_as_text(places, exact=False)) == (2, False)
    assert count_documents(found_as_text(places[:1], exact=True)) == (1, True)
    assert count_documents(found_as_text(places[:1], exact=False)) == (1, False)


def test_all_documents_where_there_are_no_more_than_wanted() -> None:
    index = index_of(["a b", "c", "c a b a b", "a b a b a b"], WORDS)
    assert [p.document for p in sample(index, 3)] == [0, 2, 3]
    assert [p.document for p in sample(index, 10)] == [0, 2, 3]


def test_no_more_occurrences_are_drawn_than_may_be() -> None:
    """One document holds the passage 50 times, three others once each."""
    index = index_of(["a b " * 50, "a b", "a b", "a b"], WORDS)
    hits = Hits.of(index, index.find([A, B]))
    asked: list[int] = []

    def counted(numbers: Sequence[int]) -> Places:
        asked.extend(numbers)
        return hits.at(numbers)

    for most, n in itertools.product((None, 1, 3, 10, 53), (1, 2, 4, 5)):
        asked.clear()
        found = sample_documents(Hits(hits.count, counted), n, 0, "g", most)
        assert len(asked) == len(set(asked)) <= min(hits.count, max(n, most or 53))
        assert 1 <= len(found) <= min(n, 4)
        if most in (None, 53):
            assert found == sample_documents(hits, n, 0, "g")
            assert len(found) == min(n, 4)


def test_each_position_is_an_occurrence() -> None:
    index = index_of(["d a b", "c", "c a b a b"], WORDS)
    for seed in range(20):
        first, second = sample(index, 5, seed)
        assert first == Position(0, 0, 1)
        assert second in (Position(0, 2, 1), Position(0, 2, 3))


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_documents_are_distinct_and_a_repeated_one_is_drawn_anew(n: int) -> None:
    # One document holds 95 of the 100 occurrences, so that most draws repeat it.
    index = index_of(["a b " * 95, *["a b"] * 5], WORDS)
    for seed in range(40):
        drawn = [p.document for p in sample(index, n, seed)]
        assert len(drawn) == len(set(drawn)) == n


def test_no_document_is_asked_for_where_there_is_no_occurrence() -> None:
    index = index_of(["a c"], WORDS)
    assert sample(index, 5) == []


def test_seed_and_name_decide_and_nothing_else() -> None:
    index = index_of(["a b"] * 50, WORDS)
    first = {(seed, name): sample(index, 5, seed, name) for seed in (0, 1) for name in "xyz"}
    again = {key: sample(index, 5, *key) for key in reversed(first)}  # in another order
    assert again == first
    assert len({tuple(drawn) for drawn in first.values()}) == 6
    assert sample(index, 5, 1, "2") != sample(index, 5, 12, "")  # they do not run together


def test_the_draw_is_uniform_over_occurrences() -> None:
    # Five occurrences, of which document 0 holds three.
    index = index_of(["a b a b a b", "a b", "a b"], WORDS)
    drawn = Counter(sample(index, 1, seed)[0] for seed in range(2000))
    assert len(drawn) == 5
    chi_square = sum((count - 400) ** 2 / 400 for count in drawn.values())
    assert chi_square < 18.5  # 4 degrees of freedom: exceeded once in a thousand


def test_distinct_documents_are_counted_up_to_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of(["a b a b", "a b", "c", "b a"], WORDS)
    assert count_documents(Hits.of(index, index.find([A, B]))) == (2, True)
    assert count_documents(Hits.of(index, index.find([D]))) == (0, True)
    monkeypatch.setattr(documents, "COUNTED_OCCURRENCES", 2)
    n, exact = count_documents(Hits.of(index, index.find([A, B])))
    assert n in (1, 2)
    assert not exact
    monkeypatch.setattr(documents, "COUNTED_OCCURRENCES", 3)
    assert count_documents(Hits.of(index, index.find([A, B]))) == (2, True)


def test_the_cap_is_a_thousand() -> None:
    index = index_of(["a " * 1000, "b " * 1001], WORDS)
    assert count_documents(Hits.of(index, index.find([A]))) == (1, True)
    assert count_documents(Hits.of(index, index.find([B]))) == (1, False)


def test_a_document_is_known_by_its_shard_too() -> None:
    class TwoShards(BruteForceIndex):
        """The same documents twice, as shards 0 and 1."""

        def locate(self, occurrences: Occurrences, number: int) -> Position:
            position = super().locate(occurrences, number)
            return Position(number % 2, 0, position.offset)

    index = TwoShards([[A, B, A, B]], WORDS)
    found = index.find([A, B])
    assert count_documents(Hits.of(index, found)) == (2, True)
    assert [(p.shard, p.document) for p in sample_documents(Hits.of(index, found), 5, 0, "g")] == [
        (0, 0),
        (1, 0),
    ]


# --- the window -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "length", "n_tokens", "expected"),
    [
        (12, 2, 2, "ijklmnopqr"),  # ten tokens, the match in the middle: four before, four after
        (0, 2, 2, "abcdefghij"),  # the document begins
        (3, 2, 2, "abcdefghij"),
        (24, 2, 2, "qrstuvwxyz"),  # and ends
        (12, 1, 1, "klmno"),
        (12, 4, 6, "abcdefghijklmnopqrstuvwxyz"),  # thirty tokens are more than it has
        (5, 3, 3, "abcdefghijklmno"),
        (6, 3, 3, "abcdefghijklmno"),
        (7, 3, 3, "bcdefghijklmnop"),
    ],
)
def test_the_window_is_five_times_the_generation(
    offset: int, length: int, n_tokens: int, expected: str
) -> None:
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    index = index_of(["first", alphabet, "last"], BYTES)
    window = window_around(index, Position(0, 1, offset), length, n_tokens)
    assert window.text == expected
    assert window.text[window.char_start : window.char_stop] == alphabet[offset : offset + length]
    assert window.position == Position(0, 1, offset)


def test_a_match_longer_than_the_window_is_shown_whole() -> None:
    window = window_around(index_of(["abcdefghijklmn"], BYTES), Position(0, 0, 2), 9, 1)
    assert (window.text, window.char_start, window.char_stop) == ("cdefghijk", 0, 9)


@pytest.mark.parametrize("picture", ["🎉", "–", "å"])
@pytest.mark.parametrize("n_tokens", [1, 2, 3])
def test_a_window_that_begins_and_ends_inside_a_character(picture: str, n_tokens: int) -> None:
    # Around the match nothing but signs of several bytes: some window cuts each of its bytes.
    for before in range(4):
        text = "x" * before + picture * 5 + "q" + picture * 5
        index = index_of([text], BYTES)
        at = len((text[: before + 5]).encode())
        window = window_around(index, Position(0, 0, at), 1, n_tokens)
        assert window.text[window.char_start : window.char_stop] == "q"
        assert len(window.text.replace("\ufffd", "")) < 2 + 5 * n_tokens


def test_a_replacement_character_of_the_document_is_a_character() -> None:
    text = "x\ufffdabc\ufffdz"
    window = window_around(index_of([text], BYTES), Position(0, 0, 4), 6, 10)
    assert window.text == text
    assert window.text[window.char_start : window.char_stop] == "abc\ufffd"


def test_a_character_cut_by_the_match_is_left_out_of_it() -> None:
    # é is C3 A9: the match begins with its second byte and ends with the first.
    window = window_around(index_of(["éabcé"], BYTES), Position(0, 0, 1), 5, 10)
    assert window.text[window.char_start : window.char_stop] == "abc"
    inside = window_around(index_of(["a🎉b"], BYTES), Position(0, 0, 2), 2, 10)
    assert inside.char_start == inside.char_stop


@settings(max_examples=400, deadline=None)
@given(
    st.text("aø🎉– \n", min_size=1, max_size=40),
    st.integers(0, 39),
    st.integers(1, 8),
    st.integers(0, 8),
)
def test_the_match_stands_where_the_window_says(text: str, at: int, length: int, more: int) -> None:
    """A match of whole characters, in a window cut anywhere."""
    for tokenizer in (BYTES, BPE):
        ids, offsets = tokenizer.encode_with_offsets(text)
        at = min(at, len(ids) - 1)
        stop = min(at + length, len(ids))
        while at and offsets[at][0] < offsets[at - 1][1]:
            at -= 1
        while stop < len(ids) and offsets[stop][0] < offsets[stop - 1][1]:
            stop += 1
        n_tokens = stop - at + more
        window = window_around(index_of([text], tokenizer), Position(0, 0, at), stop - at, n_tokens)
        match = text[offsets[at][0] : offsets[stop - 1][1]]
        assert window.text[window.char_start : window.char_stop] == match
        assert window.text.strip("\ufffd") in text
        starts = range(max(0, stop - 5 * n_tokens), at + 1)
        size = min(len(ids), 5 * n_tokens)
        assert window.text in {tokenizer.decode(ids[s : s + size]) for s in starts}


# --- the normalised form --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("", ""),
        (" \r\n\t ", ""),
        ("ﬁnal ①  ｆｕｌｌ", "final 1 full"),  # NFKC
        ("e\u0301", "é"),
        ("a\u00a0b", "a b"),  # a hard space is one after NFKC
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("a\r\n\r\nb", "a\n\nb"),
        ("a \t  b\t\tc", "a b c"),
        ("a \n b", "a\nb"),
        ("a\t\n\t\tb", "a\nb"),
        ("a\n\nb", "a\n\nb"),
        ("a\n\n\nb", "a\n\nb"),
        ("a\n \n\t\n  \nb", "a\n\nb"),
        ("a\r\r\r\rb", "a\n\nb"),
        ("  a b \n", "a b"),
        ("\n\n\na\n\n\n", "a"),
        ("Det ER – »så«!", "Det ER – »så«!"),  # case and punctuation stay
        ("a…b", "a...b"),  # which is NFKC, not a rule of punctuation
    ],
)
def test_hand_worked_normal_forms(text: str, normal: str) -> None:
    assert normalize(text) == normal


@settings(max_examples=500, deadline=None)
@given(st.text(st.one_of(st.sampled_from(" \t\r\n\u00a0\u0301\u00b4ﬁaA.…"), st.characters())))
def test_the_normal_form_is_its_own_and_holds_what_it_says(text: str) -> None:
    normal = normalize(text)
    assert normalize(normal) == normal
    assert normal == normal.strip()
    assert unicodedata.is_normalized("NFKC", normal)
    for never in ("\r", "\t", "  ", " \n", "\n ", "\n\n\n"):
        assert never not in normal


# --- the tier -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stripped", "window", "holds_whole", "tier"),
    [
        ("a b", "xa by", False, "full_raw"),
        ("a b", "elsewhere", True, "full_raw"),
        ("a b", "a  b", False, "full_normalized"),
        ("a  b", "a b", False, "full_normalized"),
        ("a\r\nb", "x a \n b", False, "full_normalized"),
        ("a b", "a B", False, "partial"),
        ("a b", "a, b", False, "partial"),
        ("a b", "a", False, "partial"),
        ("", "a", False, "partial"),
    ],
)
def test_tiers(stripped: str, window: str, holds_whole: bool, tier: str) -> None:
    assert Wanted(stripped).tier_in(window, holds_whole) == tier

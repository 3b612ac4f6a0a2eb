"""Texts found as characters, however a tokenizer splits them where they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from helpers import ENGINES
from hypothesis import example, given, settings
from hypothesis import strategies as st

from propme.index import Position, Tokenizer, build_index, open_index
from propme.index.brute_force import BruteForceIndex
from propme.index.text_search import find_text
from propme.records import Document

#: Tokenizers that split at any white space, so that three words of any text are found exactly.
SPLITTING = ("bytes", "bytes-prefix-space", "bytes-trimming", "byte-fallback")

#: Some of whose tokens hold a newline together with what stands before or after it.
JOINING = ("bytes-newlines-joined", "metaspace-bpe", "metaspace-unigram")

WORDS = ("ab", "a", "abc", "b", "bab", "ab.", "a)", ")", "'s", "ø", "øl", "é", "😀", "“ab", '"a')
GAPS = (" ", " ", " ", "  ", "\n", "\n", "\n\n", "\n ", " \n", "\t", ' "', " (", "\r\n")


def occurrences(documents: Sequence[str], text: str) -> list[int]:
    """For every occurrence the number of its document; overlapping ones count."""
    return [
        number
        for number, document in enumerate(documents)
        for at in range(len(document))
        if text and document.startswith(text, at)
    ]


def index_of(documents: Sequence[str], tokenizer: Tokenizer) -> BruteForceIndex:
    return BruteForceIndex([tokenizer.encode(text) for text in documents], tokenizer)


@st.composite
def texts(draw: st.DrawFn, most: int) -> str:
    pieces = st.tuples(st.sampled_from(WORDS), st.sampled_from(GAPS))
    drawn = draw(st.lists(pieces, min_size=1, max_size=most))
    return "".join(word + gap for word, gap in drawn)


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[str], str]:
    """Some documents, and a text cut out of one at any character, or another text."""
    some = draw(texts(7))
    documents = draw(st.lists(st.one_of(texts(8), st.just(some)), min_size=1, max_size=3))
    joined = some * draw(st.integers(1, 2))
    start = draw(st.integers(0, len(joined) - 1))
    stop = draw(st.integers(start, len(joined)))
    return [*documents, joined], draw(st.one_of(st.just(joined[start:stop]), texts(4)))


def assert_true(documents: list[str], text: str, tokenizer: Tokenizer) -> bool:
    """Hold the answer against a search by characters; return whether it claims to be exact."""
    found = find_text(index_of(documents, tokenizer), text)
    expected = occurrences(documents, text.strip())
    assert len(set(found.positions)) == len(found.positions)
    in_documents = sorted(p.document for p in found.positions)
    if found.exact:
        assert in_documents == expected
    else:
        assert all(in_documents.count(n) <= expected.count(n) for n in in_documents)
    assert found.documents == {(0, n) for n in in_documents}
    return found.exact


# --- against a search by characters ---------------------------------------------------------------


@pytest.mark.parametrize("name", SPLITTING)
def test_three_words_are_counted_exactly(name: str, text_tokenizer: Callable) -> None:
    tokenizer = text_tokenizer(name)

    @settings(max_examples=150, deadline=None)
    @given(searches())
    @example((["ab ab ab ab ab ab"], "ab ab ab"))
    @example((["é é ab ab", "ééa ab ab"], "éa ab a"))
    @example((["ab ab 😀😀"], "b ab 😀"))
    @example((["😀😀 ab ab"], "😀 ab ab"))
    def check(search: tuple[list[str], str]) -> None:
        documents, text = search
        exact = assert_true(documents, text, tokenizer)
        assert exact == (len(text.split()) >= 3 or not text.strip())

    check()


@pytest.mark.parametrize("name", JOINING)
def test_an_answer_that_claims_to_be_exact_is(name: str, text_tokenizer: Callable) -> None:
    tokenizer = text_tokenizer(name)

    @settings(max_examples=150, deadline=None)
    @given(searches())
    @example((["ab\nab ab ab"], "b\nab ab ab"))
    @example((["ab ab\nab"], "ab ab\na"))
    @example((["ab ab)\n ab", "ab ab))\n ab"], "b ab)\n ab"))
    def check(search: tuple[list[str], str]) -> None:
        assert_true(*search, tokenizer)

    check()


@pytest.mark.parametrize("name", [*SPLITTING, *JOINING])
def test_three_words_between_spaces_are_exact_in_every_tokenizer(
    name: str, text_tokenizer: Callable
) -> None:
    words = st.lists(st.sampled_from(WORDS), min_size=3, max_size=6)

    @settings(max_examples=40, deadline=None)
    @given(words, words)
    def check(before: list[str], searched: list[str]) -> None:
        text = " ".join(searched)
        documents = [" ".join([*before, text]), text, text[1:] + text]
        assert assert_true(documents, text, text_tokenizer(name))

    check()


@pytest.mark.parametrize("name", SPLITTING)
@pytest.mark.parametrize("before", ["", " ", "\n", '"', " “", "(", "c", "é", "\t\n"])
@pytest.mark.parametrize("after", ["", " ", "\n", '"', ".", "c", "é", " ab"])
def test_what_stands_around_a_text_does_not_matter(
    name: str, before: str, after: str, text_tokenizer: Callable
) -> None:
    for text in ("ab bab abc", "øl ab\nab ab.", "'s ab)  (ab"):
        found = find_text(index_of([before + text + after], text_tokenizer(name)), text)
        assert (len(found.positions), found.exact) == (1, True), text


# --- what the search asks of a tokenizer ----------------------------------------------------------


@pytest.mark.parametrize("name", [*SPLITTING, *JOINING])
def test_a_cut_takes_no_more_than_the_character_it_cuts(
    name: str, text_tokenizer: Callable
) -> None:
    tokenizer = text_tokenizer(name)

    @settings(max_examples=60, deadline=None)
    @given(st.text(alphabet="ab ø😀é", max_size=12), st.data())
    @example("😀😀é", None)
    def check(text: str, data: st.DataObject | None) -> None:
        ids, offsets = tokenizer.encode_with_offsets(text)
        cuts = st.integers(0, len(ids))
        pairs = [sorted((data.draw(cuts), data.draw(cuts)))] if data else [(1, len(ids) - 1)]
        for start, stop in pairs:
            first = max([0, *(b for _, b in offsets[:start])])
            last = min([len(text), *(a for a, _ in offsets[stop:])])
            decoded = tokenizer.decode(ids[start:stop])
            assert text[first:last].strip() in decoded
            assert decoded.strip("\ufffd").strip() in text

    check()


def test_what_tokens_join_is_seen(text_tokenizer: Callable) -> None:
    joined = {name: text_tokenizer(name).joins for name in (*SPLITTING, *JOINING)}
    assert all(not joins("b", " ") for joins in joined.values())
    assert [name for name, joins in joined.items() if joins("b", "\n")] == list(JOINING[1:])
    assert joined["bytes-newlines-joined"](".", "\n")
    assert not joined["bytes"](".", "\n")


# --- the edges of what can be asked ---------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_no_text_occurs_nowhere(text: str, text_tokenizer: Callable) -> None:
    found = find_text(index_of(["ab  ab\n"], text_tokenizer("bytes")), text)
    assert (found.positions, found.exact, found.documents) == ((), True, frozenset())


def test_a_text_longer_than_every_document(text_tokenizer: Callable) -> None:
    documents = ["ab ab ab", ""]
    for name in (*SPLITTING, *JOINING):
        index = index_of(documents, text_tokenizer(name))
        found = find_text(index, "ab ab ab ab")
        assert (found.positions, found.exact) == ((), True)
        assert find_text(index, "ab " * 500).positions == ()


@pytest.mark.parametrize("text", ["ab", "ab cab", " ab\n", "nowhere"])
def test_fewer_words_give_a_lower_bound(text: str, text_tokenizer: Callable) -> None:
    documents = ["ab cab ab", '"ab cab', "(ab\nab", "cabc", "ab"]
    found = find_text(index_of(documents, text_tokenizer("bytes")), text)
    assert not found.exact
    assert 0 <= len(found.positions) <= len(occurrences(documents, text.strip()))
    if text != "nowhere":
        # after nothing, a space, a newline, a quote and a bracket, the word being whole
        whole = {"ab": [0, 0, 1, 2, 2, 4], "ab cab": [0, 1]}[text.strip()]
        assert set(whole) <= {p.document for p in found.positions}
        assert len(found.positions) >= len(whole)


def test_white_space_at_the_ends_is_left_out(text_tokenizer: Callable) -> None:
    index = index_of(["ab bab abc"], text_tokenizer("bytes"))
    assert find_text(index, "\n ab bab abc \n") == find_text(index, "ab bab abc")


def test_one_word_more_or_less_is_not_the_text(text_tokenizer: Callable) -> None:
    index = index_of(["ab bab abc ab", "ab  bab abc", "Ab bab abc"], text_tokenizer("bytes"))
    found = find_text(index, "ab bab abc ab")
    assert [p.document for p in found.positions] == [0]
    assert len(find_text(index, "b bab abc").positions) == 2
    assert find_text(index, "ab bab abd").positions == ()


def test_beyond_the_most_candidates_the_answer_is_a_lower_bound(text_tokenizer: Callable) -> None:
    index = index_of(["ab bab abc\n" * 5], text_tokenizer("bytes"))
    for most, count in ((5, 5), (9, 5), (4, 4), (1, 1)):
        found = find_text(index, "ab bab abc", most)
        assert (len(found.positions), found.exact) == (count, most >= 5)
        assert len(find_text(index, "bab", most).positions) == min(most, 5)


def test_a_position_is_that_of_a_token_of_the_text(text_tokenizer: Callable) -> None:
    tokenizer = text_tokenizer("bytes")
    index = index_of(["abc ab", "é ab bab abc"], tokenizer)
    (position,) = find_text(index, "ab bab abc").positions
    ids = index.document_tokens(0, 1)
    assert position == Position(0, 1, len(tokenizer.encode("é ab")))
    assert tokenizer.decode(ids[position.offset :]) == " bab abc"


@pytest.mark.parametrize("engine", ENGINES)
def test_every_sentence_of_real_text_is_found_in_a_real_index(
    engine: str, tmp_path: Path, bpe: Tokenizer, real_texts: tuple[str, ...]
) -> None:
    documents = [Document(str(n), text) for n, text in enumerate(real_texts)]
    index = open_index(build_index(documents, bpe, tmp_path / "index", shard_bytes=500), engine)
    assert index.document_at(len(documents) - 1)[0] > 0
    numbers = {index.document_at(n): n for n in range(len(documents))}
    for text in real_texts:
        for start in range(0, len(text) - 30, 7):
            passage = text[start : start + 30].strip()
            found = find_text(index, passage)
            expected = occurrences(real_texts, passage)
            assert found.exact == (len(passage.split()) >= 3)
            if found.exact:
                assert sorted(numbers[p.shard, p.document] for p in found.positions) == expected
            else:
                assert len(found.positions) <= len(expected)

"""Texts found as characters, however a tokenizer splits them where they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from helpers import ENGINES, byte_tokenizer, index_of, word_tokenizer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as Backend

from propme.index import Position, Tokenizer, build_index, open_index, text_search
from propme.index.brute_force import BruteForceIndex
from propme.index.text_search import find_text
from propme.records import Document

#: Tokenizers that split at any white space.
SPLITTING = ("bytes", "bytes-prefix-space", "bytes-trimming", "byte-fallback")

#: Some of whose tokens hold a newline together with what stands before or after it.
JOINING = ("bytes-newlines-joined", "metaspace-bpe", "metaspace-unigram")

BYTES = Tokenizer.load("bytes")

WORDS = ("ab", "a", "abc", "b", "bab", "ab.", "a)", ")", "'s", "ø", "øl", "é", "😀", "“ab", '"a')
GAPS = (" ", " ", " ", "  ", "\n", "\n", "\n\n", "\n ", " \n", "\t", ' "', " (", "\r\n")

#: Also such as no tokenizer here has seen, and what unknown ones and spaces are written as.
SIGNS = (
    *WORDS,
    *GAPS,
    "aa",
    "aaaa",
    "æ",
    "🥪",
    "🎉",
    "☃",
    "日",
    "<",
    "unk",
    ">",
    "▁",
    "\xa0",
    "\x00",
)


def occurrences(documents: Sequence[str], text: str) -> list[int]:
    """For every occurrence the number of its document; overlapping ones count."""
    return [
        number
        for number, document in enumerate(documents)
        for at in range(len(document))
        if text and document.startswith(text, at)
    ]


def decoded(index: BruteForceIndex) -> list[str]:
    """What the index holds of its documents, which need not be all that they were."""
    numbers = range(index.n_documents)
    return [index.tokenizer.decode(index.document_tokens(0, number)) for number in numbers]


def first_tokens(index: BruteForceIndex, text: str) -> Counter[Position]:
    """For every occurrence the token that holds its first byte."""
    found: Counter[Position] = Counter()
    for number in range(index.n_documents):
        spelt = [index.tokenizer.token_bytes[t] for t in index.document_tokens(0, number)]
        owners = [offset for offset, token in enumerate(spelt) for _ in token]
        whole = b"".join(spelt)
        starts = (at for at in range(len(whole)) if whole.startswith(text.encode(), at))
        found.update(Position(0, number, owners[at]) for at in starts)
    return found


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


@st.composite
def short_searches(draw: st.DrawFn) -> tuple[list[str], str]:
    """Some documents of any signs, and a few characters cut out of one, or others."""
    signs = draw(st.lists(st.sampled_from(SIGNS), min_size=1, max_size=8, unique=True))
    strings = st.lists(st.sampled_from(signs), min_size=1, max_size=12).map("".join)
    documents = draw(st.lists(strings, min_size=1, max_size=3))
    whole = draw(st.sampled_from(documents))
    start = draw(st.integers(0, len(whole) - 1))
    cut = whole[start : start + draw(st.integers(1, 6))]
    few = st.lists(st.sampled_from(signs), min_size=1, max_size=3).map("".join)
    return documents, draw(st.one_of(st.just(cut), few))


def assert_exact(documents: list[str], text: str, tokenizer: Tokenizer) -> None:
    """Hold the answer against a search by characters, and against that of an index of bytes."""
    index = index_of(documents, tokenizer)
    expected = occurrences(decoded(index), text.strip())
    for searched in (index, index_of(decoded(index), BYTES)):
        found = find_text(searched, text)
        assert found.exact
        assert sorted(p.document for p in found.positions) == expected
        assert found.documents == {(0, number) for number in expected}
        if len(text.split()) in (1, 2):
            assert Counter(found.positions) == first_tokens(searched, text.strip())


# --- against a search by characters ---------------------------------------------------------------


@pytest.mark.parametrize("name", [*SPLITTING, *JOINING])
def test_a_text_is_counted_exactly(name: str, text_tokenizer: Callable) -> None:
    tokenizer = text_tokenizer(name)

    @settings(max_examples=100, deadline=None)
    @given(searches())
    @example((["ab ab ab ab ab ab"], "ab ab ab"))
    @example((["😀 ab ab ab"], "\ufffd ab ab"))  # a character cut in two reads as U+FFFD
    @example((["é é ab ab", "ééa ab ab"], "éa ab a"))
    @example((["ab ab 😀😀"], "b ab 😀"))
    @example((["😀😀 ab ab"], "😀 ab ab"))
    @example((["ab\nab ab ab"], "b\nab ab ab"))
    @example((["ab ab\nab"], "ab ab\na"))
    @example((["ab ab)\n ab", "ab ab))\n ab"], "b ab)\n ab"))
    def check(search: tuple[list[str], str]) -> None:
        assert_exact(*search, tokenizer)

    check()


@pytest.mark.parametrize("name", [*SPLITTING, *JOINING])
def test_a_short_text_is_counted_exactly(name: str, text_tokenizer: Callable) -> None:
    tokenizer = text_tokenizer(name)

    @settings(max_examples=120, deadline=None)
    @given(short_searches())
    @example((["aaaaaaa", "aaa"], "aa"))  # one token may hold it twice, and another twice more
    @example((["ab", "ab", "abab"], "baba"))  # not from one document into the next
    @example((["😀🎉", "🥪"], "🎉"))
    @example((["  ab", "ab"], "ab"))
    def check(search: tuple[list[str], str]) -> None:
        assert_exact(*search, tokenizer)

    check()


@pytest.mark.parametrize("name", SPLITTING)
@pytest.mark.parametrize("before", ["", " ", "\n", '"', " “", "(", "c", "é", "\t\n"])
@pytest.mark.parametrize("after", ["", " ", "\n", '"', ".", "c", "é", " ab"])
def test_what_stands_around_a_text_does_not_matter(
    name: str, before: str, after: str, text_tokenizer: Callable
) -> None:
    for text in ("ab bab abc", "øl ab\nab ab.", "'s ab)  (ab", "bab abc", "øl", "b"):
        documents = [before + text + after]
        found = find_text(index_of(documents, text_tokenizer(name)), text)
        assert len(found.positions) == len(occurrences(documents, text)), text
        assert found.exact


@pytest.mark.parametrize("tokenizer", [BYTES, byte_tokenizer(), byte_tokenizer(["aa"], 1)])
def test_a_long_text_without_white_space(tokenizer: Tokenizer) -> None:
    text = "".join(str(number) for number in range(150)) + "a" * 20
    index = index_of([*[f"x{text}"] * 9, text[1:], text[:-1]], tokenizer)
    assert len(find_text(index, text).positions) == 9
    assert len(find_text(index, text[1:]).positions) == 10
    assert find_text(index, text + "a") == find_text(index, "nowhere")


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


@pytest.mark.parametrize("name", [*SPLITTING, *JOINING])
def test_bytes_of_tokens_make_up_the_text(name: str, text_tokenizer: Callable) -> None:
    tokenizer = text_tokenizer(name)
    assert len(tokenizer.token_bytes) == tokenizer.vocabulary_size

    @given(st.lists(st.sampled_from(SIGNS)).map("".join))
    def check(text: str) -> None:
        ids = tokenizer.encode(text)
        spelt = b"".join(tokenizer.token_bytes[token] for token in ids).decode()
        assert spelt.lstrip(" ") == tokenizer.decode(ids).lstrip(" ")

    check()


def test_the_byte_of_a_token_that_is_one() -> None:
    assert BYTES.token_bytes == tuple(bytes([byte]) for byte in range(0xF5))
    assert set(byte_tokenizer().token_bytes) == {bytes([byte]) for byte in range(256)}


def test_an_added_token_of_a_byte_level_tokenizer_is_written_as_it_is() -> None:
    backend = Backend.from_str(byte_tokenizer()._backend.to_str())
    backend.add_tokens([AddedToken("a b"), AddedToken("日")])
    assert Tokenizer(backend).token_bytes[256:] == (b"a b", "日".encode())
    assert_exact(["xa by 日", "a b"], "b", Tokenizer(backend))


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        decoders.WordPiece(),
        decoders.BPEDecoder(),
        decoders.Strip("a", 1, 0),
        decoders.Sequence([]),
        decoders.Sequence([decoders.Replace("_", " "), decoders.Strip(" ", 1, 0)]),
        decoders.Sequence(
            [
                decoders.Replace("_", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip("a", 1, 0),
            ]
        ),
    ],
)
def test_tokens_that_are_written_otherwise_beside_others_have_no_bytes(
    decoder: decoders.Decoder | None,
) -> None:
    unknown = "a"
    backend = Backend(models.WordLevel({"a": 0}, unk_token=unknown))
    if decoder is not None:
        backend.decoder = decoder
    assert Tokenizer(backend).token_bytes is None


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


def test_tokens_without_white_space_give_a_lower_bound() -> None:
    index = index_of(["ab cab ab", "ab cabs", "ab"], word_tokenizer(["ab", "cab", "cabs"]))
    for text, documents in {
        "ab": [0, 0, 1, 2],
        "ab cab": [0],
        " cab\n": [0],
        "cab cab": [],
        "ab cab ab": [0],
    }.items():
        found = find_text(index, text)
        assert sorted(p.document for p in found.positions) == documents
        assert not found.exact


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
        for text in ("bab", "b abc", "c"):
            found = find_text(index, text, most)
            assert (len(found.positions), found.exact) == (count, most >= 5)


def test_only_occurrences_count_among_the_most() -> None:
    index = index_of(["abcdex", "abcdey", "abcdez"], byte_tokenizer())
    found = find_text(index, "abcdez", 1)
    assert ([p.document for p in found.positions], found.exact) == ([2], True)


@pytest.mark.parametrize("name", SPLITTING)
def test_a_text_with_rare_ends_and_a_common_middle_is_found(
    name: str, text_tokenizer: Callable
) -> None:
    documents = ["ab ba c", "bab ba ab", "b ba b"] * 4 + ["xx ba yy", "xx ba yz", "zxx ba yy"]
    index = index_of(documents, text_tokenizer(name))
    found = find_text(index, "xx ba yy", 5)  # " ba" stands there fifteen times
    assert (sorted(p.document for p in found.positions), found.exact) == ([12, 14], True)


@pytest.mark.parametrize("name", SPLITTING)
def test_a_text_that_is_very_common_is_found_behind_a_commoner_middle(
    name: str, text_tokenizer: Callable
) -> None:
    documents = ["c ba c"] * 30 + ["ab ba ab"] * 12
    found = find_text(index_of(documents, text_tokenizer(name)), "ab ba ab", 10)
    assert (len(found.positions), found.exact) == (10, False)


@pytest.mark.parametrize("lookups", [0, 1, 2, 5])
def test_beyond_the_most_lookups_the_answer_is_a_lower_bound(
    lookups: int, text_tokenizer: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = index_of(["ab abc cab bab", "abab ab.", "xab\nøab"], text_tokenizer("bytes"))
    expected = first_tokens(index, "ab")
    assert Counter(find_text(index, "ab").positions) == expected
    monkeypatch.setattr(text_search, "MOST_LOOKUPS", lookups)
    found = find_text(index, "ab")
    assert Counter(found.positions) <= expected
    assert not found.exact


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
            for length in (1, 2, 5, 9, 30):
                passage = text[start : start + length].strip()
                found = find_text(index, passage)
                expected = occurrences(real_texts, passage)
                assert found.exact
                assert sorted(numbers[p.shard, p.document] for p in found.positions) == expected

"""The fast index and infini-gram's engine against the slow truth: equal in every answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from helpers import ENGINES, needs_engine
from hypothesis import given, settings
from hypothesis import strategies as st

from propme.errors import BrokenIndexError
from propme.index import Index, Occurrences, Tokenizer, kernels, layout, open_index
from propme.index.brute_force import BruteForceIndex
from propme.index.engine import LONGEST_QUERY
from propme.index.mapped import keep_maximal

TYPES = ("u8", "u16", "u32")

#: Ids that sort differently as numbers and as bytes, and the highest of each vocabulary.
KNOWN_IDS = {
    "u8": (0, 1, 2, 127, 128, 254),
    "u16": (0, 1, 255, 256, 257, 511, 512, 65_534),
    "u32": (0, 1, 255, 256, 257, 65_535, 65_536, 65_537, 69_999),
}

#: Ids that no document can hold: the separators, what lies beyond a type, and nonsense.
IMPOSSIBLE_IDS = {
    "u8": (255, 256, 257, 1 << 16, 1 << 32, 1 << 40, -1),
    "u16": (65_535, 65_536, 1 << 32, 1 << 40, -1),
    "u32": ((1 << 32) - 1, 1 << 32, 1 << 40, -1),
}


# --- corpora and queries --------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A corpus, the size of its shards, and queries that hold much of it."""

    documents: list[list[int]]
    shard_bytes: int
    queries: list[list[int]]


@st.composite
def cases(draw: st.DrawFn, token_type: str) -> Case:
    alphabet = draw(
        st.lists(st.sampled_from(KNOWN_IDS[token_type]), min_size=1, max_size=4, unique=True)
    )
    documents = draw(
        st.lists(st.lists(st.sampled_from(alphabet), max_size=9), min_size=1, max_size=7)
    )
    size = sum(len(d) + 1 for d in documents) * layout.TOKEN_TYPES[token_type].itemsize
    shard_bytes = size // draw(st.integers(1, 5)) + 1
    some_id = st.one_of(
        st.sampled_from(alphabet),
        st.sampled_from(KNOWN_IDS[token_type]),
        st.sampled_from(IMPOSSIBLE_IDS[token_type]),
    )
    piece = st.one_of(
        st.lists(st.sampled_from(alphabet), max_size=6),
        st.lists(some_id, max_size=4),
        st.sampled_from(documents),
    )
    query = st.lists(piece, max_size=3).map(lambda pieces: [i for p in pieces for i in p])
    return Case(documents, shard_bytes, draw(st.lists(query, min_size=1, max_size=5)))


def global_numbers(index: Index) -> dict[tuple[int, int], int]:
    return {index.document_at(number): number for number in range(index.n_documents)}


def located(index: Index, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Where ``ids`` occurs: number of the document in the whole corpus, and the token."""
    found = index.find(ids)
    assert found.count == index.count(ids)
    numbers = global_numbers(index)
    positions = [index.locate(found, number) for number in range(found.count)]
    return sorted((numbers[p.shard, p.document], p.offset) for p in positions)


def by_hand(documents: Sequence[Sequence[int]], ids: Sequence[int]) -> list[tuple[int, int]]:
    wanted = list(ids)
    return [
        (number, offset)
        for number, document in enumerate(documents)
        for offset in range(len(document))
        if wanted and list(document[offset : offset + len(wanted)]) == wanted
    ]


def truth_of(documents: Sequence[Sequence[int]], tokenizer: Tokenizer) -> BruteForceIndex:
    metadata = [{"n": n, "title": "å\n", "id": f"d{n}"} for n in range(len(documents))]
    return BruteForceIndex(documents, tokenizer, metadata)


def assert_same_answers(index: Index, truth: Index, ids: Sequence[int]) -> None:
    assert located(index, ids) == located(truth, ids)
    for start in range(len(ids) + 1):
        assert index.longest_match(ids, start) == truth.longest_match(ids, start), start
    runs = index.maximal_runs(ids)
    assert runs.tolist() == truth.maximal_runs(ids).tolist()
    assert runs.dtype == np.int64
    assert runs.shape[1:] == (2,)


def assert_same_documents(index: Index, truth: BruteForceIndex) -> None:
    assert (index.n_documents, index.n_tokens) == (truth.n_documents, truth.n_tokens)
    np.testing.assert_array_equal(index.unigram_counts(), truth.unigram_counts())
    for number in range(truth.n_documents):
        here, there = index.document_at(number), truth.document_at(number)
        length = truth.document_length(*there)
        assert index.document_length(*here) == length
        assert index.metadata(*here) == truth.metadata(*there)
        assert index.document_tokens(*here) == truth.document_tokens(*there)
        for start, stop in (
            (0, 1),
            (1, length),
            (-3, 2),
            (1, length + 9),
            (length, None),
            (2, 1),
            (0, -1),
            (0, -4),
        ):
            expected = truth.document_tokens(*there, start, stop)
            assert index.document_tokens(*here, start, stop) == expected, (start, stop)


# --- whole indexes, built and opened --------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "token_type", "examples"),
    [
        ("mapped", "u8", 60),
        ("mapped", "u16", 60),
        ("mapped", "u32", 60),
        pytest.param("infini-gram", "u8", 25, marks=needs_engine),
        pytest.param("infini-gram", "u16", 25, marks=needs_engine),
        pytest.param("infini-gram", "u32", 25, marks=needs_engine),
    ],
)
def test_every_answer_is_that_of_the_slow_index(
    engine: str, token_type: str, examples: int, built: Callable, word_tokenizer: Callable
) -> None:
    shards = set()

    @settings(max_examples=examples, deadline=None)
    @given(cases(token_type))
    def check(case: Case) -> None:
        with built(case.documents, token_type, case.shard_bytes) as path:
            index = open_index(path, engine)
            truth = truth_of(case.documents, word_tokenizer(token_type))
            assert_same_documents(index, truth)
            for query in [*case.queries, *case.documents]:
                assert_same_answers(index, truth, query)
            shards.add(index.document_at(index.n_documents - 1)[0])

    check()
    assert len(shards) > 1, "no example had several shards"


@settings(deadline=None)
@given(cases("u8"))
def test_the_slow_index_is_true(word_tokenizer: Callable, case: Case) -> None:
    truth = truth_of(case.documents, word_tokenizer("u8"))
    for query in case.queries:
        assert located(truth, query) == by_hand(case.documents, query)
        occurring = {
            (a, b)
            for a in range(len(query))
            for b in range(a + 1, len(query) + 1)
            if by_hand(case.documents, query[a:b])
        }
        maximal = [(a, b) for a, b in sorted(occurring) if not {(a - 1, b), (a, b + 1)} & occurring]
        assert [tuple(run) for run in truth.maximal_runs(query)] == maximal
        for start in range(len(query) + 1):
            longest = max((b - start for a, b in occurring if a == start), default=0)
            assert truth.longest_match(query, start) == longest


@pytest.mark.parametrize("engine", ENGINES)
def test_a_suffix_before_everything_in_the_shard_is_found(engine: str, built: Callable) -> None:
    """infini-gram's own ``attribute`` reports nothing here, though ``[0]`` occurs twice."""
    with built([[0, 5, 6], [0, 7]], "u8") as path:
        index = open_index(path, engine)
        assert index.count([0]) == 2
        assert index.longest_match([0, 3], 0) == 1
        assert index.maximal_runs([0, 3]).tolist() == [[0, 1]]


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_searched_for_and_nothing_found(engine: str, built: Callable) -> None:
    with built([[1, 2], []], "u8") as path:
        index = open_index(path, engine)
        assert index.find([]) == Occurrences(())
        assert index.count([]) == 0
        assert index.maximal_runs([]).shape == (0, 2)
        assert index.maximal_runs([9, 300, -1]).shape == (0, 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_match_crosses_the_border_of_a_document(engine: str, built: Callable) -> None:
    with built([[1, 2], [3, 4], []], "u8") as path:
        index = open_index(path, engine)
        assert index.count([2, 3]) == 0
        assert index.maximal_runs([1, 2, 3, 4]).tolist() == [[0, 2], [2, 4]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("token_type", TYPES)
def test_a_corpus_without_a_token_answers(engine: str, token_type: str, built: Callable) -> None:
    with built([[], []], token_type) as path:
        index = open_index(path, engine)
        assert (index.n_documents, index.n_tokens) == (2, 0)
        assert index.count([0]) == 0
        assert index.maximal_runs([0, 1]).shape == (0, 2)
        assert index.document_tokens(0, 1) == []
        assert not index.unigram_counts().any()


@pytest.mark.parametrize("engine", ENGINES)
def test_queries_may_be_any_sequence_of_integers(engine: str, built: Callable) -> None:
    with built([[1, 2, 3], [2, 3]], "u16") as path:
        index = open_index(path, engine)
        for ids in ((2, 3), range(2, 4), np.array([2, 3]), np.array([2, 3], np.uint16)):
            assert index.count(ids) == 2
            assert index.longest_match(ids, 0) == 2
            assert index.maximal_runs(ids).tolist() == [[0, 2]]


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_out_of_range_are_errors(engine: str, built: Callable) -> None:
    with built([[1, 2], [1]], "u8") as path:
        index = open_index(path, engine)
        found = index.find([1])
        for number in (-1, 2):
            with pytest.raises(IndexError):
                index.locate(found, number)
            with pytest.raises(IndexError):
                index.document_at(number)


@pytest.mark.parametrize("engine", ENGINES)
def test_real_text_in_a_real_tokenizer(
    engine: str, text_index: Path, bpe: Tokenizer, real_texts: tuple[str, ...]
) -> None:
    index = open_index(text_index, engine)
    documents = [bpe.encode(text) for text in real_texts]
    truth = BruteForceIndex(documents, bpe)
    assert [index.metadata(0, n) for n in range(len(documents))] == [
        {"id": f"t{n}"} for n in range(len(documents))
    ]
    for number, text in enumerate(real_texts):
        assert bpe.decode(index.document_tokens(0, number)) == text
    edited = "He said: it was the age of the sea,\nog om vinteren frøs hun.\n    return a – 😀"
    for query in (bpe.encode(edited), documents[4][::2], documents[2][5:30] + documents[1][:20]):
        assert_same_answers(index, truth, query)


@needs_engine
def test_the_engine_takes_texts_longer_than_its_longest_query(built: Callable) -> None:
    ids = [n % 251 for n in range(LONGEST_QUERY + 500)]
    with built([ids[: LONGEST_QUERY // 2], ids[LONGEST_QUERY // 2 :]], "u8") as path:
        index = open_index(path, "infini-gram")
        expected = open_index(path).maximal_runs(ids).tolist()
        assert len(expected) > 1
        assert index.maximal_runs(ids).tolist() == expected
        assert index.longest_match(ids, 0) == open_index(path).longest_match(ids, 0)


@needs_engine
def test_the_engine_says_that_it_cannot_tell_how_long_a_match_is(built: Callable) -> None:
    ids = [n % 251 for n in range(LONGEST_QUERY + 500)]
    with built([ids], "u8") as path:
        index = open_index(path, "infini-gram")
        assert index.longest_match(ids, 500) == LONGEST_QUERY
        with pytest.raises(BrokenIndexError, match="too many for infini-gram"):
            index.longest_match(ids, 0)


# --- the compiled search itself, over arrays ------------------------------------------------------

EXTREME_IDS = {
    "u8": (0, 1, 127, 128, 253, 254),
    "u16": (0, 1, 254, 255, 256, 257, 65_279, 65_280, 65_533, 65_534),
    "u32": (0, 1, 255, 256, 65_535, 65_536, 1 << 24, 1 << 31, (1 << 32) - 256, (1 << 32) - 2),
}


@dataclass(frozen=True)
class Arrays:
    """A shard in memory, its suffix array sorted the slow way."""

    documents: list[list[int]]
    tokens: layout.Array
    table: layout.Array
    width: int
    positions: list[int]

    @property
    def shard(self) -> tuple[layout.Array, layout.Array, int]:
        return self.tokens, self.table, self.width


def read_only(array: layout.Array) -> layout.Array:
    array.flags.writeable = False
    return array


def table_of(positions: Sequence[int], itemsize: int, width: int) -> layout.Array:
    pointers = b"".join((p * itemsize).to_bytes(width, "little") for p in positions)
    return read_only(np.frombuffer(pointers, np.uint8).copy())


def arrays_of(documents: list[list[int]], token_type: str, wider: int = 0) -> Arrays:
    separator, dtype = layout.separator(token_type), layout.TOKEN_TYPES[token_type]
    tokens = np.array([t for d in documents for t in (separator, *d)], dtype)
    data = tokens.tobytes()
    positions = sorted(range(tokens.size), key=lambda p: data[p * dtype.itemsize :])
    width = layout.pointer_bytes(len(data)) + wider
    table = table_of(positions, dtype.itemsize, width)
    return Arrays(documents, read_only(tokens), table, width, positions)


def random_arrays(rng: random.Random, token_type: str) -> Iterator[tuple[Arrays, list[int]]]:
    """A corpus and queries in its own tokens and others, most of them close to the corpus."""
    alphabet = rng.sample(EXTREME_IDS[token_type], rng.randint(1, 4))
    longest = rng.choice((1, 4, 12, 60))
    documents = [rng.choices(alphabet, k=rng.randint(0, longest)) for _ in range(rng.randint(1, 6))]
    arrays = arrays_of(documents, token_type, rng.choice((0, 0, 1)))
    for _ in range(4):
        document = rng.choice(documents)
        start = rng.randint(0, len(document))
        query = document[start : start + 8] + rng.choices(alphabet, k=rng.randint(0, 4))
        if rng.random() < 0.5 and query:
            query[rng.randrange(len(query))] = rng.choice(EXTREME_IDS[token_type])
        yield arrays, query


def occurs(documents: list[list[int]], ids: list[int]) -> bool:
    return any(d[n : n + len(ids)] == ids for d in documents for n in range(len(d)))


def slow_matches(documents: list[list[int]], query: list[int]) -> list[int]:
    """Length of the longest match from each start."""
    lengths = []
    for start in range(len(query)):
        stop = start
        while stop < len(query) and occurs(documents, query[start : stop + 1]):
            stop += 1
        lengths.append(stop - start)
    return lengths


def slow_runs(lengths: list[int]) -> list[list[int]]:
    """Maximal runs: a match that ends no later than the one before it lies in that one."""
    stops = [start + length for start, length in enumerate(lengths)]
    return [
        [start, stop]
        for start, stop in enumerate(stops)
        if stop > start and (start == 0 or stop > stops[start - 1])
    ]


@pytest.mark.parametrize("token_type", TYPES)
def test_compiled_search_in_thousands_of_arrays(token_type: str) -> None:
    rng = random.Random(token_type)
    several = 0
    for arrays, query in (pair for _ in range(1500) for pair in random_arrays(rng, token_type)):
        keys = kernels.keys(query, arrays.tokens.itemsize)
        lengths = slow_matches(arrays.documents, query)
        starts, stops = np.full((2, len(query)), -1)
        n = kernels.maximal_runs(*arrays.shard, keys, starts, stops)
        runs = np.stack([starts[:n], stops[:n]], axis=1).tolist()
        assert runs == slow_runs(lengths), (arrays.documents, query)
        several += len(runs) > 1
        for start, length in enumerate(lengths):
            assert kernels.longest_match(*arrays.shard, keys, start) == length
    assert several > 1500


@pytest.mark.parametrize("token_type", TYPES)
def test_rank_ranges_in_thousands_of_arrays(token_type: str) -> None:
    rng = random.Random(token_type)
    found = 0
    for arrays, query in (pair for _ in range(1500) for pair in random_arrays(rng, token_type)):
        data, itemsize = arrays.tokens.tobytes(), arrays.tokens.itemsize
        keys = kernels.keys(query, itemsize)
        start = rng.randint(0, len(query))
        stop = rng.randint(start, len(query))
        wanted = np.array(query[start:stop], arrays.tokens.dtype).tobytes()
        suffixes = [data[p * itemsize :] for p in arrays.positions]
        low = sum(suffix < wanted for suffix in suffixes)
        high = low + sum(suffix.startswith(wanted) for suffix in suffixes)
        assert kernels.rank_range(*arrays.shard, keys, start, stop) == (low, high)
        positions = kernels.positions(*arrays.shard, np.arange(low, high)).tolist()
        assert positions == arrays.positions[low:high]
        found += high > low
    assert found > 1500


@pytest.mark.parametrize("token_type", TYPES)
def test_disorder_is_seen_wherever_it_is(token_type: str) -> None:
    rng = random.Random(token_type)
    for _ in range(500):
        arrays = next(random_arrays(rng, token_type))[0]
        n, itemsize = arrays.tokens.size, arrays.tokens.itemsize
        ranks, most = np.arange(n - 1), n
        assert kernels.first_disorder(*arrays.shard) == -1
        assert kernels.first_disorder_among(*arrays.shard, ranks, most) == -1
        if n < 2:
            continue
        a, b = sorted(rng.sample(range(n), 2))
        swapped = list(arrays.positions)
        swapped[a], swapped[b] = swapped[b], swapped[a]
        repeated = [*arrays.positions[:b], arrays.positions[a], *arrays.positions[b + 1 :]]
        highest = ((1 << 8 * arrays.width) - 1) // itemsize
        outside = [
            *arrays.positions[:b],
            highest if highest >= n else arrays.positions[a],
            *arrays.positions[b + 1 :],
        ]
        for wrong in (swapped, repeated, outside):
            shard = arrays.tokens, table_of(wrong, itemsize, arrays.width), arrays.width
            assert 0 <= kernels.first_disorder(*shard) < n, (arrays.positions, wrong)
            assert a - 1 <= kernels.first_disorder_among(*shard, ranks, most) <= b
            assert kernels.first_disorder_among(*shard, ranks[b:], most) in (-1, b)


def test_neighbours_are_compared_up_to_a_limit() -> None:
    arrays = arrays_of([[5] * 20, [5] * 20 + [4]], "u8")
    swapped = list(arrays.positions)
    a = next(r for r in range(41) if swapped[r] + 20 == swapped[r + 1] - 1 or swapped[r] == 22)
    swapped[a], swapped[a + 1] = swapped[a + 1], swapped[a]
    table = table_of(swapped, 1, arrays.width)
    ranks = np.array([a])
    assert kernels.first_disorder_among(arrays.tokens, table, arrays.width, ranks, 50) == a
    assert kernels.first_disorder_among(arrays.tokens, table, arrays.width, ranks, 5) == -1


@pytest.mark.parametrize("token_type", TYPES)
def test_a_table_of_garbage_does_no_harm(token_type: str) -> None:
    """Positions far outside the tokens are empty suffixes, never reads beyond the array."""
    arrays = arrays_of([[0, 1, 0], [1, 1]], token_type, wider=4)
    keys = kernels.keys([0, 1, 0, 1], arrays.tokens.itemsize)
    for fill in (0, 127, 255):
        table = read_only(np.full_like(arrays.table, fill))
        shard = (arrays.tokens, table, arrays.width)
        starts, stops = np.empty((2, keys.size), np.int64)
        assert 0 <= kernels.maximal_runs(*shard, keys, starts, stops) <= keys.size
        low, high = kernels.rank_range(*shard, keys, 0, 1)
        assert 0 <= low <= high <= arrays.tokens.size
        assert kernels.first_disorder(*shard) in (0, 1)
        assert kernels.first_disorder_among(*shard, np.arange(arrays.tokens.size - 1), 9) == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=12))
def test_keep_maximal_keeps_what_no_other_holds(pairs: list[tuple[int, int]]) -> None:
    runs = [(start, start + length) for start, length in pairs]
    kept = [
        [a, b] for a, b in set(runs) if not any(c <= a and b <= d for c, d in {*runs} - {(a, b)})
    ]
    assert keep_maximal(np.array(runs, np.int64).reshape(-1, 2)).tolist() == sorted(kept)

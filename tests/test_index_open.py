"""Indexes opened as one, ready-made, in other processes and threads, and indexes of bytes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import shutil
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ENGINES
from hypothesis import given, settings
from hypothesis import strategies as st

from propme.errors import BrokenIndexError, ParameterError
from propme.index import (
    Index,
    Tokenizer,
    UnverifiedIndexWarning,
    build_index,
    layout,
    open_index,
)
from propme.index.brute_force import BruteForceIndex
from propme.index.text_search import find_text
from propme.records import Document

engines = pytest.mark.parametrize("engine", ENGINES)

#: Ids that sort differently as numbers and as bytes, by token type.
IDS = {"u8": (0, 1, 127, 254), "u16": (1, 255, 256, 65_534), "u32": (1, 256, 65_536, 69_999)}


def random_documents(rng: random.Random, token_type: str, n: int) -> list[list[int]]:
    ids = IDS[token_type][: rng.randint(1, 4)]
    return [rng.choices(ids, k=rng.choice((0, 1, 5, 12))) for _ in range(n)]


def assert_true(index: Index, documents: Sequence[Sequence[int]], rng: random.Random) -> None:
    """Every answer is that of a search through all documents, whatever their order."""
    truth = BruteForceIndex(documents, index.tokenizer)
    assert (index.n_documents, index.n_tokens) == (truth.n_documents, truth.n_tokens)
    numbers = [index.document_at(number) for number in range(index.n_documents)]
    order = [index.metadata(*place)["n"] for place in numbers]
    assert sorted(order) == list(range(len(documents)))
    assert [index.document_tokens(*p) for p in numbers] == [list(documents[n]) for n in order]
    with pytest.raises(IndexError):
        index.document_at(index.n_documents)
    np.testing.assert_array_equal(index.unigram_counts(), truth.unigram_counts())
    known = sorted({token for document in documents for token in document}) or [1]
    pieces = [rng.choices(known, k=rng.randint(1, 4)) for _ in range(3)]
    for query in [*pieces, pieces[0] + pieces[1], *rng.sample(list(documents), 1)]:
        found, expected = index.find(query), truth.find(query)
        assert found.count == index.count(query) == expected.count
        places = [index.locate(found, number) for number in range(found.count)]
        here = {(order[numbers.index((p.shard, p.document))], p.offset) for p in places}
        there = [truth.locate(expected, number) for number in range(expected.count)]
        assert here == {(p.document, p.offset) for p in there}
        assert index.maximal_runs(query).tolist() == truth.maximal_runs(query).tolist()
        assert index.longest_match(query, 0) == truth.longest_match(query, 0)


def build(
    folder: Path,
    documents: Sequence[Sequence[int]],
    tokenizer: Tokenizer,
    first: int = 0,
    **options: Any,
) -> Path:
    records = [
        Document(f"d{n}", " ".join(f"w{token}" for token in ids), {"n": n}, "c.jsonl", n + 1)
        for n, ids in enumerate(documents, start=first)
    ]
    return build_index(records, tokenizer, folder, **options)


# --- several as one -------------------------------------------------------------------------------


@engines
@pytest.mark.parametrize("token_type", IDS)
@pytest.mark.parametrize("n_shards", [1, 2])
def test_several_indexes_answer_as_one(
    n_shards: int, token_type: str, engine: str, tmp_path: Path, word_tokenizer: Callable
) -> None:
    rng, tokenizer, documents = random.Random(token_type), word_tokenizer(token_type), []
    folders = []
    for number in range(3):
        part = [[1], *random_documents(rng, token_type, 6)]
        folder = tmp_path / f"part {number}"
        folders.append(build(folder, part, tokenizer, len(documents), n_shards=n_shards))
        documents += part
    index = open_index(folders, engine)
    assert_true(index, documents, rng)
    backwards = open_index([str(folder) for folder in reversed(folders)], engine)
    assert_true(backwards, documents, rng)
    assert backwards.metadata(0, 0)["n"] == 14
    assert index.count([1]) == sum(open_index(f, engine).count([1]) for f in folders)


@engines
def test_indexes_of_two_tokenizers_are_no_one_index(
    engine: str, tmp_path: Path, word_tokenizer: Callable, bpe: Tokenizer
) -> None:
    one = build(tmp_path / "one", [[1]], word_tokenizer("u8"))
    other = build_index([Document("a", "b")], bpe, tmp_path / "other")
    with pytest.raises(BrokenIndexError, match=r"one.*other.*not made with one tokenizer"):
        open_index([one, other], engine)


def test_one_broken_index_among_several_is_found(text_index: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(text_index, tmp_path / "copy"))
    (copy / "shards" / "table.0").unlink()
    with pytest.raises(BrokenIndexError, match=r"table\.0: missing"):
        open_index([text_index, copy])


# --- shards and workers ---------------------------------------------------------------------------


@pytest.mark.parametrize("token_type", IDS)
def test_two_hundred_random_builds(
    token_type: str, tmp_path: Path, word_tokenizer: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the three types together. Two workers and more start processes, which takes longer."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    rng, tokenizer = random.Random(token_type), word_tokenizer(token_type)
    for number in range(67):
        documents = random_documents(rng, token_type, rng.randint(1, 9))
        folder = build(
            tmp_path / str(number),
            documents,
            tokenizer,
            n_shards=rng.randint(1, 5),
            workers=rng.randint(2, 4) if number % 10 == 0 else 1,
        )
        assert_true(open_index(folder, ENGINES[-(number % 8 == 0)]), documents, rng)
        shutil.rmtree(folder)


# --- ready-made -----------------------------------------------------------------------------------


@pytest.fixture
def ready_made(tmp_path: Path, text_index: Path) -> Path:
    """The bare files of an index, as a downloaded one has them."""
    return Path(shutil.copytree(text_index / "shards", tmp_path / "ready"))


def opened(folder: Path, source: Path, engine: str = "mapped", token_type: str = "u16") -> Index:
    with pytest.warns(UnverifiedIndexWarning, match="no manifest"):
        return open_index(folder, engine, tokenizer=str(source), token_type=token_type)


@engines
@pytest.mark.parametrize("unigrams", [True, False])
def test_a_ready_made_index_gives_the_same_answers(
    unigrams: bool, engine: str, ready_made: Path, text_index: Path, real_texts: Sequence[str]
) -> None:
    if not unigrams:
        (ready_made / "unigram.0").unlink()
    index, own = opened(ready_made, text_index, engine), open_index(text_index)
    np.testing.assert_array_equal(index.unigram_counts(), own.unigram_counts())
    for number, text in enumerate(real_texts):
        ids = own.tokenizer.encode(text)
        assert index.document_tokens(0, number) == ids
        assert index.metadata(0, number) == own.metadata(0, number)
        assert index.maximal_runs(ids).tolist() == own.maximal_runs(ids).tolist()
        assert index.count(ids[:2]) == own.count(ids[:2])


def test_ready_made_and_own_open_as_one(ready_made: Path, text_index: Path) -> None:
    with pytest.warns(UnverifiedIndexWarning):
        both = open_index([text_index, ready_made], tokenizer=str(text_index))
    own = open_index(text_index)
    ids = own.tokenizer.encode("It was the")
    assert both.count(ids) == 2 * own.count(ids) > 0


def test_an_own_index_opens_without_a_warning(text_index: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_index(text_index)


@engines
@pytest.mark.parametrize("token_type", ["u8", "u32"])
def test_a_ready_made_index_of_another_type_is_refused(
    token_type: str, engine: str, ready_made: Path, text_index: Path
) -> None:
    with pytest.raises(BrokenIndexError):
        open_index(ready_made, engine, tokenizer=str(text_index), token_type=token_type)


def test_what_a_ready_made_index_needs_is_told(ready_made: Path, text_index: Path) -> None:
    with pytest.raises(BrokenIndexError, match="name its tokenizer"):
        open_index(ready_made)
    with pytest.raises(ParameterError, match="'u64' is unknown; it is one of u8, u16, u32"):
        open_index(ready_made, tokenizer=str(text_index), token_type="u64")  # noqa: S106


@engines
@pytest.mark.parametrize("kind", ["tokenized", "offset", "table", "metadata", "metaoff"])
@pytest.mark.parametrize("cut", ["all", "half", "8 bytes", "1 byte", "missing"])
def test_a_ready_made_index_with_a_part_missing_is_refused(
    kind: str, cut: str, engine: str, ready_made: Path, text_index: Path
) -> None:
    file = ready_made / f"{kind}.0"
    size = file.stat().st_size
    if cut == "missing":
        file.unlink()
    else:
        left = {"all": 0, "half": size // 2, "8 bytes": size - 8, "1 byte": size - 1}[cut]
        os.truncate(file, left)
    if (kind, cut) == ("metadata", "1 byte"):  # the last end of line, which nothing needs
        assert opened(ready_made, text_index, engine).metadata(0, 6)["id"] == "t6"
        return
    with pytest.raises(BrokenIndexError):
        open_index(ready_made, engine, tokenizer=str(text_index))


@pytest.mark.parametrize("content", ["", "1 1\n", "1", "a b\n", "1 2 3\n", "9999 1\n"])
def test_wrong_unigrams_of_a_ready_made_index_are_found(
    content: str, ready_made: Path, text_index: Path
) -> None:
    (ready_made / "unigram.0").write_text(content)
    index = opened(ready_made, text_index)
    with pytest.raises(BrokenIndexError, match=r"unigram\.0"):
        index.unigram_counts()


def test_a_tokenizer_that_lacks_tokens_is_found(ready_made: Path) -> None:
    index = opened(ready_made, Path("bytes"))
    with pytest.raises(BrokenIndexError, match="none of the index's tokenizer"):
        index.unigram_counts()


# --- processes and threads ------------------------------------------------------------------------

QUERIES = ("It was the", " sea", "\n", "never there", "the age of")


def counts_of(index: Index) -> list[int]:
    return [index.count(index.tokenizer.encode(query)) for query in QUERIES]


@pytest.mark.parametrize("what", ["own", "several", "ready-made"])
@engines
def test_an_index_goes_through_pickle(
    engine: str, what: str, text_index: Path, ready_made: Path
) -> None:
    if what == "ready-made":
        index = opened(ready_made, text_index, engine)
    else:
        index = open_index([text_index] * (1 + (what == "several")), engine)
    again = pickle.loads(pickle.dumps(index))  # noqa: S301
    assert type(again) is type(index)
    assert counts_of(again) == counts_of(index)
    assert again.tokenizer.fingerprint == index.tokenizer.fingerprint


def test_an_index_is_used_in_other_processes(text_index: Path) -> None:
    indexes = [open_index(text_index, engine) for engine in ENGINES]
    expected = counts_of(indexes[0])
    assert expected[0] > 2
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        assert list(pool.map(counts_of, indexes)) == [expected] * len(ENGINES)


@engines
def test_an_index_is_used_in_threads(engine: str, text_index: Path) -> None:
    index = open_index(text_index, engine)
    expected = counts_of(index)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(counts_of, [index] * 40)) == [expected] * 40


# --- bytes ----------------------------------------------------------------------------------------


def overlapping(text: str, documents: Sequence[str]) -> int:
    return sum(d.startswith(text, at) for d in documents for at in range(len(d)))


words = st.lists(st.sampled_from(["a", "aa", "ø", "ab.", "😀", "é\n", "—"]), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(words.map(" ".join), min_size=1, max_size=4), st.data())
def test_any_substring_is_found_as_often_as_it_stands_there(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("bytes") / "index"
    documents = [Document(str(n), text) for n, text in enumerate(texts)]
    index = open_index(build_index(documents, Tokenizer.load("bytes"), folder))
    text = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(text)))
    part = text[start : data.draw(st.integers(start, len(text)))].strip()
    found = find_text(index, part)
    assert len(found.positions) == (overlapping(part, texts) if part else 0)
    shutil.rmtree(folder)


@engines
def test_an_index_of_bytes(engine: str, tmp_path: Path) -> None:
    texts = ["på åen", "", "å å", "😀"]
    documents = [Document(str(n), text) for n, text in enumerate(texts)]
    path = build_index(documents, Tokenizer.load("bytes"), tmp_path / "index")
    index = open_index(path, engine)
    assert index.tokenizer.encode("å") == [0xC3, 0xA5]
    assert index.count([0xC3, 0xA5]) == 4
    assert index.count([0xC3]) == 4
    assert index.unigram_counts()[0xA5] == 4
    assert [index.tokenizer.decode(index.document_tokens(0, n)) for n in range(4)] == texts
    assert (path / "tokenizer.json").is_file()
    assert layout.token_type_for(index.tokenizer.vocabulary_size) == "u8"


@given(st.text(max_size=6), st.integers(0, 24), st.integers(0, 24))
def test_bytes_cut_within_a_character_show_as_such(text: str, start: int, stop: int) -> None:
    tokenizer = Tokenizer.load("bytes")
    ids, offsets = tokenizer.encode_with_offsets(text)
    decoded = tokenizer.decode(ids[start:stop])
    whole = [n for n in range(len(text)) if n in {o[0] for o in offsets[start:stop]}]
    complete = [n for n in whole if offsets[start:stop].count((n, n + 1)) == len(text[n].encode())]
    assert decoded.strip("\ufffd") == "".join(text[n] for n in complete).strip("\ufffd")
    cut = len(whole) - len(complete)
    assert (len(decoded) > len(complete)) == (cut > 0)

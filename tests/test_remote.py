"""An index behind a server finds what a local index of the same files finds.

The server is `infinigram_server`: infini-gram's own engine behind the wire format of its API.
"""

import pickle
import random

import numpy as np
import pandas as pd
import pytest
from helpers import generation, needs_engine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from propme.errors import BrokenIndexError, ParameterError, PropMeError, ServerError
from propme.index import RemoteSettings, build_index, open_index
from propme.index.brute_force import BruteForceIndex
from propme.records import Document
from propme.simpletrace import TraceSettings, trace_all

pytest.importorskip("httpx")
pytest.importorskip("infini_gram")

from infinigram_server import Reply, infinigram_server

from propme.index.remote.documents import UnreadableError
from propme.index.remote.memory import Memory
from propme.index.remote.ranks import Limits
from propme.index.remote.remote_index import RemoteIndex
from propme.index.remote.settings import is_remote, split_address

pytestmark = needs_engine

#: No waiting, and as many occurrences read as a local index reads.
QUICK = {"rate": 0.0, "most_read": 10_000, "patience": 5.0}

#: So small that passages are stitched, and few documents show an end.
TIGHT = Limits(query=8, shown=56)

WORDS = [
    "a",
    "ab",
    "abc",
    "cab",
    "bab",
    "al",
    "la",
    "ball",
    "lab.",
    "ab.",
    "ø",
    "åb",
    "“ba”",
    "b,\nba",
]


def texts(rng, n, lengths):
    """Documents out of few words, a third of them copied from others with a word changed."""
    made = []
    for _ in range(n):
        words = [rng.choice(WORDS) for _ in range(rng.choice(lengths))]
        if made and rng.random() < 0.3:
            words = rng.choice(made).split(" ")
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        made.append(" ".join(words))
    return made


def completions(rng, documents, n, longest):
    """Pieces of documents one behind the other: some whole documents, some one piece, most many."""
    for number in range(n):
        words = []
        wanted = rng.randint(3, longest)
        while len(words) < wanted:
            source = rng.choice(documents).split(" ")
            at = rng.randrange(len(source))
            words += source[at : at + rng.choice([1, 3, 9, 40])]
        yield generation(" ".join(words[:wanted]), f"g{number}")


def assert_same_tables(found, expected):
    for name, table in expected.items():
        pd.testing.assert_frame_equal(found[name], table)


# --- whole traces ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("tokenizer", "n"), [("byte-fallback", 100), ("bytes", 25)])
def test_tables_are_those_of_a_local_index(tokenizer, n, text_tokenizer, tmp_path):
    rng = random.Random(n)
    documents = texts(rng, 60, [4, 12, 40])
    rows = [Document(f"d{i}", text, {"source": f"s{i % 3}"}) for i, text in enumerate(documents)]
    folder = build_index(rows, text_tokenizer(tokenizer), tmp_path / "index", n_shards=3)
    made = list(completions(rng, documents, n, 14))
    local = open_index(folder)
    settings_ = TraceSettings(docs_per_span=4)
    with infinigram_server(folder) as server:
        asked = RemoteSettings(str(tmp_path / "a"), **QUICK)
        index = open_index(server.address, tokenizer=str(folder / "tokenizer.json"), remote=asked)
        assert (index.n_documents, index.n_tokens) == (local.n_documents, local.n_tokens)
        expected = trace_all(made, local, settings_)
        assert_same_tables(trace_all(made, index, settings_), expected)
        n_cold = index.n_requests
        again = open_index(server.address, tokenizer=str(folder / "tokenizer.json"), remote=asked)
        assert_same_tables(trace_all(made, again, settings_), expected)
        assert n_cold > 0
        assert again.n_requests == 0
        questions = [tuple(sorted((k, str(v)) for k, v in each.items())) for each in server.asked]
        assert len(set(questions)) == len(questions) == n_cold
    # The trace found something of every kind, or the comparison would say little.
    assert set(expected["matches"]["tier"]) >= {"partial", "full_raw"}
    assert (expected["traces"]["error"] == "").all()


def test_tables_are_the_same_where_no_end_of_a_document_is_shown(text_tokenizer, tmp_path):
    rng = random.Random(5)
    documents = [" ".join(rng.choice(WORDS) for _ in range(500)) for _ in range(4)]
    documents += texts(rng, 20, [9])
    rows = [Document(f"d{i}", text) for i, text in enumerate(documents)]
    folder = build_index(rows, text_tokenizer("bytes"), tmp_path / "index", n_shards=2)
    made = list(completions(rng, documents, 25, 16))
    # Windows of 3 L tokens, L being up to 70 here, stand in 2 x 300 tokens; documents have 1500.
    limits = {"longest_query": 12, "longest_shown": 600}
    chosen = TraceSettings(docs_per_span=3, window_factor=3)
    with infinigram_server(folder, **limits) as server:
        index = RemoteIndex(
            server.address,
            text_tokenizer("bytes"),
            settings=RemoteSettings(str(tmp_path / "a"), **QUICK),
            limits=Limits(query=12, shown=600),
        )
        found = trace_all(made, index, chosen)
        by_pointers = [q for q in server.asked if q["query_type"] == "get_doc_by_ptr"]
    expected = trace_all(made, open_index(folder), chosen)
    assert_same_tables(found, expected)
    assert by_pointers
    assert expected["matches"]["offset"].between(301, 1000).any()
    assert expected["spans"]["stop"].sub(expected["spans"]["start"]).max() > 12


# --- the protocol, against brute force ------------------------------------------------------------

_LISTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=90), min_size=1, max_size=6)


@given(_LISTS, st.lists(st.integers(0, 4), max_size=40), st.sampled_from([1, 3]), st.randoms())
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_it_answers_as_brute_force_does(
    built, word_tokenizer, tmp_path_factory, lists, ids, n_shards, rng
):
    cut = rng.randrange(len(lists[0]))
    ids = [*ids, *lists[0][cut : cut + 30]]
    truth = BruteForceIndex(lists, word_tokenizer("u8"))
    shard_bytes = 1 << 30 if n_shards == 1 else 60
    with (
        built(lists, "u8", shard_bytes) as folder,
        infinigram_server(folder, longest_query=8, longest_shown=56) as server,
    ):
        answers = tmp_path_factory.mktemp("answers") / "a"
        index = RemoteIndex(
            server.address,
            word_tokenizer("u8"),
            "u8",
            RemoteSettings(str(answers), **QUICK),
            TIGHT,
        )
        local = open_index(folder)
        runs = truth.maximal_runs(ids)
        np.testing.assert_array_equal(index.maximal_runs(ids), runs)
        np.testing.assert_array_equal(index.token_counts([0, 3, 3]), truth.token_counts([0, 3, 3]))
        assert index.longest_match(ids, 0) == truth.longest_match(ids, 0)
        for occurrences, own in zip(
            index.find_runs(ids, runs), local.find_runs(ids, runs), strict=True
        ):
            assert occurrences == own
            numbers = [rng.randrange(own.count) for _ in range(min(own.count, 4))]
            places = index.locate_all(occurrences, numbers)
            np.testing.assert_array_equal(places, local.locate_all(own, numbers))
            for shard, document, offset in places.tolist():
                assert index.document_length(shard, document) == local.document_length(
                    shard, document
                )
                assert index.metadata(shard, document) == local.metadata(shard, document)
                near = (shard, document, offset - 3, offset + 5)
                np.testing.assert_array_equal(
                    index.document_slice(*near), local.document_slice(*near)
                )
        drawn = [index.document_at(number) for number in range(index.n_documents)]
        assert sorted(drawn) == [local.document_at(n) for n in range(local.n_documents)]


def test_ids_that_no_index_holds_occur_nowhere_and_ask_nothing(built, word_tokenizer, tmp_path):
    with built([[1, 2, 3]], "u8") as folder, infinigram_server(folder) as server:
        index = RemoteIndex(
            server.address, word_tokenizer("u8"), "u8", RemoteSettings(str(tmp_path / "a"), **QUICK)
        )
        assert [index.count(ids) for ids in ([], [-1], [255], [1, 70_000])] == [0, 0, 0, 0]
        assert index.n_requests == 0
        assert index.maximal_runs([1, 70_000, 2, 3]).tolist() == [[0, 1], [2, 4]]
        assert pickle.loads(pickle.dumps(index)).count([1, 2]) == 1  # noqa: S301


def test_a_vocabulary_of_more_than_16_bits_is_searched_in_an_index_of_32(built, tmp_path):
    """Token 65535 separates documents in 16 bits; in 32 it is one as any other."""
    with built([[65_535, 65_536, 5], [65_536, 5]], "u32") as folder:
        asked = RemoteSettings(str(tmp_path / "a"), **QUICK)
        with infinigram_server(folder) as server:
            index = open_index(server.address, tokenizer=str(folder), remote=asked)
            assert index.n_documents == 2
            assert index.find([65_536, 5]).count == 2
            assert index.find([65_535, 65_536, 5]).count == 1


def test_a_passage_in_two_pieces_must_stand_in_one_place(built, word_tokenizer, tmp_path):
    """Both pieces of 8 occur, 16 tokens in one place do not: once a document ends between them."""
    one, two = list(range(10, 18)), list(range(20, 28))
    for documents, n in (([[*one, *two]], 1), ([one, two], 0), ([[*one, 9, *two]], 0)):
        with built(documents, "u8") as folder, infinigram_server(folder, longest_query=8) as server:
            answers = RemoteSettings(str(tmp_path / f"a{len(documents[0])}"), **QUICK)
            index = RemoteIndex(server.address, word_tokenizer("u8"), "u8", answers, TIGHT)
            assert index.count(one) == index.count(two) == 1
            assert index.count([*one, *two]) == n


# --- cost -----------------------------------------------------------------------------------------


def test_a_verbatim_text_takes_one_look_up_and_a_novel_one_about_two_a_token(
    built, word_tokenizer, tmp_path
):
    rng = random.Random(3)
    lists = [[rng.randrange(20) for _ in range(2000)] for _ in range(4)]
    with built(lists, "u8", 5000) as folder, infinigram_server(folder) as server:
        index = RemoteIndex(
            server.address, word_tokenizer("u8"), "u8", RemoteSettings(str(tmp_path / "a"), **QUICK)
        )
        # Sizes of the shards and numbers of their documents, which answers must fit: once an index.
        assert index.n_documents == 4
        assert index.n_tokens == 8000
        known = index.n_requests
        index.maximal_runs(lists[1][100:356])
        assert index.n_requests == known + 1
        novel = [rng.randrange(20) for _ in range(256)]
        index.maximal_runs(novel)
        assert 256 < index.n_requests - known - 1 <= 3 * 256
        edited = [*lists[2][:120], 99, *lists[3][500:620]]
        before = index.n_requests
        index.maximal_runs(edited)
        assert index.n_requests - before <= 50


# --- what a server may not tell -------------------------------------------------------------------


def test_without_separators_documents_cannot_be_drawn_and_the_error_says_what_to_do(
    built, word_tokenizer, tmp_path
):
    with built([[1, 2, 3]], "u8") as folder, infinigram_server(folder, takes_separator=False) as s:
        index = RemoteIndex(
            s.address, word_tokenizer("u8"), "u8", RemoteSettings(str(tmp_path / "a"), **QUICK)
        )
        with pytest.raises(ServerError, match="prefix_texts"):
            index.document_at(0)
        assert index.n_tokens == 4  # the separator counted too
        assert index.locate(index.find([2, 3]), 0).offset == 1


def test_an_outage_is_not_taken_for_a_server_that_does_not_tell_where_documents_begin(
    built, word_tokenizer, tmp_path
):
    """Or the documents of the second shard would have other numbers, silently."""
    with built([[1, 2, 3], [4, 2, 3]], "u8", 5) as folder, infinigram_server(folder) as server:
        asked = RemoteSettings(str(tmp_path / "a"), **(QUICK | {"patience": 0.2}))
        index = RemoteIndex(server.address, word_tokenizer("u8"), "u8", asked)
        found = index.find([4])
        server.fault = lambda question, _: Reply(503) if question["query_ids"] == [255] else None
        with pytest.raises(ServerError, match=r"failed \(503\)"):
            index.locate(found, 0)
        server.fault = lambda *_: None
        assert index.locate(found, 0) == open_index(folder).locate(found, 0)
        assert index.locate(found, 0).shard == 1


def test_a_blocked_document_is_told_in_the_row_of_its_generation(
    text_index, bpe, real_texts, tmp_path
):
    made = [generation(real_texts[0][:60], "a"), generation("Så kom en fremmed forbi", "b")]
    with infinigram_server(text_index) as server:
        server.blocked = {(0, 0)}
        index = RemoteIndex(
            server.address, bpe, settings=RemoteSettings(str(tmp_path / "a"), **QUICK)
        )
        found = trace_all(made, index)["traces"].set_index("generation_id")
    assert "blocked" in found.loc["a", "error"]
    assert found.loc["b", "error"] == ""
    assert found.loc["b", "full_raw"]


def test_another_tokenizer_than_the_index_has_is_noticed(text_index, text_tokenizer, bpe, tmp_path):
    with infinigram_server(text_index) as server:
        asked = RemoteSettings(str(tmp_path / "a"), **QUICK)
        index = RemoteIndex(server.address, text_tokenizer("byte-fallback"), settings=asked)
        found = index.find(bpe.encode(" age of"))
        with pytest.raises(UnreadableError, match="is this the tokenizer of the index"):
            index.locate(found, 0)


def test_a_document_that_was_not_found_is_not_shown(text_index, bpe, tmp_path):
    with infinigram_server(text_index) as server:
        index = RemoteIndex(
            server.address, bpe, settings=RemoteSettings(str(tmp_path / "a"), **QUICK)
        )
        with pytest.raises(BrokenIndexError, match="only documents that were found"):
            index.document_tokens(0, 0)


def test_memory_is_bounded():
    memory = Memory(4)
    for number in range(9):
        memory[number] = number
    assert len(memory) <= 4
    assert memory[8] == 8


# --- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("https://host/", "name is missing"),
        ("https://user:secret@host/#v4", "PROPME_INDEX_KEY"),
        ("https://host/?key=secret#v4", "PROPME_INDEX_KEY"),
        ("https://host/?#v4", "PROPME_INDEX_KEY"),
        ("https://host/#v4?key=secret", "PROPME_INDEX_KEY"),
        ("https://host/#v4&key=secret", "PROPME_INDEX_KEY"),
        ("https://host/#v4#key=secret", "PROPME_INDEX_KEY"),
        ("https://host/key=secret/#v4", "PROPME_INDEX_KEY"),
        ("https://host/api;secret/#v4", "PROPME_INDEX_KEY"),
        ("https://host/:secret@/#v4", "PROPME_INDEX_KEY"),
        ("https://host/%73ecret/#v4", "PROPME_INDEX_KEY"),
        ("https://host:secret/#v4", "no URL"),
        ("https://[secret/#v4", "no URL"),
    ],
)
def test_an_address_names_its_index_and_holds_no_key(address, told, text_index):
    with pytest.raises(ParameterError, match=told) as error:
        open_index(address, tokenizer=str(text_index / "tokenizer.json"))
    assert "secret" not in str(error.value)


def test_an_address_may_have_a_port_and_a_path():
    assert split_address("https://host:8080/v1/~me/#v4_a-b.c") == (
        "https://host:8080/v1/~me/",
        "v4_a-b.c",
    )


def test_an_address_may_be_in_capitals():
    assert is_remote("HTTPS://Host/#v4")
    assert not is_remote("httpd/index")


def test_it_is_opened_alone_and_with_a_tokenizer(text_index):
    with pytest.raises(ParameterError, match="name the tokenizer"):
        open_index("http://127.0.0.1:1/#v4")
    with pytest.raises(ParameterError, match="opened alone"):
        open_index([text_index, "http://127.0.0.1:1/#v4"], tokenizer="bytes")
    with pytest.raises(PropMeError, match="token_type"):
        open_index("http://127.0.0.1:1/#v4", tokenizer="bytes", token_type="u4")  # noqa: S106

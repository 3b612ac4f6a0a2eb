"""Answers damaged on their way or in their file: the same tables, or an error that says so.

And never more than one run: the next one, of a sound server, has the same tables out of the same
file. What no rule can see is left out: a wrong number that fits all that is known.
"""

import json
import random
import sqlite3
import threading
import zlib
from contextlib import contextmanager

import pandas as pd
import pytest
from helpers import generation, needs_engine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from propme.errors import PropMeError, ServerError
from propme.index import RemoteSettings, build_index
from propme.index.remote.answers import DroppedAnswersWarning
from propme.records import Document
from propme.simpletrace import TraceSettings, trace_all

pytest.importorskip("httpx")
pytest.importorskip("infini_gram")

from infinigram_server import Reply, infinigram_server

from propme.index.remote import client as remote_client
from propme.index.remote.documents import UnreadableError
from propme.index.remote.questions import DisbelievedError
from propme.index.remote.ranks import Limits
from propme.index.remote.remote_index import RemoteIndex

pytestmark = needs_engine

#: So small that passages are stitched by byte positions, and long documents show no end.
LIMITS = Limits(query=8, shown=200)
CHOSEN = TraceSettings(docs_per_span=3, window_factor=2)


@pytest.fixture(scope="module")
def long_text(real_texts):
    """Words of two texts, mixed."""
    words = f"{real_texts[0]} {real_texts[1]}".split()
    chance = random.Random(1)
    return " ".join(chance.choice(words) for _ in range(200))


@pytest.fixture(scope="module")
def served(bpe, real_texts, long_text, tmp_path_factory):
    rows = [Document(f"t{n}", text) for n, text in enumerate([*real_texts, long_text])]
    folder = build_index(rows, bpe, tmp_path_factory.mktemp("damage") / "index", n_shards=2)
    with infinigram_server(folder, longest_query=8, longest_shown=200) as server:
        yield server


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(remote_client, "_FIRST_WAIT", 0.001)


@pytest.fixture(scope="module")
def made(real_texts, long_text):
    """A passage longer than a question may be, one with a word replaced, and a novel text."""
    edited = real_texts[0][40:70] + " zebra" + real_texts[0][90:110]
    texts = [long_text[480:520], edited, "om vinteren det var"]
    return [generation(text, f"g{n}") for n, text in enumerate(texts)]


def opened(server, bpe, answers, patience=5.0):
    asked = RemoteSettings(str(answers), rate=0, at_once=1, most_read=1000, patience=patience)
    return RemoteIndex(server.address, bpe, settings=asked, limits=LIMITS)


def traced(server, bpe, answers, made, patience=5.0):
    return trace_all(made, opened(server, bpe, answers, patience), CHOSEN)


@pytest.fixture(scope="module")
def sound(served, bpe, made, tmp_path_factory):
    """What is found without faults, and the answers of each type to the questions asked."""
    found = traced(served, bpe, tmp_path_factory.mktemp("sound") / "a", made)
    assert {each["query_type"] for each in served.asked} == {
        "find",
        "find_cnf",
        "get_doc_by_rank",
        "get_doc_by_ptr",
    }
    assert (found["traces"]["error"] == "").all()
    return found, len(served.asked)


def assert_same(found, expected):
    for name, table in expected.items():
        pd.testing.assert_frame_equal(found[name], table)


# --- damage ---------------------------------------------------------------------------------------

JUNK = (None, True, False, -1, 2**70, 1.5, "x", "", [], {}, [[]], [[-1, 1]], "[" * 5000)

#: Numbers of which one more or less shows, for others tell the same.
COUNTED = ("cnt", "segment_by_shard", "disp_len")


def places(value, path=()):
    """Paths to everything in a JSON value."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def replaced(value, path, change):
    """A copy in which what stands at a path was changed, or left out."""
    if not path:
        return change(value)
    copied = value.copy()
    inner = replaced(value[path[0]], path[1:], change)
    if inner is LEFT_OUT:
        del copied[path[0]]
    else:
        copied[path[0]] = inner
    return copied


LEFT_OUT = object()


def damaged(answer, chance):
    """An answer as JSON, something in it changed."""
    told = {name: value for name, value in answer.items() if name not in ("latency", "tokens")}
    path = chance.choice([path for path in places(told) if path])
    kinds = ["junk", "left out", "cut", "half", *(["one more"] if path[0] in COUNTED else [])]
    kind = chance.choice(kinds)
    if kind == "cut":
        raw = json.dumps(told).encode()
        return raw[: chance.randrange(len(raw))]
    changes = {
        "junk": lambda _: chance.choice(JUNK),
        "left out": lambda _: LEFT_OUT,
        "half": lambda value: value[: len(value) // 2] if isinstance(value, (str, list)) else None,
        "one more": lambda value: value + 1 if isinstance(value, int) else value * 2,
    }
    return replaced(told, path, changes[kind])


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(0, 2**32))
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_damaged_answers_change_nothing_or_end_in_an_error_and_are_not_kept(
    served, bpe, made, sound, tmp_path_factory, gaps, seed
):
    expected, n_asked = sound
    chance = random.Random(seed)
    # Not two in a row, for they might be the same answer damaged in the same way.
    hit, at = set(), chance.randrange(n_asked)
    for gap in gaps:
        hit.add(at)
        at += gap + 3
    first = len(served.asked)

    def fault(question, number):
        if number - first not in hit:
            return None
        return Reply(200, damaged(served.reply(question).content, chance))

    answers = tmp_path_factory.mktemp("damaged") / "a"
    served.fault = fault
    try:
        assert_same(traced(served, bpe, answers, made), expected)
    except PropMeError:
        pass  # said, and the next run is as any other
    finally:
        served.fault = lambda *_: None
    assert_same(traced(served, bpe, answers, made), expected)


@pytest.mark.parametrize(
    "wrong",
    [b"[1]", b"{}", b'{"cnt":"1","segment_by_shard":3}', b'{"doc_ix":0}', b"{" * 9, b"\0"],
    ids=str,
)
def test_a_file_full_of_answers_that_cannot_be_right_is_asked_anew_and_that_is_said_once(
    wrong, served, bpe, made, sound, tmp_path
):
    traced(served, bpe, tmp_path / "a", made)
    with sqlite3.connect(tmp_path / "a") as file:
        file.execute("UPDATE told SET answer = ?", (zlib.compress(wrong),))
    first = len(served.asked)
    with pytest.warns(DroppedAnswersWarning) as said:
        assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])
    assert [each.category for each in said].count(DroppedAnswersWarning) == 1
    assert len(served.asked) > first
    again = len(served.asked)
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])
    assert len(served.asked) == again


def test_of_two_answers_that_contradict_each_other_neither_is_kept(
    served, bpe, made, sound, tmp_path
):
    """The first answer that shows a document tells another length of it, and all else fits."""
    told = []

    def fault(question, number):
        if not question["query_type"].startswith("get_doc"):
            return None
        answer = served.reply(question).content
        # One of which an end is not shown may have any length.
        if told or answer["doc_len"] <= answer["disp_len"]:
            return None
        told.append(answer["doc_ix"])
        return Reply(200, answer | {"doc_len": answer["doc_len"] + 1})

    served.fault = fault
    try:
        with pytest.raises(ServerError, match=r"tells two lengths.*start again"):
            traced(served, bpe, tmp_path / "a", made)
    finally:
        served.fault = lambda *_: None
    assert len(told) == 1
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])


@contextmanager
def shown_otherwise(server, other):
    """Answers about documents by rank are made of the right one by ``other``, each time."""

    def fault(question, number):
        if question["query_type"] != "get_doc_by_rank":
            return None
        return other(question, server.reply(question).content)

    server.fault = fault
    try:
        yield
    finally:
        server.fault = lambda *_: None


def test_a_token_that_is_shown_at_two_ranks_is_told_and_what_came_with_it_forgotten(
    served, bpe, made, sound, tmp_path
):
    """That of the rank before holds what was sought as well, and nothing in it is odd."""
    index = opened(served, bpe, tmp_path / "a")
    found = index.find(bpe.encode(" it was the"))
    ((shard, low, high), *_) = found.ranges
    assert high - low > 1

    def before(question, answer):
        if (question["s"], question["rank"]) != (shard, low + 1):
            return None
        return Reply(200, served.reply(question | {"rank": low}).content)

    with shown_otherwise(served, before):
        index.locate(found, 1)
    with pytest.raises(ServerError, match=rf"at two ranks, {low + 1} and {low}; .*start again"):
        index.locate(found, 0)
    asked, again = len(served.asked), opened(served, bpe, tmp_path / "a")
    places = again.locate_all(again.find(bpe.encode(" it was the")), [0, 1])
    assert len(set(map(tuple, places.tolist()))) == 2
    assert len(served.asked) > asked + 2  # the ranks of what was sought, too
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])


def test_an_index_that_is_damaged_at_one_rank_stops_only_what_stands_there(
    served, bpe, made, sound, tmp_path
):
    """The server shows the document of the rank before, whenever it is asked."""
    index = opened(served, bpe, tmp_path / "a")
    found = index.find(bpe.encode(" it was the"))
    shard, low, _ = found.ranges[0]

    def before(question, answer):
        if (question["s"], question["rank"]) != (shard, low + 1):
            return None
        return Reply(200, served.reply(question | {"rank": low}).content)

    traced(served, bpe, tmp_path / "a", made)
    with shown_otherwise(served, before), pytest.raises(UnreadableError, match="at two ranks"):
        index.locate_all(found, [0, 1])
    asked = len(served.asked)
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])
    assert len(served.asked) - asked <= 2  # what the index is measured by; all else is kept


def test_what_was_asked_before_a_contradiction_is_not_kept_when_it_comes(served, bpe, tmp_path):
    """One question is under way while all that was told is forgotten."""
    index, other = opened(served, bpe, tmp_path / "a"), opened(served, bpe, tmp_path / "a")
    at_the_server, forgotten = threading.Event(), threading.Event()

    def slow(question, number):
        if question["query_ids"] == bpe.encode("de"):
            at_the_server.set()
            assert forgotten.wait(30)

    served.fault = slow
    try:
        asking = threading.Thread(target=index.find, args=(bpe.encode("de"),))
        asking.start()
        assert at_the_server.wait(30)
        other._client.disbelieve([{"query_type": "find", "query_ids": [1]}])
        forgotten.set()
        asking.join(30)
    finally:
        served.fault = lambda *_: None
    asked = len(served.asked)
    opened(served, bpe, tmp_path / "a").find(bpe.encode("de"))
    assert [each["query_ids"] for each in served.asked[asked:]] == [[], bpe.encode("de")]
    asked = len(served.asked)
    opened(served, bpe, tmp_path / "a").find(bpe.encode("de"))
    assert len(served.asked) == asked


def test_who_waits_when_a_server_is_given_up_is_told_why(served, bpe, tmp_path):
    """Not that it does not answer, and all be kept."""
    index = opened(served, bpe, tmp_path / "a", patience=30.0)
    asked, errors = threading.Event(), []

    def busy(question, number):
        asked.set()
        return Reply(500)

    def find():
        try:
            index.find(bpe.encode("de"))
        except ServerError as error:
            errors.append(error)

    served.fault = busy
    try:
        waiting = threading.Thread(target=find)
        waiting.start()
        assert asked.wait(30)
        cause = DisbelievedError("two lengths of one document")
        index._client._stop(cause)
        waiting.join(30)
    finally:
        served.fault = lambda *_: None
    assert errors == [cause]


def test_metadata_that_are_told_in_two_ways_are_forgotten_in_one_go(
    served, bpe, made, sound, tmp_path
):
    """At every other rank a document has other ones."""

    def fault(question, answer):
        other = answer["metadata"].replace('"t', '"other-t')
        return Reply(200, answer | {"metadata": other}) if question["rank"] % 2 else None

    with (
        shown_otherwise(served, fault),
        pytest.raises(ServerError, match=r"or two metadata of it; .*start again"),
    ):
        traced(served, bpe, tmp_path / "a", made)
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])


def test_an_odd_answer_that_is_given_twice_is_told_and_asked_anew_by_the_next_run(
    served, bpe, made, sound, tmp_path
):
    """A document whose text is another one: reported as not traced."""

    def another_text(question, answer):
        return Reply(200, answer | {"spans": [["another text", None]]})

    with shown_otherwise(served, another_text):
        found = traced(served, bpe, tmp_path / "a", made[:1])["traces"]
        assert "is this the tokenizer of the index?" in found["error"][0]
        asked = len(served.asked)
        again = traced(served, bpe, tmp_path / "a", made[:1])["traces"]
    assert again["error"][0] == found["error"][0]
    assert len(served.asked) > asked
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])


def test_documents_that_lack_what_was_sought_make_no_exact_number(
    served, bpe, made, sound, tmp_path
):
    """The document of the next rank, again and again, for some ranks."""

    def neighbour(question, answer):
        if question["rank"] % 3:
            return None
        return Reply(200, served.reply(question | {"rank": question["rank"] + 1}).content)

    with shown_otherwise(served, neighbour):
        found = traced(served, bpe, tmp_path / "a", made)
    assert (found["traces"]["error"] != "").any()
    key = ["generation_id", "start", "stop"]
    both = found["spans"].merge(sound[0]["spans"], on=key, suffixes=("", "_true"))
    exact = both[both["documents_exact"]]
    assert (exact["n_documents"] == exact["n_documents_true"]).all()
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])


def test_numbers_that_rest_on_an_odd_text_are_no_exact_ones(served, bpe, made, sound, tmp_path):
    """One that holds what was sought, but is more tokens than are shown, as it says."""

    def longer(question, answer):
        text = answer["spans"][0][0]
        return Reply(200, answer | {"spans": [[text + " zebra" * 20, None]]})

    kept = sound[0]["spans"].query("dropped == ''")
    assert kept["documents_exact"].any()
    assert sound[0]["traces"]["whole_exact"].all()
    with shown_otherwise(served, longer):
        found = traced(served, bpe, tmp_path / "a", made)
    counted = found["spans"].query("dropped == '' and n_occurrences > 1")
    assert len(counted)
    assert not counted["documents_exact"].any()
    whole = found["traces"].set_index("generation_id")["whole_exact"]
    assert not whole["g0"]  # the one that stands there whole
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])


def test_an_error_of_an_answer_names_server_and_file_and_the_answers_are_not_kept(
    served, bpe, made, sound, tmp_path
):
    """Ranks that are shifted by one: the documents there are sound, and hold something else."""

    def shifted(question, number):
        if question["query_ids"] in ([], [65_535]) or question["query_type"] != "find":
            return None
        answer = served.reply(question).content
        ranges = [[max(low - 1, 0), max(high - 1, 0)] for low, high in answer["segment_by_shard"]]
        return Reply(200, answer | {"segment_by_shard": ranges})

    served.fault = shifted
    index = opened(served, bpe, tmp_path / "a")
    try:
        with pytest.raises(UnreadableError) as error:
            index.locate(index.find(bpe.encode("de")), 0)
    finally:
        served.fault = lambda *_: None
    assert served.address.split("#")[0] in str(error.value)
    assert f"{tmp_path / 'a'}, which forgets them: trace anew" in str(error.value)
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])
    assert index.locate(index.find(bpe.encode("de")), 0).offset >= 0


def test_a_document_that_is_not_what_was_found_stops_the_trace_and_is_forgotten(
    served, bpe, made, sound, tmp_path
):
    index = opened(served, bpe, tmp_path / "a")
    found = index.find(bpe.encode("de"))
    told = index.disown(index.locate(found, 0))
    assert served.address.split("#")[0] in told
    assert str(tmp_path / "a") in told
    n_asked = index.n_requests
    index.find(bpe.encode("de"))
    index.locate(found, 0)
    assert index.n_requests == n_asked + 2  # the ranks, and the document there


@pytest.mark.parametrize("told_of", [[], [65_535]], ids=["sizes", "documents"])
def test_a_wrong_answer_about_the_index_is_found_out_and_asked_anew(
    told_of, served, bpe, made, sound, tmp_path
):
    """The first one is: a tenth of each shard, or of the documents."""
    told = []

    def fault(question, number):
        if told or question["query_ids"] != told_of:
            return None
        told.append(number)
        ranges = served.reply(question).content["segment_by_shard"]
        ranges = [[low, low + max(1, (high - low) // 10)] for low, high in ranges]
        count = sum(high - low for low, high in ranges)
        return Reply(200, {"cnt": count, "segment_by_shard": ranges})

    served.fault = fault
    first = len(served.asked)
    try:
        with pytest.raises(
            ServerError, match=r"forgets all that it told of the index before, so start"
        ):
            traced(served, bpe, tmp_path / "a", made, patience=600.0)
    finally:
        served.fault = lambda *_: None
    asked = [str(each) for each in served.asked[first:]]
    assert max(map(asked.count, asked)) == 5
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])


def test_what_the_index_is_measured_by_is_asked_anew_once_a_text_does_not_fit(
    served, bpe, made, sound, tmp_path
):
    """Ranges of each shard are told of the other: nothing that is told of them disagrees."""

    def fault(question, number):
        if question["query_type"] != "find":
            return None
        answer = served.reply(question).content
        return Reply(200, answer | {"segment_by_shard": answer["segment_by_shard"][::-1]})

    index = opened(served, bpe, tmp_path / "a")
    served.fault = fault
    try:
        found = index.find(bpe.encode("de"))
        with pytest.raises(UnreadableError):
            index.locate_all(found, range(found.count))
    finally:
        served.fault = lambda *_: None
    assert_same(traced(served, bpe, tmp_path / "a", made), sound[0])

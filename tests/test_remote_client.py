"""Questions to a server: patient, few at a time, never twice, and clear about what went wrong."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pandas as pd
import pytest
from helpers import generation, needs_engine

from propme.errors import InputError, ParameterError, ServerError
from propme.index import RemoteSettings, open_index
from propme.index.remote.answers import Answers
from propme.simpletrace import IndexAddress, TraceSettings, trace_all, trace_table

pytest.importorskip("httpx")
pytest.importorskip("infini_gram")

from infinigram_server import Reply, infinigram_server

from propme import tables
from propme.index.remote import client as remote_client
from propme.index.remote import http as remote_http
from propme.index.remote.client import AskedAgainWarning, Client, NotAnsweredYetError
from propme.index.remote.http import RefusedError, seconds_to_wait
from propme.index.remote.questions import find

pytestmark = needs_engine

AGE = find([5, 6])


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(remote_client, "_FIRST_WAIT", 0.01)


@pytest.fixture
def served(text_index):
    with infinigram_server(text_index) as server:
        yield server


def client(server, tmp_path, **chosen):
    settings = {"rate": 0.0, "patience": 5.0} | chosen
    return Client(server.address, RemoteSettings(str(tmp_path / "answers"), **settings))


# --- faults ---------------------------------------------------------------------------------------


def _hangs_up():
    raise ConnectionResetError


def _is_slow():
    time.sleep(3)


FAULTS = {
    "slow": _is_slow,
    "dropped": _hangs_up,
    "429": lambda: Reply(429, {"error": "slow down"}, {"Retry-After": "1"}),
    "500": lambda: Reply(500, {"error": "[Flask] Internal server error"}),
    "HTML": lambda: Reply(200, b"<html>A proxy says hello</html>", {"content-type": "text/html"}),
    "bad gateway": lambda: Reply(502, b"<html>Bad gateway</html>"),
    "error": lambda: Reply(200, {"error": "overloaded"}),
    "list": lambda: Reply(200, [1, 2]),
    "lacks": lambda: Reply(200, {"latency": 0.1}),
    "rests oddly": lambda: Reply(429, {"error": ["slow"]}, {"Retry-After": "\xb2"}),
    "encoded otherwise": lambda: Reply(200, b"no gzip", {"Content-Encoding": "gzip"}),
    "nested": lambda: Reply(200, b"[" * 100_000 + b"]" * 100_000),
    "no content": lambda: Reply(204, b""),
    "redirects": lambda: Reply(302, b"", {"Location": "http://[/login"}),
    "contradicts": lambda: Reply(200, {"cnt": 3, "segment_by_shard": [[1, 2]]}),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_that_passes_changes_nothing(kind, text_index, served, tmp_path, real_texts):
    made = [generation(real_texts[0][20:90] + " zebra", "a"), generation("om vinteren frøs", "b")]
    n_faults = {"slow": 1, "429": 1}.get(kind, 4)
    served.fault = lambda _, number: (
        FAULTS[kind]() if number in range(3, 3 + 5 * n_faults, 5) else None
    )
    settings = RemoteSettings(
        str(tmp_path / "a"), rate=0, most_read=1000, timeout=0.7 if kind == "slow" else 60
    )
    index = open_index(
        served.address, tokenizer=str(text_index / "tokenizer.json"), remote=settings
    )
    found = trace_all(made, index)
    for name, table in trace_all(made, open_index(text_index)).items():
        pd.testing.assert_frame_equal(found[name], table)
    # Only what failed was asked twice; on a busy machine more may be slow.
    n_repeated = len(served.asked) - len({str(each) for each in served.asked})
    assert n_repeated == n_faults or (kind == "slow" and n_repeated > n_faults)


@pytest.mark.parametrize("kind", ["dropped", "500", "HTML", "nested", "redirects", "contradicts"])
def test_a_fault_that_stays_ends_in_an_error_and_what_is_answered_is_kept(
    kind, text_index, served, tmp_path, real_texts
):
    texts = [text[:150] for text in real_texts[:5]]
    made = tables.to_frame("generations", [generation(t, f"g{n}") for n, t in enumerate(texts)])
    address = IndexAddress(
        (served.address,),
        tokenizer=str(text_index / "tokenizer.json"),
        remote=RemoteSettings(str(tmp_path / "a"), rate=0, patience=0.3, most_read=1000),
    )
    served.fault = lambda _, number: FAULTS[kind]() if number >= 120 else None
    with pytest.raises(ServerError, match="all answers so far are kept"):
        trace_table(made, address, TraceSettings(), tmp_path / "parts")
    answered, served.asked[:] = served.asked[:120], []
    served.fault = lambda question, number: None
    found = trace_table(made, address, TraceSettings(), tmp_path / "parts")
    assert not {str(each) for each in answered} & {str(each) for each in served.asked}
    local = IndexAddress((str(text_index),))
    expected = trace_table(made, local, TraceSettings(), tmp_path / "local")
    for name, table in expected.items():
        pd.testing.assert_frame_equal(found[name], table)


def test_a_file_of_answers_that_cannot_be_used_ends_the_trace(
    text_index, served, tmp_path, real_texts, monkeypatch
):
    """A full disk is told once, not in the row of every generation."""

    def full(*_):
        raise InputError("make room", "answers.sqlite")

    made = tables.to_frame("generations", [generation(real_texts[0][:50], "g")])
    address = IndexAddress(
        (served.address,),
        tokenizer=str(text_index / "tokenizer.json"),
        remote=RemoteSettings(str(tmp_path / "a"), rate=0),
    )
    monkeypatch.setattr(Answers, "put", full)
    with pytest.raises(InputError, match="make room"):
        trace_table(made, address, TraceSettings(), tmp_path / "parts")


def test_a_server_that_asks_for_a_long_rest_is_not_waited_for(served, tmp_path):
    served.fault = lambda *_: Reply(429, {"error": "later"}, {"Retry-After": "900"})
    # Nor does another process ask it in that time, and it says the same.
    for _ in range(2):
        earliest = datetime.now() + timedelta(seconds=900)
        with pytest.raises(ServerError, match="status 429, asked to wait until") as error:
            client(served, tmp_path).ask(AGE)
        near = [f"{earliest + timedelta(minutes=n):%H:%M}" for n in (-1, 0, 1)]
        assert any(f"until {time}" in str(error.value) for time in near)
    assert len(served.asked) == 1


def test_an_answer_that_comes_in_drops_is_given_up_and_asked_again(served, tmp_path):
    """Each byte comes in time, the whole does not: the timeout is for all of it."""
    drops = [Reply(200, b" " * 100, pause=0.1)]
    served.fault = lambda *_: drops.pop() if drops else None
    assert client(served, tmp_path, timeout=0.7).ask(AGE)["cnt"] >= 0
    assert len(served.asked) == 2
    served.fault = lambda *_: Reply(200, b" " * 100, pause=0.1)
    with pytest.raises(ServerError, match="did not answer in time"):
        client(served, tmp_path, timeout=0.3, patience=0.2).ask(find([7]))


def test_an_answer_of_more_than_a_bound_is_given_up_and_asked_again(served, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_http, "MOST_BYTES", 1 << 20)
    huge = [Reply(200, b" " * (2 << 20))]
    served.fault = lambda *_: huge.pop() if huge else None
    assert client(served, tmp_path).ask(AGE)["cnt"] >= 0
    assert len(served.asked) == 2
    served.fault = lambda *_: Reply(200, b" " * (2 << 20))
    with pytest.raises(ServerError, match="more than 1 MB"):
        client(served, tmp_path, patience=0.1).ask(find([7]))


@pytest.mark.parametrize("seconds", [1, 90])
def test_retry_after_is_a_number_of_seconds_or_a_date(seconds):
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    assert seconds_to_wait(str(seconds)) == seconds
    assert seconds - 2 < seconds_to_wait(format_datetime(at, usegmt=True)) <= seconds


ODD_RESTS = (
    "soon",
    "-5",
    "\xb2",
    "٣",
    "1e3",
    "0x1F",
    "Mon, 99 Jan 2001",
    "Mon, 01 Jan 99999 00:00 GMT",
)


@pytest.mark.parametrize("header", [None, "", "Mon, 01 Jan 2001 00:00:00 GMT", *ODD_RESTS])
def test_any_other_retry_after_asks_for_nothing(header):
    assert seconds_to_wait(header) == 0


def test_a_rest_without_end_is_not_waited_for(served, tmp_path):
    served.fault = lambda *_: Reply(503, b"", {"Retry-After": "9" * 400})
    with pytest.raises(ServerError, match=r"status 503, asked to wait until ..:..;"):
        client(served, tmp_path).ask(AGE)


def test_a_server_that_has_moved_is_told_at_once_and_no_more_of_where_than_its_name(
    served, tmp_path
):
    served.fault = lambda *_: Reply(308, b"", {"Location": "https://new.example/?key=sesame"})
    with pytest.raises(ServerError, match=r"moved \(308\) to new\.example; give") as error:
        client(served, tmp_path).ask(AGE)
    assert "sesame" not in str(error.value)
    assert len(served.asked) == 1


def test_an_unknown_index_is_told_at_once(served, tmp_path):
    asking = Client(served.address + "_other", RemoteSettings(str(tmp_path / "answers"), rate=0))
    with pytest.raises(ServerError, match=r"Invalid index.*'v4_test_other' the name"):
        asking.ask(AGE)
    assert len(served.asked) == 1


def test_a_question_that_the_server_never_answers_is_given_up(served, tmp_path):
    asking = client(served, tmp_path)
    with pytest.raises(RefusedError, match="limit your input to <= 500 tokens"):
        asking.ask(find([5] * 501))
    assert len(served.asked) == 3
    assert asking.ask(AGE)["cnt"] >= 0


def test_a_server_that_is_not_there_is_told(tmp_path):
    nobody = Client(
        "http://127.0.0.1:1/#v4", RemoteSettings(str(tmp_path / "a"), rate=0, patience=0.1)
    )
    with pytest.raises(ServerError, match=r"index v4: .*cannot be reached"):
        nobody.ask(AGE)


def test_it_is_said_once_that_a_server_that_is_lost_is_asked_again(tmp_path):
    nobody = Client(
        "http://127.0.0.1:1/#v4", RemoteSettings(str(tmp_path / "a"), rate=0, patience=0.3)
    )
    with (
        pytest.warns(
            AskedAgainWarning, match=r"reached \(ConnectError\); it is asked again"
        ) as said,
        pytest.raises(ServerError),
    ):
        nobody.ask_all([find([number]) for number in range(4)])
    assert [each.category for each in said].count(AskedAgainWarning) == 1


def test_a_fault_that_passes_at_once_is_not_told(served, tmp_path, recwarn):
    served.fault = lambda _, number: Reply(503) if number < 2 else None
    client(served, tmp_path).ask(AGE)
    assert not [each for each in recwarn if each.category is AskedAgainWarning]


def test_a_server_without_tls_at_a_safe_address_is_told_at_once(served, tmp_path):
    address = served.address.replace("http://", "https://")
    settings = RemoteSettings(str(tmp_path / "a"), rate=0, patience=600)
    with pytest.raises(ServerError, match="no safe connection to the server"):
        Client(address, settings).ask(AGE)


# --- the key --------------------------------------------------------------------------------------


def test_the_key_is_sent_and_stands_in_nothing_else(served, tmp_path, monkeypatch):
    monkeypatch.setenv("PROPME_INDEX_KEY", "sesame")
    asking = client(served, tmp_path)
    asking.ask(AGE)
    assert served.keys == {"Bearer sesame"}
    assert all(b"sesame" not in path.read_bytes() for path in tmp_path.iterdir())
    served.fault = lambda *_: Reply(400, {"error": "what is sesame?"})
    with pytest.raises(ServerError) as refused:
        asking.ask(find([7]))
    served.fault = lambda *_: Reply(401, {"error": "sesame is no key"})
    with pytest.raises(ServerError, match="PROPME_INDEX_KEY") as unknown:
        asking.ask(find([7]))
    served.fault = lambda *_: Reply(200, {"error": "sesame, sesame"})
    with pytest.raises(ServerError, match="by an error") as failed:
        asking.ask(find([7]))
    assert all("sesame" not in str(each.value) for each in (refused, unknown, failed))


def test_a_key_that_cannot_be_sent_is_not_quoted(monkeypatch, served, tmp_path):
    monkeypatch.setenv("PROPME_INDEX_KEY", "sésame\n")
    with pytest.raises(ParameterError, match="PROPME_INDEX_KEY") as error:
        client(served, tmp_path).ask(AGE)
    assert "same" not in str(error.value)


# --- few, and each once ---------------------------------------------------------------------------


def test_what_many_threads_ask_is_asked_once_and_few_at_a_time(served, tmp_path):
    asking = client(served, tmp_path, at_once=2)
    active, most, lock = 0, 0, threading.Lock()

    def notice(question, number):
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        time.sleep(0.02)
        with lock:
            active -= 1

    served.fault = notice
    questions = [find([number]) for number in range(8)]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(asking.ask_all, [questions] * 6))
    assert all(each == answers[0] for each in answers)
    assert len(served.asked) == len(questions)
    assert most == 2


def test_offline_only_kept_answers_are_given(served, tmp_path):
    answer = client(served, tmp_path).ask(AGE)
    offline = client(served, tmp_path, offline=True)
    assert offline.ask(AGE) == answer
    with pytest.raises(NotAnsweredYetError):
        offline.ask(find([7]))
    assert len(served.asked) == 1


@pytest.mark.parametrize("wrong", [{"rate": -1}, {"at_once": 0}, {"most_read": 0}])
def test_settings_that_cannot_be_meant_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        RemoteSettings(**wrong)

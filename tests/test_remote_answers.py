"""The file of answers: shared by processes, nothing lost, nothing left half done."""

import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from helpers import needs_engine

from propme.errors import InputError
from propme.index.remote import answers as remote_answers
from propme.index.remote.answers import Answers, DroppedAnswersWarning


def raw(path, statement, *values):
    with sqlite3.connect(path) as file:
        return file.execute(statement, values).fetchall()


# --- turns ----------------------------------------------------------------------------------------


def test_turns_are_as_far_apart_as_the_rate_says(tmp_path):
    answers = Answers(tmp_path / "a")
    waits = [answers.turn("s", 2.0) for _ in range(4)]
    for number, wait in enumerate(waits):  # half a second each, less what the calls took
        assert number / 2 - 0.4 < wait <= number / 2
    assert Answers(tmp_path / "a").turn("s", 2.0) > 1.5  # another process waits behind them
    assert answers.turn("another", 2.0) == 0
    assert Answers(tmp_path / "b").turn("s", 0) == 0


def test_a_server_is_held_for_all_who_share_the_file(tmp_path):
    Answers(tmp_path / "a").hold("s", 30.0, "status 429")
    assert 29 < Answers(tmp_path / "a").turn("s", 0) <= 30
    Answers(tmp_path / "a").hold("s", 5.0, "status 429")  # a shorter rest does not end a longer one
    assert Answers(tmp_path / "a").turn("s", 0) > 25


@pytest.mark.parametrize("seconds", [7200.0, float("inf")])
def test_nobody_is_held_for_more_than_an_hour(seconds, tmp_path):
    answers = Answers(tmp_path / "a")
    answers.hold("s", seconds, "status 429")
    assert 3590 < answers.turn("s", 0) <= 3600
    waits = [answers.turn("s", 2.0) for _ in range(5)]  # who takes one does not end the hold
    for number, wait in enumerate(waits):
        assert 3590 < wait - number / 2 <= 3600
    assert answers.turn("s", 0) > 3590


def test_a_clock_that_was_set_back_does_not_stop_the_turns(tmp_path, monkeypatch):
    answers = Answers(tmp_path / "a")
    monkeypatch.setattr(time, "time", lambda: 2e9)
    answers.turn("s", 1.0)
    answers.hold("s", 60.0, "status 429")
    assert answers.held("s").startswith("status 429, asked to wait until")
    monkeypatch.setattr(time, "time", lambda: 1e9)
    assert answers.turn("s", 0) == 0
    assert answers.turn("s", 1.0) == 0
    assert answers.held("s") == ""


def test_what_a_source_told_about_a_time_is_forgotten_and_nothing_else(tmp_path, monkeypatch):
    """900 seconds before and after."""
    answers = Answers(tmp_path / "a")
    for at in (0, 99, 100, 1000, 1900, 1901):
        monkeypatch.setattr(time, "time", lambda at=at: 1e9 + at)
        for source in ("s#i", "s#j"):
            answers.put(f"{source}{at}".encode(), {"at": at}, source, time.time())
    assert answers.when(b"s#i1000") == 1e9 + 1000
    assert answers.when(b"none") is None
    answers.disbelieve("s#i", 1e9 + 1000)

    def kept(source):
        return [
            at for at in (0, 99, 100, 1000, 1900, 1901) if answers.get(f"{source}{at}".encode())
        ]

    assert kept("s#i") == [0, 99, 1901]
    answers.forget_source("s#i")
    assert kept("s#i") == []
    assert kept("s#j") == [0, 99, 100, 1000, 1900, 1901]


# --- claims ---------------------------------------------------------------------------------------


def claimed_by(answers, path, owner, until):
    raw(path, "INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", b"q", owner, until)
    return not answers.claim(b"q", 10.0)


def test_a_question_is_claimed_by_one_process_until_it_lets_go_or_is_gone(tmp_path):
    path = tmp_path / "a"
    answers = Answers(path)
    assert answers.claim(b"q", 10.0)
    assert answers.claim(b"q", 10.0)  # its own claim
    answers.release(b"q")
    assert raw(path, "SELECT * FROM claims") == []
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    soon = time.time() + 60
    assert claimed_by(answers, path, os.getppid(), soon)
    assert not claimed_by(answers, path, os.getppid(), time.time() - 1)  # lapsed
    assert not claimed_by(answers, path, os.getppid(), time.time() + 1e6)  # of another clock
    assert not claimed_by(answers, path, gone.pid, soon)


def test_what_another_process_has_claimed_is_not_let_go(tmp_path):
    answers = Answers(tmp_path / "a")
    assert claimed_by(answers, tmp_path / "a", os.getppid(), time.time() + 60)
    answers.release(b"q")
    assert not answers.claim(b"q", 10.0)


# --- several processes ----------------------------------------------------------------------------


def _write(path, first):
    answers = Answers(path)
    for number in range(first, first + 100):
        answers.put(number.to_bytes(4, "big"), {"n": number}, "s#i", 0.0)
        answers.turn("s", 1000.0)


def test_several_processes_may_open_and_write_at_a_time(tmp_path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(tmp_path / "a", n)) for n in (0, 50, 75, 100)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    answers = Answers(tmp_path / "a")
    assert [answers.get(n.to_bytes(4, "big")) for n in range(200)] == [{"n": n} for n in range(200)]
    assert answers.get(b"none") is None


@needs_engine
def test_four_processes_that_ask_the_same_at_once_ask_each_question_once(text_index, tmp_path):
    from infinigram_server import infinigram_server

    with infinigram_server(text_index) as server:
        server.fault = lambda *_: time.sleep(0.05)  # so that they do meet
        arguments = [server.address, str(tmp_path / "a"), str(tmp_path / "start")]
        command = [sys.executable, str(Path(__file__).parent / "asking.py"), *arguments]
        asking = [
            subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True)
            for n in range(4)
        ]
        for each in asking:
            assert each.stdout.readline() == "ready\n"
        (tmp_path / "start").touch()
        told = [json.loads(each.communicate()[0]) for each in asking]
        assert [each.returncode for each in asking] == [0] * 4
        asked = [str(each["query_ids"]) for each in server.asked]
    assert len(asked) == len(set(asked)) == 60
    assert all(each["counts"] == told[0]["counts"] for each in told)
    assert len(told[0]["counts"]) == 60
    assert sum(each["requests"] for each in told) == 60
    # None asked alone, before the others had begun.
    assert max(each["requests"] for each in told) < 60


# --- faults ---------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_leaves_nothing_half_done(tmp_path):
    answers = Answers(tmp_path / "a")
    answers.put(b"before", {"n": 1}, "s#i", 0.0)
    (pages,) = answers._connection().execute("PRAGMA page_count").fetchone()
    answers._connection().execute(f"PRAGMA max_page_count = {pages}")
    noise = {"text": os.urandom(100_000).hex()}
    with pytest.raises(InputError, match=r"is full\); make room"):
        answers.put(b"q", noise, "s#i", 0.0)
    assert answers.get(b"before") == {"n": 1}
    answers._connection().execute("PRAGMA max_page_count = 10000")
    answers.put(b"q", noise, "s#i", 0.0)
    assert answers.get(b"q") == noise
    assert answers.turn("s", 1.0) == 0
    assert Answers(tmp_path / "a").get(b"q") == noise


def test_a_file_that_stays_locked_is_told_and_used_again_once_it_is_free(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_answers, "_PATIENCE", 0.1)
    monkeypatch.setattr(remote_answers, "_AT_A_TIME", 0.05)
    answers = Answers(tmp_path / "a")
    with sqlite3.connect(tmp_path / "a", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        for write in (lambda: answers.put(b"q", {}, "s#i", 0.0), lambda: answers.turn("s", 1.0)):
            with pytest.raises(InputError, match="locked"):
                write()
        assert answers.turn("s", 0) == 0  # reads, and waits for nobody
        other.execute("ROLLBACK")
    assert answers.turn("s", 1.0) == 0
    answers.put(b"q", {"n": 1}, "s#i", 0.0)
    assert answers.get(b"q") == {"n": 1}


def test_a_file_that_is_none_is_told_by_whatever_looks_into_it(tmp_path):
    (tmp_path / "a").write_text("These are my memoirs, and no answers. " * 100)
    with pytest.raises(InputError, match="remove it"):
        Answers(tmp_path / "a")
    answers = Answers(tmp_path / "b")
    raw(tmp_path / "b", "DROP TABLE turns")
    for rate in (0, 1.0):
        with pytest.raises(InputError, match="cannot be used as a file of answers"):
            answers.turn("s", rate)


NESTED = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    "row",
    [b"\0", "text", zlib.compress(b"{"), zlib.compress(b"[1]"), zlib.compress(NESTED), b"", 3],
    ids=["no zlib", "text", "no JSON", "a list", "nested", "empty", "number"],
)
def test_a_damaged_row_is_dropped_and_that_is_said_once(row, tmp_path, recwarn):
    answers = Answers(tmp_path / "a")
    for question in (b"one", b"two"):
        raw(tmp_path / "a", "INSERT INTO told VALUES (?, 's#i', 0, ?)", question, row)
        assert answers.get(question) is None
        answers.put(question, {"n": 1}, "s#i", 0.0)
        assert answers.get(question) == {"n": 1}
    (said,) = (each for each in recwarn if each.category is DroppedAnswersWarning)
    assert "asked anew" in str(said.message)

"""Answers of a server, kept in one file, so that nothing is asked twice; and whose turn it is.

Several processes may use the file at a time, on one machine. What a killed one has asked is there.
Every write is one statement, which holds or does not: nothing is left half done by a full disk.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import warnings
import zlib
from datetime import datetime
from pathlib import Path
from typing import Any

from propme.errors import InputError

_TABLES = """
CREATE TABLE IF NOT EXISTS told
    (question BLOB PRIMARY KEY, source TEXT NOT NULL, at REAL NOT NULL, answer BLOB NOT NULL)
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS doubts (source TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS turns (server TEXT PRIMARY KEY, next REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS holds
    (server TEXT PRIMARY KEY, until REAL NOT NULL, cause TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims
    (question BLOB PRIMARY KEY, owner INTEGER NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
"""

#: The turn of who asks next, given out in one statement: two processes never get the same.
_TAKE_TURN = """
INSERT INTO turns VALUES (:server, :now + :step) ON CONFLICT (server) DO UPDATE
SET next = CASE WHEN next > :now + :farthest + :queued THEN :now ELSE max(next, :now) END + :step
RETURNING next
"""

#: A claim holds until it lapses, or its owner lets it go.
_CLAIM = """
INSERT INTO claims VALUES (:question, :owner, :until) ON CONFLICT (question) DO UPDATE
SET owner = excluded.owner, until = excluded.until
WHERE owner = excluded.owner OR until < :now OR until > :now + :farthest
RETURNING owner
"""

#: Seconds for which a process waits for others that are writing, in all and at a time.
_PATIENCE, _AT_A_TIME = 60.0, 5.0

#: Seconds by which turns that are taken behind a hold may push on what comes next.
_QUEUED = 3600.0

#: A source of which two answers contradict each other is not believed what it told within so many
#: seconds of either: what is wrong with a server lasts a while.
_DOUBTED = 900.0

#: What is farther ahead than this comes of a clock that was set back, in seconds.
_FARTHEST = 3600.0


class DroppedAnswersWarning(UserWarning):
    """Answers that were kept cannot be right: they are asked anew."""


class Answers:
    """A file of answers.

    Parameters
    ----------
    path : Path
        Made if it is missing.

    Attributes
    ----------
    path : Path

    Raises
    ------
    InputError
        It cannot be made, read or written, or holds something else; so do all methods.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened = threading.local()
        self._has_dropped = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error
        for table in filter(str.strip, _TABLES.split(";")):
            self._execute(table)

    def get(self, question: bytes) -> dict[str, Any] | None:
        """The answer to a question, if it was ever given; a damaged one is dropped."""
        rows = self._execute("SELECT answer FROM told WHERE question = ?", (question,))
        if not rows:
            return None
        try:
            answer = json.loads(zlib.decompress(rows[0][0]))
        except (zlib.error, ValueError, TypeError, RecursionError):
            answer = None
        if isinstance(answer, dict):
            return answer
        self.drop(question)
        return None

    def put(self, question: bytes, answer: dict[str, Any], source: str, asked: float) -> None:
        """Keep an answer of a source; the first of two to one question stays.

        ``asked``: when it was, seconds since 1970. What was asked before the source was disbelieved
        is not kept, though its answer came later.
        """
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        packed = zlib.compress(text.encode("utf-8", "surrogatepass"), 1)
        now = time.time()
        values = {"question": question, "source": source, "now": now, "packed": packed}
        self._execute(
            "INSERT OR IGNORE INTO told SELECT :question, :source, :now, :packed WHERE NOT EXISTS"
            " (SELECT 1 FROM doubts WHERE source = :source AND at BETWEEN :asked AND :now)",
            values | {"asked": asked},
        )

    def forget(self, question: bytes) -> None:
        """Keep no answer to a question."""
        self._execute("DELETE FROM told WHERE question = ?", (question,))

    def forget_source(self, source: str) -> None:
        """Keep no answer of a source."""
        self._doubt(source)
        self._execute("DELETE FROM told WHERE source = ?", (source,))

    def when(self, question: bytes) -> float | None:
        """When a kept answer came, seconds since 1970."""
        rows = self._execute("SELECT at FROM told WHERE question = ?", (question,))
        return float(rows[0][0]) if rows else None

    def disbelieve(self, source: str, at: float) -> None:
        """Keep no answer that a source gave about this time."""
        if time.time() - at <= _DOUBTED:  # what it is asked just now, too
            self._doubt(source)
        self._execute(
            "DELETE FROM told WHERE source = ? AND at BETWEEN ? AND ?",
            (source, at - _DOUBTED, at + _DOUBTED),
        )

    def _doubt(self, source: str) -> None:
        self._execute("INSERT OR REPLACE INTO doubts VALUES (?, ?)", (source, time.time()))

    def drop(self, question: bytes) -> None:
        """Forget an answer that cannot be right, and say so the first time."""
        self.forget(question)
        if not self._has_dropped:
            self._has_dropped = True
            warnings.warn(
                f"{self.path}: answers that are damaged or cannot be right are dropped and asked"
                " anew",
                DroppedAnswersWarning,
                stacklevel=2,
            )

    def claim(self, question: bytes, seconds: float) -> bool:
        """Whether this process may ask a question: none other is asking it.

        It may for some seconds, or until `release`; a claim of a process that is gone is void.
        """
        now, owner = time.time(), os.getpid()
        values = {
            "question": question,
            "owner": owner,
            "now": now,
            "until": now + min(seconds, _FARTHEST),
            "farthest": _FARTHEST,
        }
        if self._execute(_CLAIM, values):
            return True
        for (other,) in self._execute("SELECT owner FROM claims WHERE question = ?", (question,)):
            if not _is_running(other):
                self._release(question, other)
        return bool(self._execute(_CLAIM, values))

    def release(self, question: bytes) -> None:
        """Let others ask a question."""
        self._release(question, os.getpid())

    def _release(self, question: bytes, owner: int) -> None:
        self._execute("DELETE FROM claims WHERE question = ? AND owner = ?", (question, owner))

    def turn(self, server: str, rate: float) -> float:
        """Seconds until the caller may ask a server that is asked ``rate`` times a second.

        The turn is the caller's from then on. 0: there is no such limit, but for `hold`.
        """
        now = time.time()
        if rate:
            step = 1 / rate
            values = {
                "server": server,
                "now": now,
                "step": step,
                "farthest": _FARTHEST,
                "queued": _QUEUED,
            }
            ((follows,),) = self._execute(_TAKE_TURN, values)
            return max(0.0, float(follows) - step - now)
        rows = self._execute("SELECT next FROM turns WHERE server = ?", (server,))
        wait = float(rows[0][0]) - now if rows else 0.0
        return wait if 0 < wait <= _FARTHEST + _QUEUED else 0.0

    def hold(self, server: str, seconds: float, cause: str) -> None:
        """Let nobody ask a server for some seconds, an hour at most, for it said so."""
        self._execute(
            "INSERT INTO holds VALUES (?, ?, ?) ON CONFLICT (server) DO UPDATE"
            " SET until = excluded.until, cause = excluded.cause WHERE until < excluded.until",
            (server, time.time() + min(seconds, _FARTHEST), cause),
        )
        self._execute(
            "INSERT INTO turns VALUES (?, ?)"
            " ON CONFLICT (server) DO UPDATE SET next = max(next, excluded.next)",
            (server, time.time() + min(seconds, _FARTHEST)),
        )

    def held(self, server: str) -> str:
        """Why nobody may ask a server, and until when; empty: it may be asked."""
        now = time.time()
        rows = self._execute(
            "SELECT until, cause FROM holds WHERE server = ? AND until BETWEEN ? AND ?",
            (server, now, now + _FARTHEST),
        )
        if not rows:
            return ""
        until, cause = rows[0]
        return f"{cause}, asked to wait until {datetime.fromtimestamp(until):%H:%M}"

    def _execute(self, statement: str, values: Any = ()) -> list[Any]:
        """Rows of a statement, which waits while other processes write."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._connection().execute(statement, values).fetchall()
            except sqlite3.Error as error:
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise self._unusable(error) from error
                time.sleep(0.01)  # what SQLite itself does not wait for, as for a file being opened

    def _connection(self) -> sqlite3.Connection:
        """The thread's own; a process that was forked off may not use its parent's."""
        if getattr(self._opened, "by", None) != os.getpid():
            self._opened.connection, self._opened.by = self._connect(), os.getpid()
        opened: sqlite3.Connection = self._opened.connection
        return opened

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_AT_A_TIME, isolation_level=None)
        try:
            # Readers and a writer do not wait for each other. What a crash of the machine loses of
            # the last second is asked again.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _unusable(self, error: Exception) -> InputError:
        return InputError(
            f"cannot be used as a file of answers ({error}); make room, name another, or remove it",
            str(self.path),
        )


def _is_busy(error: sqlite3.Error) -> bool:
    """Whether another process has the file; the low byte is the kind of error."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _is_running(process: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(process))

"""Answers of a server, kept in one file, so that nothing is asked twice; and whose turn it is.

Several processes may use the file at a time, on one machine. What a killed one has asked is there.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import zlib
from pathlib import Path
from typing import Any

from propme.errors import InputError

_TABLES = """
CREATE TABLE IF NOT EXISTS answers (question BLOB PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS turns (server TEXT PRIMARY KEY, next REAL NOT NULL) WITHOUT ROWID;
"""

#: Seconds for which a process waits for another one that is writing.
_PATIENCE = 60.0

#: A turn farther ahead than this comes of a clock that was set back, in seconds.
_FARTHEST_TURN = 3600.0


class Answers:
    """A file of answers.

    Parameters
    ----------
    path : Path
        Made if it is missing.

    Raises
    ------
    InputError
        It cannot be made, or holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = threading.local()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection().executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def get(self, question: bytes) -> dict[str, Any] | None:
        """The answer to a question, if it was ever given."""
        try:
            found = self._connection().execute(
                "SELECT answer FROM answers WHERE question = ?", (question,)
            )
            row = found.fetchone()
            answer: dict[str, Any] | None = row and json.loads(zlib.decompress(row[0]))
        except (sqlite3.Error, zlib.error, ValueError) as error:
            raise self._unusable(error) from error
        return answer

    def put(self, question: bytes, answer: dict[str, Any]) -> None:
        """Keep an answer; the first of two to one question stays."""
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        try:
            self._connection().execute(
                "INSERT OR IGNORE INTO answers VALUES (?, ?)",
                (question, zlib.compress(text.encode("utf-8", "surrogatepass"), 1)),
            )
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def turn(self, server: str, rate: float) -> float:
        """Seconds until the caller may ask a server that is asked ``rate`` times a second.

        The turn is the caller's from then on. 0: there is no such limit, but for `hold`.
        """
        if not rate and not self._next(server):
            return 0.0
        connection = self._connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            now = time.time()
            begins = self._next(server)
            begins = now if begins > now + _FARTHEST_TURN else max(now, begins)
            follows = begins + (1 / rate if rate else 0.0)
            connection.execute("INSERT OR REPLACE INTO turns VALUES (?, ?)", (server, follows))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        return begins - now

    def hold(self, server: str, seconds: float) -> None:
        """Let nobody ask a server for some seconds, for it said so."""
        until = time.time() + seconds
        try:
            self._connection().execute(
                "INSERT INTO turns VALUES (?, ?)"
                " ON CONFLICT (server) DO UPDATE SET next = max(next, excluded.next)",
                (server, until),
            )
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _next(self, server: str) -> float:
        found = self._connection().execute("SELECT next FROM turns WHERE server = ?", (server,))
        row = found.fetchone()
        return float(row[0]) if row else 0.0

    def _connection(self) -> sqlite3.Connection:
        """The thread's own; a process that was forked off may not use its parent's."""
        if getattr(self._opened, "by", None) != os.getpid():
            connection = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)
            # Readers and a writer do not wait for each other. What a crash of the machine loses of
            # the last second is asked again.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            self._opened.connection, self._opened.by = connection, os.getpid()
        opened: sqlite3.Connection = self._opened.connection
        return opened

    def _unusable(self, error: Exception) -> InputError:
        return InputError(
            f"cannot be used as a file of answers ({error}); make room, name another, or remove it",
            str(self._path),
        )

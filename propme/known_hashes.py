"""Hashes of files that were read before, so that a corpus is not read anew by every process."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from propme.files import sha256_of

#: A file that was changed so lately may change again without showing it, seconds: file systems
#: tell times in steps, of up to two seconds.
_STEP = 2

_TABLE = (
    "CREATE TABLE IF NOT EXISTS known (path TEXT PRIMARY KEY, size INTEGER, inode INTEGER,"
    " written INTEGER, changed INTEGER, sha256 TEXT)"
)


@dataclass(frozen=True)
class KnownHashes:
    """SHA-256 of files, remembered by path, size, inode and the times at which a file is changed.

    One of these times (ctime) cannot be set back by a program; a file system's clock can. So it
    serves to skip work and proves nothing: `propme.runner.verifying` never asks it. Where it cannot
    be written, files are read each time.

    Attributes
    ----------
    folder : Path
        Of the caches. Where it is missing nothing is remembered.
    """

    folder: Path

    def sha256_of(self, path: Path) -> str:
        """SHA-256 of a file, in hexadecimal."""
        sign = _sign(path)
        known = self._find(path, sign)
        if known:
            return known
        digest = sha256_of(path)
        if _sign(path) == sign and time.time() - max(sign[2:]) / 1e9 > _STEP:
            self._keep(path, sign, digest)
        return digest

    def _find(self, path: Path, sign: tuple[int, int, int, int]) -> str:
        where = "path = ? AND size = ? AND inode = ? AND written = ? AND changed = ?"
        with suppress(sqlite3.Error), self._opened() as database:
            query = f"SELECT sha256 FROM known WHERE {where}"  # noqa: S608
            found = database.execute(query, (os.path.abspath(path), *sign)).fetchone()
            return str(found[0]) if found else ""
        return ""

    def _keep(self, path: Path, sign: tuple[int, int, int, int], digest: str) -> None:
        row = (os.path.abspath(path), *sign, digest)
        with suppress(sqlite3.Error), self._opened() as database, database:
            database.execute("INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?, ?, ?)", row)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.folder / "hashes.sqlite")) as database:
            database.execute(_TABLE)
            yield database


def _sign(path: Path) -> tuple[int, int, int, int]:
    """Size, inode, and the times in ns at which the content and anything at all was changed."""
    stat = path.stat()
    return stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns

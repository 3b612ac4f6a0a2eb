"""A corpus: the documents of several files, in one order, each id once."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from propme.corpus.documents import document_of
from propme.corpus.finding import find_files
from propme.corpus.hub import hub_rows, is_hub_name
from propme.corpus.rows import Row, damage_told, rows_of
from propme.errors import InputError
from propme.files import sha256_of
from propme.records import Document


@dataclass
class Tally:
    """What became of a corpus's rows: documents read, and rows skipped by reason."""

    documents: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def skip(self, error: InputError) -> None:
        """Count a row that was skipped; the first hundred are kept as told."""
        self.skipped[re.split(":| at byte", error.message)[0]] += 1
        if len(self.examples) < 100:
            self.examples.append(str(error))


class Corpus:
    """The documents of several files, in an order that does not depend on the machine.

    Parameters
    ----------
    inputs : sequence of str or Path
        Files (see `read_documents`), folders and globs of them, datasets that Hugging Face's
        ``save_to_disk`` wrote, and, where nothing of that name is on disk, datasets on the hub
        (``owner/name`` or ``owner/name:split``), which are streamed and never run code.
    text_field, id_field : str
        Keys of text and id. An id must not stand twice.
    on_error : str
        ``stop``: raise at the first bad row. ``skip``: leave it out and count it in `tally`.

    Attributes
    ----------
    files : list of Path
        The files, sorted.
    fields : tuple of str
        Keys of text and id.
    tally : Tally
        Of the latest iteration.
    """

    def __init__(
        self,
        inputs: Sequence[str | Path],
        text_field: str = "text",
        id_field: str = "id",
        on_error: str = "stop",
    ) -> None:
        if on_error not in ("stop", "skip"):
            raise InputError("on_error is neither 'stop' nor 'skip'", str(on_error))
        self.fields = (text_field, id_field)
        self._skip = on_error == "skip"
        self.hub_names = [str(i) for i in inputs if is_hub_name(str(i))]
        self.files = find_files([i for i in inputs if str(i) not in self.hub_names])
        folders = [path.parent for path in self.files]
        self._root = Path(os.path.commonpath(folders)) if folders else Path()
        self.tally = Tally()

    def __iter__(self) -> Iterator[Document]:
        self.tally = Tally()
        # A temporary file, not memory. What is abandoned may be cleared away in any thread.
        with closing(sqlite3.connect("", check_same_thread=False)) as seen:
            seen.execute("CREATE TABLE ids (id TEXT PRIMARY KEY) WITHOUT ROWID")
            for path, name, rows in self._sources():
                yield from self._documents(path, name, rows, seen)
        if not self.tally.documents:
            raise InputError("there is no document in these files", ", ".join(self._names()))

    def _names(self) -> list[str]:
        return [str(path) for path in self.files] + self.hub_names

    def _sources(self) -> Iterator[tuple[Path, str, Iterator[Row]]]:
        for path in self.files:
            yield path, path.relative_to(self._root).as_posix(), rows_of(path)
        for name in self.hub_names:
            yield Path(name), name, hub_rows(name)

    def _documents(
        self, path: Path, name: str, rows: Iterator[Row], seen: sqlite3.Connection
    ) -> Iterator[Document]:
        while True:
            try:
                number, row = next(rows)
                document = document_of(row, path, number, *self.fields, name)
                _refuse_known(document, path, seen)
            except StopIteration:
                return
            except InputError as error:
                if not self._skip:
                    raise
                self.tally.skip(error)
                continue
            self.tally.documents += 1
            yield document

    @property
    def settings(self) -> list[Any]:
        """What else decides the documents: the fields, and what is done with bad rows."""
        return [*self.fields, self._skip]

    def identity(self) -> list[dict[str, Any]]:
        """Name, size and time of change of each file: what a half-built index must still match."""
        found: list[dict[str, Any]] = []
        for path in self.files:
            with damage_told(path):
                stat = path.stat()
            found.append({"path": str(path), "bytes": stat.st_size, "changed": stat.st_mtime_ns})
        return found + [{"path": name} for name in self.hub_names]

    def hashes(self) -> list[dict[str, Any]]:
        """Name, size and SHA-256 of each file."""
        return [
            {"path": str(path), "bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in self.files
        ] + [{"path": name} for name in self.hub_names]


def _refuse_known(document: Document, path: Path, seen: sqlite3.Connection) -> None:
    try:
        added = seen.execute("INSERT OR IGNORE INTO ids VALUES (?)", (document.id,)).rowcount
    except sqlite3.OperationalError as error:
        raise OSError(
            errno.ENOSPC, f"the ids seen find no room ({error}); set SQLITE_TMPDIR to another disk"
        ) from error
    if not added:
        raise InputError(f"duplicate id: {document.id!r} stands twice", str(path), document.line)

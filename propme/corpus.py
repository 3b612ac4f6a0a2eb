"""Documents out of corpus files, one at a time, so that memory does not grow with the corpus."""

from __future__ import annotations

import csv
import errno
import glob
import gzip
import io
import json
import os
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from propme.errors import InputError
from propme.files import sha256_of
from propme.records import Document

_ROWS_AT_A_TIME = 1000
_SHORT_BLOCK = 1 << 15
_LONGEST_CELL = 1 << 30

#: A row as its file gives it: where it stands (line, row or element, from 1), and its content:
#: bytes of JSON that are still to be parsed, or a parsed object.
Row = tuple[int, "bytes | dict[str, Any]"]


def read_documents(
    path: Path, text_field: str = "text", id_field: str = "id"
) -> Iterator[Document]:
    """Yield the documents of one file.

    Parameters
    ----------
    path : Path
        ``.jsonl`` (also ``.gz`` or ``.zst``), ``.json.gz``, ``.json.zst``: an object a line, as
        corpora on the hub name such files. ``.json``: one array of objects.
        ``.parquet``, ``.csv`` with a heading: a row a document. ``.txt``: the file is one document.
    text_field : str
        Key of the text. It must be there and be a string; it may be empty.
    id_field : str
        Key of the id; a document without one is named ``file:line``.

    Yields
    ------
    Document
        ``metadata`` holds every other key as it stood.

    Raises
    ------
    InputError
        The file is missing, unreadable or of another kind, or a row is no such object; it names
        the line.
    """
    n_documents = 0
    for number, row in _rows(path):
        n_documents += 1
        yield _document(row, path, number, text_field, id_field, path.name)
    if not n_documents:
        raise InputError("the file holds no document", str(path))


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
        self.hub_names = [str(i) for i in inputs if _is_hub_name(str(i))]
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
            yield path, path.relative_to(self._root).as_posix(), _rows(path)
        for name in self.hub_names:
            yield Path(name), name, _hub_rows(name)

    def _documents(
        self, path: Path, name: str, rows: Iterator[Row], seen: sqlite3.Connection
    ) -> Iterator[Document]:
        while True:
            try:
                number, row = next(rows)
                document = _document(row, path, number, *self.fields, name)
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
            with _damage_told(path):
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


def find_files(inputs: Sequence[str | Path]) -> list[Path]:
    """Corpus files that paths, folders and globs name, each once, sorted.

    Raises
    ------
    InputError
        Nothing of that name, or nothing of a known kind in it.
    """
    found: set[Path] = set()
    for given in inputs:
        path = Path(given)
        if path.is_file():
            found.add(_known_kind(path))
        elif path.is_dir():
            found |= _files_in(path)
        else:
            matched = [Path(name) for name in glob.glob(str(given), recursive=True)]
            if not matched:
                raise InputError("no such file, and no file matches it", str(given))
            found |= {p for p in matched if p.is_file() and _kind(p)}
            found |= {p for folder in matched if folder.is_dir() for p in _files_in(folder)}
    return sorted({Path(os.path.abspath(path)) for path in found})


def _files_in(folder: Path) -> set[Path]:
    """Corpus files below a folder; of a saved dataset, the files that it lists."""
    found = {p for p in folder.rglob("*") if p.is_file() and _kind(p) and p.suffix != ".arrow"}
    found -= {p for p in found if _is_hidden(p.relative_to(folder))}
    listed = {p.parent: _saved_files(p) for p in found if p.name == "state.json"}
    datasets = {parent: files for parent, files in listed.items() if files}
    found -= {p for p in found if p.parent in datasets or p.name == "dataset_dict.json"}
    indexes = {p.parent for p in found if p.name == "manifest.json" and _is_index(p.parent)}
    found -= {p for p in found if p.parent in indexes}
    found |= {file for files in datasets.values() for file in files}
    if not found:
        raise InputError(f"no corpus file in this folder; kinds are {_KINDS}", str(folder))
    return found


def _is_hidden(path: Path) -> bool:
    """Whether a name begins with a dot: caches, version control, an index half built."""
    return any(part.startswith(".") for part in path.parts)


def _is_index(folder: Path) -> bool:
    """Whether it holds an index of PropMe, which may lie below the corpus that it was made of."""
    return (folder / "shards").is_dir() and (folder / "tokenizer.json").is_file()


def _saved_files(state: Path) -> list[Path]:
    """Files of a saved dataset, as its ``state.json`` lists them; none if it is no such file."""
    try:
        entries = json.loads(state.read_bytes())["_data_files"]
        return [state.parent / entry["filename"] for entry in entries]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _kind(path: Path) -> str:
    return next((suffix for suffix in _READERS if path.name.endswith(suffix)), "")


def _known_kind(path: Path) -> Path:
    if not _kind(path):
        raise InputError(f"unknown kind of corpus; kinds are {_KINDS}", str(path))
    return path


def _rows(path: Path) -> Iterator[Row]:
    """Rows of one file; whatever cannot be read is an `InputError` that names it."""
    if not path.is_file():
        raise InputError(f"no such file; kinds of corpus are {_KINDS}", str(path))
    reader = _READERS[_kind(_known_kind(path))]
    with _damage_told(path), path.open("rb") as raw:
        yield from reader(path, raw)


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"damaged gzip file: {error}", str(path)) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", str(path)) from error


def _plain_lines(path: Path, raw: BinaryIO) -> Iterator[Row]:
    return _numbered(raw)


def _gzip_lines(path: Path, raw: BinaryIO) -> Iterator[Row]:
    return _numbered(gzip.GzipFile(fileobj=raw))


def _zstd_lines(path: Path, raw: BinaryIO) -> Iterator[Row]:
    import zstandard

    stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    try:
        yield from _numbered(io.BufferedReader(stream, _SHORT_BLOCK))
    except zstandard.ZstdError as error:
        raise InputError(f"damaged zstandard file: {error}", str(path)) from error


def _numbered(lines: Any) -> Iterator[Row]:
    return ((number, raw) for number, raw in enumerate(lines, start=1) if raw.strip())


def _json_array(path: Path, raw: BinaryIO) -> Iterator[Row]:
    import ijson

    number = 0
    try:
        for number, item in enumerate(ijson.items(raw, "item", use_float=True), start=1):
            yield number, item
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise InputError(f"not JSON: {error}, after element {number}", str(path)) from error
    if not number:
        raise InputError("no element; one array of objects is wanted", str(path))


def _parquet_rows(path: Path, raw: BinaryIO) -> Iterator[Row]:
    import pyarrow.parquet as pq

    with _arrow_damage_told(path):
        yield from _listed(pq.ParquetFile(raw).iter_batches(batch_size=_ROWS_AT_A_TIME))


def _arrow_rows(path: Path, raw: BinaryIO) -> Iterator[Row]:
    import pyarrow as pa

    with _arrow_damage_told(path):
        yield from _listed(pa.ipc.open_stream(raw))


def _listed(batches: Iterable[Any]) -> Iterator[Row]:
    number = 0
    for batch in batches:
        batch.validate(full=True)  # damaged lengths would be read beyond the memory
        for row in batch.to_pylist():
            number += 1
            yield number, row


@contextmanager
def _arrow_damage_told(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"not a readable {path.suffix[1:]} file: {error}", str(path)) from error


def _csv_rows(path: Path, raw: BinaryIO) -> Iterator[Row]:
    csv.field_size_limit(_LONGEST_CELL)
    rows = csv.DictReader(io.TextIOWrapper(raw, "utf-8-sig", newline=""), strict=True)
    line = 1
    try:
        for row in rows:
            line += 1
            if None in row:
                raise InputError("the row has more cells than the heading", str(path), line)
            yield line, row
            line = rows.line_num  # a cell may hold several lines
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error.reason} after line {line}", str(path)) from error
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", str(path), line + 1) from error


def _text_file(path: Path, raw: BinaryIO) -> Iterator[Row]:
    try:
        yield 1, {"text": raw.read().decode("utf-8")}
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start}", str(path)) from error


def sample_file(
    path: Path, text_field: str, id_field: str, most_bytes: int
) -> tuple[list[Document], float]:
    """First documents of a file, up to so much text, and the share of the file that they are.

    Rows that cannot be read are left out. The share of a compressed file is about right.
    """
    documents: list[Document] = []
    n_bytes, reader = 0, _READERS[_kind(path)]
    # What comes after damage cannot be read, so what came before is all there is.
    with suppress(InputError), _damage_told(path), path.open("rb", buffering=0) as file:
        # parquet and arrow are not read from their beginning to their end
        n_rows = _count_rows(path)
        raw = io.BufferedReader(file) if n_rows else _ShortReads(file, 1024)
        for number, row in reader(path, raw):
            with suppress(InputError):
                documents.append(_document(row, path, number, text_field, id_field, path.name))
                n_bytes += len(documents[-1].text.encode("utf-8"))
            if n_bytes >= most_bytes:
                share = number / n_rows if n_rows else file.tell() / path.stat().st_size
                return documents, max(share, 1e-9)
    return documents, 1.0


class _ShortReads(io.BufferedReader):
    """A file read a little at a time, so that its position tells how much was needed."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size if size is None or size < 0 else min(size, 1024))


def _count_rows(path: Path) -> int:
    """Rows of a parquet file or an arrow stream, without reading them; 0 for any other."""
    if path.suffix not in (".parquet", ".arrow"):
        return 0
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _arrow_damage_told(path):
        if path.suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        with pa.memory_map(str(path)) as mapped:
            return sum(batch.num_rows for batch in pa.ipc.open_stream(mapped))


_READERS: dict[str, Callable[[Path, BinaryIO], Iterator[Row]]] = {
    ".jsonl": _plain_lines,
    ".jsonl.gz": _gzip_lines,
    ".jsonl.zst": _zstd_lines,
    ".json.gz": _gzip_lines,
    ".json.zst": _zstd_lines,
    ".json": _json_array,
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
    ".arrow": _arrow_rows,
    ".txt": _text_file,
}

_KINDS = ", ".join(_READERS)


def _is_hub_name(given: str) -> bool:
    looks_so = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*(:.+)?", given) and not _kind(Path(given))
    return bool(looks_so) and not Path(given).exists()


def _hub_rows(given: str) -> Iterator[Row]:
    """Rows of a dataset on the hub, streamed; a loading script is never run."""
    name, _, split = given.partition(":")
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise InputError(
            "nothing of that name is on disk, and the package for datasets on the hub is not"
            " installed: pip install 'propme[hub]'",
            given,
        ) from error
    try:
        rows = load_dataset(name, split=split or "train", streaming=True)
        yield from enumerate(rows, start=1)
    except Exception as error:  # the library raises many kinds, of network, names and formats
        raise InputError(
            f"nothing of that name is on disk, and the hub gives no dataset: {error}", given
        ) from error


def _document(
    row: bytes | dict[str, Any],
    path: Path,
    line: int,
    text_field: str,
    id_field: str,
    name: str,
) -> Document:
    record = _parsed(row, path, line) if isinstance(row, bytes) else row
    if not isinstance(record, dict):
        raise InputError(f"a JSON object is wanted, not {type(record).__name__}", str(path), line)
    if path.suffix == ".txt":
        text_field = "text"
    if text_field not in record:
        raise InputError(
            f"no field {text_field!r}; fields here: {sorted(record)}; name the right one: option"
            " --text-field, parameter text_field, or prompt_field for a file of prompts",
            str(path),
            line,
        )
    text = record[text_field]
    if not isinstance(text, str):
        raise InputError(
            f"field {text_field!r} is {type(text).__name__}, not a string", str(path), line
        )
    # In UTF-8 only an escape can name half of a pair.
    if not isinstance(row, bytes) or b"\\u" in row:
        _refuse_lone_surrogates(record, path, line)
    own_id = record.get(id_field)
    if own_id == "" and path.suffix == ".csv":  # an empty cell is no value
        own_id = None
    return Document(
        id=f"{name}:{line}" if own_id is None else str(own_id),
        text=text,
        metadata={k: v for k, v in record.items() if k not in (text_field, id_field)},
        path=name,
        line=line,
    )


def _parsed(raw: bytes, path: Path, line: int) -> Any:
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start} of the line", str(path), line) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg} at column {error.colno}", str(path), line
        ) from error
    except (ValueError, RecursionError) as error:  # too long a number, too deep a nesting
        raise InputError(f"not JSON that can be read: {error}", str(path), line) from error


def _refuse_lone_surrogates(record: dict[str, Any], path: Path, line: int) -> None:
    for name, value in record.items():
        try:
            json.dumps({name: value}, ensure_ascii=False, default=str).encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"field {name!r} holds a lone surrogate", str(path), line) from error

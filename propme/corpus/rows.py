"""Rows of corpus files, each kind by its reader, one at a time; what is damaged is told as that."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from propme.errors import InputError

_ROWS_AT_A_TIME = 1000
_SHORT_BLOCK = 1 << 15
_LONGEST_CELL = 1 << 30

#: A row as its file gives it: where it stands (line, row or element, from 1), and its content:
#: bytes of JSON that are still to be parsed, or a parsed object.
Row = tuple[int, "bytes | dict[str, Any]"]


def kind_of(path: Path) -> str:
    """The end of its name by which a corpus file is read; empty if it is none."""
    return next((suffix for suffix in READERS if path.name.endswith(suffix)), "")


def known_kind(path: Path) -> Path:
    """The path, refused with an `InputError` if it is of no kind that is read."""
    if not kind_of(path):
        raise InputError(f"unknown kind of corpus; kinds are {KINDS}", str(path))
    return path


def rows_of(path: Path) -> Iterator[Row]:
    """Rows of one file; whatever cannot be read is an `InputError` that names it."""
    if not path.is_file():
        raise InputError(f"no such file; kinds of corpus are {KINDS}", str(path))
    reader = READERS[kind_of(known_kind(path))]
    with damage_told(path), path.open("rb") as raw:
        yield from reader(path, raw)


@contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """Tell what hinders reading as an `InputError` that names the file."""
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

    with arrow_damage_told(path):
        yield from _listed(pq.ParquetFile(raw).iter_batches(batch_size=_ROWS_AT_A_TIME))


def _arrow_rows(path: Path, raw: BinaryIO) -> Iterator[Row]:
    import pyarrow as pa

    with arrow_damage_told(path):
        yield from _listed(pa.ipc.open_stream(raw))


def _listed(batches: Iterable[Any]) -> Iterator[Row]:
    number = 0
    for batch in batches:
        batch.validate(full=True)  # damaged lengths would be read beyond the memory
        for row in batch.to_pylist():
            number += 1
            yield number, row


@contextmanager
def arrow_damage_told(path: Path) -> Iterator[None]:
    """The same of what pyarrow reads."""
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


READERS: dict[str, Callable[[Path, BinaryIO], Iterator[Row]]] = {
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

KINDS = ", ".join(READERS)

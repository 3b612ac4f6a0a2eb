"""Documents out of a corpus file, one at a time, so that memory does not grow with the corpus."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from propme.errors import InputError
from propme.records import Document

_BLOCK = 1 << 20


def read_documents(
    path: Path, text_field: str = "text", id_field: str = "id"
) -> Iterator[Document]:
    """Yield the documents of a ``.jsonl`` or ``.jsonl.gz`` file: an object a line.

    Parameters
    ----------
    path : Path
        The file.
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
        The file is missing or of another kind, or a line is not such an object; it names the line.
    """
    if not path.is_file():
        raise InputError("no such file; give a .jsonl file with an object a line", str(path))
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise InputError("unknown kind of corpus; give .jsonl or .jsonl.gz", str(path))
    n_documents = 0
    for number, raw in _numbered_lines(path):
        if raw.strip():
            n_documents += 1
            yield _document(raw, path, number, text_field, id_field)
    if not n_documents:
        raise InputError("the file holds no document", str(path))


def _numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        try:
            yield from enumerate(lines, start=1)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"damaged gzip file: {error}", str(path)) from error


def _document(raw: bytes, path: Path, line: int, text_field: str, id_field: str) -> Document:
    try:
        record: Any = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start} of the line", str(path), line) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg} at column {error.colno}", str(path), line
        ) from error
    except (ValueError, RecursionError) as error:  # too long a number, too deep a nesting
        raise InputError(f"not JSON that can be read: {error}", str(path), line) from error
    if not isinstance(record, dict):
        raise InputError(f"a JSON object is wanted, not {type(record).__name__}", str(path), line)
    if text_field not in record:
        raise InputError(
            f"no field {text_field!r}; fields here: {sorted(record)}; name it with text_field",
            str(path),
            line,
        )
    text = record[text_field]
    if not isinstance(text, str):
        raise InputError(
            f"field {text_field!r} is {type(text).__name__}, not a string", str(path), line
        )
    if b"\\u" in raw:  # in UTF-8 only an escape can name half of a pair
        _refuse_lone_surrogates(record, path, line)
    name = record.get(id_field)
    return Document(
        id=f"{path.name}:{line}" if name is None else str(name),
        text=text,
        metadata={k: v for k, v in record.items() if k not in (text_field, id_field)},
        path=path.name,
        line=line,
    )


def _refuse_lone_surrogates(record: dict[str, Any], path: Path, line: int) -> None:
    for name, value in record.items():
        try:
            json.dumps({name: value}, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(f"field {name!r} holds a lone surrogate", str(path), line) from error


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()

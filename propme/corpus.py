"""Documents out of a corpus file, one at a time, so that memory does not grow with the corpus."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

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
    with _open(path) as lines:
        for number, raw in enumerate(lines, start=1):
            if raw.strip():
                n_documents += 1
                yield _document(raw, path, number, text_field, id_field)
    if not n_documents:
        raise InputError("the file holds no document", str(path))


def _open(path: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _document(raw: bytes, path: Path, line: int, text_field: str, id_field: str) -> Document:
    try:
        record: Any = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {error.start} of the line", str(path), line) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg} at column {error.colno}", str(path), line
        ) from error
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
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise InputError(f"field {text_field!r} holds a lone surrogate", str(path), line)
    return Document(
        id=str(record.get(id_field, f"{path.name}:{line}")),
        text=text,
        metadata={k: v for k, v in record.items() if k not in (text_field, id_field)},
        path=path.name,
        line=line,
    )


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()

"""Documents out of rows: a text, an id, and all else as it stood."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from propme.corpus.rows import rows_of
from propme.errors import InputError
from propme.records import Document


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
    for number, row in rows_of(path):
        n_documents += 1
        yield document_of(row, path, number, text_field, id_field, path.name)
    if not n_documents:
        raise InputError("the file holds no document", str(path))


def document_of(
    row: bytes | dict[str, Any],
    path: Path,
    line: int,
    text_field: str,
    id_field: str,
    name: str,
) -> Document:
    """The document of a row.

    Parameters
    ----------
    row : bytes or dict
        JSON that is still to be parsed, or a parsed object.
    path, line : Path, int
        Where it stands, for messages.
    text_field, id_field : str
        Keys of text and id.
    name : str
        What the file is called in the id of a document without one.

    Raises
    ------
    InputError
        It is no object, has no text, or holds what is no text; it names the line.
    """
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

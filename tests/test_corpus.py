"""Documents out of jsonl files, and the file and line that every error names."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from propme.corpus import read_documents, sha256_of
from propme.errors import InputError
from propme.records import Document

GOOD = b'{"text": "a"}\n'


def write(folder: Path, data: bytes, name: str = "c.jsonl") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def error_of(path: Path, **options: str) -> InputError:
    with pytest.raises(InputError) as raised:
        list(read_documents(path, **options))
    assert raised.value.path == str(path)
    assert str(raised.value).startswith(str(path))
    return raised.value


# --- what is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz"])
def test_a_document_a_line(tmp_path: Path, name: str) -> None:
    lines = [
        '{"id": "x", "text": "en å\\n", "source": {"name": ["s", 1]}, "licence": null}\r\n',
        "\n",
        "  \t\r\n",
        '{"text": "", "n": 1.5}\n',
        '{"id": 7, "text": "\\ud83d\\ude00 \\u2028", "path": "p", "line": 0}',
    ]
    path = write(tmp_path, "".join(lines).encode(), name)
    assert list(read_documents(path)) == [
        Document("x", "en å\n", {"source": {"name": ["s", 1]}, "licence": None}, name, 1),
        Document(f"{name}:4", "", {"n": 1.5}, name, 4),
        Document("7", "😀 \u2028", {"path": "p", "line": 0}, name, 5),
    ]


def test_fields_have_the_names_that_are_given(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"doi": "10/x", "body": "b", "text": 5, "title": "t"}\n{"body": ""}')
    assert list(read_documents(path, text_field="body", id_field="doi")) == [
        Document("10/x", "b", {"text": 5, "title": "t"}, "c.jsonl", 1),
        Document("c.jsonl:2", "", {}, "c.jsonl", 2),
    ]


def test_an_id_of_null_is_no_id(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"id": null, "text": "a"}\n{"id": "", "text": "b"}\n')
    assert [d.id for d in read_documents(path)] == ["c.jsonl:1", ""]


def test_documents_come_one_at_a_time(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD * 2 + b"nonsense\n")
    documents = read_documents(path)
    assert [d.text for d in itertools.islice(documents, 2)] == ["a", "a"]
    with pytest.raises(InputError, match="line 3"):
        next(documents)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@given(
    st.lists(
        st.tuples(st.text(max_size=8), st.dictionaries(st.text(max_size=3), json_values)),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    records: Sequence[tuple[str, dict[str, Any]]],
    ascii_only: bool,
) -> None:
    """Any text that UTF-8 can hold, written with its signs or with escapes."""
    rows = [{**metadata, "id": str(n), "text": t} for n, (t, metadata) in enumerate(records)]
    lines = [json.dumps(row, ensure_ascii=ascii_only) for row in rows]
    path = write(tmp_path_factory.getbasetemp(), "\n".join(lines).encode(), "round.jsonl.gz")
    read = list(read_documents(path))
    assert [{**d.metadata, "id": d.id, "text": d.text} for d in read] == rows


# --- what is not ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz"])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{'text': 'a'}", "not JSON: .* column 2"),
        (b'{"text": "a"', "not JSON: .* column"),
        (b'{"text": "a"} {"text": "b"}', "not JSON: Extra data at column 15"),
        (b"\xef\xbb\xbf" + GOOD, "not JSON: .*BOM"),
        (b'{"text": ' + b"9" * 5_000 + b"}", "not JSON"),
        (b'{"text": "a", "deep": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "not JSON"),
        (b'["a"]', "a JSON object is wanted, not list"),
        (b'"text"', "a JSON object is wanted, not str"),
        (b"null", "a JSON object is wanted, not NoneType"),
        (
            b'{"Text": "a", "id": 1}',
            r"no field 'text'; fields here: \['Text', 'id'\]; .*text_field",
        ),
        (b'{"text": null}', "field 'text' is NoneType, not a string"),
        (b'{"text": ["a"]}', "field 'text' is list, not a string"),
        (b'{"text": "a\xe5b"}', "not UTF-8 at byte 11 of the line"),
        (b'{"text": "\xed\xa0\x80"}', "not UTF-8 at byte 10 of the line"),
        (b'{"text": "a \\ud800 b"}', "'text' holds a lone surrogate"),
        (b'{"text": "\\udc00\\ud800"}', "'text' holds a lone surrogate"),
        (b'{"text": "a", "id": "\\ud800"}', "'id' holds a lone surrogate"),
        (b'{"text": "a", "title": [{"\\udfff": 1}]}', "'title' holds a lone surrogate"),
    ],
)
def test_a_line_that_is_no_document_is_named(
    tmp_path: Path, name: str, line: bytes, message: str
) -> None:
    path = write(tmp_path, GOOD + b"\n" + line + b"\n" + GOOD, name)
    error = error_of(path)
    assert error.line == 3
    assert re.search(rf"{re.escape(name)}, line 3: .*{message}", str(error)), str(error)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    error = error_of(tmp_path / "c.jsonl")
    assert (error.line, "no such file" in error.message) == (None, True)


def test_a_folder_is_no_corpus(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").mkdir()
    assert "no such file" in error_of(tmp_path / "c.jsonl").message


@pytest.mark.parametrize("name", ["c.json", "c.txt", "c.jsonl.zst", "jsonl", "c.gz"])
def test_an_unknown_kind_of_file_is_named(tmp_path: Path, name: str) -> None:
    message = error_of(write(tmp_path, GOOD, name)).message
    assert "unknown kind" in message
    assert ".jsonl.gz" in message


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz"])
@pytest.mark.parametrize("data", [b"", b"\n \n\t\r\n"])
def test_a_file_without_a_document_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    error = error_of(write(tmp_path, data, name))
    assert (error.line, "no document" in error.message) == (None, True)


def test_a_damaged_gz_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(
        b"".join(json.dumps({"text": str(n)}).encode() + b"\n" for n in range(99))
    )
    checksum = whole[:-8] + bytes(4) + whole[-4:]
    for data in (GOOD, whole[:40], whole[:10] + b"\xff" * 40, checksum):
        path = tmp_path / "c.jsonl.gz"
        path.write_bytes(data)
        assert "gzip" in error_of(path).message


def test_hash_is_that_of_the_whole_file(tmp_path: Path) -> None:
    data = bytes(range(256)) * 5_000
    path = write(tmp_path, data)
    assert sha256_of(path) == hashlib.sha256(data).hexdigest()

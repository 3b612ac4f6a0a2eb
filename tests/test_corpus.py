"""Documents out of every kind of file, and the file and line that every error names."""

from __future__ import annotations

import datetime
import errno
import gzip
import hashlib
import itertools
import json
import os
import random
import re
import sqlite3
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from propme.corpus import Corpus, find_files, read_documents, sample_file
from propme.errors import InputError
from propme.files import sha256_of
from propme.index import Tokenizer, build_index
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


@pytest.mark.parametrize("name", ["c.docx", "c.md", "jsonl", "c.gz", "c.zst"])
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


# --- every kind of file ---------------------------------------------------------------------------


def as_lines(rows: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write_zstd(rows: Sequence[Any], path: Path) -> None:
    """Three frames, the lines cut in two between them."""
    data, packed = as_lines(rows), zstandard.ZstdCompressor()
    cuts = [0, len(data) // 3, len(data) // 2, len(data)]
    path.write_bytes(b"".join(packed.compress(data[a:b]) for a, b in itertools.pairwise(cuts)))


def write_arrow(rows: Sequence[Any], path: Path) -> None:
    table = pa.Table.from_pylist(rows)
    with path.open("wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table, max_chunksize=1_000)


#: Writes rows as a file of a kind, by the end of the file's name.
WRITERS: dict[str, Callable[[Sequence[Any], Path], Any]] = {
    ".jsonl": lambda rows, path: path.write_bytes(as_lines(rows)),
    ".jsonl.gz": lambda rows, path: path.write_bytes(gzip.compress(as_lines(rows))),
    ".jsonl.zst": write_zstd,
    ".json.gz": lambda rows, path: path.write_bytes(gzip.compress(as_lines(rows))),
    ".json.zst": write_zstd,
    ".json": lambda rows, path: path.write_text(json.dumps(rows)),
    ".parquet": lambda rows, path: pq.write_table(pa.Table.from_pylist(rows), path),
    ".arrow": write_arrow,
}

kinds = pytest.mark.parametrize("kind", WRITERS)


def rows_of(n: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"id": f"i{i}", "text": f"å {i}", "n": i} for i in range(start, start + n)]


@kinds
def test_every_kind_holds_the_same_documents(kind: str, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "x", "text": "å\n\u2028", "in": {"a": [1, 2.5], "b": None}, "f": 0.1},
        {"id": None, "text": "", "in": {"a": [], "b": "c"}, "f": -1e300},
    ]
    path = tmp_path / f"c{kind}"
    WRITERS[kind](rows, path)
    assert list(read_documents(path)) == [
        Document("x", "å\n\u2028", {"in": {"a": [1, 2.5], "b": None}, "f": 0.1}, path.name, 1),
        Document(f"{path.name}:2", "", {"in": {"a": [], "b": "c"}, "f": -1e300}, path.name, 2),
    ]


@kinds
def test_many_rows_come_in_their_order(kind: str, tmp_path: Path) -> None:
    WRITERS[kind](rows_of(2_500), tmp_path / f"c{kind}")
    documents = list(Corpus([tmp_path / f"c{kind}"]))
    assert [(d.id, d.metadata["n"], d.line) for d in documents] == [
        (f"i{i}", i, i + 1) for i in range(2_500)
    ]


@kinds
@pytest.mark.parametrize("bad", [{"text": None}, {"text": ["a"]}, {"title": "a"}])
def test_the_row_of_an_error_is_told_in_every_kind(kind: str, bad: Any, tmp_path: Path) -> None:
    rows = [{"text": "a"}, {"text": "b"}, bad]
    if "text" not in bad:  # all rows of a table have the same columns
        rows = [bad]
    elif bad["text"]:
        rows = [bad, bad]
    path = tmp_path / f"c{kind}"
    WRITERS[kind](rows, path)
    error = error_of(path)
    assert error.line == rows.index(bad) + 1
    assert "text" in error.message


def test_columns_that_json_has_not_are_kept(tmp_path: Path) -> None:
    row = {"text": "a", "day": datetime.date(2024, 2, 29), "raw": b"\xff", "no": float("nan")}
    path = tmp_path / "c.parquet"
    pq.write_table(pa.Table.from_pylist([row, row | {"day": None}]), path)
    documents = list(Corpus([path]))
    assert documents[0].metadata["day"] == row["day"]
    assert documents[0].metadata["raw"] == row["raw"]
    assert documents[1].metadata["day"] is None


def test_a_csv_file_has_a_heading_and_cells_of_several_lines(tmp_path: Path) -> None:
    data = '\ufeffid,text,n\r\nx,"å, ""b""\nc",1\r\n,d,\r\n"","",""\r\n'.encode()
    assert list(read_documents(write(tmp_path, data, "c.csv"))) == [
        Document("x", 'å, "b"\nc', {"n": "1"}, "c.csv", 2),
        Document("c.csv:4", "d", {"n": ""}, "c.csv", 4),
        Document("c.csv:5", "", {"n": ""}, "c.csv", 5),
    ]
    long = f"text\n{'a' * 500_000}\n".encode()
    (document,) = read_documents(write(tmp_path, long, "long.csv"))
    assert len(document.text) == 500_000


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"text\na\nb,c\n", 3, "more cells than the heading"),
        (b"id,text\nx,a\ny\n", 3, "field 'text' is NoneType"),
        (b'text\n"a\n', 2, "not CSV"),
        (b"text\na\n\xe5\n", None, "not UTF-8"),
        (b"body\na\n", 2, r"no field 'text'; fields here: \['body'\]"),
        (b"text\n", None, "no document"),
    ],
)
def test_csv_that_is_none_is_named(
    data: bytes, line: int | None, message: str, tmp_path: Path
) -> None:
    error = error_of(write(tmp_path, data, "c.csv"))
    assert re.search(message, error.message)
    assert error.line == line


def test_a_text_file_is_a_document(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_bytes("å\r\n{}".encode())
    (tmp_path / "sub" / "a.txt").write_bytes(b"")
    assert list(Corpus([tmp_path], text_field="body")) == [
        Document("a.txt:1", "å\r\n{}", {}, "a.txt", 1),
        Document("sub/a.txt:1", "", {}, "sub/a.txt", 1),
    ]


def test_text_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    assert "not UTF-8 at byte 2" in error_of(write(tmp_path, b"ab\xe5c", "c.txt")).message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON"),
        (b"[]", "no element"),
        (b'{"text": "a"}', "no element"),
        (b'[{"text": "a"}, {"text": "b"', "not JSON"),
        (b'[{"text": "a"}] x', "not JSON"),
        (as_lines([{"text": "a"}, {"text": "b"}]), "not JSON"),
        (b'[{"text": "a\xff"}]', "not JSON"),
        (b'["a"]', "line 1: a JSON object is wanted, not str"),
        (b'[{"text": "a"}, null]', "line 2: a JSON object is wanted, not NoneType"),
    ],
)
def test_json_that_is_no_array_of_objects_is_named(
    data: bytes, message: str, tmp_path: Path
) -> None:
    assert message in str(error_of(write(tmp_path, data, "c.json")))


@pytest.mark.parametrize("kind", [".jsonl.gz", ".jsonl.zst", ".json", ".parquet", ".arrow"])
def test_damage_anywhere_is_told_and_never_a_traceback(kind: str, tmp_path: Path) -> None:
    path, rng = tmp_path / f"c{kind}", random.Random(kind)
    WRITERS[kind](rows_of(200), path)
    whole, errors = path.read_bytes(), 0
    for number in range(120):
        data = bytearray(whole)
        if number % 3:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            list(read_documents(path))
        except InputError:
            errors += 1
        sample_file(path, "text", "id", 1_000)
    assert errors >= 40  # all that were cut off, at the least


@kinds
def test_a_file_that_cannot_be_read_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"c{kind}"
    WRITERS[kind](rows_of(3), path)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read: Permission denied" in error_of(path).message


# --- which files ----------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Equally named files in folders, files of other kinds, and hidden ones."""
    for name in ("a/c.jsonl", "b/c.jsonl", "b/deep/er/c.jsonl", ".git/c.jsonl", "b/.c.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(GOOD)
    (tmp_path / "b" / "notes.md").write_text("no corpus")
    return tmp_path


def names(root: Path, *inputs: str) -> list[str]:
    return [p.relative_to(root).as_posix() for p in find_files([root / i for i in inputs])]


def test_folders_and_globs_are_searched(tree: Path) -> None:
    every = ["a/c.jsonl", "b/c.jsonl", "b/deep/er/c.jsonl"]
    assert names(tree, "") == every
    assert names(tree, "b") == every[1:]
    assert names(tree, "*/c.jsonl") == every[:2]
    assert names(tree, "**/c.jsonl") == every
    assert names(tree, "?/*") == every  # a folder that a glob names is searched too
    assert names(tree, "b/d*") == every[2:]


def test_a_file_named_twice_is_read_once(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    given = ["a/c.jsonl", tree / "a" / "c.jsonl", "./a/../a/c.jsonl", "a", "a/*.jsonl", "b/c.jsonl"]
    assert find_files(given) == [tree / "a" / "c.jsonl", tree / "b" / "c.jsonl"]
    assert [d.id for d in Corpus(given)] == ["a/c.jsonl:1", "b/c.jsonl:1"]


def test_the_order_given_does_not_matter(tree: Path) -> None:
    inputs = [tree / "a", tree / "b" / "deep", tree / "b" / "c.jsonl"]
    orders = [list(Corpus(order)) for order in itertools.permutations(inputs)]
    assert len(orders[0]) == 3
    assert all(order == orders[0] for order in orders)


def test_equally_named_files_give_different_ids(tree: Path) -> None:
    ids = [d.id for d in Corpus([tree])]
    assert ids == ["a/c.jsonl:1", "b/c.jsonl:1", "b/deep/er/c.jsonl:1"]


@pytest.mark.parametrize("given", ["missing.jsonl", "no/such/folder", "*.none", "d/missing.jsonl"])
def test_nothing_of_that_name(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no such file, and no file matches it") as raised:
        Corpus([given])
    assert raised.value.path == given


def test_a_folder_without_a_corpus_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("")
    with pytest.raises(InputError, match="no corpus file in this folder"):
        find_files([tmp_path])


@pytest.mark.parametrize("content", ["{}", "[]", "no json", '{"_data_files": 1}'])
def test_a_state_of_something_else_is_no_dataset(content: str, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(content)
    (tmp_path / "c.jsonl").write_bytes(GOOD)
    assert tmp_path / "c.jsonl" in find_files([tmp_path])


def test_a_saved_dataset_is_read(tmp_path: Path) -> None:
    saved = datasets.Dataset.from_list(rows_of(30))
    saved.save_to_disk(tmp_path / "set", num_shards=3)
    (tmp_path / "set" / "stray.arrow").write_bytes(b"")
    documents = list(Corpus([tmp_path / "set"]))
    assert [(d.id, d.text, d.metadata) for d in documents] == [
        (r["id"], r["text"], {"n": r["n"]}) for r in rows_of(30)
    ]
    assert {d.path for d in documents} == {f"data-0000{n}-of-00003.arrow" for n in range(3)}


def test_a_saved_dataset_dict_is_read(tmp_path: Path) -> None:
    splits = {"train": rows_of(3), "test": rows_of(2, 3)}
    whole = datasets.DatasetDict({k: datasets.Dataset.from_list(v) for k, v in splits.items()})
    whole.save_to_disk(tmp_path / "set")
    (tmp_path / "more.jsonl").write_bytes(as_lines(rows_of(1, 9)))
    assert [d.id for d in Corpus([tmp_path])] == ["i9", "i3", "i4", "i0", "i1", "i2"]


def test_a_hub_that_is_out_of_reach_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    corpus = Corpus(["nobody-here/no-such-set:train"])
    assert (corpus.files, corpus.hub_names) == ([], ["nobody-here/no-such-set:train"])
    with pytest.raises(InputError, match="nothing of that name is on disk, and the hub gives no"):
        list(corpus)


# --- what is skipped ------------------------------------------------------------------------------


def mixed(folder: Path) -> list[Path]:
    """Four documents in files that are bad in parts, or altogether."""
    rows = [
        b'{"text": 5}',
        b"nonsense",
        b'{"text": "\xff"}',
        b'{"text": "a\xff"}',
        b'{"text": "ok"}',
    ]
    write(folder, GOOD + b"\n".join(rows), "a.jsonl")
    write(folder, b'{"id": "x", "text": "1"}\n{"id": "x", "text": "2"}\n{"text": 5}', "b.jsonl")
    (folder / "c.jsonl.gz").write_bytes(b"no gzip")
    write(folder, b"\xff", "d.txt")
    (folder / "e.parquet").write_bytes(b"no parquet")
    write(folder, b"the end", "f.txt")
    return sorted(folder.iterdir())


def test_bad_rows_are_skipped_and_counted(tmp_path: Path) -> None:
    corpus = Corpus(mixed(tmp_path), on_error="skip")
    for _ in range(2):  # the tally is that of the latest iteration
        assert [d.text for d in corpus] == ["a", "ok", "1", "the end"]
        assert corpus.tally.documents == 4
        assert corpus.tally.skipped == {
            "field 'text' is int, not a string": 2,
            "not JSON": 1,
            "not UTF-8": 3,
            "duplicate id": 1,
            "damaged gzip file": 1,
            "not a readable parquet file": 1,
        }
        assert len(corpus.tally.examples) == 9
        assert corpus.tally.examples[0].startswith(f"{tmp_path / 'a.jsonl'}, line 2: ")


def test_at_most_a_hundred_examples_are_kept(tmp_path: Path) -> None:
    corpus = Corpus([write(tmp_path, GOOD + b"x\n" * 300)], on_error="skip")
    assert len(list(corpus)) == 1
    assert corpus.tally.skipped == {"not JSON": 300}
    assert len(corpus.tally.examples) == 100


def test_without_being_asked_to_nothing_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.jsonl, line 2"):
        list(Corpus(mixed(tmp_path)))


def test_an_id_that_stands_twice_is_named_where_it_stands_again(tmp_path: Path) -> None:
    write(tmp_path, as_lines(rows_of(3)), "a.jsonl")
    write(tmp_path, as_lines(rows_of(3, 2)), "b.jsonl")
    with pytest.raises(InputError, match=r"b\.jsonl, line 1: duplicate id: 'i2'"):
        list(Corpus([tmp_path]))
    corpus = Corpus([tmp_path], on_error="skip")
    assert [d.id for d in corpus] == [f"i{n}" for n in range(5)]


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_corpus_of_nothing_is_an_error(on_error: str, tmp_path: Path) -> None:
    path = write(tmp_path, b"\n")
    with pytest.raises(InputError, match="no document in these files"):
        list(Corpus([path], on_error=on_error))


def test_how_to_go_on_is_one_of_two(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'stop' nor 'skip'"):
        Corpus([write(tmp_path, GOOD)], on_error="ignore")


# --- size -----------------------------------------------------------------------------------------


def peak_of_reading(path: Path) -> int:
    tracemalloc.start()
    try:
        for _ in Corpus([path]):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [".jsonl", ".jsonl.zst", ".json", ".parquet"])
def test_memory_does_not_grow_with_the_corpus(kind: str, tmp_path: Path) -> None:
    """Fifteen times the rows for jsonl; for the slower kinds, ten times."""
    paths = [tmp_path / f"{name}{kind}" for name in ("small", "large")]
    WRITERS[kind](rows_of(2_000), paths[0])
    WRITERS[kind](rows_of(30_000 if kind == ".jsonl" else 20_000), paths[1])
    peak_of_reading(paths[0])  # imports
    small, large = map(peak_of_reading, paths)
    assert large < 2 * small + 500_000
    assert large < paths[1].stat().st_size or kind != ".jsonl"


@kinds
def test_a_sample_of_all_of_a_file_is_all_of_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"c{kind}"
    WRITERS[kind](rows_of(50), path)
    documents, share = sample_file(path, "text", "id", 10_000)
    assert (len(documents), share) == (50, 1.0)


@kinds
def test_the_share_of_a_sample_is_about_right(kind: str, tmp_path: Path) -> None:
    rng, path = random.Random(0), tmp_path / f"c{kind}"
    texts = (f"{rng.getrandbits(1_600):x}" for _ in range(6_000))
    WRITERS[kind]([{"text": text} for text in texts], path)
    documents, share = sample_file(path, "text", "id", 600_000)
    assert len(documents) < 2_000
    assert len(documents) / share == pytest.approx(6_000, rel=0.12)


def test_a_sample_leaves_out_what_cannot_be_read(tmp_path: Path) -> None:
    for path in mixed(tmp_path):
        documents, share = sample_file(path, "text", "id", 1_000)
        assert share == 1.0
        assert len(documents) == {"a.jsonl": 2, "b.jsonl": 2, "f.txt": 1}.get(path.name, 0)


def test_identity_changes_with_size_and_time(tmp_path: Path) -> None:
    corpus = Corpus([write(tmp_path, GOOD)])
    identities = [corpus.identity()]
    write(tmp_path, GOOD * 2)
    identities.append(corpus.identity())
    os.utime(tmp_path / "c.jsonl", ns=(5, 5))
    identities.append(corpus.identity())
    assert len({json.dumps(identity) for identity in identities}) == 3
    digest = hashlib.sha256(GOOD * 2).hexdigest()
    assert corpus.hashes() == [{"path": str(tmp_path / "c.jsonl"), "bytes": 28, "sha256": digest}]


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    corpus = Corpus([write(tmp_path, GOOD)])
    (tmp_path / "c.jsonl").unlink()
    with pytest.raises(InputError, match=r"c\.jsonl: cannot be read: No such file"):
        corpus.identity()


def test_an_index_below_its_corpus_is_no_part_of_it(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    build_index(Corpus([tmp_path]), Tokenizer.load("bytes"), tmp_path / "index")
    assert Corpus([tmp_path]).files == [path]


def test_no_room_for_the_ids_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of at most three pages stands for a disk for temporary files that is full."""
    path = tmp_path / "c.jsonl"
    rows = [json.dumps({"id": "x" * 999 + str(number), "text": ""}) for number in range(99)]
    path.write_text("\n".join(rows))
    connect = sqlite3.connect

    def small(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA max_page_count = 3")
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    with pytest.raises(OSError, match="set SQLITE_TMPDIR to another disk") as raised:
        list(Corpus([path]))
    assert raised.value.errno == errno.ENOSPC

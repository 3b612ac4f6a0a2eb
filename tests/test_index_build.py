"""What is built, byte by byte; what goes wrong on the way; and what verification finds."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers import ENGINES, needs_engine
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, processors

from propme import errors
from propme.errors import BrokenIndexError, InputError, ParameterError
from propme.files import sha256_of
from propme.index import (
    Tokenizer,
    build_index,
    layout,
    open_index,
    read_manifest,
    verify_index,
)
from propme.index.engine import EngineIndex
from propme.index.suffix_array import write_suffix_array
from propme.records import Document

# --- the format -----------------------------------------------------------------------------------


def test_every_byte_of_a_small_index(tmp_path: Path, word_tokenizer: Callable) -> None:
    documents = [
        Document("a", "w1 w0 w1", {"title": "på"}, "c.jsonl", 1),
        Document("b", "", {}, "c.jsonl", 3),
        Document("c", "w0", {"id": "hidden"}, "c.jsonl", 4),
    ]
    path = build_index(documents, word_tokenizer("u8"), tmp_path / "index")
    lines = [
        '{"path": "c.jsonl", "linenum": 1, "metadata": {"title": "på", "id": "a"}}\n',
        '{"path": "c.jsonl", "linenum": 3, "metadata": {"id": "b"}}\n',
        '{"path": "c.jsonl", "linenum": 4, "metadata": {"id": "c"}}\n',
    ]
    sizes = [len(line.encode()) for line in lines]
    assert {p.name: p.read_bytes() for p in (path / "shards").iterdir()} == {
        "tokenized.0": bytes([255, 1, 0, 1, 255, 255, 0]),
        # 0 | 0 1 .. | 1 0 .. | 1 255 .. | 255 0 | 255 1 .. | 255 255 ..
        "table.0": bytes([6, 2, 1, 3, 5, 0, 4]),
        "offset.0": b"".join(n.to_bytes(8, "little") for n in (0, 4, 5)),
        "metadata.0": "".join(lines).encode(),
        "metaoff.0": b"".join(n.to_bytes(8, "little") for n in (0, sizes[0], sizes[0] + sizes[1])),
        "unigram.0": b"0 2\n1 2\n255 3\n",
    }


def test_wide_tokens_are_ordered_by_their_bytes(built: Callable) -> None:
    with built([[1, 256], [257]], "u16") as path:
        shards = path / "shards"
        tokens = "ffff 0100 0001 ffff 0101"
        assert (shards / "tokenized.0").read_bytes() == bytes.fromhex(tokens)
        # 256 is 00 01 and comes first, then 1 is 01 00, then 257 is 01 01
        assert list((shards / "table.0").read_bytes()) == [4, 2, 8, 0, 6]
        assert (shards / "unigram.0").read_text() == "1 1\n256 1\n257 1\n65535 2\n"


def test_u32_tokens_take_four_bytes(built: Callable) -> None:
    with built([[69_999, 1]], "u32") as path:
        shards = path / "shards"
        assert (shards / "tokenized.0").read_bytes() == bytes.fromhex("ffffffff 6f110100 01000000")
        assert list((shards / "table.0").read_bytes()) == [8, 4, 0]


def test_manifest_describes_what_is_there(built: Callable, word_tokenizer: Callable) -> None:
    with built([[1, 2], [], [3]], "u8", shard_bytes=3) as path:
        manifest = read_manifest(path)
        assert manifest["format"] == "infini-gram v4"
        assert (manifest["token_type"], manifest["shards"]) == ("u8", 2)
        assert (manifest["documents"], manifest["tokens"]) == (3, 3)
        assert manifest["tokenizer"] == word_tokenizer("u8").fingerprint
        assert manifest["files"] == {
            p.name: {"bytes": p.stat().st_size, "sha256": sha256_of(p)}
            for p in (path / "shards").iterdir()
        }
        assert {p.name for p in path.iterdir()} == {"manifest.json", "tokenizer.json", "shards"}
        assert Tokenizer.load(str(path)).fingerprint == manifest["tokenizer"]


@pytest.mark.parametrize(
    ("vocabulary", "token_type"),
    [(0, "u8"), (255, "u8"), (256, "u16"), (65_535, "u16"), (65_536, "u32"), (2**32 - 1, "u32")],
)
def test_token_type_leaves_room_for_the_separator(vocabulary: int, token_type: str) -> None:
    assert layout.token_type_for(vocabulary) == token_type


def test_a_vocabulary_beyond_every_type_is_refused() -> None:
    with pytest.raises(BrokenIndexError, match=str(2**32)):
        layout.token_type_for(2**32)


@pytest.mark.parametrize(
    ("size", "width"), [(1, 1), (2, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 3), (1 << 40, 5)]
)
def test_pointer_width_is_that_of_the_engine(size: int, width: int) -> None:
    assert layout.pointer_bytes(size) == width


@pytest.mark.parametrize("n_tokens", [255, 256, 257])
@pytest.mark.parametrize("engine", ENGINES)
def test_pointers_are_wide_enough_at_the_border(
    n_tokens: int, engine: str, built: Callable
) -> None:
    with built([[n % 7 for n in range(n_tokens - 1)]], "u8") as path:
        assert (path / "shards" / "tokenized.0").stat().st_size == n_tokens
        index = open_index(path, engine)
        assert index.count([(n_tokens - 3) % 7, (n_tokens - 2) % 7]) == (n_tokens - 2) // 7 + (
            (n_tokens - 2) % 7 > 0
        )
        assert index.document_tokens(0, 0)[-1] == (n_tokens - 2) % 7


@given(st.sampled_from([1, 2, 4]), st.lists(st.integers(0, 3), min_size=1, max_size=80))
def test_suffix_array_is_the_sorted_one(
    tmp_path_factory: pytest.TempPathFactory, itemsize: int, picks: list[int]
) -> None:
    top = (1 << 8 * itemsize) - 1
    data = np.array([(0, 1, top // 255, top)[p] for p in picks], f"<u{itemsize}").tobytes()
    tokens_path = tmp_path_factory.getbasetemp() / "tokens"
    table_path = tmp_path_factory.getbasetemp() / "pointers"
    tokens_path.write_bytes(data)
    write_suffix_array(tokens_path, table_path, np.dtype(f"<u{itemsize}"))
    expected = sorted(range(0, len(data), itemsize), key=lambda at: data[at:])
    width = layout.pointer_bytes(len(data))
    assert table_path.read_bytes() == b"".join(at.to_bytes(width, "little") for at in expected)


# --- sizes and shapes that went wrong elsewhere ---------------------------------------------------


def scan_count(documents: Sequence[Sequence[int]], ids: Sequence[int], token_type: str) -> int:
    """Count by a scan of the bytes, at token borders; overlapping ones count."""
    dtype = layout.TOKEN_TYPES[token_type]
    wanted, total = np.array(ids, dtype).tobytes(), 0
    for document in documents:
        data = np.array(document, dtype).tobytes()
        at = data.find(wanted)
        while at >= 0:
            total += at % dtype.itemsize == 0
            at = data.find(wanted, at + 1)
    return total


@pytest.mark.parametrize("token_type", ["u8", "u16"])
@pytest.mark.parametrize("n_bytes", [6_500, 150_000, 216_000])
def test_counts_are_right_at_sizes_that_merging_corrupts(
    n_bytes: int, token_type: str, built: Callable
) -> None:
    """In several parts, the last below 100 kB, infini-gram's own builder gets these wrong."""
    rng = random.Random(n_bytes)
    itemsize = layout.TOKEN_TYPES[token_type].itemsize
    ids = [min(int(rng.expovariate(0.1)), 250) for _ in range(n_bytes // itemsize - 20)]
    documents = [ids[n::20] for n in range(20)]
    with built(documents, token_type) as path:
        assert (path / "shards" / "tokenized.0").stat().st_size == n_bytes
        indexes = [open_index(path, name) for name in ENGINES]
        for _ in range(150):
            document = rng.choice(documents)
            start = rng.randrange(len(document))
            query = document[start : start + rng.randint(1, 4)]
            expected = scan_count(documents, query, token_type)
            assert expected > 0
            assert [index.count(query) for index in indexes] == [expected] * len(ENGINES), query


def test_copies_of_a_long_document_are_no_trouble(built: Callable) -> None:
    rng = random.Random(1)
    document = rng.choices(range(250), k=20_000)
    with built([document] * 10, "u8") as path:
        assert open_index(path).count(document) == 10
        assert open_index(path).maximal_runs(document).tolist() == [[0, 20_000]]
        indexes = [open_index(path, name) for name in ENGINES]
        for start in (0, 9_999, 18_500):
            query = document[start : start + 1_500]
            assert [index.count(query) for index in indexes] == [10] * len(ENGINES)


def test_one_token_ten_thousand_times(built: Callable) -> None:
    with built([[7] * 10_000], "u8") as path:
        for engine in ENGINES:
            index = open_index(path, engine)
            assert [index.count([7] * n) for n in (1, 2, 1_000)] == [10_000, 9_999, 9_001]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("n_shards", "names"), [(10, "09"), (11, ("00", "10"))])
def test_shard_numbers_are_padded(
    n_shards: int, names: Sequence[str], engine: str, built: Callable
) -> None:
    documents = [[number, number + 1] for number in range(n_shards)]
    with built(documents, "u8", shard_bytes=3) as path:
        files = sorted(p.name for p in (path / "shards").glob("tokenized.*"))
        assert (files[0], files[-1]) == tuple(f"tokenized.{name}" for name in names)
        assert len(files) == n_shards
        index = open_index(path, engine)
        for number, document in enumerate(documents):
            found = index.find(document)
            assert found.ranges[0][0] == number
            assert index.locate(found, 0).shard == number
            assert index.document_at(number) == (number, 0)
            assert index.document_tokens(number, 0) == document
        assert index.find([5]).count == 2


def test_a_document_larger_than_a_shard_has_one_to_itself(built: Callable) -> None:
    with built([[1], [2] * 50, [3], [4]], "u8", shard_bytes=4) as path:
        index = open_index(path)
        assert [index.document_at(n) for n in range(4)] == [(0, 0), (1, 0), (2, 0), (2, 1)]
        assert index.count([2] * 50) == 1


@pytest.mark.parametrize("text", ["<|endoftext|>", "a<|endoftext|>b", "<|endoftext|> ", "<unk>"])
def test_text_like_a_special_token_is_text(tmp_path: Path, bpe: Tokenizer, text: str) -> None:
    path = build_index([Document("a", text)], bpe, tmp_path / "index")
    index = open_index(path)
    special = 0
    assert index.document_length(0, 0) > 1
    assert index.count([special]) == 0
    assert index.tokenizer.decode(index.document_tokens(0, 0)) == text
    assert index.count(index.tokenizer.encode(text)) == 1


def test_no_special_token_is_ever_added(tmp_path: Path) -> None:
    special = "[S]"
    backend = Backend(models.WordLevel({special: 0, "a": 1, "b": 2}, unk_token=special))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens([special])
    backend.post_processor = processors.TemplateProcessing(
        single="[S] $A [S]", special_tokens=[(special, 0)]
    )
    backend.enable_truncation(2)
    backend.enable_padding(length=9)
    tokenizer = Tokenizer(backend)
    assert tokenizer.encode("a b a") == [1, 2, 1]
    assert tokenizer.encode_batch(["a b a", ""]) == [[1, 2, 1], []]
    assert tokenizer.encode_with_offsets("a b") == ([1, 2], [(0, 1), (2, 3)])
    path = build_index([Document("a", "a b a")], tokenizer, tmp_path / "index")
    assert open_index(path).document_tokens(0, 0) == [1, 2, 1]


def test_offsets_include_the_space_that_a_token_holds(text_tokenizer: Callable) -> None:
    for name in ("bytes", "bytes-trimming", "metaspace-bpe"):
        _, offsets = text_tokenizer(name).encode_with_offsets("ab cab")
        assert offsets == [(0, 2), (2, 6)], name


# --- a build that cannot be -----------------------------------------------------------------------


def stop_midway(n: int) -> Iterator[Document]:
    for number in range(n):
        yield Document(str(number), "w1 w2")
    raise InputError("not JSON", "corpus.jsonl", n + 1)


@pytest.mark.parametrize("n", [0, 3, 1_001])
def test_a_build_that_stops_leaves_nothing(
    n: int, tmp_path: Path, word_tokenizer: Callable
) -> None:
    with pytest.raises(InputError, match=f"line {n + 1}"):
        build_index(stop_midway(n), word_tokenizer("u8"), tmp_path / "index", shard_bytes=100)
    assert list(tmp_path.iterdir()) == []


def test_a_build_that_fails_its_own_check_leaves_nothing(
    tmp_path: Path, word_tokenizer: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reversed_order(tokens_path: Path, table_path: Path, dtype: np.dtype) -> None:
        write_suffix_array(tokens_path, table_path, dtype)
        table_path.write_bytes(table_path.read_bytes()[::-1])

    monkeypatch.setattr("propme.index.build.write_suffix_array", reversed_order)
    with pytest.raises(BrokenIndexError, match="out of order"):
        build_index([Document("a", "w1 w2")], word_tokenizer("u8"), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_no_document_is_an_error(tmp_path: Path, word_tokenizer: Callable) -> None:
    with pytest.raises(InputError, match="no document"):
        build_index([], word_tokenizer("u8"), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["empty folder", "index", "file"])
def test_what_exists_is_not_replaced(kind: str, tmp_path: Path, word_tokenizer: Callable) -> None:
    output = tmp_path / "index"
    if kind == "empty folder":
        output.mkdir()
    elif kind == "file":
        output.write_text("precious")
    else:
        build_index([Document("a", "w1")], word_tokenizer("u8"), output)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="exists"):
        build_index(stop_midway(0), word_tokenizer("u8"), output)
    assert sorted(tmp_path.rglob("*")) == before


def test_folders_above_the_output_are_made(tmp_path: Path, word_tokenizer: Callable) -> None:
    path = build_index([Document("a", "w1")], word_tokenizer("u8"), tmp_path / "new" / "a b'c")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a b'c"]
    assert [open_index(path, engine).count([1]) for engine in ENGINES] == [1] * len(ENGINES)
    assert path.stat().st_mode & 0o777 == 0o755


# --- what verification finds ----------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path, text_index: Path) -> Path:
    """A copy of an index, to be damaged."""
    return Path(shutil.copytree(text_index, tmp_path / "copy"))


def flip(path: Path, at: int, mask: int = 0xFF) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


def sign_again(folder: Path) -> None:
    """Write the damaged files' sizes and hashes into the manifest, as a wrong build would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in manifest["files"]:
        file = folder / "shards" / name
        manifest["files"][name] = {"bytes": file.stat().st_size, "sha256": sha256_of(file)}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_an_untouched_index_is_sound(damaged: Path) -> None:
    verify_index(damaged)
    sign_again(damaged)
    verify_index(damaged)


@pytest.mark.parametrize("kind", layout.KINDS)
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_found_in_every_file(kind: str, mask: int, damaged: Path) -> None:
    file = damaged / "shards" / f"{kind}.0"
    rng = random.Random(mask)
    for at in (0, file.stat().st_size - 1, rng.randrange(file.stat().st_size)):
        flip(file, at, mask)
        with pytest.raises(BrokenIndexError, match=kind):
            verify_index(damaged)
        flip(file, at, mask)
    verify_index(damaged)


@pytest.mark.parametrize(
    ("kind", "at", "mask", "fault"),
    [
        ("table", 0, 0xFF, "out of order"),
        ("table", 1, 0x80, "out of order"),
        ("table", -1, 0xFF, "out of order"),
        ("tokenized", 0, 0x01, "offsets"),
        ("tokenized", 3, 0x01, "out of order|offsets"),
        ("offset", 0, 0x02, "offsets"),
        ("offset", -1, 0xFF, "offsets"),
        ("metaoff", 8, 0x04, "metadata of document"),
        ("metaoff", -1, 0xFF, "metadata of document"),
        ("metadata", 0, 0xFF, "metadata of document 0"),
    ],
)
def test_a_wrong_build_is_found_by_its_structure(
    kind: str, at: int, mask: int, fault: str, damaged: Path
) -> None:
    flip(damaged / "shards" / f"{kind}.0", at, mask)
    sign_again(damaged)
    with pytest.raises(BrokenIndexError, match=fault):
        verify_index(damaged)


def test_counts_are_compared_with_a_scan(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order alone is looked at in a sample of a large shard; here in none of it."""
    monkeypatch.setattr("propme.index.verify._check_order", lambda *_: None)
    table = damaged / "shards" / "table.0"
    rng = np.random.default_rng(0)
    rows = np.frombuffer(table.read_bytes(), np.uint8).reshape(-1, 2)
    table.write_bytes(rng.permutation(rows).tobytes())
    sign_again(damaged)
    with pytest.raises(BrokenIndexError, match="a scan finds"):
        verify_index(damaged)


@pytest.mark.parametrize("kind", layout.KINDS)
@pytest.mark.parametrize("check", [verify_index, read_manifest, open_index])
def test_a_truncated_file_is_found(kind: str, check: Callable, damaged: Path) -> None:
    file = damaged / "shards" / f"{kind}.0"
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(BrokenIndexError, match=f"{kind}.0.*build the index again"):
        check(damaged)


@pytest.mark.parametrize("kind", layout.KINDS)
@pytest.mark.parametrize("check", [verify_index, read_manifest, open_index])
def test_a_missing_file_is_found(kind: str, check: Callable, damaged: Path) -> None:
    (damaged / "shards" / f"{kind}.0").unlink()
    with pytest.raises(BrokenIndexError, match=f"{kind}.0: missing"):
        check(damaged)


@pytest.mark.parametrize("kind", ["tokenized", "offset", "table", "metaoff"])
def test_files_that_do_not_fit_each_other_are_found(kind: str, damaged: Path) -> None:
    """Shorter by a whole entry, and the manifest says so too."""
    file = damaged / "shards" / f"{kind}.0"
    os.truncate(file, file.stat().st_size - 8)
    sign_again(damaged)
    with pytest.raises(BrokenIndexError):
        verify_index(damaged)


def test_the_table_of_another_index_is_found(built: Callable) -> None:
    with built([[1, 2, 3], [4, 5]], "u8") as one, built([[5, 4, 3], [2, 1]], "u8") as other:
        shutil.copy(other / "shards" / "table.0", one / "shards" / "table.0")
        open_index(one)  # the sizes agree
        with pytest.raises(BrokenIndexError, match=r"table\.0"):
            verify_index(one)
        sign_again(one)
        with pytest.raises(BrokenIndexError, match="out of order"):
            verify_index(one)


def test_another_tokenizer_is_found(damaged: Path, text_tokenizer: Callable) -> None:
    text_tokenizer("bytes-prefix-space").save(damaged / "tokenizer.json")
    with pytest.raises(BrokenIndexError, match="not the tokenizer"):
        verify_index(damaged)


@pytest.mark.parametrize("check", [verify_index, open_index])
@pytest.mark.parametrize("content", [None, "", "{}", '{"version": "1.0"'])
def test_a_missing_or_broken_tokenizer_is_found(
    content: str | None, check: Callable, damaged: Path
) -> None:
    file = damaged / "tokenizer.json"
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with pytest.raises(BrokenIndexError, match=r"tokenizer\.json"):
        check(damaged)


@pytest.mark.parametrize("check", [verify_index, open_index, read_manifest])
@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"files": {}}', b"\xff"])
def test_a_broken_manifest_is_found(content: str | bytes, check: Callable, damaged: Path) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    (damaged / "manifest.json").write_bytes(data)
    with pytest.raises(BrokenIndexError, match=r"manifest\.json"):
        check(damaged)


@pytest.mark.parametrize(("key", "change"), [("documents", 1), ("tokens", -1)])
def test_totals_are_checked(key: str, change: int, damaged: Path) -> None:
    manifest = json.loads((damaged / "manifest.json").read_text())
    manifest[key] += change
    (damaged / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BrokenIndexError, match=f"the manifest says.*{manifest[key]}"):
        verify_index(damaged)


# --- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("folder", ["empty", "missing", "shards"])
def test_a_folder_without_a_manifest_is_no_index(folder: str, engine: str, tmp_path: Path) -> None:
    told = "there is no such folder"
    if folder != "missing":
        (tmp_path / folder).mkdir()
        told = r"no manifest\.json.*build it"
    with pytest.raises(BrokenIndexError, match=told):
        open_index(tmp_path / folder, engine)


def test_an_unknown_engine_is_named_with_those_there_are(text_index: Path) -> None:
    with pytest.raises(ParameterError, match=r"'elastic'.*mapped, infini-gram"):
        open_index(text_index, "elastic")


def test_a_path_may_be_a_string(text_index: Path) -> None:
    assert open_index(str(text_index)).n_documents == open_index(text_index).n_documents


@pytest.mark.parametrize("name", ["stable", "tokenized", "a table"])
def test_the_engine_refuses_a_path_that_kills_it(
    name: str, tmp_path: Path, text_index: Path
) -> None:
    path = Path(shutil.copytree(text_index, tmp_path / name / "index"))
    with pytest.raises(BrokenIndexError, match=r"move the index.*'mapped'"):
        open_index(path, "infini-gram")
    assert open_index(path).n_documents == open_index(text_index).n_documents


@pytest.mark.parametrize("name", ["tokenized.0.bak", "table.bak", "metaoff.0~", "copy of offset.0"])
def test_the_engine_refuses_a_stray_file_that_kills_it(name: str, damaged: Path) -> None:
    (damaged / "shards" / name).write_bytes(b"\x00" * 8)
    with pytest.raises(BrokenIndexError, match=f"{name}.*'mapped'"):
        open_index(damaged, "infini-gram")
    assert open_index(damaged).n_documents > 0


def test_a_shard_too_many_is_found(damaged: Path) -> None:
    shutil.copy(damaged / "shards" / "tokenized.0", damaged / "shards" / "tokenized.1")
    for engine in ENGINES:
        with pytest.raises(BrokenIndexError, match=r"table\.1: missing"):
            open_index(damaged, engine)


@needs_engine
def test_the_engine_refuses_a_query_that_would_kill_it(text_index: Path) -> None:
    with pytest.raises(BrokenIndexError, match=r"2001 tokens.*'mapped'"):
        open_index(text_index, "infini-gram").find([1] * 2_001)


def test_the_engine_is_not_imported_unless_asked_for(text_index: Path) -> None:
    program = (
        "import sys; from propme.index import open_index; open_index(sys.argv[1]);"
        "sys.exit('infini_gram' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(text_index)], check=False)
    assert done.returncode == 0


def test_a_platform_without_the_engine_is_told_what_to_do(
    text_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "infini_gram.engine", None)
    with pytest.raises(BrokenIndexError, match=r"cannot be imported.*engine 'mapped'"):
        open_index(text_index, "infini-gram")


def test_a_search_in_an_unverified_index_of_garbage_does_no_harm(damaged: Path) -> None:
    file = damaged / "shards" / "table.0"
    file.write_bytes(random.Random(0).randbytes(file.stat().st_size))
    index = open_index(damaged)
    for text in ("It was the", "he said", "\n"):
        ids = index.tokenizer.encode(text)
        assert 0 <= index.count(ids) <= index.n_tokens + index.n_documents
        index.maximal_runs(ids)


@needs_engine
def test_both_engines_are_the_same_kind_of_index(text_index: Path) -> None:
    assert isinstance(open_index(text_index, "infini-gram"), EngineIndex)
    assert not isinstance(open_index(text_index), EngineIndex)


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [InputError("not JSON", "a.jsonl", 7), InputError("no such file", "a.jsonl")]
)
def test_an_input_error_survives_pickling(error: InputError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(again) is InputError
    assert (again.message, again.path, again.line) == (error.message, error.path, error.line)
    assert str(again) == str(error)


def test_an_input_error_says_where() -> None:
    assert str(InputError("not JSON", "a.jsonl", 7)) == "a.jsonl, line 7: not JSON"
    assert str(InputError("no such file", "a.jsonl")) == "a.jsonl: no such file"


@pytest.mark.parametrize(
    "kind",
    [
        errors.ParameterError,
        errors.BrokenIndexError,
        errors.TableError,
        errors.MetricError,
        errors.RunError,
    ],
)
def test_every_error_survives_pickling_and_has_one_base(kind: type[Exception]) -> None:
    again = pickle.loads(pickle.dumps(kind("what is wrong")))  # noqa: S301
    assert type(again) is kind
    assert str(again) == "what is wrong"
    assert isinstance(again, errors.PropMeError)

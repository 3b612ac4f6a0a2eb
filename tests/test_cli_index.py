"""The commands that build, estimate, verify and describe an index."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from propme.cli import main
from propme.index import build, open_index, read_manifest
from propme.index.estimating import in_bytes, in_time

TOKENIZER = ["--tokenizer", "bytes"]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def text(rng: random.Random) -> str:
    return " ".join(rng.choices(("sea", "was", "wide", "old", "å"), k=rng.randrange(80)))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Files of several kinds, with 900 documents."""
    folder, rng = tmp_path / "corpus", random.Random(0)
    folder.mkdir()
    rows = [{"text": text(rng), "n": n} for n in range(900)]
    lines = "\n".join(map(json.dumps, rows[:400])).encode()
    (folder / "a.jsonl").write_bytes(lines[: len(lines)])
    (folder / "b.jsonl.gz").write_bytes(
        gzip.compress("\n".join(map(json.dumps, rows[400:600])).encode())
    )
    pq.write_table(pa.Table.from_pylist(rows[600:800]), folder / "c.parquet")
    (folder / "d.json").write_text(json.dumps(rows[800:899]))
    (folder / "e.txt").write_text(rows[899]["text"] or "x")
    return folder


def index_command(*arguments: object) -> int:
    return main(["index", *map(str, arguments)])


def told(capsys: pytest.CaptureFixture[str], name: str) -> int:
    number = re.search(rf"^{name} +(?:about )?([\d,]+)", capsys.readouterr().out, re.MULTILINE)
    assert number
    return int(number[1].replace(",", ""))


def error_of(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert "verified" not in out
    assert "Traceback" not in err
    told = err.splitlines()[-1]  # progress stands before it
    assert told.startswith("propme: ")
    return told


def test_build_verify_and_info(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "index"
    options = ["--shards", 3, "--workers", 2, "--output", output]
    assert index_command("build", "--input", corpus, *TOKENIZER, *options) == 0
    assert f"The index is {output}, verified" in capsys.readouterr().out
    assert open_index(output).n_documents == 900
    for full in ([], ["--full"]):
        assert index_command("verify", output, *full) == 0
        assert f"{output}: whole and right" in capsys.readouterr().out
    assert index_command("info", output) == 0
    out = capsys.readouterr().out
    manifest = read_manifest(output)
    assert re.search(r"^documents +900$", out, re.MULTILINE)
    assert re.search(rf"^tokens +{manifest['tokens']:,} \(u8\)$", out, re.MULTILINE)
    assert re.search(r"^shards +3$", out, re.MULTILINE)
    assert all(f"{corpus / name}" in out for name in ("a.jsonl", "e.txt"))


@pytest.mark.parametrize("sampled", [1_000_000, 5_000])
def test_estimate_is_about_right(
    sampled: int,
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether all of each file is looked at or its beginning."""
    monkeypatch.setattr("propme.index.estimating._SAMPLED_BYTES", sampled)
    output = tmp_path / "index"
    assert index_command("build", "--input", corpus, *TOKENIZER, "--output", output) == 0
    capsys.readouterr()
    manifest = read_manifest(output)
    for name in ("documents", "tokens"):
        assert index_command("estimate", "--input", corpus, *TOKENIZER) == 0
        tolerance = 0.15 if sampled > 5_000 else 0.3  # few documents are a rough sample
        assert told(capsys, name) == pytest.approx(manifest[name], rel=tolerance)
    index_command("estimate", "--input", corpus, *TOKENIZER, "--shards", 4)
    assert told(capsys, "shards") == 4


@pytest.mark.parametrize("action", ["build", "estimate"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "missing.jsonl", *TOKENIZER], "missing.jsonl: no such file"),
        (["--input", "corpus", "--tokenizer", "corpus"], "no fast tokenizer could be loaded"),
        (["--input", "corpus/a.docx", *TOKENIZER], "unknown kind of corpus"),
    ],
)
def test_an_input_that_is_none_is_told(
    action: str,
    arguments: list[str],
    message: str,
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(corpus.parent)
    (corpus / "a.docx").write_text("")
    output = ["--output", "index"] if action == "build" else []
    assert index_command(action, *arguments, *output) == 1
    assert message in error_of(capsys)
    assert not Path("index").exists()


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.parquet", "x.json", "x.txt", "x.arrow"])
def test_a_damaged_file_is_told(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"\xff\xfe")
    (tmp_path / "good.jsonl").write_text('{"text": "a"}')
    inputs = ["--input", tmp_path / name, tmp_path / "good.jsonl"]
    build_options = [*inputs, *TOKENIZER, "--output", tmp_path / "index"]
    assert index_command("build", *build_options) == 1
    assert name in error_of(capsys)
    assert index_command("build", *build_options, "--on-error", "skip") == 0
    assert "skipped 1: " in capsys.readouterr().out


def test_what_exists_is_not_replaced(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "index"
    output.mkdir()
    assert index_command("build", "--input", corpus, *TOKENIZER, "--output", output) == 1
    assert f"{output}: this folder exists" in error_of(capsys)


def test_too_little_memory_is_told_with_numbers(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--output", tmp_path / "index", "--memory", "0.00001"]
    assert index_command("build", "--input", corpus, *TOKENIZER, *options) == 1
    assert re.search(r"about [\d.]+ [kM]B of memory, 10 kB are allowed; ask", error_of(capsys))
    assert not (tmp_path / "index").exists()


def test_too_little_disk_is_told_with_numbers(
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = type("Usage", (), {"free": 10_000})
    monkeypatch.setattr("propme.index.estimating.shutil.disk_usage", lambda _: usage)
    output = tmp_path / "not" / "yet" / "there"
    assert index_command("build", "--input", corpus, *TOKENIZER, "--output", output) == 1
    assert re.search(r"needs about [\d.]+ kB, 10 kB are free", error_of(capsys))
    assert not (tmp_path / "not").exists()


def test_skipped_rows_are_counted(
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also by a build that goes on with one that had read them."""
    (corpus / "bad.jsonl").write_text('x\n{"text": 1}\n{"text": "a"}\ny')
    options = [*TOKENIZER, "--output", tmp_path / "index", "--workers", 1]
    assert index_command("build", "--input", corpus, *options) == 1
    assert "bad.jsonl, line 1: not JSON" in error_of(capsys)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "write_suffix_array", interrupt)
        assert index_command("build", "--input", corpus, *options, "--on-error", "skip") == 130
    assert "interrupted; what was finished is kept" in error_of(capsys)
    assert index_command("build", "--input", corpus, *options, "--on-error", "skip") == 0
    assert index_command("info", tmp_path / "index") == 0
    out = capsys.readouterr().out
    assert (
        re.findall(r"skipped +(\d): (.*)", out)
        == [
            ("2", "not JSON"),
            ("1", "field 'text' is int, not a string"),
        ]
        * 2
    )


@pytest.mark.parametrize("action", ["verify", "info"])
def test_no_index_is_told(action: str, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert index_command(action, corpus) == 1
    assert "no manifest.json here" in error_of(capsys)


def test_a_broken_index_does_not_verify(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "index"
    index_command("build", "--input", corpus, *TOKENIZER, "--output", output)
    capsys.readouterr()
    table = output / "shards" / "table.0"
    data = bytearray(table.read_bytes())
    data[50] ^= 1
    table.write_bytes(data)
    assert index_command("verify", output) == 1
    assert "table.0: its SHA-256 is not that in the manifest" in error_of(capsys)


def test_a_number_not_in_json_does_not_break_the_build(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"text": "a", "score": NaN}\n{"text": "b", "score": 1}\n')
    output = tmp_path / "index"
    assert index_command("build", "--input", tmp_path, *TOKENIZER, "--output", output) == 0
    assert str(open_index(output).metadata(0, 0)["score"]) == "nan"


def test_the_command_ends_with_a_status_and_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "propme.cli", "index", "verify", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"propme: {tmp_path}: no manifest.json here, so this is no finished" + (
        " index; build it with 'propme index build'\n"
    )


@pytest.mark.parametrize(
    ("size", "told"),
    [(0, "0 bytes"), (999, "999 bytes"), (1e3, "1 kB"), (52e9, "52 GB"), (3.3e12, "3.3 TB")],
)
def test_sizes_are_told_in_the_unit_that_suits_them(size: float, told: str) -> None:
    assert in_bytes(size) == told


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.01, "1 s"), (99, "99 s"), (600, "10 minutes"), (9000, "2.5 hours")]
)
def test_durations_are_told_in_the_unit_that_suits_them(seconds: float, told: str) -> None:
    assert in_time(seconds) == told

"""`propme trace`: many texts, side by side, killed and gone on with, always the same tables."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from propme import tables
from propme.cli import main
from propme.corpus import Corpus
from propme.errors import BrokenIndexError, InputError, ParameterError
from propme.index import Tokenizer, build_index, open_index
from propme.records import Document
from propme.simpletrace import IndexAddress, TraceSettings, Workers, batch, trace, trace_into
from propme.tracing import merge, trace_files

N_TEXTS = 200
WORDS = ("havet", "var", "the", "sea", "wide", "and", "old", "mand", "så", "🎉", "1851.")


def documents() -> list[str]:
    chance = random.Random(0)
    return [" ".join(chance.choices(WORDS, k=chance.randrange(5, 60))) for _ in range(120)]


def texts() -> list[str]:
    """Copies, parts, edited parts and new text; an empty one and one of white space."""
    chance, found = random.Random(1), ["", " \n"]
    stock = documents()
    while len(found) < N_TEXTS:
        words = chance.choice(stock).split()
        start = chance.randrange(len(words))
        part = words[start : start + chance.randrange(1, 40)]
        if chance.random() < 0.5:
            part[chance.randrange(len(part))] = chance.choice(["nyt", "xyz", *WORDS])
        found.append(chance.choice(["", " ", "\n"]) + " ".join(part))
    return found


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    stock = [Document(f"d{n}", text) for n, text in enumerate(documents())]
    output = tmp_path_factory.mktemp("traced") / "index"
    return build_index(stock, Tokenizer.load("bytes"), output, 2_000)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    rows = ({"id": f"g{n}", "text": text} for n, text in enumerate(texts()))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def expected(index: Path, file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The tables as one process writes them in one go."""
    output = tmp_path_factory.mktemp("expected")
    assert (
        main(["trace", "--index", str(index), "--input", str(file), "--output", str(output)]) == 0
    )
    return contents(output)


def contents(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (output / "tables").iterdir()}


def trace_command(index: Path, file: Path, output: Path, *options: object) -> int:
    given = ["trace", "--index", index, "--input", file, "--output", output, *options]
    return main([str(argument) for argument in given])


def test_each_text_has_the_trace_that_it_has_alone(
    expected: dict[str, bytes], index: Path, file: Path, tmp_path: Path
) -> None:
    assert set(expected) == {"traces.parquet", "spans.parquet", "matches.parquet"}
    for name, content in expected.items():
        (tmp_path / name).write_bytes(content)
    found = {
        name: tables.to_records(name, tables.read(name, tmp_path))
        for name in ("traces", "spans", "matches")
    }
    opened = open_index(index)
    alone = [trace(text, opened, generation_id=f"g{n}") for n, text in enumerate(texts())]
    assert found["traces"] == [one.summary for one in alone]
    assert found["spans"] == [span for one in alone for span in one.spans]
    assert found["matches"] == [match for one in alone for match in one.matches]
    assert any(summary.full_raw for summary in found["traces"])


@pytest.mark.parametrize(
    "options",
    [
        ("--workers", 1),
        ("--workers", 3),
        ("--workers", 1, "--reopen-after", 40),
        ("--workers", 1, "--engine", "mapped"),
    ],
)
def test_the_tables_are_the_same_whoever_traces(
    options: Sequence[object],
    index: Path,
    file: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
) -> None:
    assert trace_command(index, file, tmp_path / "out", *options) == 0
    assert contents(tmp_path / "out") == expected


def test_the_order_of_texts_changes_the_order_of_rows_alone(
    index: Path, file: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    backwards = tmp_path / "backwards.jsonl"
    backwards.write_text("\n".join(reversed(file.read_text().splitlines())))
    assert trace_command(index, backwards, tmp_path / "out", "--workers", 2) == 0
    for name, content in expected.items():
        (tmp_path / name).write_bytes(content)
        ours, theirs = (
            tables.read(name.removesuffix(".parquet"), folder).sort_values(
                ["generation_id"], kind="stable", ignore_index=True
            )
            for folder in (tmp_path / "out" / "tables", tmp_path)
        )
        assert ours.equals(theirs)


def test_rows_are_written_as_json_too(index: Path, file: Path, tmp_path: Path) -> None:
    assert trace_command(index, file, tmp_path / "out", "--jsonl", "--workers", 1) == 0
    for name in ("traces", "spans", "matches"):
        rows = [json.loads(line) for line in (tmp_path / "out" / f"{name}.jsonl").open()]
        assert rows == pq.read_table(tmp_path / "out" / "tables" / f"{name}.parquet").to_pylist()


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_other_kinds_of_files_and_fields(
    suffix: str, index: Path, file: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    import pyarrow as pa

    rows = [json.loads(line) for line in file.open()]
    renamed = [{"name": row["id"], "completion": row["text"]} for row in rows]
    other = tmp_path / f"texts{suffix}"
    if suffix == ".json":
        other.write_text(json.dumps(renamed))
    else:
        pq.write_table(pa.Table.from_pylist(renamed), other)
    fields = ("--text-field", "completion", "--id-field", "name")
    assert trace_command(index, other, tmp_path / "out", *fields, "--workers", 1) == 0
    assert contents(tmp_path / "out") == expected


# --- nothing lost ---------------------------------------------------------------------------------


def started(*arguments: object) -> subprocess.Popen[bytes]:
    environment = os.environ | {"TQDM_DISABLE": "1"}
    command = [sys.executable, "-m", "propme.cli", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def wait_for_parts(parts: Path, number: int) -> None:
    until = time.monotonic() + 100
    while len(list(parts.glob("*.traces.parquet"))) < number:
        assert time.monotonic() < until, "it never got so far"
        time.sleep(0.002)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_trace_goes_on_where_it_was(
    workers: int,
    index: Path,
    file: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = tmp_path / "out"
    options = ["--input", file, "--output", output, "--workers", workers, "--index", index]
    process = started("trace", *options)
    wait_for_parts(output / "parts", 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in output.glob("parts/*.traces.parquet")}
    assert len(kept) >= 2
    done = set()
    original = batch.keep
    monkeypatch.setattr(batch, "keep", lambda *given: (done.add(given[1]), original(*given)))
    assert trace_command(index, file, output, "--workers", 1) == 0
    assert len(done) == 7 - len(kept)
    assert contents(output) == expected
    assert not (output / "parts").exists()


def test_a_finished_trace_is_not_done_again(
    index: Path, file: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    assert trace_command(index, file, output, "--workers", 1) == 0
    before = (output / "tables" / "traces.parquet").stat().st_mtime_ns
    assert trace_command(index, file, output, "--workers", 1) == 0
    assert (output / "tables" / "traces.parquet").stat().st_mtime_ns == before


@pytest.mark.parametrize("option", [("--mode", "text"), ("--seed", 1), ("--docs-per-span", 3)])
def test_a_folder_with_another_trace_is_refused(
    option: Sequence[object],
    index: Path,
    file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert trace_command(index, file, tmp_path / "out", "--workers", 1) == 0
    assert trace_command(index, file, tmp_path / "out", *option) == 1
    assert "this folder holds the trace of other texts, another index" in capsys.readouterr().err


def test_a_generation_that_cannot_be_traced_has_a_row_that_says_why(
    index: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    original = batch.Tracer.trace

    def fails_once(self: batch.Tracer, text: str, generation_id: str) -> object:
        if generation_id == "g33":
            raise ValueError("a lone \udc80 surrogate")
        return original(self, text, generation_id)

    monkeypatch.setattr(batch.Tracer, "trace", fails_once)
    assert trace_command(index, file, tmp_path / "out", "--workers", 1) == 0
    frame = tables.read("traces", tmp_path / "out" / "tables").set_index("generation_id")
    assert len(frame) == N_TEXTS
    assert frame.loc["g33", "error"] == "ValueError: a lone ? surrogate"
    assert frame.loc["g33", "n_spans"] == 0
    assert (frame["error"] != "").sum() == 1
    printed = capsys.readouterr().out
    assert f"traced     {N_TEXTS - 1} generations" in printed
    assert "not traced 1: ValueError: a lone ? surrogate" in printed


def test_a_wrong_index_ends_the_trace(
    index: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disagree(*_: object) -> None:
        raise BrokenIndexError("the index says another thing")

    monkeypatch.setattr(batch.Tracer, "trace", disagree)
    texts_, address = Corpus([file]), IndexAddress((str(index),))
    with pytest.raises(BrokenIndexError, match="another thing"):
        trace_files(texts_, address, TraceSettings(), tmp_path / "out")


def test_a_touched_or_copied_file_is_the_same_texts(
    index: Path, file: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    copy, output = tmp_path / "copy.jsonl", tmp_path / "out"
    copy.write_bytes(file.read_bytes())
    assert trace_command(index, file, output, "--shard", "1/2", "--workers", 1) == 0
    assert trace_command(index, copy, output, "--workers", 1) == 0
    assert contents(output) == expected


def test_a_part_that_cannot_be_read_is_traced_again(
    index: Path, file: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    assert trace_command(index, file, output, "--shard", "1/2", "--workers", 1) == 0
    parts = sorted((output / "parts").glob("*.parquet"))
    parts[0].write_bytes(b"")
    parts[4].write_bytes(parts[4].read_bytes()[:-9])
    assert trace_command(index, file, output, "--workers", 1) == 0
    assert contents(output) == expected


def test_a_table_that_is_gone_is_made_again(
    index: Path, file: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    assert trace_command(index, file, output, "--workers", 1) == 0
    (output / "tables" / "spans.parquet").unlink()
    assert trace_command(index, file, output, "--workers", 1) == 0
    assert contents(output) == expected


def test_two_processes_with_one_output(
    index: Path, file: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    common = ["trace", "--index", index, "--input", file, "--output", output, "--workers", 1]
    processes = [started(*common) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert contents(output) == expected


# --- shards ---------------------------------------------------------------------------------------


def test_shards_are_traced_apart_and_merged(
    index: Path,
    file: Path,
    expected: dict[str, bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out"
    for shard in ("3/3", "1/3"):
        assert trace_command(index, file, output, "--shard", shard, "--workers", 1) == 0
    assert main(["trace", "merge", "--output", str(output)]) == 1
    assert "not finished yet: shard [2] of 3" in capsys.readouterr().err
    assert trace_command(index, file, output, "--shard", "2/3", "--workers", 1) == 0
    assert main(["trace", "merge", "--output", str(output)]) == 0
    assert contents(output) == expected
    assert main(["trace", "merge", "--output", str(output)]) == 0


def test_shards_that_run_at_the_same_time(
    index: Path, file: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    common = ["trace", "--index", index, "--input", file, "--output", output, "--workers", 1]
    processes = [started(*common, "--shard", f"{k}/2") for k in (1, 2)]
    assert [process.wait() for process in processes] == [0, 0]
    merge(output)
    assert contents(output) == expected


@pytest.mark.parametrize("shard", ["0/3", "4/3", "a/3", "3", "1/2/3"])
def test_a_wrong_shard_is_refused(shard: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["trace", "--output", "x", "--shard", shard])
    assert "--shard" in capsys.readouterr().err


# --- wrong input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n', "line 2: duplicate id: 'a'"),
        ('{"id": "a", "text": "x"}\n{"id": "b"}\n', "line 2: no field 'text'"),
        ('{"id": "a", "text": 5}\n', "line 1: field 'text' is int, not a string"),
        ("{}}\n", "line 1: not JSON"),
        ("", "holds no document|there is no document"),
    ],
)
def test_bad_texts_are_told_before_any_work(
    content: str,
    told: str,
    index: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import re

    path = tmp_path / "texts.jsonl"
    path.write_text(content)
    assert trace_command(index, path, tmp_path / "out") == 1
    assert re.search(told, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_what_is_missing_is_told(
    index: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--output", str(tmp_path / "out")]
    assert main(["trace", "--index", str(index), *out]) == 1
    assert "--input is missing" in capsys.readouterr().err
    assert trace_command(tmp_path / "nowhere", file, tmp_path / "out") == 1
    assert "nowhere: there is no such folder" in capsys.readouterr().err
    assert trace_command(index, file, tmp_path / "out", "--backend", "spark") == 1
    assert "tracing_backend 'spark' is unknown" in capsys.readouterr().err
    assert trace_command(index, file, file) == 1
    assert "this is a file; name a folder" in capsys.readouterr().err
    assert main(["trace", "merge", *out]) == 1
    assert "no trace.json here" in capsys.readouterr().err


def test_workers_are_checked() -> None:
    for wrong in ({"number": 0}, {"reopen_after": 0}):
        with pytest.raises(ParameterError, match="must be >= 1"):
            Workers(**wrong)


def test_parts_of_another_trace_are_refused(index: Path, tmp_path: Path) -> None:
    address = IndexAddress((str(index),))
    trace_into(tmp_path / "parts", "one", [("a", "havet")], 1, address, TraceSettings())
    with pytest.raises(InputError, match="unfinished trace of other texts"):
        trace_into(tmp_path / "parts", "other", [("a", "havet")], 1, address, TraceSettings())


# --- a cluster, and an index larger than the memory -----------------------------------------------


def test_a_dask_cluster_of_which_a_worker_is_killed(
    index: Path, file: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    from distributed import LocalCluster

    output = tmp_path / "out"
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster:
        victim = next(iter(cluster.workers.values())).process.pid
        options = ["--backend", f"dask:{cluster.scheduler_address}", "--index", index]
        process = started("trace", *options, "--input", file, "--output", output)
        wait_for_parts(output / "parts", 1)
        os.kill(victim, signal.SIGKILL)
        assert process.wait(timeout=120) == 0
    assert contents(output) == expected


MEASURE = """
import resource, sys
from propme.simpletrace import IndexAddress, TraceSettings, Tracer
from propme.simpletrace.workers import _tracer

def kilobytes(name):
    (line,) = [line for line in open("/proc/self/status") if line.startswith(name + ":")]
    return int(line.split()[1])

address = IndexAddress((sys.argv[1],))
index = address.open()
ranks = index._shards[0].table.size // index._shards[0].width
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 70 MB."""
    import numpy as np

    rng = np.random.default_rng(0)
    stock = (
        Document(f"d{n}", rng.integers(97, 123, 100_000, dtype=np.uint8).tobytes().decode())
        for n in range(140)
    )
    return build_index(stock, Tokenizer.load("bytes"), tmp_path_factory.mktemp("large") / "index")


def run_measure(program: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE + program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_page_tables_stay_bounded(large: Path) -> None:
    """An index that is opened anew gives its page tables back."""
    program = """
def touch():
    shard = index._shards[0]
    return int(shard.table[::4096].sum()) + int(shard.tokens[::4096].sum())

settings, found = TraceSettings(), []
del index
for round in range(4):
    tracer = _tracer(address, settings, reopen_after=1, n=1)
    index = tracer._index
    before = kilobytes("VmPTE")
    touch()
    found.append((before, kilobytes("VmPTE")))
    del tracer, index
print(found)
"""
    found = json.loads(run_measure(program, large).replace("(", "[").replace(")", "]"))
    growth = found[0][1] - found[0][0]
    assert growth >= 16, "touching the index fills page tables"
    assert found[3][0] - found[0][0] < growth / 2, "and opening it anew empties them"


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory")
def test_an_index_larger_than_the_memory_there_is(large: Path) -> None:
    """With room for a third of it, and that is not taken."""
    program = """
tracer = Tracer(index, TraceSettings())
tracer.trace("abcdefgh")
size = sum(file.stat().st_size for file in __import__("pathlib").Path(sys.argv[1]).rglob("*"))
room = size // 3
limit = 1024 * kilobytes("VmData") + room
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    bytearray(size // 2)
    raise SystemExit("the limit does not hold")
except MemoryError:
    pass
import random
chance = random.Random(0)
for number in range(300):
    start = chance.randrange(90_000)
    document = index.document_tokens(0, chance.randrange(140), start, start + 400)
    found = tracer.trace(bytes(document).decode(), str(number))
    assert found.summary.full_raw and found.summary.longest_segment == 400
print("traced")
"""
    assert run_measure(program, large).strip() == "traced"


def test_the_end_names_the_longest_and_says_how_to_look_at_the_tables(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = documents()[0]
    file, output = tmp_path / "t.jsonl", tmp_path / "a trace"
    lines = [{"id": "none", "text": "qqq"}, {"id": "all", "text": whole}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert trace_command(index, file, output, "--jsonl") == 0
    told = capsys.readouterr().out.splitlines()
    # In an index of bytes a token is one.
    assert f"longest    {len(whole.encode())} tokens in all" in told
    assert f"As lines of JSON: {output}/matches.jsonl, {output}/spans.jsonl" in "".join(told)
    command = shlex.split(told[-1].partition("  ")[2])
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True)
    assert "generation_id" in done.stdout, done.stderr


def test_an_index_whose_name_is_mistyped_is_told_as_that(
    index: Path, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace_command(index.with_name("idnex"), file, tmp_path / "out") == 1
    assert "idnex: there is no such folder; name that of an index" in capsys.readouterr().err
    assert trace_command(index.parent, file, tmp_path / "out") == 1
    assert "no manifest.json here" in capsys.readouterr().err

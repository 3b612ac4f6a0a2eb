"""A build that is interrupted, wherever, goes on later and ends in the very same index."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from propme.corpus import Corpus
from propme.errors import BrokenIndexError, InputError
from propme.index import Tokenizer, build, build_index, open_index, token_writer, verify_index
from propme.index.suffix_array import write_suffix_array

N_DOCUMENTS = 300


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is there for the next build; no power is cut here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


SHARD_BYTES = 2_000


def write_corpus(folder: Path, n: int = N_DOCUMENTS, seed: int = 0) -> list[Path]:
    """Two files of documents of many sizes, some of them empty; a bad row among them."""
    rng = random.Random(seed)
    folder.mkdir(exist_ok=True)
    rows = [
        json.dumps(
            {
                "id": f"i{number}",
                "text": " ".join(rng.choices(("å", "the", "sea", "was"), k=rng.randrange(20))),
                "n": number,
            }
        )
        for number in range(n)
    ]
    rows.insert(n // 3, '{"text": 5}')
    paths = [folder / "a.jsonl", folder / "b.jsonl"]
    paths[0].write_text("\n".join(rows[: n // 2]))
    paths[1].write_text("\n".join(rows[n // 2 :]))
    return paths


def contents(index: Path) -> dict[str, Any]:
    """Every byte of an index; of the manifest, all but the versions."""
    files: dict[str, Any] = {
        str(p.relative_to(index)): p.read_bytes() for p in index.rglob("*") if p.is_file()
    }
    manifest = json.loads(files["manifest.json"])
    del manifest["versions"]
    return files | {"manifest.json": manifest}


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(write_corpus(tmp_path / "corpus"), on_error="skip")


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is some documents, and how far it came is noted every few."""
    monkeypatch.setattr(build, "_BATCH_CHARACTERS", 2_000)
    monkeypatch.setattr(build, "_CHECKPOINT_BYTES", 500)


@pytest.fixture
def undisturbed(corpus: Corpus, tmp_path: Path) -> Path:
    path = build_index(corpus, Tokenizer.load("bytes"), tmp_path / "whole", SHARD_BYTES)
    assert len(list((path / "shards").glob("table.*"))) > 4
    return path


class Work:
    """Counts what a build does, and interrupts it at a call of one of its steps."""

    STEPS = ("write_suffix_array", "write_unigrams", "sha256_of", "verify_index", "_note")

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.calls: Counter[str] = Counter()
        self.stop_at: tuple[str, int] | None = None
        self.error: BaseException = KeyboardInterrupt()
        for name in self.STEPS:
            self._watch(build, name)
        self._watch(token_writer.TokenWriter, "add")

    def _watch(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def step(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            if self.stop_at == (name, self.calls[name]):
                raise self.error
            return original(*arguments, **options)

        self._patch.setattr(owner, name, step)

    def restart(self) -> None:
        self.calls.clear()
        self.stop_at = None


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def interrupted(work: Work, corpus: Corpus, output: Path, step: str, call: int) -> None:
    work.restart()
    work.stop_at = (step, call)
    with pytest.raises(type(work.error)):
        build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    assert not output.exists()
    assert (output.parent / f".{output.name}.building").is_dir()
    work.restart()


def assert_nothing_beside(output: Path) -> None:
    assert not list(output.parent.glob(f".{output.name}*"))


# --- killed ---------------------------------------------------------------------------------------

#: Forks a build, kills it after a while that is drawn anew each time, and builds again, until it
#: has killed as often as asked for. Every index that gets finished is compared with the first.
KILLER = """
import os, random, shutil, signal, sys, time
from pathlib import Path

from propme.corpus import Corpus
from propme.index import Tokenizer, build, build_index, kernels, verify_index

corpus, folder, wanted, shards = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
build._BATCH_CHARACTERS, build._CHECKPOINT_BYTES = 4_000, 2_500
os.environ["TQDM_DISABLE"] = "1"
os.fsync = lambda _: None  # a process that is killed loses nothing that it has written
sys.path.insert(0, sys.argv[5])
from test_index_resume import SHARD_BYTES, contents

def start(output):
    child = os.fork()
    if child:
        return child
    try:
        n_shards = int(shards) or None
        documents = Corpus([corpus], on_error="skip")
        build_index(documents, Tokenizer.load("bytes"), output, SHARD_BYTES, n_shards=n_shards)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

# The children have the compiled search from here. Not the sort: it has threads, which no fork has.
assert os.waitpid(start(folder / "warm"), 0)[1] == 0
verify_index(folder / "warm")
begun = time.monotonic()
assert os.waitpid(start(folder / "whole"), 0)[1] == 0
duration = time.monotonic() - begun
expected = contents(folder / "whole")
chance, output, kills, finished = random.Random(), folder / "index", 0, 0
while kills < wanted or not finished:
    child = start(output)
    if kills < wanted:
        time.sleep(chance.random() * duration)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    kills += status == signal.SIGKILL
    if output.exists():  # never half there, killed or not
        found = contents(output)
        found.pop("state.json", None)  # killed after it got its name
        assert found == expected, [n for n in expected if found.get(n) != expected[n]]
        verify_index(output)
        shutil.rmtree(output)
        finished += 1
print(kills, finished)
"""


@pytest.mark.parametrize("n_shards", [0, 3])
def test_killed_anywhere_it_leaves_nothing_or_all(tmp_path: Path, n_shards: int) -> None:
    write_corpus(tmp_path / "corpus")
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            KILLER,
            str(tmp_path / "corpus"),
            str(tmp_path / "out"),
            "12",
            str(n_shards),
            str(Path(__file__).parent),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kills, finished = map(int, done.stdout.split())
    assert kills == 12
    assert finished >= 1


# --- interrupted in each phase --------------------------------------------------------------------


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("call", [1, 40, 150, N_DOCUMENTS])
def test_tokenising_goes_on_from_the_last_note(
    call: int, work: Work, corpus: Corpus, undisturbed: Path, tmp_path: Path
) -> None:
    output = tmp_path / "index"
    interrupted(work, corpus, output, "add", call)
    build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    assert N_DOCUMENTS - call < work.calls["add"] <= N_DOCUMENTS - call + 60
    assert contents(output) == contents(undisturbed)
    assert_nothing_beside(output)


@pytest.mark.usefixtures("small_steps")
def test_interrupted_again_and_again(
    work: Work, corpus: Corpus, undisturbed: Path, tmp_path: Path
) -> None:
    output = tmp_path / "index"
    for step, call in [("add", 90), ("add", 90), ("write_suffix_array", 2), ("sha256_of", 9)]:
        interrupted(work, corpus, output, step, call)
    build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    assert work.calls["add"] == 0
    assert contents(output) == contents(undisturbed)


@pytest.mark.parametrize(
    ("step", "call", "sorted_before"),
    [
        ("write_suffix_array", 1, 0),
        ("write_suffix_array", 3, 2),
        ("write_unigrams", 3, 2),
        ("sha256_of", 2, -1),
        ("verify_index", 1, -1),
    ],
)
def test_finished_shards_are_not_sorted_again(
    step: str,
    call: int,
    sorted_before: int,
    work: Work,
    corpus: Corpus,
    undisturbed: Path,
    tmp_path: Path,
) -> None:
    output = tmp_path / "index"
    interrupted(work, corpus, output, step, call)
    build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    n_shards = len(list((output / "shards").glob("table.*")))
    remaining = n_shards - sorted_before if sorted_before >= 0 else 0
    assert work.calls["write_suffix_array"] == work.calls["write_unigrams"] == remaining
    assert work.calls["add"] == 0
    assert contents(output) == contents(undisturbed)
    assert_nothing_beside(output)


def test_interrupted_before_it_gets_its_name(
    corpus: Corpus, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, replace = tmp_path / "index", os.replace

    def no_rename(source: Path, target: Path) -> None:
        if Path(target) == output:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", no_rename)
        with pytest.raises(KeyboardInterrupt):
            build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    assert not output.exists()
    work = Work(monkeypatch)
    build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    assert work.calls["write_suffix_array"] == 0
    assert contents(output) == contents(undisturbed)


def test_interrupted_while_shards_get_their_final_numbers(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With eleven shards and more, ``tokenized.1`` becomes ``tokenized.01``."""
    tokenizer = Tokenizer.load("bytes")
    whole = build_index(corpus, tokenizer, tmp_path / "whole", 800)
    assert len(list((whole / "shards").glob("table.*"))) > 10
    replace, moved = os.replace, 0

    def some(source: Path, target: Path) -> None:
        nonlocal moved
        moved += Path(source).parent.name == "shards"
        if moved == 20:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", some)
        with pytest.raises(KeyboardInterrupt):
            build_index(corpus, tokenizer, tmp_path / "index", 800)
    build_index(corpus, tokenizer, tmp_path / "index", 800)
    assert contents(tmp_path / "index") == contents(whole)


# --- not gone on with -----------------------------------------------------------------------------


def change_corpus(corpus: Corpus) -> dict[str, Any]:
    corpus.files[0].write_text('{"text": "other"}\n')
    return {"documents": Corpus(corpus.files, on_error="skip")}


def change_time(corpus: Corpus) -> dict[str, Any]:
    os.utime(corpus.files[1], ns=(1, 1))
    return {}


def add_file(corpus: Corpus) -> dict[str, Any]:
    (corpus.files[0].parent / "c.jsonl").write_text('{"text": "more"}\n')
    return {"documents": Corpus([corpus.files[0].parent], on_error="skip")}


CHANGES: dict[str, Callable[[Corpus], dict[str, Any]]] = {
    "corpus": change_corpus,
    "time of change": change_time,
    "a file more": add_file,
    "shards": lambda _: {"n_shards": 2},
    "smaller shards": lambda _: {"shard_bytes": 1_500},
    "fields": lambda corpus: {"documents": Corpus(corpus.files, id_field="n", on_error="skip")},
}


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("changed", [*CHANGES, "tokenizer"])
@pytest.mark.parametrize(("step", "call"), [("add", 250), ("write_suffix_array", 3)])
def test_what_decides_the_index_has_changed(
    step: str,
    call: int,
    changed: str,
    work: Work,
    corpus: Corpus,
    bpe: Tokenizer,
    tmp_path: Path,
) -> None:
    output = tmp_path / "index"
    interrupted(work, corpus, output, step, call)
    options: dict[str, Any] = {
        "documents": corpus,
        "tokenizer": bpe if changed == "tokenizer" else Tokenizer.load("bytes"),
        "shard_bytes": SHARD_BYTES,
    }
    options |= CHANGES[changed](corpus) if changed != "tokenizer" else {}
    build_index(output=output, **options)
    assert work.calls["add"] == open_index(output).n_documents
    expected = build_index(output=tmp_path / "expected", **options)
    assert contents(output) == contents(expected)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(("step", "call"), [("add", 250), ("write_suffix_array", 3)])
def test_shards_begun_smaller_than_they_may_be_now_are_gone_on_with(
    step: str, call: int, work: Work, corpus: Corpus, undisturbed: Path, tmp_path: Path
) -> None:
    """As where fewer workers, or more memory, are given to the second attempt."""
    output = tmp_path / "index"
    interrupted(work, corpus, output, step, call)
    build_index(corpus, Tokenizer.load("bytes"), output, 5 * SHARD_BYTES)
    assert work.calls["add"] < N_DOCUMENTS
    assert contents(output) == contents(undisturbed)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(("step", "call"), [("add", 250), ("write_suffix_array", 3)])
@pytest.mark.parametrize("n_shards", [None, 3])
def test_what_was_damaged_while_it_lay_there_is_found(
    n_shards: int | None, step: str, call: int, work: Work, corpus: Corpus, tmp_path: Path
) -> None:
    """Documents written before the interruption are read back too."""
    output = tmp_path / "index"
    work.stop_at = (step, call if n_shards is None or step == "add" else 1)
    with pytest.raises(KeyboardInterrupt):
        build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES, n_shards=n_shards)
    work.restart()
    file = next((tmp_path / ".index.building" / "shards").glob("tokenized.*0"))
    # Which no check but the comparison can see, for suffixes are sorted after this.
    file.write_bytes(file.read_bytes().replace(b"sea", b"tea"))
    with pytest.raises(BrokenIndexError, match=r"document 'i\d+' .*does not read back"):
        build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES, n_shards=n_shards)
    assert not output.exists()


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("content", ["", "{", "[]", "null", "7", "{}", '"key"', b"\xff"])
def test_a_damaged_state_starts_anew(
    content: str | bytes, work: Work, corpus: Corpus, undisturbed: Path, tmp_path: Path
) -> None:
    output = tmp_path / "index"
    interrupted(work, corpus, output, "add", 200)
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / ".index.building" / "state.json").write_bytes(data)
    build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    assert work.calls["add"] == N_DOCUMENTS
    assert contents(output) == contents(undisturbed)


def test_a_broken_index_leaves_nothing_to_trip_over(
    work: Work, corpus: Corpus, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "index"

    def reversed_order(tokens_path: Path, table_path: Path, dtype: np.dtype[Any]) -> None:
        write_suffix_array(tokens_path, table_path, dtype)
        table_path.write_bytes(table_path.read_bytes()[::-1])

    with monkeypatch.context() as patch:
        patch.setattr(build, "write_suffix_array", reversed_order)
        with pytest.raises(BrokenIndexError, match="out of order"):
            build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    assert not output.exists()
    assert_nothing_beside(output)
    build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    assert contents(output) == contents(undisturbed)


@pytest.mark.usefixtures("small_steps")
def test_tokens_lost_behind_its_back_are_found(work: Work, corpus: Corpus, tmp_path: Path) -> None:
    """A file that a note speaks of is shorter, as after a power cut on a poor disk."""
    output = tmp_path / "index"
    interrupted(work, corpus, output, "add", 200)
    file = tmp_path / ".index.building" / "shards" / "tokenized.0"
    os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(BrokenIndexError):
        build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    assert_nothing_beside(output)
    build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    verify_index(output)


# --- a full disk ----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount or "", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if not mount or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run([shutil.which("umount") or "", "-l", str(folder)], check=True)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("pages", [0, 2, 6, 12, 18, 30, 36, 40])
def test_a_full_disk_is_told_and_the_build_goes_on(
    pages: int, small_disk: Path, work: Work, corpus: Corpus, undisturbed: Path, bpe: Tokenizer
) -> None:
    output = small_disk / "index"
    ballast = small_disk / "ballast"
    free = shutil.disk_usage(small_disk).free
    ballast.write_bytes(b"x" * (free - pages * 4096))
    for _ in range(2):
        with pytest.raises(InputError, match=r"disk is full \(\d+ bytes are free\)") as raised:
            build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    ballast.unlink()
    work.restart()
    build_index(corpus, Tokenizer.load("bytes"), output, SHARD_BYTES)
    del raised
    assert contents(output) == contents(undisturbed)
    verify_index(output)
    if pages >= 12:
        assert work.calls["add"] < N_DOCUMENTS, "it began anew"


@pytest.mark.parametrize("pages", [0, 1, 3])
def test_a_disk_too_full_for_the_tokenizer(
    pages: int, small_disk: Path, corpus: Corpus, bpe: Tokenizer
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (shutil.disk_usage(small_disk).free - pages * 4096))
    with pytest.raises(InputError, match="disk is full"):
        build_index(corpus, bpe, small_disk / "index", SHARD_BYTES)
    ballast.unlink()
    verify_index(build_index(corpus, bpe, small_disk / "index", SHARD_BYTES))


# --- two at a time --------------------------------------------------------------------------------

#: Forks a slow build, and another one when the first is under way.
TWO = """
import os, sys, time
from pathlib import Path

from propme.corpus import Corpus
from propme.index import Tokenizer, build, build_index

corpus, output, log = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
os.environ["TQDM_DISABLE"] = "1"
sort = build.write_suffix_array

def slow(*arguments):
    with log.open("a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(0.1)
    sort(*arguments)

build.write_suffix_array = slow
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        documents = Corpus([corpus], on_error="skip")
        try:
            build_index(documents, Tokenizer.load("bytes"), output, 2_000)
        finally:
            os._exit(0 if (output / "manifest.json").is_file() else 1)
    children.append(child)
    while not log.exists():
        time.sleep(0.01)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
assert set(log.read_text().split()) == {str(children[0])}
"""


def test_a_second_process_waits_and_uses_the_first_ones_index(
    tmp_path: Path, undisturbed: Path
) -> None:
    command = [sys.executable, "-c", TWO, tmp_path / "corpus", tmp_path / "index", tmp_path / "log"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "index") == contents(undisturbed)
    assert_nothing_beside(tmp_path / "index")


def test_an_index_of_other_documents_that_appears_meanwhile_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process finishes between the first look at the folder and the lock."""
    import filelock

    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text('{"text": "one two"}\n')
    second.write_text('{"text": "three four"}\n')
    tokenizer = Tokenizer.load("bytes")
    output = tmp_path / "index"
    acquire = filelock.FileLock.__enter__

    def build_first(lock: filelock.FileLock) -> object:
        monkeypatch.setattr(filelock.FileLock, "__enter__", acquire)
        build_index(Corpus([first]), tokenizer, output)
        return acquire(lock)

    monkeypatch.setattr(filelock.FileLock, "__enter__", build_first)
    with pytest.raises(InputError, match="another index here"):
        build_index(Corpus([second]), tokenizer, output)
    monkeypatch.setattr(filelock.FileLock, "__enter__", acquire)
    build_index(Corpus([second]), tokenizer, tmp_path / "other")

"""Build an index: tokens, suffix arrays, verification, and only then a name.

Everything is written in a hidden folder beside the index, which gets the index's name when it has
been verified. What a killed build has finished is gone on with by the next one: how far the tokens
came is noted in ``state.json``, and a suffix array appears whole or not at all.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import IO, Any

from propme.corpus import Corpus
from propme.errors import BrokenIndexError, InputError
from propme.files import alone, sha256_of, write_whole
from propme.index import layout
from propme.index.suffix_array import write_suffix_array, write_unigrams
from propme.index.tokenizer import Tokenizer
from propme.index.verify import read_manifest, verify_index
from propme.progress import track
from propme.records import Document

#: Largest token file of a shard, where nothing else is asked for. Sorting it takes about ten times
#: as much memory.
SHARD_BYTES = 200_000_000

#: Text encoded at a time, in characters, and tokens written between two notes of how far it came.
_BATCH_CHARACTERS = 2_000_000
_CHECKPOINT_BYTES = 64_000_000

#: Threads that encode. One that reads and writes keeps no more of them busy.
_MOST_ENCODERS = 4

#: Documents that are read back from the finished index and compared with what was read.
_COMPARED_DOCUMENTS = 1000

_STATE = "state.json"


@dataclass(frozen=True)
class _Plan:
    """What decides the files of an index, apart from its documents."""

    token_type: str
    shard_bytes: int
    n_shards: int | None


def build_index(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    output: Path,
    shard_bytes: int = SHARD_BYTES,
    *,
    n_shards: int | None = None,
    workers: int = 1,
) -> Path:
    """Build an index of ``documents`` in the folder ``output``.

    Parameters
    ----------
    documents : iterable of Document
        Read once, a batch at a time. If it is a `Corpus`, a build that was interrupted is gone on
        with, as long as its files, the tokenizer and the shards asked for are the same.
    tokenizer : Tokenizer
        Saved with the index.
    output : Path
        A folder that does not exist yet.
    shard_bytes : int
        A new shard is begun when the token file would grow beyond this.
    n_shards : int, optional
        This many shards instead, to which the documents go in turn.
    workers : int
        Shards that are sorted at a time.

    Raises
    ------
    InputError
        ``output`` exists, there is no document, or the disk is full.
    """
    if output.exists():
        raise InputError("this folder exists; remove it or choose another", str(output))
    output.parent.mkdir(parents=True, exist_ok=True)
    token_type = layout.token_type_for(tokenizer.vocabulary_size)
    plan = _Plan(token_type, 0 if n_shards else shard_bytes, n_shards)
    key = _key(documents, tokenizer, plan)
    with alone(output):
        if output.exists():  # another process has built it while this one waited
            _require_key(output, key)
        else:
            _build_whole(documents, tokenizer, output, plan, key, workers)
    return output


def _require_key(output: Path, key: str) -> None:
    if read_manifest(output).get("key") != key:
        raise InputError(
            "another process has just built another index here; choose another folder", str(output)
        )


def _build_whole(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    output: Path,
    plan: _Plan,
    key: str,
    workers: int,
) -> None:
    folder = output.parent / f".{output.name}.building"
    if not key or _state(folder).get("key") != key:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        with _full_disk_told(folder):
            _build(documents, tokenizer, folder, plan, key, workers)
            os.replace(folder, output)
            (output / _STATE).unlink(missing_ok=True)
    except BaseException as error:
        if not key or isinstance(error, BrokenIndexError):  # nothing here to go on with
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _key(documents: Iterable[Document], tokenizer: Tokenizer, plan: _Plan) -> str:
    """Changes with anything that decides the index; empty where documents cannot be read again."""
    if not isinstance(documents, Corpus):
        return ""
    parts = [documents.identity(), documents.settings, tokenizer.fingerprint, vars(plan)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _state(folder: Path) -> dict[str, Any]:
    try:
        state = json.loads((folder / _STATE).read_bytes())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _note(folder: Path, state: dict[str, Any]) -> None:
    write_whole(folder / _STATE, json.dumps(state))


@contextmanager
def _full_disk_told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InputError(
            f"the disk is full ({shutil.disk_usage(folder.parent).free} bytes are free); what is"
            " finished is kept, make room and build again",
            str(folder.parent),
        ) from error


def _build(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    folder: Path,
    plan: _Plan,
    key: str,
    workers: int,
) -> None:
    shards = folder / layout.SHARDS
    shards.mkdir(parents=True, exist_ok=True)
    tokenizer.save(folder / layout.TOKENIZER)
    state = _state(folder) or {"key": key, "documents": 0, "tokens": 0, "sizes": {}}
    samples: list[tuple[int, int, Document]] = []
    if "shards" not in state:
        state = _write_tokens(documents, tokenizer, folder, plan, state, samples)
    _number_shards(shards, state["shards"])
    _sort(shards, state["shards"], plan, workers)
    _compare(samples, tokenizer, shards, plan)
    manifest = _manifest(folder, tokenizer, plan, state)
    if isinstance(documents, Corpus):
        manifest |= {"corpus": documents.hashes(), "tally": state["tally"]}
    (folder / layout.MANIFEST).write_text(json.dumps(manifest, indent=1))
    verify_index(folder, hashes=False)


def _write_tokens(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    folder: Path,
    plan: _Plan,
    state: dict[str, Any],
    samples: list[tuple[int, int, Document]],
) -> dict[str, Any]:
    """Write what comes before the suffix arrays, from where ``state`` says it was left."""
    writer = _TokenWriter(folder / layout.SHARDS, plan, state)
    chance = random.Random(0)
    noted = 0
    try:
        # A document already written is read again, but not tokenised again.
        rest = islice(documents, state["documents"], None)
        read = track(rest, "tokenising", unit="documents")
        for document, tokens in _encoded(read, tokenizer, plan.token_type):
            place = writer.add(tokens, document)
            _keep_sample(samples, (*place, document), writer.n_documents, chance)
            if state["key"] and writer.n_bytes - noted >= _CHECKPOINT_BYTES:
                noted = writer.n_bytes
                _note(folder, state | writer.checkpoint())
    finally:
        writer.close()
    if not writer.n_documents:
        raise InputError("there is no document to index", str(folder))
    tally = vars(documents.tally) if isinstance(documents, Corpus) else {}
    n_shards = layout.count_shards(folder / layout.SHARDS)
    state = state | writer.checkpoint() | {"shards": n_shards, "tally": tally}
    _note(folder, state)
    return state


def _encoded(
    documents: Iterable[Document], tokenizer: Tokenizer, token_type: str
) -> Iterator[tuple[Document, bytes]]:
    """Documents with their tokens; while some batches are encoded, the next are read."""
    own = threading.local()  # an encoder remembers words, and serves one thread

    def encode(texts: list[str]) -> list[bytes]:
        if not hasattr(own, "encode"):
            own.encode = tokenizer.bytes_encoder(layout.TOKEN_TYPES[token_type])
        encoded: list[bytes] = own.encode(texts)
        return encoded

    n_threads = min(_MOST_ENCODERS, os.cpu_count() or 1)
    waiting: deque[tuple[list[Document], Future[list[bytes]]]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        for batch in _batches(documents):
            waiting.append((batch, pool.submit(encode, [d.text for d in batch])))
            if len(waiting) > n_threads:
                yield from _finished(*waiting.popleft())
        while waiting:
            yield from _finished(*waiting.popleft())


def _finished(
    batch: list[Document], encoding: Future[list[bytes]]
) -> Iterator[tuple[Document, bytes]]:
    return zip(batch, encoding.result(), strict=True)


def _batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.text) + 100
        if characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _keep_sample(
    samples: list[tuple[int, int, Document]],
    sample: tuple[int, int, Document],
    n_documents: int,
    chance: random.Random,
) -> None:
    """Keep a uniform sample of the documents: a reservoir."""
    if len(samples) < _COMPARED_DOCUMENTS:
        samples.append(sample)
    elif (slot := chance.randrange(n_documents)) < _COMPARED_DOCUMENTS:
        samples[slot] = sample


class _TokenWriter:
    """Appends documents to the files of their shard."""

    def __init__(self, shards: Path, plan: _Plan, state: dict[str, Any]) -> None:
        self._folder, self._plan = shards, plan
        self._dtype = layout.TOKEN_TYPES[plan.token_type]
        self._separator = b"\xff" * self._dtype.itemsize
        self._sizes: dict[str, int] = dict(state["sizes"])
        self._files: dict[str, IO[bytes]] = {}
        self.n_documents, self.n_tokens = state["documents"], state["tokens"]
        self.n_bytes = 0
        self._shard = max((int(name.split(".")[1]) for name in self._sizes), default=0)
        self._go_back()

    def _go_back(self) -> None:
        """Cut off what was written after the last note, and remove shards begun after it."""
        for path in self._folder.iterdir():
            if path.name in self._sizes:
                os.truncate(path, self._sizes[path.name])
            else:
                path.unlink()

    def add(self, ids: bytes, document: Document) -> tuple[int, int]:
        """Append one document and its tokens; return its shard and its number there."""
        tokens = self._separator + ids
        shard = self._shard_for(len(tokens))
        line = _metadata_line(document)
        number = self._size("offset", shard) // 8
        self._append("offset", shard, self._size("tokenized", shard).to_bytes(8, "little"))
        self._append("tokenized", shard, tokens)
        self._append("metaoff", shard, self._size("metadata", shard).to_bytes(8, "little"))
        self._append("metadata", shard, line)
        self.n_documents += 1
        self.n_tokens += len(ids) // self._dtype.itemsize
        self.n_bytes += len(tokens)
        return shard, number

    def _shard_for(self, n_bytes: int) -> int:
        if self._plan.n_shards is not None:
            return int(self.n_documents % self._plan.n_shards)
        written = self._size("tokenized", self._shard)
        if written and written + n_bytes > self._plan.shard_bytes:
            self.close()
            self._shard += 1
        return self._shard

    def _size(self, kind: str, shard: int) -> int:
        return self._sizes.get(f"{kind}.{shard}", 0)

    def _append(self, kind: str, shard: int, content: bytes) -> None:
        name = f"{kind}.{shard}"
        if name not in self._files:
            self._files[name] = (self._folder / name).open("ab")
        self._files[name].write(content)
        self._sizes[name] = self._sizes.get(name, 0) + len(content)

    def checkpoint(self) -> dict[str, Any]:
        """How far it came, once that is safely on the disk."""
        _flush(self._files.values())
        return {
            "documents": self.n_documents,
            "tokens": self.n_tokens,
            "sizes": dict(self._sizes),
        }

    def close(self) -> None:
        """Close the files, safely on the disk; a later `add` opens its own again."""
        with ExitStack() as stack:  # closes them all, also where the disk is full
            for file in self._files.values():
                stack.callback(file.close)
            self._files, files = {}, self._files
            _flush(files.values())


def _flush(files: Iterable[IO[bytes]]) -> None:
    for file in files:
        file.flush()
        os.fsync(file.fileno())


def _metadata_line(document: Document) -> bytes:
    line = {
        "path": document.path,
        "linenum": document.line,
        "metadata": {**document.metadata, "id": document.id},
    }
    # Columns of parquet may be dates, decimals and bytes, which JSON has not.
    return json.dumps(line, ensure_ascii=False, default=str).encode("utf-8") + b"\n"


def _number_shards(shards: Path, n_shards: int) -> None:
    """Zero-pad the shards' numbers now that their count is known; once done, change nothing."""
    for path in list(shards.iterdir()):
        os.replace(path, layout.shard_file(shards, path.stem, int(path.suffix[1:]), n_shards))


def _sort(shards: Path, n_shards: int, plan: _Plan, workers: int) -> None:
    """Write the suffix array and the unigram counts of each shard that has none yet."""
    missing = [
        n
        for n in range(n_shards)
        if not layout.shard_file(shards, "unigram", n, n_shards).is_file()
    ]
    todo = [(shards, n, n_shards, plan.token_type) for n in missing]
    if workers == 1 or len(todo) <= 1:
        for task in track(todo, "sorting suffixes", unit="shards"):
            _finish_shard(*task)
        return
    from joblib import Parallel, delayed

    jobs = (delayed(_finish_shard)(*task) for task in todo)
    done = Parallel(n_jobs=min(workers, len(todo)), return_as="generator_unordered")(jobs)
    for _ in track(done, "sorting suffixes", total=len(todo), unit="shards"):
        pass


def _finish_shard(shards: Path, shard: int, n_shards: int, token_type: str) -> None:
    """Write what is made from a shard's tokens; the unigram counts, last, say that it is whole."""
    tokens = layout.shard_file(shards, "tokenized", shard, n_shards)
    dtype = layout.TOKEN_TYPES[token_type]
    for kind, write in (("table", write_suffix_array), ("unigram", write_unigrams)):
        final = layout.shard_file(shards, kind, shard, n_shards)
        temporary = shards.parent / f"{final.name}.tmp"
        write(tokens, temporary, dtype)
        os.replace(temporary, final)


def _compare(
    samples: Sequence[tuple[int, int, Document]],
    tokenizer: Tokenizer,
    shards: Path,
    plan: _Plan,
) -> None:
    """Read documents back from the files and compare them with what was read from the corpus."""
    from propme.index.mapped import MappedIndex

    index = MappedIndex([shards], plan.token_type, tokenizer)
    for shard, number, document in samples:
        tokens = index.document_tokens(shard, number)
        # Compared as JSON, for a number that is none is not equal to itself.
        metadata = json.loads(_metadata_line(document))["metadata"]
        given = tokenizer.encode(document.text), json.dumps(metadata, sort_keys=True)
        found = tokens, json.dumps(index.metadata(shard, number), sort_keys=True)
        if found != given:
            raise BrokenIndexError(
                f"{shards}: document {document.id!r} ({document.path}, line {document.line}) does"
                " not read back as it was given; build the index again"
            )


def _manifest(
    folder: Path, tokenizer: Tokenizer, plan: _Plan, state: dict[str, Any]
) -> dict[str, Any]:
    files = sorted((folder / layout.SHARDS).iterdir())
    return {
        "format": "infini-gram v4",
        "key": state["key"],
        "token_type": plan.token_type,
        "shards": state["shards"],
        "documents": state["documents"],
        "tokens": state["tokens"],
        "tokenizer": tokenizer.fingerprint,
        "tokenizer_file": sha256_of(folder / layout.TOKENIZER),
        "files": {
            f.name: {"bytes": f.stat().st_size, "sha256": sha256_of(f)}
            for f in track(files, "hashing", unit="files")
        },
        "versions": {name: version(name) for name in ("propme", "tokenizers", "pydivsufsort")},
    }

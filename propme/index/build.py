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
import shutil
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from propme.corpus import Corpus
from propme.errors import BrokenIndexError, InputError
from propme.files import alone, sha256_of, write_whole
from propme.index import layout
from propme.index.mapped import MappedIndex
from propme.index.read_back import ReadBack
from propme.index.suffix_array import write_suffix_array, write_unigrams
from propme.index.token_writer import Plan, TokenWriter
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

_STATE = "state.json"


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
        with, as long as its files, the tokenizer and ``n_shards`` are the same.
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
    plan = Plan(token_type, 0 if n_shards else shard_bytes, n_shards)
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
    plan: Plan,
    key: str,
    workers: int,
) -> None:
    folder = output.parent / f".{output.name}.building"
    if key and _state(folder).get("key") == key:
        plan = _plan_of(folder, plan)
    else:
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


def _key(documents: Iterable[Document], tokenizer: Tokenizer, plan: Plan) -> str:
    """Changes with anything that decides the index; empty where documents cannot be read again.

    The size of shards is left out: it may hang on the memory or the workers of the day, and what
    was begun with another is no worse.
    """
    if not isinstance(documents, Corpus):
        return ""
    source = [documents.identity(), documents.settings]
    parts = [*source, tokenizer.fingerprint, plan.token_type, plan.n_shards]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _plan_of(folder: Path, plan: Plan) -> Plan:
    """The plan that was begun with; if its shards are too large now, all begins anew."""
    shard_bytes = _state(folder)["shard_bytes"]
    if shard_bytes > plan.shard_bytes:
        shutil.rmtree(folder)
        return plan
    return replace(plan, shard_bytes=shard_bytes)


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
    plan: Plan,
    key: str,
    workers: int,
) -> None:
    shards = folder / layout.SHARDS
    shards.mkdir(parents=True, exist_ok=True)
    tokenizer.save(folder / layout.TOKENIZER)
    state = _state(folder) or start_of(plan, key)
    read_back = ReadBack(tokenizer, state["read_back"])
    if "shards" not in state:
        state = _write_tokens(documents, tokenizer, folder, plan, state, read_back)
    _number_shards(shards, state["shards"])
    _sort(shards, state["shards"], plan, workers)
    read_back.compare(MappedIndex([shards], plan.token_type, tokenizer), plan)
    manifest = _manifest(folder, tokenizer, plan, state)
    if isinstance(documents, Corpus):
        manifest |= {"corpus": documents.hashes(), "tally": state["tally"]}
    (folder / layout.MANIFEST).write_text(json.dumps(manifest, indent=1))
    verify_index(folder, hashes=False)


def start_of(plan: Plan, key: str) -> dict[str, Any]:
    """State of a build that has done nothing yet."""
    return {
        "key": key,
        "shard_bytes": plan.shard_bytes,
        "documents": 0,
        "tokens": 0,
        "sizes": {},
        "read_back": [],
    }


def _write_tokens(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    folder: Path,
    plan: Plan,
    state: dict[str, Any],
    read_back: ReadBack,
) -> dict[str, Any]:
    """Write what comes before the suffix arrays, from where ``state`` says it was left."""
    writer = TokenWriter(folder / layout.SHARDS, plan, state)
    noted = 0
    try:
        # A document already written is read again, but not tokenised again.
        rest = islice(documents, state["documents"], None)
        read = track(rest, "tokenising", unit="documents")
        for document, tokens in _encoded(read, tokenizer, plan.token_type):
            read_back.offer(writer.n_documents, document)
            writer.add(tokens, document)
            if state["key"] and writer.n_bytes - noted >= _CHECKPOINT_BYTES:
                noted = writer.n_bytes
                _note(folder, state | writer.checkpoint() | {"read_back": read_back.kept})
    finally:
        writer.close()
    if not writer.n_documents:
        raise InputError("there is no document to index", str(folder))
    tally = vars(documents.tally) if isinstance(documents, Corpus) else {}
    n_shards = layout.count_shards(folder / layout.SHARDS)
    state = state | writer.checkpoint() | {"read_back": read_back.kept}
    state |= {"shards": n_shards, "tally": tally}
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


def _number_shards(shards: Path, n_shards: int) -> None:
    """Zero-pad the shards' numbers now that their count is known; once done, change nothing."""
    for path in list(shards.iterdir()):
        os.replace(path, layout.shard_file(shards, path.stem, int(path.suffix[1:]), n_shards))


def _sort(shards: Path, n_shards: int, plan: Plan, workers: int) -> None:
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


def _manifest(
    folder: Path, tokenizer: Tokenizer, plan: Plan, state: dict[str, Any]
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

"""Build an index from documents: tokens, suffix arrays, verification, and only then a name."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from propme.corpus import sha256_of
from propme.errors import InputError
from propme.index import layout
from propme.index.suffix_array import write_suffix_array
from propme.index.tokenizer import Tokenizer
from propme.index.verify import verify_index
from propme.progress import track
from propme.records import Document

#: Largest token file of a shard. Sorting it takes about ten times as much memory.
SHARD_BYTES = 200_000_000

_BATCH = 1000


def build_index(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    output: Path,
    shard_bytes: int = SHARD_BYTES,
) -> Path:
    """Build an index of ``documents`` in the folder ``output``.

    It is built under a temporary name beside ``output``, verified, and renamed: a build that is
    killed leaves no index, and none that fails its own check is ever seen.

    Parameters
    ----------
    documents : iterable of Document
        Read once, a batch at a time.
    tokenizer : Tokenizer
        Saved with the index.
    output : Path
        A folder that does not exist yet.
    shard_bytes : int
        A new shard is begun when the token file would grow beyond this.

    Raises
    ------
    InputError
        ``output`` exists, or there is no document.
    """
    if output.exists():
        raise InputError("this folder exists; remove it or choose another", str(output))
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=output.parent, prefix=f".{output.name}-building-"))
    try:
        _build(documents, tokenizer, temporary, shard_bytes)
        verify_index(temporary)
        os.chmod(temporary, 0o755)
        os.replace(temporary, output)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return output


def _build(
    documents: Iterable[Document], tokenizer: Tokenizer, folder: Path, shard_bytes: int
) -> None:
    shards = folder / layout.SHARDS
    shards.mkdir()
    token_type = layout.token_type_for(tokenizer.vocabulary_size)
    tokenizer.save(folder / layout.TOKENIZER)
    totals = _write_tokens(documents, tokenizer, shards, token_type, shard_bytes)
    n_shards = _number_shards(shards)
    itemsize = layout.TOKEN_TYPES[token_type].itemsize
    for n in track(range(n_shards), "sorting suffixes", unit="shards"):
        tokens_path = layout.shard_file(shards, "tokenized", n, n_shards)
        table_path = layout.shard_file(shards, "table", n, n_shards)
        write_suffix_array(tokens_path, table_path, itemsize)
    _write_manifest(folder, tokenizer, token_type, n_shards, totals)


def _write_tokens(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    shards: Path,
    token_type: str,
    shard_bytes: int,
) -> dict[str, int]:
    writer = _ShardWriter(shards, token_type, shard_bytes)
    n_tokens = 0
    n_documents = 0
    try:
        for batch in _batches(track(documents, "tokenising", unit="documents"), _BATCH):
            encoded = tokenizer.encode_batch([document.text for document in batch])
            for document, ids in zip(batch, encoded, strict=True):
                writer.add(ids, document)
                n_tokens += len(ids)
                n_documents += 1
    finally:
        writer.close()
    if not n_documents:
        raise InputError("there is no document to index", str(shards.parent))
    return {"documents": n_documents, "tokens": n_tokens}


def _batches(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    iterator = iter(documents)
    while batch := list(islice(iterator, size)):
        yield batch


class _ShardWriter:
    """Appends documents to the files of a shard, and begins the next shard when one is full."""

    def __init__(self, shards: Path, token_type: str, shard_bytes: int) -> None:
        self._folder = shards
        self._dtype = layout.TOKEN_TYPES[token_type]
        self._separator = layout.separator(token_type)
        self._shard_bytes = shard_bytes
        self._shard = -1
        self._files: dict[str, IO[bytes]] = {}

    def add(self, ids: Sequence[int], document: Document) -> None:
        tokens = np.array([self._separator, *ids], dtype=self._dtype).tobytes()
        if not self._files or self._position + len(tokens) > self._shard_bytes:
            self._next_shard()
        self._files["offset"].write(self._position.to_bytes(8, "little"))
        self._files["tokenized"].write(tokens)
        self._position += len(tokens)
        self._counts.update(ids)
        self._n_documents += 1
        line = _metadata_line(document)
        self._files["metaoff"].write(self._metadata_position.to_bytes(8, "little"))
        self._files["metadata"].write(line)
        self._metadata_position += len(line)

    def _next_shard(self) -> None:
        self.close()
        self._shard += 1
        self._position = self._metadata_position = self._n_documents = 0
        self._counts: Counter[int] = Counter()
        self._files = {
            kind: (self._folder / f"{kind}.{self._shard}").open("wb")
            for kind in layout.KINDS
            if kind != "table"
        }

    def close(self) -> None:
        if not self._files:
            return
        lines = [f"{token} {count}\n" for token, count in sorted(self._counts.items())]
        lines.append(f"{self._separator} {self._n_documents}\n")
        self._files["unigram"].write("".join(lines).encode("ascii"))
        for file in self._files.values():
            file.close()
        self._files = {}


def _metadata_line(document: Document) -> bytes:
    line = {
        "path": document.path,
        "linenum": document.line,
        "metadata": {**document.metadata, "id": document.id},
    }
    return json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n"


def _number_shards(shards: Path) -> int:
    """Zero-pad the shards' numbers now that their count is known."""
    n_shards = layout.count_shards(shards)
    for path in list(shards.iterdir()):
        final = layout.shard_file(shards, path.stem, int(path.suffix[1:]), n_shards)
        os.replace(path, final)
    return n_shards


def _write_manifest(
    folder: Path, tokenizer: Tokenizer, token_type: str, n_shards: int, totals: dict[str, int]
) -> None:
    files = sorted((folder / layout.SHARDS).iterdir())
    manifest: dict[str, Any] = {
        "format": "infini-gram v4",
        "token_type": token_type,
        "shards": n_shards,
        **totals,
        "tokenizer": tokenizer.fingerprint,
        "files": {f.name: {"bytes": f.stat().st_size, "sha256": sha256_of(f)} for f in files},
        "versions": {name: version(name) for name in ("propme", "tokenizers", "pydivsufsort")},
    }
    (folder / layout.MANIFEST).write_text(json.dumps(manifest, indent=1))

"""The files of an index that hold its documents: tokens, metadata, and where each begins."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from propme.index import layout
from propme.records import Document


@dataclass(frozen=True)
class Plan:
    """What decides the files of an index, apart from its documents.

    Attributes
    ----------
    token_type : str
    shard_bytes : int
        A new shard is begun when the token file would grow beyond this.
    n_shards : int or None
        This many shards instead, to which the documents go in turn.
    """

    token_type: str
    shard_bytes: int
    n_shards: int | None


class TokenWriter:
    """Appends documents to the files of their shard, from where ``state`` says it was left."""

    def __init__(self, shards: Path, plan: Plan, state: dict[str, Any]) -> None:
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

    def add(self, ids: bytes, document: Document) -> None:
        """Append one document and its tokens."""
        tokens = self._separator + ids
        shard = self._shard_for(len(tokens))
        self._append("offset", shard, self._size("tokenized", shard).to_bytes(8, "little"))
        self._append("tokenized", shard, tokens)
        self._append("metaoff", shard, self._size("metadata", shard).to_bytes(8, "little"))
        self._append("metadata", shard, metadata_line(document))
        self.n_documents += 1
        self.n_tokens += len(ids) // self._dtype.itemsize
        self.n_bytes += len(tokens)

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


def metadata_line(document: Document) -> bytes:
    """The line of JSON that describes a document in the index."""
    line = {
        "path": document.path,
        "linenum": document.line,
        "metadata": {**document.metadata, "id": document.id},
    }
    # Columns of parquet may be dates, decimals and bytes, which JSON has not.
    return json.dumps(line, ensure_ascii=False, default=str).encode("utf-8") + b"\n"

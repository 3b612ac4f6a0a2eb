"""An index searched where it lies: memory-mapped files and compiled binary search."""

from __future__ import annotations

import bisect
import json
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from propme.errors import BrokenIndexError
from propme.index import kernels, layout
from propme.index.protocol import Occurrences, Places, Position, Runs
from propme.index.tokenizer import Tokenizer


class Shard:
    """The memory-mapped files of one shard."""

    def __init__(self, shards: Path, suffix: str, token_type: str) -> None:
        def mapped(kind: str, dtype: str) -> npt.NDArray[Any]:
            path = shards / f"{kind}.{suffix}"
            array = layout.map_file(path, np.dtype(dtype)).view(np.ndarray)
            array.flags.writeable = False
            return array

        self.tokens = mapped("tokenized", layout.TOKEN_TYPES[token_type].str)
        self.table = mapped("table", "<u1")
        self.offsets = mapped("offset", "<u8")
        self._metadata = mapped("metadata", "<u1")
        self._metadata_offsets = mapped("metaoff", "<u8")
        self._unigram_path = shards / f"unigram.{suffix}"
        self.itemsize = self.tokens.itemsize
        self.width = layout.pointer_bytes(self.tokens.size * self.itemsize)
        if self.table.size != self.tokens.size * self.width:
            raise BrokenIndexError(
                f"{shards / f'table.{suffix}'}: {self.table.size} bytes,"
                f" but {self.tokens.size} tokens need {self.tokens.size * self.width};"
                " the file is truncated or of another index; build the index again"
            )

    def document_bounds(self, document: int) -> tuple[int, int]:
        """Token range of a document in the shard, its separator left out."""
        start = int(self.offsets[document]) // self.itemsize + 1
        last = document + 1 == self.offsets.size
        stop = self.tokens.size if last else int(self.offsets[document + 1]) // self.itemsize
        return start, stop

    def places(self, ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Document and number in it of the tokens at some ranks of the suffix array: (n, 2)."""
        pointers = kernels.positions(self.tokens, self.table, self.width, ranks) * self.itemsize
        documents = np.searchsorted(self.offsets, pointers.astype(np.uint64), side="right") - 1
        first = self.offsets[documents].astype(np.int64) + self.itemsize
        return np.stack([documents, (pointers - first) // self.itemsize], axis=1)

    @property
    def metadata_lines(self) -> int:
        """Number of metadata lines, one a document."""
        return int(self._metadata_offsets.size)

    def metadata_line(self, document: int) -> bytes:
        """The JSON line that describes a document."""
        last = document + 1 == self._metadata_offsets.size
        start = int(self._metadata_offsets[document])
        stop = self._metadata.size if last else int(self._metadata_offsets[document + 1])
        return self._metadata[start:stop].tobytes()

    def unigrams(self) -> dict[int, int]:
        """Count of each token that occurs, the separator included."""
        if not self._unigram_path.is_file():  # an index that was made elsewhere may lack it
            values, times = np.unique(self.tokens, return_counts=True)
            return dict(zip(values.tolist(), times.tolist(), strict=True))
        try:
            pairs = (line.split() for line in self._unigram_path.read_text("ascii").splitlines())
            counts = {int(token): int(count) for token, count in pairs}
        except ValueError as error:
            raise BrokenIndexError(f"{self._unigram_path}: damaged ({error})") from error
        if sum(counts.values()) not in (self.tokens.size, self.tokens.size - self.offsets.size):
            raise BrokenIndexError(f"{self._unigram_path}: not the counts of this shard's tokens")
        return counts


class MappedIndex:
    """The index of `propme.index.protocol`, over files of infini-gram's format.

    Parameters
    ----------
    folders : sequence of Path
        Folders of the files. Several are searched as one index, as large ones are that lie on
        several disks.
    token_type : str
        ``u8``, ``u16`` or ``u32``.
    tokenizer : Tokenizer
        The tokenizer whose ids the files hold.
    """

    def __init__(self, folders: Sequence[Path], token_type: str, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._opened_with = (tuple(folders), token_type, tokenizer)
        self._separator = layout.separator(token_type)
        self._shards = []
        for folder in folders:
            suffixes = layout.shard_suffixes(folder)
            if not suffixes:
                raise BrokenIndexError(f"{folder}: no index files (tokenized.0 and its like) here")
            self._shards += [Shard(folder, suffix, token_type) for suffix in suffixes]
        self._first_documents = [0, *accumulate(s.offsets.size for s in self._shards)]

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process maps the files itself."""
        return type(self), self._opened_with

    @property
    def n_odd(self) -> int:
        """0: files give no odd answers."""
        return 0

    @property
    def most_read(self) -> None:
        """Occurrences may all be read."""
        return None

    @property
    def n_documents(self) -> int:
        """Documents in the index; copies count separately."""
        return self._first_documents[-1]

    @property
    def n_tokens(self) -> int:
        """Tokens in the index, separators left out."""
        return sum(shard.tokens.size for shard in self._shards) - self.n_documents

    def _keys(self, ids: npt.ArrayLike) -> kernels.U32:
        return kernels.keys(np.asarray(ids, dtype=np.uint32), self._shards[0].itemsize)

    def _is_searchable(self, ids: Sequence[int]) -> bool:
        return len(ids) > 0 and min(ids) >= 0 and max(ids) < self._separator

    def find(self, ids: Sequence[int]) -> Occurrences:
        """Where a sequence of one token or more occurs."""
        if not self._is_searchable(ids):
            return Occurrences(())
        query = self._keys(ids)
        ranges = (
            (n, *kernels.rank_range(s.tokens, s.table, s.width, query, 0, query.size))
            for n, s in enumerate(self._shards)
        )
        return Occurrences(tuple((n, int(lo), int(hi)) for n, lo, hi in ranges if lo < hi))

    def count(self, ids: Sequence[int]) -> int:
        """How often it occurs."""
        return self.find(ids).count

    def longest_match(self, ids: Sequence[int], start: int) -> int:
        """Length of the longest run ``ids[start : start + n]`` that occurs in one document."""
        tail = _searchable_head(ids[start:], self._separator)
        if not tail:
            return 0
        query = self._keys(tail)
        return max(
            int(kernels.longest_match(s.tokens, s.table, s.width, query, 0)) for s in self._shards
        )

    def maximal_runs(self, ids: Sequence[int]) -> Runs:
        """Runs of ``ids`` that occur and lie in no other run that does; shape (n, 2)."""
        runs: list[Runs] = []
        for start, piece in searchable_pieces(ids, self._separator):
            query = self._keys(piece)
            runs.extend(self._runs_in(shard, query) + start for shard in self._shards)
        return keep_maximal(np.concatenate(runs)) if runs else np.empty((0, 2), np.int64)

    def _runs_in(self, shard: Shard, query: kernels.U32) -> Runs:
        starts, stops = np.empty(query.size, np.int64), np.empty(query.size, np.int64)
        n = kernels.maximal_runs(shard.tokens, shard.table, shard.width, query, starts, stops)
        return np.stack([starts[:n], stops[:n]], axis=1)

    def find_runs(self, ids: Sequence[int], runs: Runs) -> list[Occurrences]:
        """Where ``ids[start:stop]`` occurs, for each row of `maximal_runs`."""
        # An id that no token type holds is in no run, and may be looked up as any other.
        query = self._keys(np.minimum(np.asarray(ids, np.int64), self._separator))
        found: list[list[tuple[int, int, int]]] = [[] for _ in runs]
        for n, shard in enumerate(self._shards):
            ranks = kernels.rank_ranges(shard.tokens, shard.table, shard.width, query, runs)
            for ranges, (lo, hi) in zip(found, ranks.tolist(), strict=True):
                if lo < hi:
                    ranges.append((n, lo, hi))
        return [Occurrences(tuple(ranges)) for ranges in found]

    def locate(self, occurrences: Occurrences, number: int) -> Position:
        """The ``number``-th of the occurrences, in the order of the index."""
        return Position(*self.locate_all(occurrences, [number])[0].tolist())

    def locate_all(self, occurrences: Occurrences, numbers: Sequence[int]) -> Places:
        """Several of them, in the order asked for; shape (n, 3)."""
        wanted = np.asarray(numbers, np.int64)
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < occurrences.count:
            raise IndexError(f"no such occurrence among {occurrences.count}: {numbers}")
        found = np.empty((wanted.size, 3), np.int64)
        before = 0
        for shard, lo, hi in occurrences.ranges:
            here = (wanted >= before) & (wanted < before + hi - lo)
            found[here, 0] = shard
            found[here, 1:] = self._shards[shard].places(wanted[here] - before + lo)
            before += hi - lo
        return found

    def document_length(self, shard: int, document: int) -> int:
        """Tokens of a document."""
        start, stop = self._shards[shard].document_bounds(document)
        return stop - start

    def document_tokens(
        self, shard: int, document: int, start: int = 0, stop: int | None = None
    ) -> list[int]:
        """Tokens ``[start, stop)`` of a document; the range is cut to what there is."""
        first, end = self._shards[shard].document_bounds(document)
        stop = end - first if stop is None else stop
        tokens: list[int] = self.document_slice(shard, document, start, stop).tolist()
        return tokens

    def document_slice(
        self, shard: int, document: int, start: int, stop: int
    ) -> npt.NDArray[np.unsignedinteger[Any]]:
        """`document_tokens` as an array, which takes less time."""
        first, end = self._shards[shard].document_bounds(document)
        return self._shards[shard].tokens[first + max(start, 0) : min(end, first + max(stop, 0))]

    def disown(self, position: Position) -> str:
        """What to do about a document that does not hold what was found there."""
        return "build it again"

    def metadata(self, shard: int, document: int) -> dict[str, Any]:
        """Metadata of a document as its corpus gave it, its id as ``"id"``."""
        line = self._shards[shard].metadata_line(document)
        return metadata_of(line, f"shard {shard}, document {document}")

    def unigram_counts(self) -> npt.NDArray[np.int64]:
        """How often each token occurs, by id; the separator is not counted."""
        return self._unigram_counts

    @cached_property
    def _unigram_counts(self) -> npt.NDArray[np.int64]:
        counts = np.zeros(self.tokenizer.vocabulary_size, np.int64)
        for shard in self._shards:
            for token, count in shard.unigrams().items():
                if token == self._separator:
                    continue
                if token >= counts.size:
                    raise BrokenIndexError(f"token {token} is none of the index's tokenizer")
                counts[token] += count
        return counts

    def token_counts(self, ids: Sequence[int]) -> npt.NDArray[np.int64]:
        """How often each of some tokens occurs."""
        return self.unigram_counts()[np.asarray(ids, np.int64)]

    def occurring_tokens(self) -> npt.NDArray[np.bool_]:
        """Whether each token occurs, by id."""
        return self.unigram_counts() > 0

    def document_at(self, number: int) -> tuple[int, int]:
        """Shard and number there of the ``number``-th document of the whole index."""
        if not 0 <= number < self.n_documents:
            raise IndexError(f"document {number} of {self.n_documents}")
        shard = bisect.bisect_right(self._first_documents, number) - 1
        return shard, number - self._first_documents[shard]


def metadata_of(line: str | bytes, where: str) -> dict[str, Any]:
    """Metadata as its corpus gave it, its id as ``"id"``, out of an index's line of a document."""
    try:
        parts = json.loads(line)
        metadata, name = parts["metadata"], f"{parts['path']}:{parts['linenum']}"
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenIndexError(
            f"{where}: its metadata is damaged ({error}); build the index again"
        ) from error
    return {"id": name} | (metadata if isinstance(metadata, dict) else {"metadata": metadata})


def keep_maximal(runs: Runs) -> Runs:
    """Of runs ``[start, stop)``, those not contained in another, each once, in order."""
    order = np.lexsort((-runs[:, 1], runs[:, 0]))
    ordered = runs[order]
    reach = np.maximum.accumulate(np.concatenate([[-1], ordered[:-1, 1]]))
    return ordered[ordered[:, 1] > reach] if len(ordered) else ordered


def searchable_pieces(ids: Sequence[int], separator: int) -> list[tuple[int, list[int]]]:
    """The longest pieces without an id that no document can hold, with where each starts."""
    pieces: list[tuple[int, list[int]]] = []
    start = 0
    while start < len(ids):
        piece = _searchable_head(ids[start:], separator)
        if piece:
            pieces.append((start, piece))
        start += len(piece) + 1
    return pieces


def _searchable_head(ids: Sequence[int], separator: int) -> list[int]:
    for number, token in enumerate(ids):
        if not 0 <= token < separator:
            return list(ids[:number])
    return list(ids)

"""The slow truth: an index that looks at every token. For tests, and for tiny corpora."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import numpy.typing as npt

from propme.index.protocol import Occurrences, Places, Position, Runs
from propme.index.tokenizer import Tokenizer


class BruteForceIndex:
    """The index of `propme.index.protocol` over lists of tokens: one shard, nothing clever.

    Its suffix array is a sorted list of positions, read from end to end by every search.
    """

    def __init__(
        self,
        documents: Sequence[Sequence[int]],
        tokenizer: Tokenizer,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self._documents = [list(d) for d in documents]
        self._metadata = [dict(m) for m in metadata or [{} for _ in documents]]
        self._suffixes = sorted(
            (
                Position(0, number, offset)
                for number, document in enumerate(self._documents)
                for offset in range(len(document))
            ),
            key=lambda p: self._documents[p.document][p.offset :],
        )

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
        return len(self._documents)

    @property
    def n_tokens(self) -> int:
        """Tokens in the index."""
        return len(self._suffixes)

    def find(self, ids: Sequence[int]) -> Occurrences:
        """Where a sequence of one token or more occurs."""
        wanted = list(ids)
        ranks = [
            rank
            for rank, p in enumerate(self._suffixes)
            if wanted and self._documents[p.document][p.offset :][: len(wanted)] == wanted
        ]
        return Occurrences(((0, ranks[0], ranks[-1] + 1),) if ranks else ())

    def count(self, ids: Sequence[int]) -> int:
        """How often it occurs."""
        return self.find(ids).count

    def longest_match(self, ids: Sequence[int], start: int) -> int:
        """Length of the longest run ``ids[start : start + n]`` that occurs in one document."""
        n = 0
        while start + n < len(ids) and self.count(ids[start : start + n + 1]):
            n += 1
        return n

    def maximal_runs(self, ids: Sequence[int]) -> Runs:
        """Runs of ``ids`` that occur and lie in no other run that does; shape (n, 2)."""
        runs = [(s, s + self.longest_match(ids, s)) for s in range(len(ids))]
        kept = [
            (s, e)
            for s, e in runs
            if e > s and not any(a <= s and e <= b and (a, b) != (s, e) for a, b in runs)
        ]
        return np.array(kept, np.int64).reshape(-1, 2)

    def find_runs(self, ids: Sequence[int], runs: Runs) -> list[Occurrences]:
        """Where ``ids[start:stop]`` occurs, for each row of `maximal_runs`."""
        return [self.find(ids[start:stop]) for start, stop in runs.tolist()]

    def locate(self, occurrences: Occurrences, number: int) -> Position:
        """The ``number``-th of the occurrences, in the order of the suffixes."""
        ((_, low, high),) = occurrences.ranges
        return self._suffixes[range(low, high)[number]]

    def locate_all(self, occurrences: Occurrences, numbers: Sequence[int]) -> Places:
        """Several of them, in the order asked for; shape (n, 3)."""
        located = [astuple(self.locate(occurrences, number)) for number in numbers]
        return np.array(located, np.int64).reshape(-1, 3)

    def document_length(self, shard: int, document: int) -> int:
        """Tokens of a document."""
        return len(self._documents[document])

    def document_tokens(
        self, shard: int, document: int, start: int = 0, stop: int | None = None
    ) -> list[int]:
        """Tokens ``[start, stop)`` of a document; the range is cut to what there is."""
        return self._documents[document][max(start, 0) : None if stop is None else max(stop, 0)]

    def document_slice(
        self, shard: int, document: int, start: int, stop: int
    ) -> npt.NDArray[np.unsignedinteger[Any]]:
        """`document_tokens` as an array."""
        return np.array(self.document_tokens(shard, document, start, stop), np.uint32)

    def disown(self, position: Position) -> str:
        """What to do about a document that does not hold what was found there."""
        return "build it again"

    def metadata(self, shard: int, document: int) -> dict[str, Any]:
        """Metadata of a document."""
        return self._metadata[document]

    def unigram_counts(self) -> npt.NDArray[np.int64]:
        """How often each token occurs, by id."""
        tokens = [t for d in self._documents for t in d]
        return np.bincount(tokens, minlength=self.tokenizer.vocabulary_size).astype(np.int64)

    def token_counts(self, ids: Sequence[int]) -> npt.NDArray[np.int64]:
        """How often each of some tokens occurs."""
        return self.unigram_counts()[np.asarray(ids, np.int64)]

    def occurring_tokens(self) -> npt.NDArray[np.bool_]:
        """Whether each token occurs, by id."""
        return self.unigram_counts() > 0

    def document_at(self, number: int) -> tuple[int, int]:
        """Shard and number there of the ``number``-th document of the whole index."""
        return 0, number

"""What every index answers, whatever searches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from propme.index.tokenizer import Tokenizer

Runs = npt.NDArray[np.int64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Where a query occurs: rank ranges ``(shard, lo, hi)``, one a shard that holds it."""

    ranges: tuple[tuple[int, int, int], ...]

    @property
    def count(self) -> int:
        """How often the query occurs in the corpus."""
        return sum(hi - lo for _, lo, hi in self.ranges)


@dataclass(frozen=True, slots=True)
class Position:
    """A token of a document: its shard, the document's number there, and the token's number."""

    shard: int
    document: int
    offset: int


class Index(Protocol):
    """A tokenised corpus that can be searched exactly.

    Token ids are those of `tokenizer`. A match never crosses the border of a document. An id that
    the index's token type cannot hold occurs nowhere.
    """

    tokenizer: Tokenizer

    @property
    def most_read(self) -> int | None:
        """Occurrences of one passage that are read, where to read one is dear; ``None``: it is not.

        What is found of more occurrences is a lower bound, and said to be one.
        """

    @property
    def n_documents(self) -> int:
        """Documents in the index; copies count separately."""

    @property
    def n_odd(self) -> int:
        """Odd answers that this thread has made use of: a count that rests on one is not exact."""

    @property
    def n_tokens(self) -> int:
        """Tokens in the index, separators left out."""

    def find(self, ids: Sequence[int]) -> Occurrences:
        """Where a sequence of one token or more occurs."""

    def count(self, ids: Sequence[int]) -> int:
        """How often it occurs."""

    def longest_match(self, ids: Sequence[int], start: int) -> int:
        """Length of the longest run ``ids[start : start + n]`` that occurs in one document."""

    def maximal_runs(self, ids: Sequence[int]) -> Runs:
        """Runs of ``ids`` that occur and lie in no other run that does.

        Returns
        -------
        array of int64, shape (n, 2)
            ``[start, stop)`` of each, both columns strictly increasing.
        """

    def find_runs(self, ids: Sequence[int], runs: Runs) -> list[Occurrences]:
        """Where ``ids[start:stop]`` occurs, for each row of `maximal_runs`."""

    def locate(self, occurrences: Occurrences, number: int) -> Position:
        """The ``number``-th of the occurrences, in the order of the index."""

    def locate_all(self, occurrences: Occurrences, numbers: Sequence[int]) -> Places:
        """Several of them, in the order asked for.

        Returns
        -------
        array of int64, shape (n, 3)
            The fields of a `Position` in each row.
        """

    def document_length(self, shard: int, document: int) -> int:
        """Tokens of a document."""

    def document_tokens(
        self, shard: int, document: int, start: int = 0, stop: int | None = None
    ) -> list[int]:
        """Tokens ``[start, stop)`` of a document; the range is cut to what there is."""

    def document_slice(
        self, shard: int, document: int, start: int, stop: int
    ) -> npt.NDArray[np.unsignedinteger[Any]]:
        """`document_tokens` as an array, which takes less time."""

    def disown(self, position: Position) -> str:
        """What to do about a document that does not hold what was found there."""

    def metadata(self, shard: int, document: int) -> dict[str, Any]:
        """Metadata of a document as its corpus gave it, its id as ``"id"``."""

    def token_counts(self, ids: Sequence[int]) -> npt.NDArray[np.int64]:
        """How often each of some tokens occurs."""

    def occurring_tokens(self) -> npt.NDArray[np.bool_]:
        """Whether each token occurs, by id; true where that is dear to know."""

    def document_at(self, number: int) -> tuple[int, int]:
        """Shard and number there of the ``number``-th document of the whole index."""

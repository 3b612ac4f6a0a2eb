"""Where passages stand in the suffix arrays of an index behind a server.

The server tells rank ranges (``find``), and the byte positions of what a range holds in the order
of its ranks (``find_cnf`` of one clause).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from propme.errors import ServerError
from propme.index import layout
from propme.index.protocol import Occurrences
from propme.index.remote.client import Client
from propme.index.remote.documents import UnreadableError
from propme.index.remote.http import RefusedError
from propme.index.remote.memory import Memory
from propme.index.remote.questions import Question, find, pointers


@dataclass(frozen=True)
class Limits:
    """What a server answers at most; those of the public API.

    Attributes
    ----------
    query : int
        Tokens of a question.
    shown : int
        Tokens of a document that are shown.
    pointers : int
        Occurrences whose byte positions are told; of more only a sample is.
    """

    query: int = 500
    shown: int = 10_000
    pointers: int = 50_000


class NotToldError(ServerError):
    """The server does not tell where documents begin."""


class RankRanges:
    """Rank ranges and byte positions of passages, shard by shard.

    Parameters
    ----------
    client : Client
    address : str
        For messages.
    token_type : str
        ``u8``, ``u16`` or ``u32``: decides the separator and the width of a byte position.
    limits : Limits

    Notes
    -----
    A passage longer than a question may be is cut into pieces. It occurs where a piece does and the
    next ones stand right behind it, by their byte positions: exactly.
    """

    def __init__(self, client: Client, address: str, token_type: str, limits: Limits) -> None:
        self._client, self._address, self._limits = client, address, limits
        self.separator = layout.separator(token_type)
        self.width = layout.TOKEN_TYPES[token_type].itemsize
        self._sought: Memory[tuple[int, int, int], tuple[int, ...]] = Memory()

    @cached_property
    def sizes(self) -> list[int]:
        """Tokens of each shard, separators included: what all other answers must fit."""
        return [high for _, high in self._client.ask(find(()))["segment_by_shard"]]

    @cached_property
    def grounds(self) -> tuple[Question, ...]:
        """What answers about documents are measured by."""
        return find(()), find((self.separator,), self.sizes)

    @cached_property
    def document_numbers(self) -> list[range]:
        """Numbers of the documents of each shard: a server counts on through all of them.

        Where it does not tell, any from 0 on; documents then keep its numbers.
        """
        try:
            ranges = self.separators.ranges
        except NotToldError:
            return [range(sum(self.sizes))] * len(self.sizes)
        counts = {shard: high - low for shard, low, high in ranges}
        ends = accumulate(counts.get(shard, 0) for shard in range(len(self.sizes)))
        return [range(end - counts.get(shard, 0), end) for shard, end in enumerate(ends)]

    @cached_property
    def separators(self) -> Occurrences:
        """Ranks of the documents' separators.

        Raises
        ------
        NotToldError
            The server does not take the separator for a token.
        """
        try:
            segments = self.segments((self.separator,))
        except RefusedError as error:
            raise NotToldError(
                f"{self._address}: the server does not tell where documents begin, so none can be"
                " drawn: give documents in a file (parameter prefix_texts), set n_prompt_free to"
                f" 0, and make no requests of the corpus's terms ({error})"
            ) from None
        return _occurrences(segments)

    def find(self, ids: Sequence[int]) -> Occurrences:
        """Where a sequence of one token or more occurs; `sought_at` remembers it."""
        if not self.is_searchable(ids):
            return Occurrences(())
        wanted = tuple(int(token) for token in ids)
        if len(wanted) > self._limits.query:
            found = self._find_long(wanted)
        else:
            found = _occurrences(self.segments(wanted))
        for range_ in found.ranges:
            self._sought[range_] = wanted
        return found

    def sought_at(self, range_: tuple[int, int, int]) -> tuple[int, ...]:
        """What was sought by this thread and found at ``(shard, low, high)``; empty: not known."""
        return self._sought.get(range_, ())

    def is_searchable(self, ids: Sequence[int]) -> bool:
        """Whether a document may hold these ids, of which there must be one."""
        return len(ids) > 0 and min(ids) >= 0 and max(ids) < self.separator

    def ask_for(self, queries: Sequence[Sequence[int]]) -> None:
        """Ask side by side what `find` then takes from the answers one by one."""
        short = [
            query
            for query in queries
            if self.is_searchable(query) and len(query) <= self._limits.query
        ]
        self._client.ask_all([find(query, self.sizes) for query in short])

    def segments(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Rank range in each shard; an empty one lies where the sequence would."""
        answer = self._client.ask(find(ids, self.sizes))
        return [(low, high) for low, high in answer["segment_by_shard"]]

    def _find_long(self, ids: tuple[int, ...]) -> Occurrences:
        size = self._limits.query
        pieces = [(start, ids[start : start + size]) for start in self._starts(len(ids))]
        if not all(self.find(piece).count for _, piece in pieces):
            return Occurrences(())
        segments = self.segments(pieces[0][1])
        whole = [np.ones(high - low, np.bool_) for low, high in segments]
        first = self.pointers(pieces[0][1])
        for start, piece in pieces[1:]:
            for n, places in enumerate(self.pointers(piece)):
                whole[n] &= np.isin(first[n] + start * self.width, places)
        ranges = []
        for shard, ((low, _), at) in enumerate(
            zip(segments, map(np.flatnonzero, whole), strict=True)
        ):
            if at.size:  # one behind the other, for ranks are in the order of what follows
                ranges.append((shard, low + int(at[0]), low + int(at[-1]) + 1))
        return Occurrences(tuple(ranges))

    def questions_about(self, ids: Sequence[int]) -> list[Question]:
        """What was asked to find a passage."""
        pieces = [ids[start : start + self._limits.query] for start in self._starts(len(ids))]
        asked = [find(piece, self.sizes) for piece in pieces]
        none = [0] * len(self.sizes)  # of these questions the fields alone matter
        return asked + [pointers(piece, none, self.sizes, self.width) for piece in pieces]

    def _starts(self, n: int) -> list[int]:
        """Where the pieces of ``n`` tokens begin.

        The last piece reaches back, so that none is short and common.
        """
        size = self._limits.query
        return [*range(0, n - size, size), max(0, n - size)]

    def pointers(self, ids: Sequence[int]) -> list[npt.NDArray[np.int64]]:
        """Byte positions of the occurrences in each shard, in the order of their ranks.

        Raises
        ------
        UnreadableError
            There are more than the server tells.
        """
        counts = [high - low for low, high in self.segments(ids)]
        n = sum(counts)
        told: list[list[int]] = []
        if n <= self._limits.pointers:
            told = self._client.ask(pointers(ids, counts, self.sizes, self.width))["ptrs_by_shard"]
        if sum(map(len, told)) != n:
            raise UnreadableError(
                f"{self._address}: a passage stands {n} times in the corpus, too often for the"
                " server to tell where"
            )
        return [np.array(pointers, np.int64) for pointers in told]


def _occurrences(segments: Sequence[tuple[int, int]]) -> Occurrences:
    ranges = ((shard, low, high) for shard, (low, high) in enumerate(segments) if low < high)
    return Occurrences(tuple(ranges))

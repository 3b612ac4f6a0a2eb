"""Matches of one sequence of tokens behind a server, their ends guessed by their neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from propme.index.remote.documents import MARGIN, Shown, UnreadableError
from propme.index.remote.ranks import Limits, RankRanges
from propme.index.remote.reading import DocumentReader

#: Most shards in which the neighbours of a place are looked at. They are two requests a shard, and
#: to find the end of a match by halving takes some ten.
_MOST_NEIGHBOURS = 2


class SequenceSearch:
    """Look-ups in one sequence of tokens, as `propme.index.remote.two_pointers` wants them."""

    def __init__(
        self,
        ids: Sequence[int],
        ranks: RankRanges,
        documents: DocumentReader,
        limits: Limits,
    ) -> None:
        self._ids, self._ranks, self._documents = ids, ranks, documents
        self._limits = limits

    def occurs(self, start: int, stop: int) -> bool:
        """Whether tokens ``[start, stop)`` occur."""
        return self._ranks.find(self._ids[start:stop]).count > 0

    def guess(self, start: int, stop: int) -> int | None:
        """Where the longest match from ``start`` may end, by the neighbours of its place.

        ``[start, stop)`` is known to occur. The longest match of a sequence is what it shares with
        one of the two suffixes that it would stand between. ``None``: of too many shards.
        """
        if len(self._ranks.sizes) > _MOST_NEIGHBOURS:
            return None
        piece = self._ids[start : min(len(self._ids), start + self._limits.query)]
        segments = self._ranks.segments(piece)
        if any(low < high for low, high in segments):
            return start + len(piece)
        most = min(2 * (len(piece) + MARGIN), self._limits.shown)
        neighbours = [
            (shard, rank, ())
            for shard, (low, _) in enumerate(segments)
            for rank in (low - 1, low)
            if 0 <= rank < self._ranks.sizes[shard]
        ]
        sought = self._ids[start:stop]
        shown = self._documents.show_all(neighbours, most)
        return start + max((self._shared(each, piece, sought) for each in shown), default=0)

    def _shared(self, shown: Shown, piece: Sequence[int], sought: Sequence[int]) -> int:
        """Tokens that a suffix has in common with a sequence; 0 if it lacks what was sought."""
        try:
            ids, at = shown.around(sought)
        except UnreadableError:
            return 0
        pairs = enumerate(zip(ids[at:], piece, strict=False))
        return next(
            (n for n, (own, other) in pairs if own != other), min(len(ids) - at, len(piece))
        )

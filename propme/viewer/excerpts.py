"""What of a text the page shows: personal data masked, long ones cut, and how much was cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from propme import personal_data
from propme.personal_data import Masked
from propme.viewer.comparing import Passage, Side

#: Kinds of pieces in a comparison, as the page knows them.
PLAIN, AGREES, DIFFERS, CUT = range(4)


@dataclass(frozen=True, slots=True)
class Excerpts:
    """How texts are shown.

    Attributes
    ----------
    masked : bool
        Whether personal data is masked.
    context : int
        Characters on each side of a match, and of a text beside a near-verbatim passage.
    match : int
        Characters of a match; of a longer one, half of them at each end.
    """

    masked: bool
    context: int
    match: int

    def whole(self, text: str) -> Masked:
        """A text, with where its characters stand in what is shown."""
        return personal_data.masked(text) if self.masked else Masked(text)

    def around(self, text: Masked, start: int, stop: int) -> dict[str, Any]:
        """The match ``[start, stop)`` of a text with its context, each in a string of its own.

        Parameters
        ----------
        text : Masked
            All of the text (`whole`), so that no cut lets a part of personal data through.
        start, stop : int
            Characters of the text as it was.

        Returns
        -------
        dict
            ``before``, ``match`` and ``after``; of a long match ``match`` is how it begins,
            ``end`` how it ends, and ``cut`` the number of characters between. ``left`` and
            ``right`` are the characters of the text before and after what is shown.
        """
        first, last = start - self.context, stop + self.context
        least = self.context // 4  # of less than that, to say that it is cut takes as much room
        first = first if first > least else 0
        n = len(text.original)
        last = last if last < n - least else n
        ends = {"left": first, "right": n - last}
        if stop - start <= self.match:
            return ends | dict(
                zip(
                    ("before", "match", "after"),
                    _parts(text, first, start, stop, last),
                    strict=True,
                )
            )
        half = self.match // 2
        before, match, _ = _parts(text, first, start, start + half, start + half)
        _, end, after = _parts(text, stop - half, stop - half, stop, last)
        cut = stop - start - 2 * half
        return ends | {"before": before, "match": match, "cut": cut, "end": end, "after": after}

    def side_by_side(
        self, generation: Masked, window: Masked, passages: Sequence[Passage]
    ) -> list[list[Any]]:
        """Two texts in rows that belong together: what is between passages, a passage, and so on.

        Returns
        -------
        list of [number of the passage or 0, words, pieces of the generation, of the document]
            A piece is [kind, text], or [`CUT`, number of characters left out].
        """
        ours = self._column(generation, [passage.generation for passage in passages])
        theirs = self._column(window, [passage.document for passage in passages])
        return [
            [(row + 1) // 2 * (row % 2), passages[row // 2].words if row % 2 else 0, left, right]
            for row, (left, right) in enumerate(zip(ours, theirs, strict=True))
            if left or right
        ]

    def _column(self, shown: Masked, sides: Sequence[Side]) -> list[list[Any]]:
        """Of one text what is before the first passage, that passage, what is between, ..."""
        column, at = [], 0
        for side in sides:
            start, stop = max(at, shown.start(side.start)), shown.stop(side.stop)
            column.append(self._gap(shown.text[at:start], bool(at), True))
            agreeing = ((shown.start(a), shown.stop(b)) for a, b in side.agreeing)
            column.append(_runs(shown.text, start, stop, agreeing))
            at = max(start, stop)
        column.append(self._gap(shown.text[at:], bool(at), False))
        return column

    def _gap(self, text: str, after: bool, before: bool) -> list[Any]:
        """A text beside passages: as much of it as is near one."""
        head = self.context if after else 0
        tail = self.context if before else 0
        cut = len(text) - head - tail
        if cut <= 0:
            return [[PLAIN, text]] if text else []
        pieces: list[Any] = [[PLAIN, text[:head]], [CUT, cut], [PLAIN, text[len(text) - tail :]]]
        return [piece for piece in pieces if piece[1]]


def _parts(text: Masked, first: int, start: int, stop: int, last: int) -> tuple[str, str, str]:
    """What is shown before, of and after ``[start, stop)``, from ``first`` to ``last``."""
    a, b = text.start(start), text.stop(stop)
    return (
        text.text[text.start(first) : a],
        text.text[a:b],
        text.text[b : text.stop(last)],
    )


def _runs(text: str, start: int, stop: int, agreeing: Iterable[tuple[int, int]]) -> list[Any]:
    """A passage in pieces that agree and pieces that differ."""
    pieces = []
    at = start
    for first, last in agreeing:
        if first > at:
            pieces.append([DIFFERS, text[at:first]])
        if last > max(first, at):
            pieces.append([AGREES, text[max(first, at) : last]])
        at = max(at, last)
    if stop > at:
        pieces.append([DIFFERS, text[at:stop]])
    return pieces

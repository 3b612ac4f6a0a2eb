"""Where in two texts the near-verbatim passages stand: `propme.near_verbatim` in characters.

The passages are those of `propme.near_verbatim.alignment`. Here its word numbers only become
characters of the texts as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from propme.near_verbatim import alignment, matching_blocks, normalize_words

_CHUNK = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Side:
    """A passage in one text: characters ``[start, stop)``, and those of them that agree."""

    start: int
    stop: int
    agreeing: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Passage:
    """What a generation has nearly word for word of a document; ``words`` counts as in recall."""

    generation: Side
    document: Side
    words: int


def passages(generation: str, window: str) -> tuple[Passage, ...]:
    """Near-verbatim passages of a generation in a document window, in characters of both.

    Parameters
    ----------
    generation, window : str
        The texts as they are, not normalised.

    Returns
    -------
    tuple of Passage
        In text order. The sum of ``words`` over the words of the generation is
        `propme.near_verbatim.recall`.

    Raises
    ------
    AlignmentCostError
        As `propme.near_verbatim.alignment`.

    Notes
    -----
    *How it misleads.* What agrees is normalised: quotes, dashes and capitals may differ in what is
    marked. ``words`` leaves out short runs that the first pass of merging had dropped, which
    are marked all the same.
    """
    ours, theirs = located_words(generation), located_words(window)
    words = [word for word, _, _ in ours], [word for word, _, _ in theirs]
    blocks = matching_blocks(*words)
    found = []
    for passage in alignment(*words):
        inside = [
            block
            for block in blocks
            if passage.reference_start <= block.reference_start
            and block.reference_stop <= passage.reference_stop
        ]
        found.append(
            Passage(
                _side(ours, [(b.reference_start, b.reference_stop) for b in (passage, *inside)]),
                _side(theirs, [(b.candidate_start, b.candidate_stop) for b in (passage, *inside)]),
                passage.words,
            )
        )
    return tuple(found)


def _side(words: list[tuple[str, int, int]], runs: list[tuple[int, int]]) -> Side:
    """The first run of words as the passage, the others as what agrees in it."""
    (start, stop), *agreeing = [(words[first][1], words[last - 1][2]) for first, last in runs]
    return Side(start, stop, tuple(agreeing))


def located_words(text: str) -> list[tuple[str, int, int]]:
    """`propme.near_verbatim.normalize_words` with the characters ``[start, stop)`` of each word.

    Words that are one run of signs in the text (``...and``) have the place of that run together.
    """
    return [
        (word, start, stop)
        for start, stop in _independent(text)
        for word in normalize_words(text[start:stop])
    ]


def _independent(text: str) -> Iterator[tuple[int, int]]:
    """Pieces of a text that are normalised alike alone and in it.

    Of all steps only that of spaced dots looks beyond white space: ``a . . . b`` is one piece.
    """
    start = stop = 0
    dotted = False
    for match in _CHUNK.finditer(text):
        chunk = match[0] if match[0].isascii() else unicodedata.normalize("NFKC", match[0])
        if not (dotted and chunk.startswith(".")):
            if stop:
                yield start, stop
            start = match.start()
        stop, dotted = match.end(), chunk.endswith(".")
    if stop:
        yield start, stop

"""Find a text in the corpus however its first and last word are tokenised there.

A word is split into other tokens after a newline or a quote than after a space, and when letters
follow it. Only the two words at the edges of a text depend on what stands outside it. So the tokens
between them, the anchor, are looked up exactly, and the edges are compared as characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from propme.index.protocol import Index, Position

#: Occurrences of the anchor that are looked at; beyond it the answer is a lower bound.
MOST_CANDIDATES = 10_000

#: What may stand before a text too short for an anchor.
_LEFT_CONTEXTS = ("", " ", "\n", '"', "(", "“")

#: Where a word ends, and white space that is one byte begins.
_WORD_END = re.compile(r"(?<=\S)[ \t\n\r\f\v]")


@dataclass(frozen=True, slots=True)
class TextOccurrences:
    """Where a text stands: the position of its first looked-up token, and what was not seen.

    ``exact`` is false when there may be more occurrences than ``positions``.
    """

    positions: tuple[Position, ...]
    exact: bool

    @property
    def documents(self) -> frozenset[tuple[int, int]]:
        """The distinct documents, as (shard, number)."""
        return frozenset((p.shard, p.document) for p in self.positions)


def find_text(index: Index, text: str, most: int = MOST_CANDIDATES) -> TextOccurrences:
    """Occurrences of a text as characters.

    Parameters
    ----------
    index : Index
    text : str
        White space at its ends is left out. Empty text occurs nowhere.
    most : int
        Most occurrences of the anchor that are compared.

    Notes
    -----
    Exact for three words or more if no token holds the end of one together with the white space
    that follows it. Hardly any does that ends in a space; some tokenizers join a newline to the
    sign before it, and words with such a newline between them count as one. A shorter text is
    looked up as it would be tokenised after nothing, a space, a newline, a quote or a bracket: a
    lower bound.
    """
    stripped = text.strip()
    if not stripped:
        return TextOccurrences((), exact=True)
    anchored = _anchor(index, stripped)
    if anchored is None:
        return _find_short(index, stripped, most)
    return _find_anchored(index, stripped, *anchored, most)


def _anchor(index: Index, text: str) -> tuple[list[int], int] | None:
    """Tokens that do not depend on what stands around the text, and the character they start at."""
    joins = index.tokenizer.joins
    ends = [m.start() for m in _WORD_END.finditer(text)]
    borders = [at for at in ends if not joins(text[at - 1], text[at])]
    if len(borders) < 2:
        return None
    start, stop = borders[0], borders[-1]
    ids, offsets = index.tokenizer.encode_with_offsets(text)
    inside = [(t, o) for t, o in zip(ids, offsets, strict=True) if start <= o[0] and o[1] <= stop]
    if not inside or inside[0][1][0] != start or inside[-1][1][1] != stop:
        return None
    return [token for token, _ in inside], start


def _find_anchored(
    index: Index, text: str, anchor: list[int], char_start: int, most: int
) -> TextOccurrences:
    # A token holds at least one byte, so this many on each side hold the rest of the text. Three
    # more on the left, or a character cut there would read as U+FFFD, as may the text's first one.
    before, total = len(text[:char_start].encode()) + 3, len(text.encode())
    occurrences = index.find(anchor)
    found = []
    for number in range(min(occurrences.count, most)):
        position = index.locate(occurrences, number)
        left = max(0, position.offset - before)
        ids = index.document_tokens(
            position.shard, position.document, left, position.offset + total
        )
        head = index.tokenizer.decode(ids[: position.offset - left])
        at = len(head) - char_start
        if at >= 0 and index.tokenizer.decode(ids).startswith(text, at):
            found.append(position)
    return TextOccurrences(tuple(found), exact=occurrences.count <= most)


def _find_short(index: Index, text: str, most: int) -> TextOccurrences:
    queries = set()
    for context in _LEFT_CONTEXTS:
        ids, offsets = index.tokenizer.encode_with_offsets(context + text)
        queries.add(tuple(t for t, o in zip(ids, offsets, strict=True) if o[1] > len(context)))
    # Two queries may find the same occurrence, one with and one without a token for the space
    # before it: what they share is the end.
    found: dict[tuple[int, int, int], Position] = {}
    for query in sorted(queries):
        occurrences = index.find(query)
        for number in range(min(occurrences.count, most - len(found))):
            position = index.locate(occurrences, number)
            end = position.offset + len(query)
            found.setdefault((position.shard, position.document, end), position)
    return TextOccurrences(tuple(found.values()), exact=False)

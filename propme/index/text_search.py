"""Find a text in the corpus however its first and last word are tokenised there.

A word is split into other tokens after a newline or a quote than after a space, and when letters
follow it. Only the two words at the edges of a text depend on what stands outside it. So the tokens
between them, the anchor, are looked up exactly, and the edges are compared as characters.

A text too short for an anchor is looked up in every way that tokens can spell it: inside one token,
or from the end of one through whole ones into the beginning of another. Most of these ways do not
occur, and the index says so after two tokens.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, chain, islice, pairwise

import numpy as np
import numpy.typing as npt

from propme.index.protocol import Index, Occurrences, Position
from propme.index.tokenizer import Tokenizer

#: Occurrences of the anchor that are looked at; beyond it the answer is a lower bound.
MOST_CANDIDATES = 10_000

#: Sequences of tokens that are looked up for a text without an anchor; beyond it the answer is a
#: lower bound. To read on behind an occurrence of one takes as long as some of them.
MOST_LOOKUPS = 100_000
_LOOKUPS_PER_READ = 4
_LOOKUPS_AT_A_TIME = 1024

#: The same where each is dear: for each occurrence that is read (`Index.most_read`), and at a time.
_DEAR_LOOKUPS_PER_READ = 10
_DEAR_LOOKUPS_AT_A_TIME = 16

#: What may stand before a text too short for an anchor, where tokens do not spell it.
_LEFT_CONTEXTS = ("", " ", "\n", '"', "(", "“")

#: Where a word ends, and white space that is one byte begins.
_WORD_END = re.compile(r"(?<=\S)[ \t\n\r\f\v]")


@dataclass(frozen=True, slots=True)
class TextOccurrences:
    """Where a text stands, each occurrence once, and whether these are all.

    A position is that of a token of the text: the first of its anchor, or where it has none, or too
    common a one, that which holds its first byte, which two occurrences may share. ``exact`` is
    false when there may be more occurrences than ``positions``.
    """

    positions: tuple[Position, ...]
    exact: bool

    @property
    def documents(self) -> frozenset[tuple[int, int]]:
        """The distinct documents, as (shard, number)."""
        return frozenset((p.shard, p.document) for p in self.positions)


def find_text(
    index: Index,
    text: str,
    most: int | None = None,
    encoding: tuple[Sequence[int], Sequence[tuple[int, int]]] | None = None,
) -> TextOccurrences:
    """Occurrences of a text as characters.

    Parameters
    ----------
    index : Index
    text : str
        White space at its ends is left out. Empty text occurs nowhere.
    most : int, optional
        Most occurrences that are looked at, of the anchor or of the text; default:
        `MOST_CANDIDATES`, or as many as the index reads.
    encoding : (ids, offsets), optional
        What ``index.tokenizer.encode_with_offsets`` makes of a text that has no white space at its
        ends, where that is known already.

    Notes
    -----
    Exact up to ``most`` and `MOST_LOOKUPS` if every token adds the same bytes to any text, as in
    byte-level and sentence-piece tokenizers (`Tokenizer.token_bytes`). The characters are those
    that the index holds: its tokens, decoded.

    With any other tokenizer exact for three words or more, if the white space between them begins a
    token. What is shorter, or else, is looked up as it would be tokenised after nothing, a space, a
    newline, a quote or a bracket: a lower bound.
    """
    stripped = text.strip()
    if not stripped:
        return TextOccurrences((), exact=True)
    most = most or index.most_read or MOST_CANDIDATES
    n_odd = index.n_odd
    found = _find(index, stripped, most, encoding)
    return replace(found, exact=found.exact and index.n_odd == n_odd)


def _find(
    index: Index,
    stripped: str,
    most: int,
    encoding: tuple[Sequence[int], Sequence[tuple[int, int]]] | None,
) -> TextOccurrences:
    anchored = _anchor(index, stripped, encoding)
    if anchored is None:
        return _find_short(index, stripped, most)
    anchor, char_start = anchored
    occurrences = index.find(anchor)
    if occurrences.count > most:
        # The ends may be rarer than a common anchor: a number on each side of a sign. Where they
        # are not, the search along the text still finds some of what stands there so often.
        found = _find_short(index, stripped, most)
        if found.exact or found.positions:
            return found
    return _find_anchored(index, stripped, occurrences, char_start, most)


def _anchor(
    index: Index, text: str, encoding: tuple[Sequence[int], Sequence[tuple[int, int]]] | None
) -> tuple[list[int], int] | None:
    """Tokens that do not depend on what stands around the text, and the character they start at."""
    joins = index.tokenizer.joins
    ends = [m.start() for m in _WORD_END.finditer(text)]
    borders = [at for at in ends if not joins(text[at - 1], text[at])]
    if len(borders) < 2:
        return None
    start, stop = borders[0], borders[-1]
    ids, offsets = encoding or index.tokenizer.encode_with_offsets(text)
    inside = [(t, o) for t, o in zip(ids, offsets, strict=True) if start <= o[0] and o[1] <= stop]
    if not inside or inside[0][1][0] != start or inside[-1][1][1] != stop:
        return None
    return [token for token, _ in inside], start


def _find_anchored(
    index: Index, text: str, occurrences: Occurrences, char_start: int, most: int
) -> TextOccurrences:
    # A token holds at least one byte, so this many on each side hold the rest of the text. Three
    # more on the left, or a character cut there would read as U+FFFD, as may the text's first one.
    before, total = len(text[:char_start].encode()) + 3, len(text.encode())
    found = []
    places = index.locate_all(occurrences, range(min(occurrences.count, most)))
    for position in (Position(*place) for place in places.tolist()):
        left = max(0, position.offset - before)
        ids = index.document_slice(position.shard, position.document, left, position.offset + total)
        head = index.tokenizer.decode_inside(ids[: position.offset - left])
        at = len(head) - char_start
        if at >= 0 and index.tokenizer.decode_inside(ids).startswith(text, at):
            found.append(position)
    return TextOccurrences(tuple(found), exact=occurrences.count <= most)


def _find_short(index: Index, text: str, most: int) -> TextOccurrences:
    spellings = _spellings(index.tokenizer)
    if spellings is None:
        return _find_tokenised(index, text, most)
    search = _SpellingSearch(index, spellings, text.encode(), most)
    found = tuple(islice(search.positions(), most + 1))
    return TextOccurrences(found[:most], exact=search.exact and len(found) <= most)


def _find_tokenised(index: Index, text: str, most: int) -> TextOccurrences:
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


@lru_cache(maxsize=8)  # of a vocabulary of 150 000 some 50 MB
def _spellings(tokenizer: Tokenizer) -> _Spellings | None:
    spelt = tokenizer.token_bytes
    return None if spelt is None else _Spellings(spelt)


class _Spellings:
    """The bytes of every token, and the tokens that begin or end with some bytes."""

    def __init__(self, spelt: Sequence[bytes]) -> None:
        self.spelt = spelt
        self.longest = max(map(len, spelt), default=0)
        self._forwards = _Sorted(spelt)
        self._backwards = _Sorted([token[::-1] for token in spelt])

    def ending(self, suffix: bytes) -> npt.NDArray[np.int64]:
        """Tokens that end with some bytes."""
        return self._backwards.starting(suffix[::-1])

    def along(self, text: bytes) -> Iterator[tuple[npt.NDArray[np.int64], int]]:
        """Tokens that spell the beginning of a text, or all of it and more, and how much of it."""
        for size in range(1, len(text)):
            if not len(self._forwards.starting(text[:size])):
                return
            yield self._forwards.equal(text[:size]), size
        yield self._forwards.starting(text), len(text)


class _Sorted:
    """Byte strings in order, with their numbers."""

    def __init__(self, strings: Sequence[bytes]) -> None:
        order = sorted(range(len(strings)), key=strings.__getitem__)
        self._numbers = np.array(order, np.int64)
        self._strings = [strings[number] for number in order]

    def equal(self, wanted: bytes) -> npt.NDArray[np.int64]:
        low, high = bisect_left(self._strings, wanted), bisect_right(self._strings, wanted)
        return self._numbers[low:high]

    def starting(self, prefix: bytes) -> npt.NDArray[np.int64]:
        low = bisect_left(self._strings, prefix)
        high = bisect_right(self._strings, prefix, low, key=lambda string: string[: len(prefix)])
        return self._numbers[low:high]


#: Tokens of a document one behind the other, and how many bytes of the text they spell: the first
#: may begin before the text, and the last end after it.
_Spelling = tuple[tuple[int, ...], int]


class _SpellingSearch:
    """The occurrences of some bytes, by the first token that holds one of them.

    ``exact`` turns false when the search is given up.
    """

    def __init__(self, index: Index, spellings: _Spellings, wanted: bytes, most: int) -> None:
        self._index, self._spellings, self._wanted, self._most = index, spellings, wanted, most
        self._occurs = index.occurring_tokens()
        self._steps_from = cache(self._find_steps)
        self._lookups = 0

    @property
    def exact(self) -> bool:
        dear = self._index.most_read
        return self._lookups <= (_DEAR_LOOKUPS_PER_READ * dear if dear else MOST_LOOKUPS)

    def positions(self) -> Iterator[Position]:
        """Each occurrence once, up to one more than the most that are wanted."""
        # Depth first, so that only as many sequences are looked up as are needed.
        at_a_time = _DEAR_LOOKUPS_AT_A_TIME if self._index.most_read else _LOOKUPS_AT_A_TIME
        stack: list[Iterator[_Spelling]] = [chain(self._inside_a_token(), self._across_tokens())]
        while stack and self.exact:
            batch = list(islice(stack[-1], at_a_time))
            if not batch:
                stack.pop()
                continue
            followed = []
            for spelling, occurrences in zip(batch, self._look_up(batch), strict=True):
                if not occurrences.ranges:
                    continue
                if spelling[1] == len(self._wanted):
                    number = min(occurrences.count, self._most + 1)
                    yield from self._locate(occurrences, number)
                elif self._are_few(occurrences, spelling):
                    yield from self._read(spelling, occurrences)
                else:
                    followed.append(spelling)
            stack.append(self._one_more_token(followed))

    def _inside_a_token(self) -> Iterator[_Spelling]:
        """Tokens that hold all of it, each as often as it does."""
        for token in np.flatnonzero(self._occurs).tolist():
            spelt = self._spellings.spelt[token]
            at = spelt.find(self._wanted)
            while at >= 0:
                yield (token,), len(self._wanted)
                at = spelt.find(self._wanted, at + 1)

    def _across_tokens(self) -> Iterator[_Spelling]:
        """Tokens that end with its beginning, those that spell most of it first."""
        for size in range(min(len(self._wanted) - 1, self._spellings.longest), 0, -1):
            tokens = self._occurring(self._spellings.ending(self._wanted[:size]))
            if tokens and self._steps_from(size):
                yield from (((token,), size) for token in tokens)

    def _one_more_token(self, spellings: Sequence[_Spelling]) -> Iterator[_Spelling]:
        for ids, size in spellings:
            yield from (((*ids, token), reached) for token, reached in self._steps_from(size))

    def _find_steps(self, size: int) -> list[tuple[int, int]]:
        """Tokens that can follow where so much is spelt, and how much they bring it to."""
        return [
            (token, size + more)
            for tokens, more in self._spellings.along(self._wanted[size:])
            for token in self._occurring(tokens)
        ]

    def _occurring(self, tokens: npt.NDArray[np.int64]) -> list[int]:
        occurring: list[int] = tokens[self._occurs[tokens]].tolist()
        return occurring

    def _look_up(self, spellings: Sequence[_Spelling]) -> list[Occurrences]:
        self._lookups += len(spellings)
        borders = accumulate((len(ids) for ids, _ in spellings), initial=0)
        tokens = [token for ids, _ in spellings for token in ids]
        return self._index.find_runs(tokens, np.array(list(pairwise(borders)), np.int64))

    def _locate(self, occurrences: Occurrences, number: int) -> list[Position]:
        places = self._index.locate_all(occurrences, range(number))
        return [Position(*place) for place in places.tolist()]

    def _are_few(self, occurrences: Occurrences, spelling: _Spelling) -> bool:
        """Whether to read them all is faster than to look up what may follow."""
        ids, size = spelling
        # Behind many tokens the text may be long, and take as many lookups again.
        return occurrences.count <= max(len(ids), len(self._steps_from(size)) // _LOOKUPS_PER_READ)

    def _read(self, spelling: _Spelling, occurrences: Occurrences) -> Iterator[Position]:
        """Those behind which the document goes on as the text does."""
        ids, size = spelling
        rest = self._wanted[size:]
        self._lookups += occurrences.count * _LOOKUPS_PER_READ
        if not self.exact:
            return
        for position in self._locate(occurrences, occurrences.count):
            start = position.offset + len(ids)
            tokens = self._index.document_tokens(
                position.shard, position.document, start, start + len(rest)
            )
            if b"".join(self._spellings.spelt[token] for token in tokens).startswith(rest):
                yield position

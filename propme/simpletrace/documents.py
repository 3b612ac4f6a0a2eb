"""Step 3: the documents that hold a span, the text around it, and how much they hold in all."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from propme.index.protocol import Index, Occurrences, Places, Position
from propme.index.text_search import TextOccurrences
from propme.index.tokenizer import Tokenizer

#: Occurrences up to which the distinct documents of a span are counted exactly.
COUNTED_OCCURRENCES = 1000

#: Windows are this many times as long as the generation, in tokens.
WINDOW_FACTOR = 5


@dataclass(frozen=True, slots=True)
class Window:
    """Text of a document around a match, and where the match stands in it."""

    position: Position
    text: str
    char_start: int
    char_stop: int


@dataclass(frozen=True)
class Hits:
    """Where a passage stands: how often, and the position of each number below that.

    ``at`` gives positions as rows of shard, document, and token in it. ``exact`` is false where it
    may stand in more places than were looked at.
    """

    count: int
    at: Callable[[Sequence[int]], Places]
    exact: bool = True

    @classmethod
    def of(cls, index: Index, occurrences: Occurrences) -> Hits:
        """Those of a search by tokens; they are located when they are asked for."""
        return cls(occurrences.count, lambda numbers: index.locate_all(occurrences, numbers))

    @classmethod
    def of_text(cls, found: TextOccurrences) -> Hits:
        """Those of a search by characters."""
        places = np.array([(p.shard, p.document, p.offset) for p in found.positions], np.int64)
        return cls(len(places), lambda numbers: places[list(numbers)], found.exact)


def count_documents(hits: Hits, most: int | None = None) -> tuple[int, bool]:
    """Distinct documents that hold a passage, and whether that is exact or a lower bound.

    At most ``most`` occurrences are looked at; default: `COUNTED_OCCURRENCES`.
    """
    looked_at = min(hits.count, most or COUNTED_OCCURRENCES)
    if looked_at == 1:
        return 1, hits.exact and hits.count == 1
    shards, numbers, _ = hits.at(range(looked_at)).T
    return len(np.unique(shards << 48 | numbers)), hits.exact and looked_at == hits.count


def sample_documents(
    hits: Hits, n: int, seed: int, name: str, most: int | None = None
) -> list[Position]:
    """One position in each of up to ``n`` distinct documents that hold a passage.

    Where there are more, a sample that ``seed`` and ``name`` decide: occurrences are drawn
    uniformly without replacement, and one in a document already drawn is passed over, so that the
    draw is refilled. A document that holds the passage more often is thus more likely.

    Parameters
    ----------
    name : str
        Name of the generation and span: never the worker or the order of work.
    most : int, optional
        Occurrences that are drawn at most, and ``n`` in any case: of a passage that a few documents
        repeat often, fewer documents are then found. Default: 10 000.
    """
    chosen: dict[tuple[int, int], Position] = {}
    left = max(n, most or _MOST_DRAWS)
    for numbers in _draws(hits.count, seed, name):
        while numbers and left and len(chosen) < n:
            # No more than may be wanted, for each may be a request.
            wanted = min(left, n - len(chosen))
            some, numbers = numbers[:wanted], numbers[wanted:]
            left -= len(some)
            for shard, document, offset in hits.at(some).tolist():
                chosen.setdefault((shard, document), Position(shard, document, offset))
        if len(chosen) == n or not left:
            break
    return [chosen[key] for key in sorted(chosen)]


#: Occurrences drawn at a time, and at most: a passage that a few documents repeat very often ends
#: the search there.
_DRAWN_AT_A_TIME = 64
_MOST_DRAWS = 10_000


def _draws(count: int, seed: int, name: str) -> Iterator[list[int]]:
    """Numbers below ``count``, each at most once, in an order drawn by chance."""
    if count == 1:
        yield [0]
        return
    digest = hashlib.sha256(f"{seed}\0{name}".encode()).digest()
    chance = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))
    if count <= _MOST_DRAWS:
        order = chance.permutation(count).tolist()
        yield from (order[n : n + _DRAWN_AT_A_TIME] for n in range(0, count, _DRAWN_AT_A_TIME))
        return
    drawn: dict[int, None] = {}
    while len(drawn) < _MOST_DRAWS:
        numbers = chance.integers(0, count, _DRAWN_AT_A_TIME).tolist()
        new = [number for number in dict.fromkeys(numbers) if number not in drawn]
        drawn.update(dict.fromkeys(new))
        yield new


def window_around(
    index: Index, position: Position, length: int, n_tokens: int, factor: int = WINDOW_FACTOR
) -> Window:
    """The ``factor L`` tokens around a match of ``length`` tokens, ``L`` being ``n_tokens``.

    The match stands in the middle, unless the document begins or ends before that.
    """
    size = max(factor * n_tokens, length)
    whole = index.document_length(position.shard, position.document)
    start = max(0, min(position.offset - (size - length) // 2, whole - size))
    ids = index.document_slice(position.shard, position.document, start, start + size)
    at = position.offset - start
    if index.tokenizer.token_bytes is None:
        return _window_of_text(index.tokenizer, ids.tolist(), position, at, length)
    before, inside, after = map(
        index.tokenizer.bytes_of, (ids[:at], ids[at : at + length], ids[at + length :])
    )
    raw = before + inside + after
    text = raw.decode("utf-8", "replace")
    if len(text) == len(raw):
        return Window(position, text, len(before), len(before) + len(inside))
    # A character of which the match holds only the last bytes, or the first, is left out.
    char_start = len(before.decode("utf-8", "replace"))
    head = (before + inside).decode("utf-8", "replace")
    cut = head.endswith("\ufffd") and after[:1] and 0x80 <= after[0] < 0xC0
    return Window(position, text, char_start, max(char_start, len(head) - bool(cut)))


def _window_of_text(
    tokenizer: Tokenizer, ids: list[int], position: Position, at: int, length: int
) -> Window:
    """The same where tokens do not spell a text one by one."""
    text = tokenizer.decode(ids)
    char_stop = _shared(text, tokenizer.decode(ids[: at + length]))
    # From behind, so that a character of which the match holds only the last bytes is left out.
    after_start = _shared(text[::-1], tokenizer.decode(ids[at:])[::-1])
    return Window(position, text, min(len(text) - after_start, char_stop), char_stop)


def _shared(one: str, other: str) -> int:
    """Number of characters with which both texts begin."""
    if one.startswith(other):  # as nearly always, and much faster than the search below
        return len(other)
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


# What is written as it shall be is not matched: most text is, and that saves most of the time.
_WIDE_SPACE = re.compile(r"[ \t]{2,}|\t")
_SPACE_AT_NEWLINE = re.compile(r" \n ?|\n ")
_NEWLINES = re.compile(r"\n{3,}")


def normalize(text: str) -> str:
    """The form in which ``full_normalized`` compares: white space and compatibility characters.

    NFKC; CR and CRLF to LF; runs of spaces and tabs to one space; no spaces around newlines; three
    or more newlines to two; ends stripped. Case and punctuation stay.
    """
    text = unicodedata.normalize("NFKC", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _WIDE_SPACE.sub(" ", text)
    text = _SPACE_AT_NEWLINE.sub("\n", text)
    return _NEWLINES.sub("\n\n", text).strip()


_ASCII_WORD = re.compile(r"[0-9A-Za-z]+")


class Wanted:
    """A generation that documents are searched for, and what it is once it is normalised.

    Parameters
    ----------
    stripped : str
        The generation without white space at its ends.
    """

    def __init__(self, stripped: str) -> None:
        self._stripped = stripped
        self._normalized = normalize(stripped)
        self._signs = _signs(self._normalized)
        self._longest_word = max(_ASCII_WORD.findall(self._normalized), key=len, default="")

    def tier_in(self, window: str, holds_whole: bool) -> str:
        """How much of it a document holds.

        Parameters
        ----------
        window : str
            Text of the document around the match.
        holds_whole : bool
            Whether the document is known to hold the whole generation, somewhere.
        """
        if holds_whole or (self._stripped and self._stripped in window):
            return "full_raw"
        if not self._normalized or not self._may_be_in(window):
            return "partial"
        return "full_normalized" if self._normalized in normalize(window) else "partial"

    def _may_be_in(self, window: str) -> bool:
        """Whether normalising a window could show the generation: for most windows it cannot.

        Past NFKC, normalised texts differ from others in white space alone.
        """
        if not window.isascii():
            window = unicodedata.normalize("NFKC", window)
        return self._longest_word in window and self._signs in _signs(window)


def _signs(text: str) -> str:
    """A text without its white space."""
    return "".join(text.split())

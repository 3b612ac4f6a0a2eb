"""Step 3: the documents that hold a span, the text around it, and how much they hold in all."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass

import numpy as np

from propme.index.protocol import Index, Occurrences, Position

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


def count_documents(index: Index, occurrences: Occurrences) -> tuple[int, bool]:
    """Distinct documents that hold a span, and whether that is exact or a lower bound."""
    looked_at = min(occurrences.count, COUNTED_OCCURRENCES)
    positions = (index.locate(occurrences, number) for number in range(looked_at))
    return len({(p.shard, p.document) for p in positions}), looked_at == occurrences.count


def sample_documents(
    index: Index, occurrences: Occurrences, n: int, seed: int, name: str
) -> list[Position]:
    """One position in each of up to ``n`` distinct documents that hold a span.

    Where there are more, a sample that ``seed`` and ``name`` decide: occurrences are drawn
    uniformly without replacement, and one in a document already drawn is passed over, so that the
    draw is refilled. A document that holds the span more often is thus more likely.

    Parameters
    ----------
    name : str
        Name of the generation and span: never the worker or the order of work.
    """
    chosen: dict[tuple[int, int], Position] = {}
    for number in _draws(occurrences.count, seed, name):
        position = index.locate(occurrences, number)
        chosen.setdefault((position.shard, position.document), position)
        if len(chosen) == n:
            break
    return [chosen[key] for key in sorted(chosen)]


#: Occurrences drawn at most: a span that a few documents repeat very often ends the search here.
_MOST_DRAWS = 10_000


def _draws(count: int, seed: int, name: str) -> list[int]:
    digest = hashlib.sha256(f"{seed}\0{name}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    drawn: list[int] = rng.choice(count, size=min(count, _MOST_DRAWS), replace=False).tolist()
    return drawn


def window_around(index: Index, position: Position, length: int, n_tokens: int) -> Window:
    """The ``5 L`` tokens around a match of ``length`` tokens, ``L`` being ``n_tokens``.

    The match stands in the middle, unless the document begins or ends before that.
    """
    size = max(WINDOW_FACTOR * n_tokens, length)
    whole = index.document_length(position.shard, position.document)
    start = max(0, min(position.offset - (size - length) // 2, whole - size))
    ids = index.document_tokens(position.shard, position.document, start, start + size)
    at = position.offset - start
    text = index.tokenizer.decode(ids)
    char_stop = _shared(text, index.tokenizer.decode(ids[: at + length]))
    # From behind, so that a character of which the match holds only the last bytes is left out.
    after_start = _shared(text[::-1], index.tokenizer.decode(ids[at:])[::-1])
    return Window(position, text, min(len(text) - after_start, char_stop), char_stop)


def _shared(one: str, other: str) -> int:
    """Number of characters with which both texts begin."""
    if one.startswith(other):  # as nearly always, and much faster than the search below
        return len(other)
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def normalize(text: str) -> str:
    """The form in which ``full_normalized`` compares: white space and compatibility characters.

    NFKC; CR and CRLF to LF; runs of spaces and tabs to one space; no spaces around newlines; three
    or more newlines to two; ends stripped. Case and punctuation stay.
    """
    text = unicodedata.normalize("NFKC", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" ?\n ?", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def tier_of(stripped: str, normalized: str, window: str, holds_whole: bool) -> str:
    """How much of a generation a document holds.

    Parameters
    ----------
    stripped, normalized : str
        The generation without white space at its ends, and that normalised.
    window : str
        Text of the document around the match.
    holds_whole : bool
        Whether the document is known to hold the whole generation, somewhere.
    """
    if holds_whole or (stripped and stripped in window):
        return "full_raw"
    return "full_normalized" if normalized and normalized in normalize(window) else "partial"

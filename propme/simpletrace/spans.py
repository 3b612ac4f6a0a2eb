"""Step 1: the maximal spans, the passages of a generation that stand verbatim in the corpus."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from propme.errors import ParameterError
from propme.index.mapped import keep_maximal
from propme.index.protocol import Index

#: ``mixed``: prose, code and markup. ``text``: prose; spans of whole words inside a sentence.
MODES = ("mixed", "text")

#: In mode ``mixed`` shorter spans say nothing, except one that is the whole generation.
SHORTEST_SPAN = 4

_SPAN_END = re.compile(r"[.!?\n]")
_APOSTROPHES = "'\u2019"


def require_mode(mode: str) -> None:
    """Refuse a name that is no mode's, with a `ParameterError` that names them."""
    if mode not in MODES:
        raise ParameterError(f"mode {mode!r} is unknown; it is one of {', '.join(MODES)}")


@dataclass(frozen=True, slots=True)
class TracedText:
    """A generation as it is traced: white space at its ends left out, in index tokens.

    ``offsets[i]`` are the characters ``[start, stop)`` of token ``i`` in the text as generated.
    """

    text: str
    char_start: int
    char_stop: int
    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]

    @property
    def stripped(self) -> str:
        """The traced characters."""
        return self.text[self.char_start : self.char_stop]

    @property
    def encoding(self) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
        """The tokens with offsets in `stripped`."""
        return self.ids, [(a - self.char_start, b - self.char_start) for a, b in self.offsets]

    def characters(self, start: int, stop: int) -> tuple[int, int]:
        """Characters of the generation that tokens ``[start, stop)`` hold whole.

        Tokens of which each holds some bytes of a character have that character's offsets in
        common. One cut by an end is left out: the corpus may hold another character there.
        """
        first, last = self.offsets[start][0], self.offsets[stop - 1][1]
        if start:
            first = max(first, self.offsets[start - 1][1])
        if stop < len(self.offsets):
            last = min(last, self.offsets[stop][0])
        return first, max(first, last)


def tokenise(text: str, index: Index) -> TracedText:
    """Cut white space off a generation's ends and tokenise the rest as the index does."""
    stripped = text.strip()
    char_start = text.find(stripped) if stripped else len(text)
    ids, offsets = index.tokenizer.encode_with_offsets(stripped)
    shares = len(ids) > 1 and offsets[1][0] < offsets[0][1]
    if shares and not index.tokenizer.decode_inside(ids[:1]).strip():
        # A space that a tokenizer puts before every text is given the text's first character.
        offsets = [(0, 0), *offsets[1:]]
    return TracedText(
        text=text,
        char_start=char_start,
        char_stop=char_start + len(stripped),
        ids=tuple(ids),
        offsets=tuple((char_start + a, char_start + b) for a, b in offsets),
    )


def maximal_spans(traced: TracedText, index: Index) -> list[tuple[int, int]]:
    """Token ranges that occur in one training document and lie in no other such range.

    Every start counts, and the result is exact: a span cannot be made longer on either side and
    still occur. A passage that the corpus tokenises otherwise at its edges reads up to a token
    shorter on that side.
    """
    return [(start, stop) for start, stop in index.maximal_runs(traced.ids).tolist()]


def in_mode(
    runs: Sequence[tuple[int, int]],
    traced: TracedText,
    mode: str,
    shortest: int = SHORTEST_SPAN,
) -> list[tuple[int, int, str]]:
    """What a mode makes of maximal spans: ``(start, stop, reason why it is left out or "")``.

    ``mixed`` leaves out what is shorter than ``shortest`` tokens, unless it is the whole
    generation, and what is blank. ``text`` cuts spans: see `_in_text`.
    """
    if mode == "text":
        return _in_text(runs, traced)
    return [(start, stop, _drop_reason(traced, start, stop, shortest)) for start, stop in runs]


def _drop_reason(traced: TracedText, start: int, stop: int, shortest: int) -> str:
    """Why mode ``mixed`` leaves a maximal span out; empty: it does not."""
    if stop - start == len(traced.ids):
        return ""
    if stop - start < shortest:
        return "short"
    first, last = traced.characters(start, stop)
    return "" if traced.text[first:last].strip() else "blank"


def _in_text(runs: Sequence[tuple[int, int]], traced: TracedText) -> list[tuple[int, int, str]]:
    """Spans of whole words inside one sentence.

    From each word start the longest run, cut back to the first ``. ! ?`` or newline, which it may
    hold, and then to a word's end; of these, those not inside another. All of them lie in maximal
    spans: so each maximal span is cut at the ends of sentences, and each part at words. One that
    holds no whole word is left out.
    """
    sentences, whole = _sentences(traced), _word_borders(traced)
    found: set[tuple[int, int]] = set()
    left_out = []
    for start, stop in runs:
        parts = [(max(start, a), min(stop, b)) for a, b in sentences if a < stop and b > start]
        words = [_cut_to_words(a, b, whole, traced) for a, b in parts]
        kept = [part for part in words if part]
        found.update(kept)
        if not kept:
            left_out.append((start, stop, "no word"))
    kept_runs = keep_maximal(np.array(sorted(found), np.int64).reshape(-1, 2)).tolist()
    return sorted([*((start, stop, "") for start, stop in kept_runs), *left_out])


def _sentences(traced: TracedText) -> list[tuple[int, int]]:
    """Token ranges between the signs that end a span, which stand last in theirs.

    A token in which letters follow such a sign (``.com``) is in none: no span may hold both.
    """
    found, start = [], 0
    for token, (first, last) in enumerate(traced.offsets):
        after = _SPAN_END.search(traced.text, first, last)
        if after is None:
            continue
        holds_word = any(map(_is_of_word, traced.text[after.end() : last]))
        stop = token if holds_word else token + 1
        if stop > start:
            found.append((start, stop))
        start = token + 1
    if start < len(traced.ids):
        found.append((start, len(traced.ids)))
    return found


def _cut_to_words(
    start: int, stop: int, borders: Sequence[bool], traced: TracedText
) -> tuple[int, int] | None:
    """The longest part that begins and ends at words' borders; ``None``: it holds no word."""
    while start < stop and not borders[start]:
        start += 1
    while stop > start and not borders[stop]:
        stop -= 1
    if start == stop:
        return None
    first, last = traced.characters(start, stop)
    return (start, stop) if any(map(_is_of_word, traced.text[first:last])) else None


def _word_borders(traced: TracedText) -> list[bool]:
    """For each place between two tokens, whether no word goes on across it.

    Judged on characters: letters, digits, marks, the underscore, and an apostrophe between two of
    them. A place inside a character is inside a word.
    """
    text = traced.text
    borders = [True]
    for (_, before), (after, _) in pairwise(traced.offsets):
        if after < before:
            borders.append(False)
            continue
        inside = before == after and _goes_on(text, after, traced.char_start, traced.char_stop)
        borders.append(not inside)
    return [*borders, True] if traced.ids else [True]


def _goes_on(text: str, at: int, start: int, stop: int) -> bool:
    """Whether one word holds the characters on both sides of ``at``."""
    if not start < at < stop:
        return False
    left, right = text[at - 1], text[at]
    if _is_of_word(left) and _is_of_word(right):
        return True
    if right in _APOSTROPHES:
        return _is_of_word(left) and at + 1 < stop and _is_of_word(text[at + 1])
    if left in _APOSTROPHES:
        return _is_of_word(right) and at - 2 >= start and _is_of_word(text[at - 2])
    return False


def _is_of_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_" or unicodedata.category(sign).startswith("M")

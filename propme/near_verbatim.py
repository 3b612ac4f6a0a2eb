"""How nearly two texts agree: near-verbatim recall of a generation in a document window.

The blocks of words that two texts share are found longest first, neighbours with a small gap
between them are merged, what is still short is dropped, and the recall is the share of the
generation's words that lie in what remains.

Sources
-------
Ahmed, Cooper, Koyejo and Liang 2026, "Extracting books from production language models",
arXiv 2601.02671, whose values for whole books are fixed (l1 20, l2 100, g1 2, a1 1, g2 10, a2 3);
Barmina, Schneider-Kamp and Galke Poech 2026, arXiv 2606.06286 (the PropMe paper), which scales
them with the length of the generation. The blocks are those of Ratcliff and Obershelp, as in
`difflib` with `autojunk=False`.

Rules of this file
------------------
The generation is the reference, the document window is the candidate; n is the number of words
of the reference. Positions count words of `normalize_words`, never characters, and all spans are
half-open. Nothing here is approximate: a pair is measured exactly or refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from propme.errors import PropMeError

WORK_LIMIT = 40_000_000_000
"""Word comparisons spent on one pair before it is refused; one to two nanoseconds each.

The search needs at most 2 (sqrt(2 n) + 1) n (m + 1) of them for n reference and m candidate words,
so every pair up to 5 000 x 25 000 words is within the limit, whatever its words are.
"""


class AlignmentCostError(PropMeError):
    """The pair needs more than `WORK_LIMIT` word comparisons, so it has no exact value here."""

    def __init__(self, reference_words: int, candidate_words: int, limit: int) -> None:
        # All three are kept as args, so that a worker process can hand the error over.
        super().__init__(reference_words, candidate_words, limit)
        self.reference_words = reference_words
        self.candidate_words = candidate_words
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"aligning {self.reference_words} reference words with {self.candidate_words} "
            f"candidate words takes more than {self.limit} word comparisons; "
            "shorten one of the texts"
        )


class Block(NamedTuple):
    """A passage that both texts have.

    `words` counts the words that agree. In a block of `matching_blocks` it is the length of both
    spans; in one of `alignment` the spans may hold gaps, which `words` leaves out.
    """

    reference_start: int
    reference_stop: int
    candidate_start: int
    candidate_stop: int
    words: int


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits of the two merging passes, in words.

    l1, l2 : shortest block kept after the first and the second pass.
    g1, g2 : largest gap that a pass bridges, in either text.
    a1, a2 : largest difference between the gap in the reference and that in the candidate.
    """

    l1: int
    l2: int
    g1: int
    a1: int
    g2: int
    a2: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value < 0:
                raise ValueError(f"{name} must be >= 0, got {value}")

    @classmethod
    def for_length(cls, n: int) -> Thresholds:
        """Thresholds for a reference of `n` words.

        Each is a percentage of n, rounded half to even, then clamped::

            l1  15 % in 2..20     g1  2 % in 1..6      a1  1 % in 1..3
            l2  35 % in 4..100    g2  8 % in 2..12     a2  3 % in 1..5

        Neither length exceeds n, so that an exact copy of one, two or three words counts.

        Source: arXiv 2606.06286, after the fixed values of arXiv 2601.02671.

        How it misleads: because the limits grow with n, the same copied passage can count in a
        short generation and not in a long one. Compare generations of like length.
        """
        if n < 0:
            raise ValueError(f"n must be >= 0, got {n}")
        return cls(
            l1=min(n, _percentage(15, n, 2, 20)),
            l2=min(n, _percentage(35, n, 4, 100)),
            g1=_percentage(2, n, 1, 6),
            a1=_percentage(1, n, 1, 3),
            g2=_percentage(8, n, 2, 12),
            a2=_percentage(3, n, 1, 5),
        )


def _percentage(percent: int, n: int, lowest: int, highest: int) -> int:
    """`percent` % of `n`, rounded half to even and clamped."""
    # In integers: 0.35 * 90 is 31.499999999999996 in floating point and would round to 31.
    quotient, rest = divmod(percent * n, 100)
    if rest > 50 or (rest == 50 and quotient % 2 == 1):
        quotient += 1
    return min(max(quotient, lowest), highest)


# Guillemets are the double ones; the single ones (U+2039, U+203A) stay as they are.
_PUNCTUATION = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2013\u2015\u2212", "\u2014"),
}
_TYPOGRAPHIC = re.compile(f"[{''.join(_PUNCTUATION)}]")
_OTHER_SPACE = re.compile("[\u0085\u1680\u2028\u2029]")
_SPACED_DOTS = re.compile(r"\.\s+\.\s+\.")
_DOTS_BEFORE_WORD = re.compile(r"\.\.\.(?=[^\W_])")
# Not inside a longer run of word characters: snake_case_name and __init__ are not emphasis.
# (That begins with the sign that is looked for, so that the search can leap from one to the next.)
_EMPHASIS = re.compile(r"_(?<!\w_)([^\s_]+)_(?!\w)")


def normalize_words(text: str) -> list[str]:
    """Words of `text` with typographic differences taken out.

    In this order: NFKC; curly single quotes to ``'``, curly double quotes and « » to ``"``; en
    dash, horizontal bar and minus to the em dash; spaced dots ``. . .`` to ``...``; a space after
    ``...`` before a letter or digit; ``_word_`` to ``word``; lower case; split on white space.

    Source: arXiv 2606.06286; the order of the steps and the edge cases are fixed here.

    Returns
    -------
    list of str
        Non-empty words with their punctuation; empty for a text of white space only.

    How it misleads: words keep their punctuation, so `end` and `end.` differ, and a dash without
    spaces ties two words into one. Text written without spaces (Chinese, Japanese) becomes a few
    very long words, for which near agreement is never seen.
    """
    return _normalized(text).split()


def _normalized(text: str) -> str:
    """What `normalize_words` splits; all white space in it is ASCII."""
    if not text.isascii():
        # This also makes three dots of the ellipsis character and a plain space of a wide one.
        text = unicodedata.normalize("NFKC", text)
        text = _TYPOGRAPHIC.sub(lambda sign: _PUNCTUATION[sign[0]], text)
        text = _OTHER_SPACE.sub(" ", text)
    text = _SPACED_DOTS.sub("...", text)
    if "..." in text:
        text = _DOTS_BEFORE_WORD.sub("... ", text)
    if "_" in text:
        text = _EMPHASIS.sub(r"\1", text)
    return text.lower()


def matching_blocks(reference: Sequence[str], candidate: Sequence[str]) -> list[Block]:
    """Exact blocks that two word lists share, longest first, then left and right of it.

    The block of a rectangle (reference span x candidate span) is its longest common run of words,
    the leftmost in the reference among equals, then the leftmost in the candidate. The same is
    done in the rectangle before it and in the one after it.

    These are the blocks of ``difflib.SequenceMatcher(None, reference, candidate,
    autojunk=False).get_matching_blocks()`` without its closing empty one. `difflib` ends by
    joining blocks that touch in both texts. That is not repeated here, for it never happens
    without junk: the longest run of a rectangle cannot be extended in it, so no block touches it.

    Source: Ratcliff and Metzener 1988, "Pattern matching: the Gestalt approach".

    Returns
    -------
    list of Block
        In text order; spans neither overlap nor cross.

    Raises
    ------
    AlignmentCostError
        If the pair would take more than `WORK_LIMIT` word comparisons.

    How it misleads: greedy, so the blocks need not hold as many words as an optimal alignment,
    and swapping the two texts can change them. Passages in another order never both count.
    """
    # Only words of the reference need a number; all others match nothing.
    numbers: dict[str, int] = {}
    reference_ids = np.array([numbers.setdefault(w, len(numbers)) for w in reference], np.int32)
    candidate_ids = np.array([numbers.get(w, -1) for w in candidate], np.int32)
    return _blocks(reference_ids, candidate_ids, len(numbers))


def _blocks(
    reference: NDArray[np.int32], candidate: NDArray[np.int32], vocabulary: int
) -> list[Block]:
    starts, lengths, finished = _align(reference, candidate, vocabulary, WORK_LIMIT)
    if not finished:
        raise AlignmentCostError(len(reference), len(candidate), WORK_LIMIT)
    rows = np.flatnonzero(lengths)
    found = zip(rows.tolist(), starts[rows].tolist(), lengths[rows].tolist(), strict=True)
    return [
        Block(start, start + length, other, other + length, length)
        for start, other, length in found
    ]


def alignment(reference_words: Sequence[str], candidate_words: Sequence[str]) -> list[Block]:
    """Passages of the reference that the candidate has nearly word for word.

    From `matching_blocks`, with `Thresholds.for_length` of the reference: merge (g1, a1), drop
    blocks of fewer than l1 words, merge (g2, a2), drop blocks of fewer than l2 words. Neighbours
    are merged when max(gap_reference, gap_candidate) <= g and
    |gap_reference - gap_candidate| <= a; only words that agree count towards a length.

    Source: arXiv 2606.06286, after arXiv 2601.02671.

    Returns
    -------
    list of Block
        In text order. For the words that agree inside a passage, take the `matching_blocks` that
        lie in its spans; the second pass may have bridged short ones that the first had dropped,
        and those are not in `words`.

    How it misleads: positions count normalised words; they are not offsets into the texts.
    """
    limits = Thresholds.for_length(len(reference_words))
    return _long_blocks(matching_blocks(reference_words, candidate_words), limits)


def _long_blocks(blocks: list[Block], limits: Thresholds) -> list[Block]:
    blocks = [b for b in _merge(blocks, limits.g1, limits.a1) if b.words >= limits.l1]
    return [b for b in _merge(blocks, limits.g2, limits.a2) if b.words >= limits.l2]


class Reference:
    """A generation that many windows are compared with: `recall`, many times as fast.

    Its words are numbered once, and those of a window are looked up among them without being made.
    """

    def __init__(self, generation: str) -> None:
        text = _normalized(generation)
        self._raw = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        n_words = len(text.split())
        self._limits = Thresholds.for_length(n_words)
        # At most half full, and never quite empty.
        self._slots = np.full((1 << (2 * n_words + 1).bit_length(), 3), -1, np.int32)
        self._ids = _word_numbers(self._raw, self._raw, self._slots, True)
        self._vocabulary = int(self._ids.max(initial=-1)) + 1

    def recall(self, window: str) -> float:
        """`recall` of it in a document window."""
        if not self._ids.size:
            return 0.0
        raw = np.frombuffer(_normalized(window).encode("utf-8", "surrogatepass"), np.uint8)
        numbers = _word_numbers(raw, self._raw, self._slots, False)
        blocks = _blocks(self._ids, numbers, self._vocabulary)
        if sum(block.words for block in blocks) < self._limits.l2:
            return 0.0
        return sum(b.words for b in _long_blocks(blocks, self._limits)) / self._ids.size


def recall(generation: str, window: str) -> float:
    """Near-verbatim recall of a generation in a document window.

    ``recall = words in the blocks of alignment / n``, with n the words of the generation; 0 for
    n = 0.

    Source: arXiv 2606.06286, after arXiv 2601.02671 (its nv-recall).

    Returns
    -------
    float
        In [0, 1]. 1 for an exact copy of any length, up to typography.

    How it misleads: not symmetric, the window may hold anything else besides. The least lengths
    make it jump: in a text of 12 words, three in a row count 0 and four count 1/3; one word changed
    in a text of four takes it from 1 to 0. It does not know how common a passage is: a stock phrase
    scores like a rare one.
    """
    return Reference(generation).recall(window)


def _merge(blocks: list[Block], largest_gap: int, largest_difference: int) -> list[Block]:
    """Join each block to the one before it where the gaps allow it."""
    merged: list[Block] = []
    for block in blocks:
        if merged and _near(merged[-1], block, largest_gap, largest_difference):
            before = merged[-1]
            merged[-1] = block._replace(
                reference_start=before.reference_start,
                candidate_start=before.candidate_start,
                words=before.words + block.words,
            )
        else:
            merged.append(block)
    return merged


def _near(before: Block, after: Block, largest_gap: int, largest_difference: int) -> bool:
    gap_reference = after.reference_start - before.reference_stop
    gap_candidate = after.candidate_start - before.candidate_stop
    return (
        max(gap_reference, gap_candidate) <= largest_gap
        and abs(gap_reference - gap_candidate) <= largest_difference
    )


# The compiled part. `difflib` searches every rectangle to its end. Here the length found in a
# rectangle bounds what its two halves can hold, and since among equals the leftmost is taken,
# the left half holds less. A search ends at the first run that reaches its bound, so that a cell
# is visited at most twice for each distinct block length of its chain of rectangles. Blocks are
# disjoint, so there are at most sqrt(2 n) distinct lengths: hence the bound at `WORK_LIMIT`.


@njit(cache=True)
def _word_numbers(
    raw: NDArray[np.uint8], reference: NDArray[np.uint8], slots: NDArray[np.int32], learn: bool
) -> NDArray[np.int32]:
    """Numbers of the words of a text in UTF-8, -1 for one that the reference has not.

    `slots` is a table of hashes: a word's start and stop in `reference`, and its number. To
    `learn`, which is done once, with the reference as the text, words are added to it.
    """
    found = np.empty(raw.size // 2 + 1, np.int32)
    n, known, at, mask = 0, 0, 0, np.uint64(slots.shape[0] - 1)
    while True:
        while at < raw.size and _is_space(raw[at]):
            at += 1
        if at == raw.size:
            return found[:n]
        start = at
        name = np.uint64(14695981039346656037)
        while at < raw.size and not _is_space(raw[at]):
            name = (name ^ np.uint64(raw[at])) * np.uint64(1099511628211)
            at += 1
        slot = np.int64((name ^ (name >> np.uint64(32))) & mask)
        while slots[slot, 2] >= 0:
            first = slots[slot, 0]
            k = 0
            if slots[slot, 1] - first == at - start:
                while k < at - start and raw[start + k] == reference[first + k]:
                    k += 1
            if k == at - start:
                break
            slot = (slot + 1) & np.int64(mask)
        if learn and slots[slot, 2] < 0:
            slots[slot, 0], slots[slot, 1], slots[slot, 2] = start, at, known
            known += 1
        found[n] = slots[slot, 2]
        n += 1


@njit(cache=True, inline="always")
def _is_space(sign: int) -> bool:
    return sign == 0x20 or 0x09 <= sign <= 0x0D or 0x1C <= sign <= 0x1F


@njit(cache=True)
def _align(
    reference: NDArray[np.int32], candidate: NDArray[np.int32], vocabulary: int, work_limit: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], bool]:
    """For each reference position that starts a block: the block's candidate start and length."""
    rows, columns = len(reference), len(candidate)
    starts = np.zeros(rows, np.int32)
    lengths = np.zeros(rows, np.int32)
    offsets, positions = _positions_by_word(candidate, vocabulary)
    run_starts = np.zeros(rows + columns, np.int32)
    run_stops = np.full(rows + columns, -1, np.int32)
    # A rectangle leaves two when it yields a block, so blocks + 1 bounds the stack.
    stack = np.empty((min(rows, columns) + 2, 5), np.int64)
    stack[0] = (0, rows, 0, columns, min(rows, columns))
    height, work = 1, 0
    while height > 0:
        height -= 1
        top, bottom, left, right, bound = stack[height]
        bound = min(bound, bottom - top, right - left)
        if bound <= 0:
            continue
        row, column, length, spent = _longest_run(
            reference, offsets, positions, run_starts, run_stops,
            top, bottom, left, right, bound, work_limit - work,
        )  # fmt: skip
        work += spent
        if work > work_limit:
            return starts, lengths, False
        if length > 0:
            starts[row], lengths[row] = column, length
            stack[height] = (top, row, left, column, length - 1)
            stack[height + 1] = (row + length, bottom, column + length, right, length)
            height += 2
    return starts, lengths, True


@njit(cache=True)
def _positions_by_word(
    candidate: NDArray[np.int32], vocabulary: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Ascending candidate positions of each word: word w has positions[offsets[w]:offsets[w+1]]."""
    offsets = np.zeros(vocabulary + 1, np.int32)
    for word in candidate:
        if word >= 0:
            offsets[word + 1] += 1
    offsets = np.cumsum(offsets).astype(np.int32)
    positions = np.empty(offsets[vocabulary], np.int32)
    filled = offsets.copy()
    for position, word in enumerate(candidate):
        if word >= 0:
            positions[filled[word]] = position
            filled[word] += 1
    return offsets, positions


@njit(cache=True)
def _longest_run(
    reference: NDArray[np.int32],
    offsets: NDArray[np.int32],
    positions: NDArray[np.int32],
    run_starts: NDArray[np.int32],
    run_stops: NDArray[np.int32],
    top: int,
    bottom: int,
    left: int,
    right: int,
    bound: int,
    work_limit: int,
) -> tuple[int, int, int, int]:
    """(row, column, length, work) of the first longest run in rows top:bottom, columns left:right.

    `bound` must be a length that no run of the rectangle exceeds. Stops after the row in which
    the work passes `work_limit`.
    """
    best_row, best_column, best, work = top, left, 0, 0
    for row in range(top, bottom):
        word = reference[row]
        stop = offsets[word + 1]
        first = offsets[word] + np.searchsorted(positions[offsets[word] : stop], left)
        work += 1
        for index in range(first, stop):
            column = positions[index]
            if column >= right:
                break
            work += 1
            # A diagonal remembers its latest run. What an earlier rectangle left there can only
            # be met in the first row or column, where every run starts anew.
            diagonal = column - row + len(reference) - 1
            if row == top or column == left or run_stops[diagonal] != row:
                run_starts[diagonal] = row
            run_stops[diagonal] = row + 1
            length = row + 1 - run_starts[diagonal]
            # Rows and columns ascend, so the first run of a length is the leftmost one.
            if length > best:
                best, best_row = length, row + 1 - length
                best_column = column + 1 - length
                if best == bound:
                    return best_row, best_column, best, work
        if work > work_limit:
            break
    return best_row, best_column, best, work

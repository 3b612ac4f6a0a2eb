"""Blocks of words that two texts share, as Ratcliff and Obershelp find them, compiled."""

from __future__ import annotations

from collections.abc import Sequence
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
    return blocks_of(reference_ids, candidate_ids, len(numbers))


def blocks_of(
    reference: NDArray[np.int32], candidate: NDArray[np.int32], vocabulary: int
) -> list[Block]:
    """`matching_blocks` of words that are numbers below ``vocabulary``; any other matches none."""
    starts, lengths, finished = _align(reference, candidate, vocabulary, WORK_LIMIT)
    if not finished:
        raise AlignmentCostError(len(reference), len(candidate), WORK_LIMIT)
    rows = np.flatnonzero(lengths)
    found = zip(rows.tolist(), starts[rows].tolist(), lengths[rows].tolist(), strict=True)
    return [
        Block(start, start + length, other, other + length, length)
        for start, other, length in found
    ]


# The compiled part. `difflib` searches every rectangle to its end. Here the length found in a
# rectangle bounds what its two halves can hold, and since among equals the leftmost is taken,
# the left half holds less. A search ends at the first run that reaches its bound, so that a cell
# is visited at most twice for each distinct block length of its chain of rectangles. Blocks are
# disjoint, so there are at most sqrt(2 n) distinct lengths: hence the bound at `WORK_LIMIT`.


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

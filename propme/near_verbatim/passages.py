"""Passages of a generation that a document has nearly word for word, and their share of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from propme.near_verbatim.matching import Block, blocks_of, matching_blocks
from propme.near_verbatim.thresholds import Thresholds
from propme.near_verbatim.words import normalized, word_numbers


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
        text = normalized(generation)
        self._raw = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        n_words = len(text.split())
        self._limits = Thresholds.for_length(n_words)
        # At most half full, and never quite empty.
        self._slots = np.full((1 << (2 * n_words + 1).bit_length(), 3), -1, np.int32)
        self._ids = word_numbers(self._raw, self._raw, self._slots, True)
        self._vocabulary = int(self._ids.max(initial=-1)) + 1

    def recall(self, window: str) -> float:
        """`recall` of it in a document window."""
        if not self._ids.size:
            return 0.0
        raw = np.frombuffer(normalized(window).encode("utf-8", "surrogatepass"), np.uint8)
        numbers = word_numbers(raw, self._raw, self._slots, False)
        blocks = blocks_of(self._ids, numbers, self._vocabulary)
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

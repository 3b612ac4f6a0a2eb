"""Byte-pair encoding of single words, compiled: what most new pieces of a text are.

`word_cache` gives a piece that it meets for the first time to the tokenizer. Where the tokenizer is
a byte-level BPE, and the piece is for certain one word of its, the merges are done here instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

_SPACE, _APOSTROPHE = 0x20, 0x27
_LONGEST_WORD = 64

Pieces = npt.NDArray[np.uint8]


class WordMerges:
    """The merges of a byte-level BPE.

    Parameters
    ----------
    model : dict
        Of a tokenizer's description, without a prefix or suffix of subwords.
    digits, sign_before : bool
        Whether a run of digits is one word; and one sign with the letters behind it.
    """

    def __init__(self, model: dict[str, Any], digits: bool, sign_before: bool) -> None:
        vocabulary: dict[str, int] = model["vocab"]
        # Of the bytes of such words, only the space is not written as itself.
        written = {byte: chr(byte) for byte in range(0x21, 0x7F)} | {_SPACE: "Ġ"}
        self._byte_ids = np.full(128, -1, np.int64)
        for byte, sign in written.items():
            self._byte_ids[byte] = vocabulary.get(sign, -1)
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
        self._table = np.zeros((1 << (2 * len(pairs) + 1).bit_length(), 3), np.int64)
        rows = [(vocabulary[a], vocabulary[b], vocabulary[a + b]) for a, b in pairs]
        _fill(self._table, np.array(rows, np.int64).reshape(-1, 3))
        self._rules = digits, sign_before
        self._whole = vocabulary if model.get("ignore_merges") else None

    def encode(
        self, keys: Pieces, starts: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Tokens of pieces one behind the other, and how many each has; -1: it is no such word.

        A piece ``n`` is ``keys[starts[n] + 1 : starts[n + 1]]``, behind a byte that is 0 for one
        between others.
        """
        lengths = np.empty(starts.size - 1, np.int64)
        size = int(starts[-1] - starts[0])
        ids = np.empty(size, np.int64)
        n = _merge_all(keys, starts, self._rules, self._byte_ids, self._table, ids, lengths)
        if self._whole is None:
            return ids[:n], lengths
        return self._with_whole_words(keys, starts, ids[:n], lengths)

    def _with_whole_words(
        self, keys: Pieces, starts: Any, ids: npt.NDArray[np.int64], lengths: Any
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """A word that is a token is that token, also if no merges lead to it."""
        whole = self._whole or {}
        keep = np.ones(ids.size, np.bool_)
        stops = np.cumsum(np.maximum(lengths, 0))
        for n in np.flatnonzero(lengths > 1).tolist():
            word = keys[starts[n] + 1 : starts[n + 1]].tobytes().decode().replace(" ", "Ġ")
            token = whole.get(word)
            if token is not None:
                first = stops[n] - lengths[n]
                ids[first], keep[first + 1 : stops[n]] = token, False
                lengths[n] = 1
        return ids[keep], lengths


@njit(cache=True, inline="always")
def _slot(table, a, b):  # type: ignore[no-untyped-def]
    mask = table.shape[0] - 1
    name = (np.uint64(a) << np.uint64(32)) ^ np.uint64(b)
    return np.int64((name * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)) & mask


@njit(cache=True)
def _fill(table, rows):  # type: ignore[no-untyped-def]
    """A row of the table is two tokens as one number, plus one; the rank; and what they become."""
    for rank in range(rows.shape[0]):
        a, b = rows[rank, 0], rows[rank, 1]
        slot = _slot(table, a, b)
        while table[slot, 0] and table[slot, 0] != (a << 32 | b) + 1:
            slot = (slot + 1) & (table.shape[0] - 1)
        # Of a pair that stands twice, the later rank counts, as in the library.
        table[slot, 0], table[slot, 1], table[slot, 2] = (a << 32 | b) + 1, rank, rows[rank, 2]


@njit(cache=True, inline="always")
def _kind(sign):  # type: ignore[no-untyped-def]
    """1: letter, 2: digit, 3: another visible sign, 0: anything else; of ASCII."""
    if 0x41 <= (sign & 0xDF) <= 0x5A and sign < 0x80:
        return 1
    if 0x30 <= sign <= 0x39:
        return 2
    return 3 if 0x20 < sign < 0x7F and sign != _APOSTROPHE else 0


@njit(cache=True)
def _is_word(keys, start, stop, rules):  # type: ignore[no-untyped-def]
    """Whether a piece is one word: a space or none, and then letters, or digits, or other signs."""
    digits, sign_before = rules
    first = start + 1 if keys[start] == _SPACE else start
    if first == stop or stop - start > _LONGEST_WORD:
        return False
    kind = _kind(keys[first])
    if sign_before and kind == 3 and first == start and _begins_letters(keys, first + 1, stop):
        first, kind = first + 1, 1
    at = first
    while at < stop and _kind(keys[at]) == kind:
        at += 1
    return at == stop and kind != 0 and (kind != 2 or digits)


@njit(cache=True, inline="always")
def _begins_letters(keys, at, stop):  # type: ignore[no-untyped-def]
    return at < stop and _kind(keys[at]) == 1


@njit(cache=True, nogil=True)
def _merge_all(keys, starts, rules, byte_ids, table, ids, lengths):  # type: ignore[no-untyped-def]
    n = 0
    word = np.empty(_LONGEST_WORD, np.int64)
    for piece in range(starts.size - 1):
        start, stop = starts[piece] + 1, starts[piece + 1]
        lengths[piece] = -1
        if keys[start - 1] != 0 or not _is_word(keys, start, stop, rules):
            continue
        size = stop - start
        known = True
        for i in range(size):
            word[i] = byte_ids[keys[start + i]]
            known = known and word[i] >= 0
        if not known:
            continue
        size = _merge(word, size, table)
        ids[n : n + size] = word[:size]
        lengths[piece] = size
        n += size
    return n


@njit(cache=True)
def _merge(word, size, table):  # type: ignore[no-untyped-def]
    """Merge the pair of lowest rank, the leftmost first, until there is none."""
    while True:
        best, at, token = np.int64(1) << 40, -1, np.int64(0)
        for i in range(size - 1):
            name = (word[i] << 32 | word[i + 1]) + 1
            slot = _slot(table, word[i], word[i + 1])
            while table[slot, 0] and table[slot, 0] != name:
                slot = (slot + 1) & (table.shape[0] - 1)
            if table[slot, 0] and table[slot, 1] < best:
                best, at, token = table[slot, 1], i, table[slot, 2]
        if at < 0:
            return size
        word[at] = token
        for i in range(at + 1, size - 1):
            word[i] = word[i + 1]
        size -= 1

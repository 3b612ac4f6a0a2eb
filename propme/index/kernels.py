"""Search in a memory-mapped suffix array, compiled by numba.

The rules that hold in this file: ``tokens`` is one shard's token array; ``table`` its suffix array
as raw bytes, ``width`` bytes a position, each position a *byte* offset into the token file;
suffixes are sorted by their bytes, so tokens are compared byte-swapped and a shorter suffix comes
first.
``query`` holds keys, that is tokens already byte-swapped (`keys`). Ranks are positions in the
suffix array; a rank range ``[lo, hi)`` holds the suffixes that start with a query.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

U32 = npt.NDArray[np.uint32]


def keys(tokens: npt.ArrayLike, itemsize: int) -> U32:
    """Tokens as numbers that compare like their little-endian bytes."""
    narrow = np.asarray(tokens).astype(f"<u{itemsize}")
    return np.ascontiguousarray(narrow.byteswap()).astype(np.uint32)


@njit(cache=True, inline="always")
def _key(token, itemsize):  # type: ignore[no-untyped-def]
    value = np.uint32(token)
    if itemsize == 1:
        return value
    if itemsize == 2:
        return np.uint32(((value & np.uint32(0xFF)) << np.uint32(8)) | (value >> np.uint32(8)))
    low = (value & np.uint32(0xFF)) << np.uint32(24) | (value & np.uint32(0xFF00)) << np.uint32(8)
    high = (value >> np.uint32(8)) & np.uint32(0xFF00) | (value >> np.uint32(24))
    return np.uint32(low | high)


@njit(cache=True, inline="always")
def _position(table, width, rank, itemsize, size):  # type: ignore[no-untyped-def]
    """Token position at a rank; ``size``, an empty suffix, if a damaged table points outside."""
    pointer = np.int64(0)
    base = rank * width
    for k in range(width):
        pointer |= np.int64(table[base + k]) << np.int64(8 * k)
    return min(pointer // itemsize, size)


@njit(cache=True)
def _common_prefix(tokens, position, query, start, stop, itemsize, known):  # type: ignore[no-untyped-def]
    """Length of the common prefix of a suffix and query[start:stop], ``known`` being shared."""
    limit = min(stop - start, tokens.size - position)
    k = known
    while k < limit and _key(tokens[position + k], itemsize) == query[start + k]:
        k += 1
    return k


@njit(cache=True)
def _lower_bound(tokens, table, width, query, start, stop):  # type: ignore[no-untyped-def]
    """First rank whose suffix is not less than query[start:stop], and the longest common prefix.

    The query sorts before every suffix that it is a prefix of. The longest match of a query lies
    with the neighbours of its place, both of which the search has looked at.
    """
    itemsize = tokens.itemsize
    low, high = np.int64(0), np.int64(tokens.size)
    low_common, high_common, best = 0, 0, 0
    while low < high:
        middle = (low + high) // 2
        position = _position(table, width, middle, itemsize, tokens.size)
        common = _common_prefix(
            tokens, position, query, start, stop, itemsize, min(low_common, high_common)
        )
        best = max(best, common)
        if common == stop - start:
            less = False
        elif position + common == tokens.size:
            less = True
        else:
            less = _key(tokens[position + common], itemsize) < query[start + common]
        if less:
            low, low_common = middle + 1, common
        else:
            high, high_common = middle, common
    return low, best


@njit(cache=True)
def _upper_bound(tokens, table, width, query, start, stop, low):  # type: ignore[no-untyped-def]
    """First rank from ``low`` on whose suffix does not start with query[start:stop]."""
    itemsize = tokens.itemsize
    high = np.int64(tokens.size)
    step = np.int64(1)
    # Counts are mostly small: gallop from the lower end before halving.
    while low + step < high:
        position = _position(table, width, low + step, itemsize, tokens.size)
        if _common_prefix(tokens, position, query, start, stop, itemsize, 0) < stop - start:
            high = low + step
            break
        low += step
        step *= 2
    while low < high:
        middle = (low + high) // 2
        position = _position(table, width, middle, itemsize, tokens.size)
        if _common_prefix(tokens, position, query, start, stop, itemsize, 0) == stop - start:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def rank_range(tokens, table, width, query, start, stop):  # type: ignore[no-untyped-def]
    """Rank range ``[lo, hi)`` of query[start:stop]; empty, at its insertion point, if absent."""
    low, common = _lower_bound(tokens, table, width, query, start, stop)
    if common < stop - start:
        return low, low
    return low, _upper_bound(tokens, table, width, query, start, stop, low)


@njit(cache=True, nogil=True)
def longest_match(tokens, table, width, query, start):  # type: ignore[no-untyped-def]
    """Length of the longest prefix of query[start:] that occurs."""
    return _lower_bound(tokens, table, width, query, start, query.size)[1]


@njit(cache=True, nogil=True)
def maximal_runs(tokens, table, width, query, starts, stops):  # type: ignore[no-untyped-def]
    """Write the runs of the query that occur and lie in no other such run; return their number.

    After a run ``[start, stop)`` the next one begins at the first ``j > start`` for which
    query[j:stop + 1] occurs. Occurrence is monotone in ``j``, so ``j`` is found by halving.
    """
    n_runs = 0
    start = 0
    while start < query.size:
        length = _lower_bound(tokens, table, width, query, start, query.size)[1]
        if length == 0:
            start += 1
            continue
        stop = start + length
        starts[n_runs], stops[n_runs] = start, stop
        n_runs += 1
        if stop == query.size:
            break
        low, high = start + 1, stop + 1
        while low < high:
            middle = (low + high) // 2
            common = _lower_bound(tokens, table, width, query, middle, stop + 1)[1]
            if common == stop + 1 - middle:
                high = middle
            else:
                low = middle + 1
        start = low
    return n_runs


@njit(cache=True, nogil=True)
def first_disorder(tokens, table, width):  # type: ignore[no-untyped-def]
    """Rank at which the table is seen to be no sorted array of all suffixes; -1 if it is one.

    Two suffixes with the same first token must be in the order of what follows that token, which
    is a suffix too: its rank is looked up. Comparing the suffixes themselves would take hours
    where long documents are repeated.
    """
    itemsize, n = tokens.itemsize, tokens.size
    ranks = np.full(n + 1, -2, np.int64)
    ranks[n] = -1  # the empty suffix comes first
    for rank in range(n):
        position = _position(table, width, rank, itemsize, n)
        if ranks[position] != -2:
            return rank
        ranks[position] = rank
    for rank in range(n - 1):
        a = _position(table, width, rank, itemsize, n)
        b = _position(table, width, rank + 1, itemsize, n)
        first, second = _key(tokens[a], itemsize), _key(tokens[b], itemsize)
        if first > second or (first == second and ranks[a + 1] > ranks[b + 1]):
            return rank
    return -1


@njit(cache=True, nogil=True)
def first_disorder_among(tokens, table, width, ranks, most):  # type: ignore[no-untyped-def]
    """First of ``ranks`` whose suffix does not sort strictly before the next one; -1 if none.

    Suffixes that share their first ``most`` tokens are taken to be in order.
    """
    itemsize = tokens.itemsize
    for i in range(ranks.size):
        a = _position(table, width, ranks[i], itemsize, tokens.size)
        b = _position(table, width, ranks[i] + 1, itemsize, tokens.size)
        longest = tokens.size - max(a, b)
        k = 0
        while k < min(longest, most) and tokens[a + k] == tokens[b + k]:
            k += 1
        if k == longest:
            if a <= b or a == tokens.size:
                return ranks[i]
        elif k == most:
            continue
        elif _key(tokens[a + k], itemsize) >= _key(tokens[b + k], itemsize):
            return ranks[i]
    return -1


@njit(cache=True, nogil=True)
def rank_ranges(tokens, table, width, query, runs):  # type: ignore[no-untyped-def]
    """`rank_range` of query[start:stop] for each row (start, stop) of ``runs``; the same shape."""
    found = np.empty_like(runs)
    for i in range(runs.shape[0]):
        found[i] = rank_range(tokens, table, width, query, runs[i, 0], runs[i, 1])
    return found


@njit(cache=True, nogil=True)
def positions(tokens, table, width, ranks):  # type: ignore[no-untyped-def]
    """Token positions that the suffix array holds at some ranks."""
    found = np.empty(ranks.size, np.int64)
    for i in range(ranks.size):
        found[i] = _position(table, width, ranks[i], tokens.itemsize, tokens.size)
    return found


@njit(cache=True, nogil=True)
def spelt(ids, data, starts):  # type: ignore[no-untyped-def]
    """Bytes of tokens in a row; token ``t`` is data[starts[t]:starts[t + 1]]."""
    size = 0
    for token in ids:
        size += starts[token + 1] - starts[token]
    found = np.empty(size, np.uint8)
    at = 0
    for token in ids:
        for i in range(starts[token], starts[token + 1]):
            found[at] = data[i]
            at += 1
    return found

"""Maximal runs where each look-up is dear, as it is behind a network.

Two pointers: as the start of the longest match moves right, its end never moves left. So every
look-up moves one of them, and where they move far, they gallop.
"""

from __future__ import annotations

from collections.abc import Callable

#: Whether ``[start, stop)`` of a query occurs.
Occurs = Callable[[int, int], bool]

#: Where the longest match from ``start`` may end, of which ``[start, stop)`` is known to occur.
Guess = Callable[[int, int], int | None]


def maximal_runs(
    n: int, occurs: Occurs, guess: Guess = lambda start, stop: None
) -> list[tuple[int, int]]:
    """Runs of a query of ``n`` tokens that occur and lie in no other run that does, in order.

    Parameters
    ----------
    n : int
        Tokens of the query.
    occurs : callable
        Whether tokens ``[start, stop)`` occur: once they do, so does all that lies in them.
    guess : callable, optional
        Where the longest match from a start may end, asked when it has turned out to be long;
        ``None``: no idea. It is checked, and may be wrong.

    Notes
    -----
    About 2 ``n`` look-ups where all runs are short, one if the whole query occurs, and some log2 of
    its length for each long run.
    """
    if not n or occurs(0, n):
        return [(0, n)] if n else []
    runs = []
    start = stop = 0
    absent = n  # [0, n) does not occur
    while True:
        stop = _longest(start, stop, absent, occurs, guess)
        if stop > start:
            runs.append((start, stop))
        if stop == n:
            return runs
        start = _next_start(start, stop, occurs)
        stop, absent = stop + 1, n + 1


def longest_match(n: int, occurs: Occurs, guess: Guess = lambda start, stop: None) -> int:
    """Tokens of a query of ``n`` from its start that occur; parameters as for `maximal_runs`."""
    return n if not n or occurs(0, n) else _longest(0, 0, n, occurs, guess)


#: Tokens by which a run must have grown until its end is guessed.
_LONG = 7


def _longest(
    start: int,
    stop: int,
    absent: int,
    occurs: Occurs,
    guess: Guess,
) -> int:
    """End of the longest match from ``start``, of which ``[start, stop)`` is known to occur.

    ``[start, absent)`` is known not to, where ``absent`` is not past the query's end.
    """
    step, first = 1, stop
    while stop + step < absent:
        if not occurs(start, stop + step):
            absent = stop + step
            break
        stop += step
        step *= 2
        if stop - first == _LONG:
            stop, absent = _by_guess(guess(start, stop), start, stop, absent, occurs)
            step = 8
    while absent - stop > 1:
        middle = (stop + absent) // 2
        if occurs(start, middle):
            stop = middle
        else:
            absent = middle
    return stop


def _by_guess(
    guessed: int | None, start: int, stop: int, absent: int, occurs: Occurs
) -> tuple[int, int]:
    """``stop`` and ``absent``, brought together by a guess that is right, or by what is wrong."""
    if guessed is None or not stop < guessed < absent:
        return stop, absent
    if not occurs(start, guessed):
        return stop, guessed
    if guessed + 1 < absent and occurs(start, guessed + 1):
        return guessed + 1, absent
    return guessed, min(absent, guessed + 1)


def _next_start(start: int, stop: int, occurs: Occurs) -> int:
    """The first start behind ``start`` from which tokens up to ``stop`` included occur.

    One behind that token, if it occurs nowhere.
    """
    low, step = start + 1, 1  # all before ``low`` are known not to do
    high = stop + 1
    while low < high:
        tried = min(low + step - 1, stop)
        if occurs(tried, stop + 1):
            high = tried
            break
        low = tried + 1
        step *= 2
    while low < high:
        middle = (low + high) // 2
        if occurs(middle, stop + 1):
            high = middle
        else:
            low = middle + 1
    return low

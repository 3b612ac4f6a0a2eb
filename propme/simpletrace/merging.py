"""Step 4: kept spans that overlap become one segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from propme.errors import ParameterError

#: ``verified``: only if the union itself stands in the corpus. ``overlap``: always, as in the
#: paper; the union may then stand nowhere.
RULES = ("verified", "overlap")


def require_rule(rule: str) -> None:
    """Refuse a name that is no rule's, with a `ParameterError` that names them."""
    if rule not in RULES:
        raise ParameterError(f"merging {rule!r} is unknown; it is one of {', '.join(RULES)}")


def merge(
    spans: Sequence[tuple[int, int]], rule: str, occurs: Callable[[int, int], bool]
) -> list[tuple[tuple[int, int], list[int]]]:
    """Join spans into segments, from left to right.

    Parameters
    ----------
    spans : sequence of (start, stop)
        In order of start, none inside another.
    rule : str
        One of `RULES`.
    occurs : callable
        Whether tokens ``[start, stop)`` of the generation stand in the corpus.

    Returns
    -------
    list of ((start, stop), numbers)
        Each segment and the numbers of its spans. Spans that only touch stay apart.

    Notes
    -----
    The union of two *maximal* spans that overlap never occurs: it would itself be the maximal span.
    Under ``verified`` a segment of mode ``mixed`` is therefore always one span.
    """
    require_rule(rule)
    segments: list[tuple[tuple[int, int], list[int]]] = []
    for number, (start, stop) in enumerate(spans):
        if segments and start < segments[-1][0][1]:
            (first, last), members = segments[-1]
            union = (first, max(last, stop))
            if rule == "overlap" or occurs(*union):
                segments[-1] = (union, [*members, number])
                continue
        segments.append(((start, stop), [number]))
    return segments

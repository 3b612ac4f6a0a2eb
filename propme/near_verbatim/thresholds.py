"""The limits within which passages count, by the length of the generation."""

from __future__ import annotations

from dataclasses import dataclass


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

"""What a sample could have shown: the smallest effect, and the smallest rate."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from propme.errors import MetricError
from propme.uncertainty import LEVEL, Floats

#: Share of samples in which an effect would show.
POWER = 0.8


def smallest_effect(rounds: Floats, power: float = POWER, level: float = LEVEL) -> float:
    r"""Smallest effect that a sample of this size would have shown.

    .. math:: \delta = (z_{1 - \alpha / 2} + z_{power}) \cdot SE, \qquad \alpha = 1 - level

    with the standard deviation of the bootstrap rounds for SE, so that alike generations of a
    prompt do not count as many (Bloom 1995, Evaluation Review 19(5), 547-556). Of a rate, it is
    the distance from a fixed value, such as a chance floor; of a difference, from 0.

    Parameters
    ----------
    rounds : array, shape (rounds,)
        Bootstrap rounds of a rate or of a difference; NaN are left out.
    power : float
        In (0.5, 1): share of repeats in which an effect of this size is found.
    level : float
        In (0, 1): of the two-sided interval.

    Raises
    ------
    MetricError
        The rounds do not vary (see `smallest_rate`), or power or level are outside their range.

    Notes
    -----
    It takes the spread to be the same under the effect as it was measured, which for a rate near
    0 is too little. It speaks of the design; that an effect smaller than it was measured does not
    show that there is none.
    """
    if not (0.5 < power < 1 and 0 < level < 1):
        raise MetricError(f"power {power} must lie in (0.5, 1) and level {level} in (0, 1)")
    defined = rounds[~np.isnan(rounds)]
    if not defined.size or np.ptp(defined) == 0:
        raise MetricError("rounds that do not vary have no standard error; see smallest_rate")
    normal = NormalDist()
    factor = normal.inv_cdf((1 + level) / 2) + normal.inv_cdf(power)
    return factor * float(defined.std(ddof=1))


def smallest_rate(n: int, power: float = POWER) -> float:
    r"""Smallest rate of which ``n`` independent trials would have seen at least one case.

    .. math:: 1 - (1 - p)^n = power

    For a rate that was measured as 0. With several generations a prompt, ``n`` is the number of
    prompts, which errs to the large side.

    Raises
    ------
    MetricError
        There is no trial, or power is not in (0, 1).
    """
    if n < 1 or not 0 < power < 1:
        raise MetricError(f"{n} trials must be at least 1 and power {power} in (0, 1)")
    return float(-np.expm1(np.log1p(-power) / n))

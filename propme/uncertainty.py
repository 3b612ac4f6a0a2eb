"""Intervals: percentile bootstrap over prompts, with all the generations of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from propme.errors import MetricError

Floats = npt.NDArray[np.float64]

ROUNDS = 10_000
LEVEL = 0.95

#: Weights held at a time, so that memory stays small for many prompts.
_CELLS_AT_A_TIME = 4_000_000


@dataclass(frozen=True)
class Interval:
    """Ends of an interval and how it was made.

    ``bootstrap``, ``rule of three``, ``none``, or ``one prompt``, of which there is no interval.
    """

    low: float | None
    high: float | None
    method: str


def bootstrap_ratio(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    clusters: npt.ArrayLike,
    seed: int,
    rounds: int = ROUNDS,
) -> Floats:
    """Resample clusters and take the ratio of the resampled sums.

    Parameters
    ----------
    numerator, denominator : array_like, shape (n,)
        Of each generation; a mean over generations has denominators of 1.
    clusters : array_like, shape (n,)
        What is resampled: the prompt of each generation. Generations of a prompt are alike, and
        resampling them one by one would make intervals too narrow.
    seed : int
    rounds : int

    Returns
    -------
    array, shape (rounds,)
        NaN in a round whose denominator is 0.
    """
    _, of_cluster = np.unique(np.asarray(clusters), return_inverse=True)
    if not of_cluster.size:
        raise MetricError("there is no generation to resample")
    columns = [np.bincount(of_cluster, np.asarray(x, float)) for x in (numerator, denominator)]
    sums = np.stack(columns, 1).astype(np.float64)
    resampled = bootstrap_sums(sums, seed, rounds)
    return ratio(resampled[:, 0], resampled[:, 1])


def bootstrap_sums(sums: Floats, seed: int, rounds: int = ROUNDS) -> Floats:
    """Resample clusters, and add up the sums of those drawn.

    Parameters
    ----------
    sums : array, shape (n_clusters, n_columns)
        What each cluster adds to each sum. All columns are resampled by the same draws.
    seed : int
    rounds : int

    Returns
    -------
    array, shape (rounds, n_columns)
    """
    n = len(sums)
    rng = np.random.default_rng(seed)
    at_a_time = max(1, _CELLS_AT_A_TIME // n)
    resampled = []
    for done in range(0, rounds, at_a_time):
        size = min(at_a_time, rounds - done)
        # Draws are counted by one bincount over all rounds: many times as fast as a multinomial.
        drawn = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        resampled.append(weights.astype(np.float64) @ sums)
    return np.concatenate(resampled)


def ratio(top: Floats, bottom: Floats) -> Floats:
    """Quotients; NaN where the denominator is 0."""
    quotients: Floats = np.divide(
        top, bottom, out=np.full(np.shape(bottom), np.nan), where=bottom > 0
    )
    return quotients


def percentile_interval(samples: Floats, level: float = LEVEL) -> Interval:
    """Percentile interval of bootstrap samples; rounds that are NaN are left out."""
    defined = samples[~np.isnan(samples)]
    if not defined.size:
        return Interval(None, None, "none")
    tail = 50 * (1 - level)
    low, high = np.percentile(defined, [tail, 100 - tail])
    return Interval(float(low), float(high), "bootstrap")


def rule_of_three(n: int, of_ones: bool = False) -> Interval:
    """Interval of a rate that was 0 in ``n`` independent trials: [0, 3 / n], cut to [0, 1].

    ``of_ones``: of one that was 1 in all of them, [1 - 3 / n, 1]. A bootstrap of equal values would
    claim certainty.

    With several generations a prompt, ``n`` is the number of prompts, which errs to the wide side.
    """
    if n < 1:
        raise MetricError("a rate of no trials has no interval")
    bound = min(1.0, 3 / n)
    low, high = (1 - bound, 1.0) if of_ones else (0.0, bound)
    return Interval(low, high, "rule of three")

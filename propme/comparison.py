"""Comparisons: differences of settings or models, their tests, and rank correlation with copies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy import stats

from propme.errors import MetricError
from propme.uncertainty import (
    ROUNDS,
    Floats,
    Interval,
    PromptSums,
    chunk_sizes,
    percentile_interval,
    ratio_interval,
    ratios,
    resampled_sums,
)

#: Names of prompts given in a message.
_NAMED = 5

#: Relative rounding error up to which two statistics count as equal.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Difference:
    """First minus second.

    Attributes
    ----------
    value : float
    interval : Interval
    rounds : array, shape (rounds,)
        Bootstrap rounds of it, for `propme.power.smallest_effect`.
    p_value : float or None
        Two-sided, of a paired difference; not yet corrected for the other rows of a table.
    """

    value: float
    interval: Interval
    rounds: Floats
    p_value: float | None = None


def unpaired_difference(
    first: PromptSums, second: PromptSums, seed: int, rounds: int = ROUNDS
) -> Difference:
    """Difference of two settings whose prompts are not the same, resampled independently.

    Where a rate is 0 or 1, which no round of it varies, the ends come from the ends of the two
    rates' own intervals; that is wider than 95 %.

    Raises
    ------
    MetricError
        One of the two has denominators of 0 only.

    Notes
    -----
    On the same prompts it is needlessly wide, see `paired_difference`. Settings whose prompts are
    of different kinds differ by the prompts too, whatever the model does.
    """
    value = first.value - second.value
    of_first, of_second = (
        ratios(resampled_sums(sample.sums, rng, rounds))
        for sample, rng in zip((first, second), np.random.default_rng(seed).spawn(2), strict=True)
    )
    own = ratio_interval(first, of_first), ratio_interval(second, of_second)
    return Difference(value, _interval_of(*own, of_first - of_second), of_first - of_second)


def _interval_of(first: Interval, second: Interval, rounds: Floats) -> Interval:
    if first.low is None or first.high is None:
        return first
    if second.low is None or second.high is None:
        return second
    if "rule of three" not in (first.method, second.method):
        return percentile_interval(rounds)
    return Interval(first.low - second.high, first.high - second.low, "rule of three")


def paired_difference(
    first: PromptSums, second: PromptSums, seed: int, rounds: int = ROUNDS
) -> Difference:
    r"""Difference of two models or checkpoints on the same prompts.

    A round draws prompts and takes both models' generations of them, so that what makes a prompt
    easy for both cancels out. Two rates that agree in every prompt get the rule of three; where one
    of them is 0 or 1, which no round of it varies, the ends come from the ends of the two rates'
    own intervals; that is wider than 95 %.

    The p-value is that of a permutation test: the two models' generations of a prompt change
    places or not, at random, and the share of such assignments whose difference is at least as far
    from 0 is counted (all of them where there are no more than ``rounds``; else
    :math:`(1 + count) / (1 + rounds)`, Phipson & Smyth 2010, arXiv 1603.05766). Unlike the tail of
    the bootstrap, which is too light for few prompts or rare cases, it holds its level for any
    number of prompts.

    Raises
    ------
    MetricError
        The two do not have the same prompts, or one has denominators of 0 only.

    Notes
    -----
    The test asks whether the models are exchangeable; where a denominator is itself a result (the
    pairs found, in NVR), models that differ in it alone are not. n prompts cannot give a p-value
    below 2 / 2**n.
    """
    _require_same_prompts(first, second)
    value = first.value - second.value
    both = np.concatenate([first.sums, second.sums], 1)
    of_sampling, of_swapping = np.random.default_rng(seed).spawn(2)
    resampled = resampled_sums(both, of_sampling, rounds)
    of_first, of_second = ratios(resampled[:, :2]), ratios(resampled[:, 2:])
    differences = of_first - of_second
    return Difference(
        value,
        _paired_interval(first, second, of_first, of_second),
        differences,
        _swap_test(first.sums, second.sums, of_swapping, rounds),
    )


def _require_same_prompts(first: PromptSums, second: PromptSums) -> None:
    lacking = []
    for one, other in ((first, second), (second, first)):
        # Not setdiff1d: names of the two may differ in type, and are then all missing.
        theirs = set(other.prompts.tolist())
        missing = [name for name in one.prompts.tolist() if name not in theirs]
        if missing:
            more = ", ..." if len(missing) > _NAMED else ""
            named = ", ".join(map(repr, missing[:_NAMED])) + more
            lacking.append(f"{other.name} lacks {len(missing)} of {one.name} ({named})")
    if lacking:
        raise MetricError(
            f"a paired comparison needs the same prompts: {'; '.join(lacking)};"
            " leave these out or compare unpaired"
        )


def _paired_interval(
    first: PromptSums, second: PromptSums, of_first: Floats, of_second: Floats
) -> Interval:
    n = min(first.n_prompts, second.n_prompts)
    if n == 1:
        return Interval(None, None, "one prompt")
    if first.is_rate and second.is_rate:
        if np.array_equal(first.sums, second.sums):
            bound = min(1.0, 3 / n)
            return Interval(-bound, bound, "rule of three")
        own = ratio_interval(first, of_first), ratio_interval(second, of_second)
        return _interval_of(*own, of_first - of_second)
    return percentile_interval(of_first - of_second)


def _swap_test(first: Floats, second: Floats, rng: np.random.Generator, rounds: int) -> float:
    n = len(first)
    observed = _swapped_distances(first, second, np.zeros((1, n)))[0]
    is_far = observed * (1 - _ROUNDING)
    if n < 63 and 2**n <= rounds:
        every = np.array(list(product((0.0, 1.0), repeat=n)))
        # Not >=: a difference without a denominator counts as far, to the safe side.
        return float((~(_swapped_distances(first, second, every) < is_far)).mean())
    count = sum(
        int((~(_swapped_distances(first, second, swaps) < is_far)).sum())
        for swaps in (
            rng.integers(0, 2, (size, n)).astype(np.float64) for size in chunk_sizes(rounds, n)
        )
    )
    return (1 + count) / (1 + rounds)


def _swapped_distances(first: Floats, second: Floats, swaps: Floats) -> Floats:
    """Of rows of ``swaps``, 1 where a prompt's generations change places: distance from 0."""
    moved = swaps @ (second - first)
    distances: Floats = np.abs(ratios(first.sum(0) + moved) - ratios(second.sum(0) - moved))
    return distances


def holm(p_values: npt.ArrayLike) -> Floats:
    r"""Correct the p-values of a table so that the chance of any false finding stays at its level.

    .. math:: \tilde p_{(i)} = \min\left(1, \max_{j \le i} (m - j + 1) \, p_{(j)}\right)

    with the m p-values in rising order (Holm 1979, Scand. J. Statist. 6, 65-70). It holds however
    the tests depend on one another.

    Parameters
    ----------
    p_values : array_like, shape (m,)
        Of all the tests of the table, also of those that found nothing.

    Returns
    -------
    array, shape (m,)
        In the order given, in [0, 1].

    Raises
    ------
    MetricError
        One is outside [0, 1] or not a number.
    """
    given = np.asarray(p_values, np.float64)
    wrong = given[~((given >= 0) & (given <= 1))]
    if wrong.size:
        raise MetricError(f"{wrong[0]} is no p-value; it must lie in [0, 1]")
    order = np.argsort(given, kind="stable")
    stepped = given[order] * np.arange(len(given), 0, -1)
    corrected = np.empty_like(given)
    corrected[order] = np.minimum(1, np.maximum.accumulate(stepped))
    return corrected


@dataclass(frozen=True, eq=False)
class RankCorrelation:
    """Spearman's coefficient with its interval and bootstrap rounds, shape (rounds,)."""

    value: float
    interval: Interval
    rounds: Floats


def rank_correlation(
    extraction: PromptSums, copies: npt.ArrayLike, seed: int, rounds: int = ROUNDS
) -> RankCorrelation:
    """Spearman's rank correlation, over prompts, of extraction with number of copies.

    Parameters
    ----------
    extraction : PromptSums
        Its ratio of each prompt is ranked, ties by their middle rank.
    copies : array_like, shape (n,)
        Number of copies of each prompt's document, in the order of ``extraction.prompts``.
    seed, rounds : int

    Returns
    -------
    RankCorrelation
        In [-1, 1]. Rounds in which all prompts are alike on one side are NaN.

    Raises
    ------
    MetricError
        The lengths differ, a number of copies is not finite, a prompt has no denominator, there
        is one prompt only, or all prompts are alike on one side.

    Notes
    -----
    A rank correlation tells that extraction rises with copies, not by how much. Where most
    prompts extract nothing it is small even if every extraction is of a document of many copies.
    """
    numbers = np.asarray(copies, np.float64)
    if numbers.shape != (len(extraction.sums),):
        raise MetricError(
            f"{extraction.name}: {numbers.size} numbers of copies for {len(extraction.sums)}"
            " prompts; give one for each"
        )
    shares = ratios(extraction.sums)
    for what, values in (("ratio", shares), ("number of copies", numbers)):
        if not np.isfinite(values).all():
            prompt = extraction.prompts[~np.isfinite(values)][0]
            raise MetricError(f"{extraction.name}: prompt {prompt!s} has no finite {what}; drop it")
        if np.ptp(values) == 0:
            raise MetricError(
                f"{extraction.name}: {what} is {values[0]} in each of {len(values)} prompts, and"
                " what does not vary has no rank correlation"
            )
    correlations = _resampled_rank_correlations(shares, numbers, seed, rounds)
    value = float(stats.spearmanr(shares, numbers).statistic)
    return RankCorrelation(value, percentile_interval(correlations), correlations)


def _resampled_rank_correlations(x: Floats, y: Floats, seed: int, rounds: int) -> Floats:
    rng = np.random.default_rng(seed)
    chunks = []
    for size in chunk_sizes(rounds, len(x)):
        drawn = rng.integers(0, len(x), (size, len(x)))
        ranks = [stats.rankdata(values[drawn], axis=1) for values in (x, y)]
        of_x, of_y = (rank - (len(x) + 1) / 2 for rank in ranks)  # middle ranks keep their mean
        spread = np.sqrt((of_x**2).sum(1) * (of_y**2).sum(1))
        chunks.append(ratios(np.stack([(of_x * of_y).sum(1), spread], 1)))
    return np.concatenate(chunks)

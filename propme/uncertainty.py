"""Intervals: percentile bootstrap over prompts, with all the generations of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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

    ``bootstrap``, ``rule of three``, ``one prompt`` (which tells nothing of how prompts differ, so
    that there is no interval) or ``none``.
    """

    low: float | None
    high: float | None
    method: str


@dataclass(frozen=True, eq=False)
class PromptSums:
    """A ratio of sums, such as a mean over generations, with what each prompt adds to it.

    Attributes
    ----------
    prompts : array, shape (n,)
        Names of the prompts, each once, in order.
    sums : array, shape (n, 2)
        Numerator and denominator, summed over the generations of each prompt.
    is_rate : bool
        Whether no numerator can exceed its denominator, so that the ratio lies in [0, 1].
    name : str
        Of metric and setting, for messages.
    """

    prompts: npt.NDArray[Any]
    sums: Floats
    is_rate: bool = False
    name: str = "the metric"

    @classmethod
    def of(
        cls,
        numerator: npt.ArrayLike,
        denominator: npt.ArrayLike,
        clusters: npt.ArrayLike,
        is_rate: bool = False,
        name: str = "the metric",
    ) -> PromptSums:
        """Sum over the generations of each prompt.

        Parameters
        ----------
        numerator, denominator : array_like, shape (n_generations,)
            Of each generation; a mean over generations has denominators of 1.
        clusters : array_like, shape (n_generations,)
            The prompt of each generation.
        is_rate, name
            See the attributes.

        Raises
        ------
        MetricError
            There is no generation, the lengths differ, a value is not finite, a denominator is
            negative, or a rate has a numerator outside [0, denominator].
        """
        top, bottom = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
        prompts, of_prompt = np.unique(np.asarray(clusters), return_inverse=True)
        if not of_prompt.size:
            raise MetricError(f"{name}: there is no generation to resample")
        if not top.shape == bottom.shape == of_prompt.shape:
            raise MetricError(
                f"{name}: {top.size} numerators, {bottom.size} denominators and {of_prompt.size}"
                " prompts; give one of each for each generation"
            )
        _refuse(top, ~np.isfinite(top), f"{name}: a numerator is {{}}, which is no finite number")
        _refuse(
            bottom,
            ~(np.isfinite(bottom) & (bottom >= 0)),
            f"{name}: a denominator is {{}}; it must be finite and not negative",
        )
        if is_rate:
            _refuse(top, top < 0, f"{name}: a rate has the numerator {{}}; it must not be negative")
            _refuse(top, top > bottom, f"{name}: a rate has the numerator {{}} above denominator")
        sums = np.stack([np.bincount(of_prompt, x) for x in (top, bottom)], 1).astype(np.float64)
        return cls(prompts, sums, is_rate, name)

    @property
    def value(self) -> float:
        """Sum of numerators by sum of denominators.

        Raises
        ------
        MetricError
            All denominators are 0.
        """
        top, bottom = self.sums.sum(0)
        if not bottom:
            raise MetricError(
                f"{self.name} is not defined: all {len(self.sums)} prompts have the denominator 0"
            )
        return float(top / bottom)

    @property
    def n_prompts(self) -> int:
        """Number of prompts that the value is made of: those with a denominator above 0."""
        return int((self.sums[:, 1] > 0).sum())


def _refuse(values: Floats, wrong: npt.NDArray[np.bool_], message: str) -> None:
    if wrong.any():
        raise MetricError(message.format(values[wrong][0]))


def bootstrap_ratio(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    clusters: npt.ArrayLike,
    seed: int,
    rounds: int = ROUNDS,
    name: str = "the metric",
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
    name : str
        Of metric and setting, for messages.

    Returns
    -------
    array, shape (rounds,)
        NaN in a round whose denominator is 0.

    Raises
    ------
    MetricError
        As `PromptSums.of`.
    """
    sample = PromptSums.of(numerator, denominator, clusters, name=name)
    return ratios(resampled_sums(sample.sums, np.random.default_rng(seed), rounds))


def resampled_sums(sums: Floats, rng: np.random.Generator, rounds: int) -> Floats:
    """Draw as many rows as there are, with replacement, and add them up, ``rounds`` times.

    Parameters
    ----------
    sums : array, shape (n, k)
        One row a prompt. All columns of a row are drawn together.
    rng : numpy.random.Generator
    rounds : int

    Returns
    -------
    array, shape (rounds, k)
    """
    n = len(sums)
    resampled = []
    for size in chunk_sizes(rounds, n):
        # Draws are counted by one bincount over all rounds: many times as fast as a multinomial.
        drawn = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        resampled.append(weights.astype(np.float64) @ sums)
    return np.concatenate(resampled)


def chunk_sizes(rounds: int, n: int) -> Iterator[int]:
    """Rounds to do at a time, so that ``n`` numbers for each of them stay in small memory."""
    at_a_time = max(1, _CELLS_AT_A_TIME // n)
    for done in range(0, rounds, at_a_time):
        yield min(at_a_time, rounds - done)


def ratios(sums: Floats) -> Floats:
    """First column by second, NaN where that is 0."""
    top, bottom = sums[:, 0], sums[:, 1]
    ratio: Floats = np.divide(top, bottom, out=np.full(len(sums), np.nan), where=bottom > 0)
    return ratio


def ratio_interval(sample: PromptSums, rounds: Floats) -> Interval:
    """Interval of a ratio, from its bootstrap rounds where they can tell.

    A rate of 0 or 1 has that value in every round and gets the rule of three, which of one prompt
    is all of [0, 1]. Else one prompt has no interval, and neither has a mean of lengths that is 0.

    Parameters
    ----------
    sample : PromptSums
    rounds : array, shape (rounds,)
        What `bootstrap_ratio` gave for it.

    Raises
    ------
    MetricError
        All denominators are 0.
    """
    value = sample.value
    if sample.is_rate and value in (0, 1):
        return rule_of_three(sample.n_prompts, of_ones=value == 1)
    if sample.n_prompts == 1:
        return Interval(None, None, "one prompt")
    if value == 0:
        return Interval(None, None, "none")
    return percentile_interval(rounds)


def percentile_interval(samples: Floats, level: float = LEVEL) -> Interval:
    """Percentile interval of bootstrap samples; rounds that are NaN are left out.

    It is too narrow where few prompts leak. Simulated with 5 samples a prompt, a correlation of 0.3
    within a prompt and 1000 repeats, 95 % intervals of a rate of 0.2 held it in 94.6 % with 200
    prompts and 93.7 % with 20; of a rate of 0.02 in 93.2 % with 200, 90.4 % with 100, 86.3 % with
    50 and 71.4 % with 20, where `ratio_interval` gives a rate of 0 the rule of three instead.
    """
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

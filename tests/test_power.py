"""The smallest effect: by hand, and found as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from propme.comparison import unpaired_difference
from propme.errors import MetricError
from propme.power import smallest_effect, smallest_rate
from propme.uncertainty import PromptSums


def test_by_hand() -> None:
    # 1.960 + 0.842 standard deviations; of -1 and 1 that is sqrt(2), and NaN is no round.
    effect = smallest_effect(np.array([-1, 1, np.nan]))
    assert effect == pytest.approx(2.8016 * 2**0.5, rel=1e-4)
    # (1 - p)**2 = 0.2
    assert smallest_rate(2) == pytest.approx(1 - 0.2**0.5)
    assert smallest_rate(1) == pytest.approx(0.8)


def clustered(rng: np.random.Generator, rate: float, n: int = 150) -> PromptSums:
    ease = rng.beta(2 * rate, 2 * (1 - rate), n)  # correlation within a prompt: 1 / 3
    return PromptSums.of(rng.binomial(5, ease), np.full(n, 5), range(n), is_rate=True)


def test_an_effect_of_that_size_is_found_in_four_of_five_samples() -> None:
    rng = np.random.default_rng(8)

    def differ(one: float, other: float, seed: int) -> np.ndarray:
        sides = clustered(rng, one), clustered(rng, other)
        return unpaired_difference(*sides, seed=seed, rounds=400).rounds

    effect = np.mean([smallest_effect(differ(0.5, 0.5, seed)) for seed in range(20)])
    repeats = 300
    found = 0
    for seed in range(repeats):
        rounds = differ(0.5 + effect / 2, 0.5 - effect / 2, seed)
        found += not np.percentile(rounds, 2.5) <= 0 <= np.percentile(rounds, 97.5)
    low, high = stats.binom.interval(0.999, repeats, 0.8)
    assert low <= found <= high


def test_what_has_no_smallest_effect() -> None:
    with pytest.raises(MetricError, match="do not vary"):
        smallest_effect(np.zeros(5))
    with pytest.raises(MetricError, match="do not vary"):
        smallest_effect(np.full(5, np.nan))
    with pytest.raises(MetricError, match=r"power 0.3 must lie in \(0.5, 1\)"):
        smallest_effect(np.arange(5.0), power=0.3)
    with pytest.raises(MetricError, match="0 trials"):
        smallest_rate(0)

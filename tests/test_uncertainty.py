"""The bootstrap: against a slow loop, on simulated data whose truth is known, and where exact."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats

from propme import uncertainty
from propme.errors import MetricError
from propme.uncertainty import (
    Interval,
    PromptSums,
    bootstrap_ratio,
    percentile_interval,
    ratio_interval,
    rule_of_three,
)


def slow_bootstrap(
    numerator: list[float], denominator: list[float], clusters: list[str], rounds: int
) -> np.ndarray:
    """Draw prompts with replacement and add up all the rows of each, one by one."""
    dice = random.Random(7)
    names = sorted(set(clusters))
    ratios = []
    for _ in range(rounds):
        top = bottom = 0.0
        for name in dice.choices(names, k=len(names)):
            rows = [i for i, cluster in enumerate(clusters) if cluster == name]
            top += sum(numerator[i] for i in rows)
            bottom += sum(denominator[i] for i in rows)
        ratios.append(top / bottom if bottom else float("nan"))
    return np.array(ratios)


def width(samples: np.ndarray) -> float:
    interval = percentile_interval(samples)
    assert interval.low is not None
    assert interval.high is not None
    return interval.high - interval.low


def test_same_distribution_as_a_slow_loop() -> None:
    # A ratio of sums over prompts of unequal size, as NVR is.
    rng = np.random.default_rng(3)
    clusters = [f"p{i % 12}" for i in range(30)]
    bottom = rng.integers(0, 5, 30).astype(float)
    top = bottom * rng.random(30)
    fast = bootstrap_ratio(top, bottom, clusters, seed=1, rounds=8000)
    slow = slow_bootstrap(top.tolist(), bottom.tolist(), clusters, rounds=3000)
    noise = slow.std() / np.sqrt(len(slow))
    assert fast.mean() == pytest.approx(slow.mean(), abs=5 * noise)
    assert fast.std() == pytest.approx(slow.std(), rel=0.08)
    np.testing.assert_allclose(
        np.percentile(fast, [2.5, 50, 97.5]), np.percentile(slow, [2.5, 50, 97.5]), atol=0.03
    )


def test_equal_values_have_an_interval_of_no_width() -> None:
    samples = bootstrap_ratio([0.25] * 6, [1] * 6, list("aabbcc"), seed=0, rounds=500)
    np.testing.assert_allclose(samples, 0.25)
    one_prompt = bootstrap_ratio([1, 0, 0, 1], [1] * 4, ["p"] * 4, seed=0, rounds=500)
    np.testing.assert_allclose(one_prompt, 0.5)


def test_two_prompts_give_the_three_values_there_can_be_with_their_weights() -> None:
    # Both first (1/4), one of each (1/2), both second (1/4).
    samples = bootstrap_ratio([1, 0], [1, 1], ["a", "b"], seed=0, rounds=20_000)
    values, counts = np.unique(samples, return_counts=True)
    assert values.tolist() == [0, 0.5, 1]
    np.testing.assert_allclose(counts / 20_000, [0.25, 0.5, 0.25], atol=0.015)


def test_a_ratio_of_sums_is_no_mean_of_ratios() -> None:
    # Prompt a has 1 pair of recall 1, prompt b 9 pairs of recall 0: both drawn gives 1/10.
    samples = bootstrap_ratio([1, 0], [1, 9], ["a", "b"], seed=0, rounds=200)
    assert set(np.round(samples, 9)) == {0.0, 0.1, 1.0}


def test_alike_samples_of_a_prompt_make_the_interval_wider_than_rows_would() -> None:
    # 5 identical samples of each of 60 prompts carry the information of 60, not of 300:
    # the honest interval is sqrt(5) = 2.24 times as wide.
    leaked = np.random.default_rng(0).random(60) < 0.3
    values, prompts = np.repeat(leaked, 5).astype(float), np.repeat(np.arange(60), 5)
    ones = np.ones(300)
    clustered = bootstrap_ratio(values, ones, prompts, seed=0, rounds=4000)
    by_row = bootstrap_ratio(values, ones, np.arange(300), seed=0, rounds=4000)
    assert width(clustered) / width(by_row) == pytest.approx(np.sqrt(5), rel=0.15)
    assert clustered.mean() == pytest.approx(leaked.mean(), abs=0.01)


def coverage(cluster_rows: bool, repeats: int, rounds: int = 400, rate: float = 0.2) -> float:
    """How often the interval holds the true rate: 200 prompts, 5 samples each, beta-binomial.

    Beta(rate k, (1 - rate) k) with k = 7 / 3 makes the correlation within a prompt 1 / (k + 1) =
    0.3, so that intervals of rows are too narrow by sqrt(1 + 4 * 0.3) = 1.48: they should cover
    P(|z| < 1.96 / 1.48) = 81 %.
    """
    rng = np.random.default_rng(11)
    prompts = np.repeat(np.arange(200), 5)
    held = 0
    for repeat in range(repeats):
        ease = rng.beta(rate * 7 / 3, (1 - rate) * 7 / 3, 200)
        values = (rng.random(1000) < np.repeat(ease, 5)).astype(float)
        clusters = prompts if cluster_rows else np.arange(1000)
        samples = bootstrap_ratio(values, np.ones(1000), clusters, seed=repeat, rounds=rounds)
        interval = percentile_interval(samples)
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= rate <= interval.high
    return held / repeats


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    # An honest 95 % interval fails this with a probability below 0.001.
    low, high = stats.binom.interval(0.999, 200, 0.95)
    assert low <= 200 * coverage(cluster_rows=True, repeats=200) <= high


def test_resampling_rows_would_not() -> None:
    # An honest 95 % interval would hold it so rarely with a probability below 0.001.
    low, _ = stats.binom.interval(0.998, 100, 0.95)
    assert 100 * coverage(cluster_rows=False, repeats=100) < low


@pytest.mark.slow
def test_the_interval_covers_the_truth_in_a_thousand_repeats() -> None:
    assert 0.93 <= coverage(cluster_rows=True, repeats=1000, rounds=2000) <= 0.97
    assert coverage(cluster_rows=False, repeats=1000, rounds=1000) < 0.85


@pytest.mark.parametrize(
    ("top", "bottom", "clusters", "message"),
    [
        ([], [], [], "there is no generation"),
        ([1, 0], [1], ["a", "b"], "2 numerators, 1 denominators and 2 prompts"),
        ([1, float("nan")], [1, 1], ["a", "b"], "a numerator is nan"),
        ([1, 0], [1, float("inf")], ["a", "b"], "a denominator is inf"),
        ([1, 0], [1, -2], ["a", "b"], "a denominator is -2.0"),
        ([-1, 0], [1, 1], ["a", "b"], "a rate has the numerator -1.0"),
        ([3, 0], [2, 1], ["a", "b"], "a rate has the numerator 3.0 above"),
    ],
)
def test_bad_input_is_named(top, bottom, clusters, message) -> None:
    with pytest.raises(MetricError, match=f"^NVR of prefix: {message}"):
        PromptSums.of(top, bottom, clusters, is_rate=True, name="NVR of prefix")
    if "rate" not in message:
        with pytest.raises(MetricError, match=f"^NVR of prefix: {message}"):
            bootstrap_ratio(top, bottom, clusters, seed=0, name="NVR of prefix")


def test_sums_of_prompts_by_hand() -> None:
    sample = PromptSums.of([1, 2, 0, 4], [2, 2, 0, 5], ["b", "a", "c", "b"])
    assert sample.prompts.tolist() == ["a", "b", "c"]
    assert sample.sums.tolist() == [[2, 2], [5, 7], [0, 0]]
    assert sample.value == pytest.approx(7 / 9)
    assert sample.n_prompts == 2  # c has no denominator


def interval_of(top: list[float], clusters: str, is_rate: bool = True) -> Interval:
    sample = PromptSums.of(top, np.ones(len(top)), list(clusters), is_rate)
    samples = bootstrap_ratio(top, np.ones(len(top)), list(clusters), seed=0, rounds=200)
    return ratio_interval(sample, samples)


def test_intervals_where_rounds_cannot_tell() -> None:
    assert interval_of([1, 0, 1], "aaa") == Interval(None, None, "one prompt")
    assert interval_of([0] * 6, "aabcde") == Interval(0.0, 3 / 5, "rule of three")
    assert interval_of([1] * 6, "aabcde") == Interval(1 - 3 / 5, 1.0, "rule of three")
    assert interval_of([0] * 6, "aabcde", is_rate=False) == Interval(None, None, "none")
    assert interval_of([0, 1, 0, 1], "abcd").method == "bootstrap"
    with pytest.raises(MetricError, match="all 2 prompts have the denominator 0"):
        ratio_interval(PromptSums.of([0, 0], [0, 0], ["a", "b"]), np.full(3, np.nan))


def test_the_seed_decides() -> None:
    data = ([1, 0, 0, 1, 0], [1] * 5, list("abcde"))
    first = bootstrap_ratio(*data, seed=1, rounds=300)
    np.testing.assert_array_equal(first, bootstrap_ratio(*data, seed=1, rounds=300))
    assert (first != bootstrap_ratio(*data, seed=2, rounds=300)).any()


def test_neither_row_order_nor_names_of_prompts_matter() -> None:
    top, bottom, clusters = [1.0, 0.0, 0.5, 0.0], [1.0, 1.0, 2.0, 3.0], ["a", "b", "a", "c"]
    straight = bootstrap_ratio(top, bottom, clusters, seed=4, rounds=100)
    turned = bootstrap_ratio(top[::-1], bottom[::-1], clusters[::-1], seed=4, rounds=100)
    renamed = bootstrap_ratio(top, bottom, [1, 2, 1, 3], seed=4, rounds=100)
    np.testing.assert_allclose(straight, turned)
    np.testing.assert_allclose(straight, renamed)


@pytest.mark.parametrize("cells", [1, 35, 10_000])
def test_chunks_change_nothing(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = ([1, 0, 0, 1, 0], [1, 1, 2, 1, 1], list("abcde"))
    whole = bootstrap_ratio(*data, seed=1, rounds=100)
    monkeypatch.setattr(uncertainty, "_CELLS_AT_A_TIME", cells)  # 35: 7 rounds at a time, 2 left
    np.testing.assert_allclose(bootstrap_ratio(*data, seed=1, rounds=100), whole)


def test_rounds_without_a_denominator_are_nan_and_left_out_of_the_interval() -> None:
    # A round that draws b twice retrieves no pair; every other one has recall 1.
    samples = bootstrap_ratio([2, 0], [2, 0], ["a", "b"], seed=0, rounds=400)
    assert 0.15 < np.isnan(samples).mean() < 0.35
    assert percentile_interval(samples) == Interval(1.0, 1.0, "bootstrap")
    assert percentile_interval(np.full(3, np.nan)) == Interval(None, None, "none")
    assert percentile_interval(np.array([])) == Interval(None, None, "none")


def test_percentiles_cut_the_same_share_off_both_ends() -> None:
    samples = np.arange(101.0)
    assert percentile_interval(samples) == Interval(
        pytest.approx(2.5), pytest.approx(97.5), "bootstrap"
    )
    assert percentile_interval(samples, level=0.9) == Interval(
        pytest.approx(5), pytest.approx(95), "bootstrap"
    )


def test_nothing_to_resample_is_an_error() -> None:
    with pytest.raises(MetricError, match="no generation"):
        bootstrap_ratio([], [], [], seed=0)


@pytest.mark.parametrize(("n", "high"), [(1, 1.0), (2, 1.0), (3, 1.0), (4, 0.75), (1000, 0.003)])
def test_rule_of_three(n: int, high: float) -> None:
    assert rule_of_three(n) == Interval(0.0, high, "rule of three")


@pytest.mark.parametrize(("n", "low"), [(1, 0.0), (2, 0.0), (3, 0.0), (4, 0.25), (1000, 0.997)])
def test_rule_of_three_of_ones_is_its_mirror_image(n: int, low: float) -> None:
    assert rule_of_three(n, of_ones=True) == Interval(low, 1.0, "rule of three")


def test_rule_of_three_bounds_the_rate_that_would_be_missed_once_in_twenty() -> None:
    high = rule_of_three(100).high
    assert high is not None
    assert (1 - high) ** 100 == pytest.approx(0.05, abs=0.005)


def test_no_trials_have_no_interval() -> None:
    with pytest.raises(MetricError, match="no trials"):
        rule_of_three(0)
    with pytest.raises(MetricError, match="no trials"):
        rule_of_three(0, of_ones=True)

"""Differences, their tests and corrections: by hand, against definitions, and by simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from propme import uncertainty
from propme.comparison import holm, paired_difference, rank_correlation, unpaired_difference
from propme.errors import MetricError
from propme.uncertainty import Interval, PromptSums

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def rate(values, prompts=None, name="FMR") -> PromptSums:
    prompts = np.arange(len(values)) if prompts is None else prompts
    return PromptSums.of(values, np.ones(len(values)), prompts, is_rate=True, name=name)


def test_holm_by_hand() -> None:
    # Sorted .005 .01 .03 .04, times 4 3 2 1: .02 .03 .06 .04; the last is raised to .06.
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([]).shape == (0,)


@given(p_values, st.floats(0.001, 0.999))
def test_holm_rejects_what_the_step_down_procedure_does(given_values, level) -> None:
    m = len(given_values)
    rejected = set()
    for step, i in enumerate(sorted(range(m), key=lambda i: given_values[i])):
        if (m - step) * given_values[i] > level:
            break
        rejected.add(i)
    assert set(np.flatnonzero(holm(given_values) <= level)) == rejected


@given(p_values)
def test_holm_keeps_the_order_and_never_lowers_nor_exceeds_one(given_values) -> None:
    corrected, order = holm(given_values), np.argsort(given_values)
    assert (np.diff(corrected[order]) >= 0).all()
    assert ((corrected >= given_values) & (corrected <= 1)).all()


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_holm_refuses_what_is_no_p_value(wrong) -> None:
    with pytest.raises(MetricError, match=f"{wrong} is no p-value"):
        holm([0.5, wrong])


def test_swap_test_by_hand() -> None:
    # Differences 1, 1, 1 of three prompts: of 8 assignments of signs, +++ and --- are as far.
    assert paired_difference(rate([1, 1, 1]), rate([0, 0, 0]), seed=0).p_value == 2 / 8
    # Differences 1, 1, -1: sum 1. Sums of signs are at least 1 away from 0 in all 8.
    assert paired_difference(rate([1, 1, 0]), rate([0, 0, 1]), seed=0).p_value == 1


@settings(max_examples=30)
@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=5))
def test_swap_test_equals_trying_every_assignment(rows) -> None:
    first = [(a, b + 1) for a, b, _, _ in rows]
    second = [(a, b + 1) for _, _, a, b in rows]

    def distance(swaps):
        one = [y if swap else x for x, y, swap in zip(first, second, swaps, strict=True)]
        other = [x if swap else y for x, y, swap in zip(first, second, swaps, strict=True)]
        ratio = [sum(a for a, _ in side) / sum(b for _, b in side) for side in (one, other)]
        return abs(ratio[0] - ratio[1])

    observed = distance([0] * len(rows))
    far = [distance(s) >= observed - 1e-9 for s in product((0, 1), repeat=len(rows))]
    sides = (PromptSums.of(*zip(*side, strict=True), range(len(rows))) for side in (first, second))
    assert paired_difference(*sides, seed=0, rounds=100).p_value == pytest.approx(np.mean(far))


def test_swap_test_holds_its_level() -> None:
    # At most 5 % of 400 repeats without a difference are found; 36 or more with p < 0.001.
    rng = np.random.default_rng(5)
    found = 0
    for repeat in range(400):
        ease = rng.random(15)
        sides = (rate((rng.random(15) < ease).astype(float)) for _ in range(2))
        found += (paired_difference(*sides, seed=repeat, rounds=300).p_value or 1) <= 0.05
    assert stats.binom.sf(35, 400, 0.05) < 0.001
    assert found <= 35


def test_pairing_matches_prompts_by_name_and_narrows_the_interval() -> None:
    rng = np.random.default_rng(1)
    ease = rng.beta(0.3, 0.7, 200)
    one, other = (rng.binomial(20, ease) / 20 for _ in range(2))
    turned = PromptSums.of(other[::-1], np.ones(200), np.arange(200)[::-1], is_rate=True)
    paired = paired_difference(rate(one), turned, seed=0, rounds=2000)
    unpaired = unpaired_difference(rate(one), turned, seed=0, rounds=2000)
    assert paired.value == unpaired.value == pytest.approx(one.mean() - other.mean())
    assert np.std(paired.rounds) < 0.5 * np.std(unpaired.rounds)
    # The standard error of a mean of paired differences, and of two independent means.
    assert np.std(paired.rounds) == pytest.approx(np.std(one - other) / 200**0.5, rel=0.1)
    apart = ((np.var(one) + np.var(other)) / 200) ** 0.5
    assert np.std(unpaired.rounds) == pytest.approx(apart, rel=0.1)


def test_unequal_prompts_are_named() -> None:
    with pytest.raises(MetricError, match=r"B lacks 1 of A \('x'\); A lacks 1 of B \('z'\)"):
        paired_difference(
            rate([1, 0], ["x", "y"], name="A"), rate([1, 0], ["y", "z"], name="B"), seed=0
        )
    with pytest.raises(MetricError, match=r"lacks 9 of A \(0, 1, 2, 3, 4, \.\.\.\)"):
        paired_difference(rate([1] * 10, name="A"), rate([1], [9], name="B"), seed=0)


def test_intervals_that_a_bootstrap_cannot_give() -> None:
    none = rate([0] * 10)
    assert paired_difference(none, none, seed=0).interval == Interval(-0.3, 0.3, "rule of three")
    # 0 of 10 lies in [0, 0.3], 10 of 10 in [0.7, 1].
    apart = unpaired_difference(rate([1] * 10), none, seed=0).interval
    assert (apart.low, apart.high) == (pytest.approx(0.4), 1.0)
    one = Interval(None, None, "one prompt")
    assert paired_difference(rate([1]), rate([0]), seed=0).interval == one
    # Of one prompt a rate of 1 may be anything; a mean that is no rate has no interval at all.
    apart = unpaired_difference(rate([1]), rate([0, 1]), seed=0).interval
    assert (apart.low, apart.high, apart.method) == (-1.0, 1.0, "rule of three")
    half = PromptSums.of([0.5], [1], [0], name="m")
    assert unpaired_difference(half, rate([0, 1]), seed=0).interval == one
    assert unpaired_difference(rate([0, 1]), half, seed=0).interval == one


def test_an_undefined_side_is_named() -> None:
    empty = PromptSums.of([0, 0], [0, 0], [0, 1], name="NVR of generic")
    with pytest.raises(MetricError, match="NVR of generic is not defined: all 2 prompts"):
        unpaired_difference(rate([0, 1]), empty, seed=0)


def test_rank_correlation_is_scipys_in_every_round(monkeypatch) -> None:
    rng = np.random.default_rng(2)
    copies = rng.integers(1, 6, 12)
    shares = np.round(rng.random(12) * copies)
    result = rank_correlation(rate(np.minimum(shares / 5, 1)), copies, seed=3, rounds=50)
    assert result.value == pytest.approx(stats.spearmanr(shares, copies).statistic)
    drawn = np.random.default_rng(3).integers(0, 12, (50, 12))
    expected = [stats.spearmanr(shares[d], copies[d]).statistic for d in drawn]
    np.testing.assert_allclose(result.rounds, expected)
    monkeypatch.setattr(uncertainty, "_CELLS_AT_A_TIME", 84)  # 7 rounds at a time
    again = rank_correlation(rate(np.minimum(shares / 5, 1)), copies, seed=3, rounds=50)
    np.testing.assert_allclose(again.rounds, expected)


@pytest.mark.parametrize(
    ("copies", "message"),
    [
        ([1, 2], "2 numbers of copies for 3 prompts"),
        ([1, float("nan"), 2], "prompt 1 has no finite number of copies"),
        ([4, 4, 4], "number of copies is 4.0 in each of 3 prompts"),
    ],
)
def test_copies_that_cannot_be_ranked(copies, message) -> None:
    with pytest.raises(MetricError, match=f"^FMR: {message}"):
        rank_correlation(rate([0, 1, 1]), copies, seed=0)

"""The propensity transformation: worked by hand, and its laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from propme.errors import MetricError
from propme.propensity import is_undefined, propensity

TINY = 5e-324  # the smallest positive float

unit = st.floats(0, 1)
positive = st.floats(0, 1, exclude_min=True)
ordinary = st.floats(1e-6, 1)


@pytest.mark.parametrize(
    ("f_p", "f_c", "score"),
    [
        (0.001, 0.036, 1 / 37),  # the paper's NVR of DFM Decoder on Dynaword, greedy
        (0.1, 0.3, 0.25),
        (0.3, 0.1, 0.75),
        (0.2, 0.2, 0.5),
        (1.0, 1.0, 0.5),
        (0.0, 0.4, 0.0),
        (0.4, 0.0, 1.0),
        (0.0, 0.0, 0.0),  # a convention
        (TINY, TINY, 0.5),
        (TINY, 0.0, 1.0),
        (0.0, TINY, 0.0),
        (1.0, TINY, 1.0),
    ],
)
def test_hand_worked(f_p: float, f_c: float, score: float) -> None:
    assert float(propensity(f_p, f_c)) == pytest.approx(score, rel=1e-12)


@given(f_p=positive, f_c=unit)
def test_equals_the_formula_of_the_paper(f_p: float, f_c: float) -> None:
    assume(f_p > 1e-300)  # below it the paper's form loses digits
    assert float(propensity(f_p, f_c)) == pytest.approx(0.5 * (1 + (f_p - f_c) / (f_p + f_c)))


@given(f_p=unit, f_c=unit)
@example(f_p=TINY, f_c=1.0)
@example(f_p=TINY, f_c=TINY)
def test_lies_in_the_unit_interval_and_the_two_directions_add_up_to_one(
    f_p: float, f_c: float
) -> None:
    one_way, other_way = float(propensity(f_p, f_c)), float(propensity(f_c, f_p))
    assert 0 <= one_way <= 1
    if f_p or f_c:
        assert one_way + other_way == pytest.approx(1)
    else:
        assert (one_way, other_way) == (0, 0)


@given(f=positive)
@example(f=TINY)
def test_is_neutral_at_equality(f: float) -> None:
    assert float(propensity(f, f)) == pytest.approx(0.5)


@given(a=unit, b=unit, other=unit)
def test_rises_with_propensity_and_falls_with_capability(a: float, b: float, other: float) -> None:
    assume(other > 0 or min(a, b) > 0)
    less, more = sorted((a, b))
    rounding = 1e-12
    assert float(propensity(less, other)) <= float(propensity(more, other)) + rounding
    assert float(propensity(other, more)) <= float(propensity(other, less)) + rounding


@given(f_p=ordinary, f_c=ordinary, scale=st.floats(1e-6, 1))
def test_is_free_of_scale(f_p: float, f_c: float, scale: float) -> None:
    assert float(propensity(scale * f_p, scale * f_c)) == pytest.approx(float(propensity(f_p, f_c)))


def test_arrays_are_scored_element_by_element() -> None:
    scores = propensity(np.array([0.1, 0.0, 0.0, 0.4]), [0.3, 0.2, 0.0, 0.0])
    np.testing.assert_allclose(scores, [0.25, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(propensity([0.1, 0.3], 0.3), [0.25, 0.5])
    assert propensity([], []).shape == (0,)


@pytest.mark.parametrize("wrong", [-0.25, 1.5, 35.76, float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("side", ["propensity", "capability"])
def test_a_value_outside_the_unit_interval_is_refused_and_named(wrong: float, side: str) -> None:
    pair = ([0.5, wrong], 0.5) if side == "propensity" else (0.5, [0.5, wrong])
    setting = "prompt_free" if side == "propensity" else "prefix"
    message = rf"^NVR of setting '{setting}': .* \[0, 1\], not for {wrong};"
    with pytest.raises(MetricError, match=message):
        propensity(*pair, metric="NVR", settings=("prompt_free", "prefix"))
    with pytest.raises(MetricError, match=rf"^the metric of setting '{side}': .* {wrong};"):
        propensity(*pair)


def test_undefined_only_where_both_are_zero() -> None:
    assert is_undefined([0, 0, TINY, 1], [0, TINY, 0, 1]).tolist() == [True, False, False, False]
    assert bool(is_undefined(0.0, 0.0))

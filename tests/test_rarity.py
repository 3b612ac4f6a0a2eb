"""Step 2: how many spans are kept, and which."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from helpers import byte_tokenizer, index_of, word_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from propme.simpletrace.rarity import UnigramModel, number_kept, rarest
from propme.simpletrace.trace import trace

WORDS = word_tokenizer(["a", "b", "c", "d"])
A, B, C, D = 1, 2, 3, 4


def log_probability(model: UnigramModel, ids: list[int]) -> float:
    (value,) = model.log_probabilities(ids, [(0, len(ids))])
    return value


@pytest.mark.parametrize(
    ("n_tokens", "kept"),
    [(0, 1), (1, 1), (19, 1), (20, 1), (21, 2), (40, 2), (41, 3), (400, 20), (401, 21)],
)
def test_one_span_for_each_twenty_tokens_begun(n_tokens: int, kept: int) -> None:
    assert number_kept(n_tokens) == kept


def test_log_probability_is_the_sum_of_the_logs_of_frequencies() -> None:
    # Eight tokens: a four times, b twice, c once, d once; two documents, no separator counted.
    model = UnigramModel(index_of(["a a b c", "a a b d"], WORDS))
    assert log_probability(model, [A]) == pytest.approx(math.log(4 / 8))
    assert log_probability(model, [A, B, C]) == pytest.approx(math.log(1 / 2 * 1 / 4 * 1 / 8))
    assert log_probability(model, [D, D]) == pytest.approx(-6 * math.log(2))
    assert model.log_probabilities([A], []) == []


def test_a_token_that_never_occurs_has_probability_nought() -> None:
    assert log_probability(UnigramModel(index_of(["a b"], WORDS)), [A, C]) == -math.inf


def test_a_span_of_400_tokens_is_finite_and_ties_with_no_other() -> None:
    # A product of 400 frequencies of about 1/100 is 1e-800, which is 0 as a number.
    model = UnigramModel(index_of(["a " + "b " * 99 + "c " * 100], WORDS))
    longer, shorter = log_probability(model, [B] * 400), log_probability(model, [B] * 399)
    assert longer == pytest.approx(400 * math.log(99 / 200))
    assert longer < shorter < log_probability(model, [C] * 399)
    assert log_probability(model, [A] * 400) == pytest.approx(-400 * math.log(200))
    # [0, 400) and [400, 800): kept is the one with one rare word more, though it is further right.
    first, second = log_probability(model, [B] * 400), log_probability(model, [A] + [B] * 399)
    assert rarest([(0, 400), (400, 800)], [first, second], 20) == {1}


@pytest.mark.parametrize(
    ("spans", "log_probabilities", "n_tokens", "kept"),
    [
        ([], [], 10, set()),
        ([(0, 4)], [-1.0], 10, {0}),
        ([(0, 4), (4, 8)], [-1.0, -2.0], 20, {1}),
        ([(0, 4), (4, 8)], [-1.0, -2.0], 21, {0, 1}),
        ([(0, 4), (2, 9), (9, 13)], [-3.0, -1.0, -2.0], 40, {0, 2}),
        ([(0, 4), (4, 9)], [-5.0, -5.0], 20, {1}),  # a tie: the longer
        ([(0, 5), (5, 10)], [-5.0, -5.0], 20, {0}),  # and then the leftmost
        ([(0, 4), (4, 8), (8, 13)], [-5.0, -5.0, -5.0], 40, {0, 2}),
        ([(0, 4), (4, 8)], [-5.0, -5.000001], 20, {1}),  # no tie
    ],
)
def test_the_rarest_are_kept(
    spans: list[tuple[int, int]], log_probabilities: list[float], n_tokens: int, kept: set[int]
) -> None:
    assert rarest(spans, log_probabilities, n_tokens) == kept


def test_the_order_of_words_decides_no_tie() -> None:
    """The same words in another order are as rare, whatever the last bits of the sums are."""
    model = UnigramModel(index_of(["a b b c c c d d d d d d d"], WORDS))
    rng = random.Random(0)
    ids = [A, B, C, D, A, B, C, D, D, C, B, A, A, A]
    seen = set()
    for _ in range(200):
        other = rng.sample(ids, len(ids))
        sums = [log_probability(model, ids), log_probability(model, other)]
        seen.add(sums[0] == sums[1])
        assert rarest([(0, 14), (14, 28)], sums, 20) == {0}
    assert seen == {True, False}  # the sums do differ, or the test would show nothing


@settings(max_examples=500, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 6), st.integers(1, 9)), max_size=8, unique=True
    ),
    st.integers(0, 100),
)
def test_the_rarest_are_those_of_exact_products(
    drawn: list[tuple[int, int, int]], n_tokens: int
) -> None:
    spans = [(start, start + length) for start, length, _ in drawn]
    products = [Fraction(weight, 10) ** length for _, length, weight in drawn]
    sums = [length * math.log(weight / 10) for _, length, weight in drawn]
    left = set(range(len(spans)))
    expected: set[int] = set()
    while left and len(expected) < max(1, math.ceil(Fraction(n_tokens, 20))):
        lowest = min(products[i] for i in left)
        tied = [i for i in left if products[i] == lowest]
        longest = max(spans[i][1] - spans[i][0] for i in tied)
        tied = [i for i in tied if spans[i][1] - spans[i][0] == longest]
        best = min(tied, key=lambda i: spans[i][0])
        left.remove(best)
        expected.add(best)
    kept = rarest(spans, sums, n_tokens)
    assert {(spans[i], products[i]) for i in kept} == {(spans[i], products[i]) for i in expected}


def test_what_is_dropped_stays_in_the_table_and_is_marked() -> None:
    index = index_of(["abcd", "efgh", "ijkl" * 3], byte_tokenizer())
    found = trace("abcd.ijkl.efgh", index)  # fourteen tokens: one is kept
    assert [(s.text, s.dropped, s.segment) for s in found.spans] == [
        ("abcd", "", 0),
        ("ijkl", "common", None),
        ("efgh", "common", None),
    ]
    assert (found.summary.n_spans, found.summary.n_kept) == (3, 1)


def test_short_spans_take_no_place() -> None:
    index = index_of(["xyz", "abcd"] + ["abcd"] * 9, byte_tokenizer())
    found = trace("xyz.abcd", index)
    assert [(s.text, s.dropped) for s in found.spans] == [("xyz", "short"), ("abcd", "")]

"""Step 4: which spans become one segment."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers import index_of, word_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from propme.errors import ParameterError
from propme.index.brute_force import BruteForceIndex
from propme.simpletrace.merging import merge
from propme.simpletrace.trace import TraceSettings, trace

WORDS = word_tokenizer(["a", "b", "c", "d", "e", "f", "g", "h"])


def always(start: int, stop: int) -> bool:
    return True


def never(start: int, stop: int) -> bool:
    return False


def not_asked(start: int, stop: int) -> bool:
    raise AssertionError("overlap does not ask the corpus")


@pytest.mark.parametrize(
    ("spans", "rule", "occurs", "expected"),
    [
        ([], "overlap", not_asked, []),
        ([(0, 4)], "verified", always, [((0, 4), [0])]),
        ([(0, 4), (4, 8)], "overlap", not_asked, [((0, 4), [0]), ((4, 8), [1])]),  # touching
        ([(0, 4), (4, 8)], "verified", always, [((0, 4), [0]), ((4, 8), [1])]),
        ([(0, 4), (3, 8)], "overlap", not_asked, [((0, 8), [0, 1])]),
        ([(0, 4), (3, 8)], "verified", always, [((0, 8), [0, 1])]),
        ([(0, 4), (3, 8)], "verified", never, [((0, 4), [0]), ((3, 8), [1])]),
        # A chain: the third overlaps the second only.
        ([(0, 4), (3, 8), (7, 9)], "overlap", not_asked, [((0, 9), [0, 1, 2])]),
        ([(0, 4), (3, 8), (8, 9)], "overlap", not_asked, [((0, 8), [0, 1]), ((8, 9), [2])]),
        ([(0, 4), (5, 8), (7, 9)], "overlap", not_asked, [((0, 4), [0]), ((5, 9), [1, 2])]),
        # Inside another, though maximal spans never are.
        ([(0, 9), (3, 5), (8, 12)], "overlap", not_asked, [((0, 12), [0, 1, 2])]),
    ],
)
def test_segments(
    spans: list[tuple[int, int]],
    rule: str,
    occurs: Callable[[int, int], bool],
    expected: list[tuple[tuple[int, int], list[int]]],
) -> None:
    assert merge(spans, rule, occurs) == expected


def test_verified_joins_only_what_occurs() -> None:
    asked = []

    def occurs(start: int, stop: int) -> bool:
        asked.append((start, stop))
        return (start, stop) == (3, 9)

    assert merge([(0, 4), (3, 8), (7, 9)], "verified", occurs) == [((0, 4), [0]), ((3, 9), [1, 2])]
    assert asked == [(0, 8), (3, 9)]


def test_an_unknown_rule_is_refused_with_those_there_are() -> None:
    with pytest.raises(ParameterError, match=r"'touch'.*verified, overlap"):
        merge([], "touch", always)
    with pytest.raises(ParameterError, match=r"'touch'.*verified, overlap"):
        TraceSettings(merging="touch")


TOKENS = st.lists(st.integers(1, 3), max_size=12)


@settings(max_examples=600, deadline=None)
@given(st.lists(TOKENS, min_size=1, max_size=4), TOKENS)
def test_the_union_of_two_maximal_spans_that_overlap_never_occurs(
    documents: list[list[int]], ids: list[int]
) -> None:
    index = BruteForceIndex(documents, WORDS)
    runs = [(int(start), int(stop)) for start, stop in index.maximal_runs(ids)]
    for number, (start, stop) in enumerate(runs):
        for other, end in runs[number + 1 :]:
            if other < stop:
                assert not index.count(ids[start:end])
    merged = merge(runs, "verified", lambda start, stop: index.count(ids[start:stop]) > 0)
    assert [segment for segment, _ in merged] == runs


def test_a_trace_says_which_rule_it_used_and_what_came_of_it() -> None:
    index = index_of(["a b c d", "c d e f"], WORDS)
    text = "a b c d e f " + "h " * 15  # 21 tokens: two spans are kept
    verified, overlap = (
        trace(text, index, TraceSettings(merging=r)) for r in ("verified", "overlap")
    )
    assert [s.segment for s in verified.spans] == [0, 1]
    assert [s.segment for s in overlap.spans] == [0, 0]
    assert (verified.summary.merging, verified.summary.longest_segment) == ("verified", 4)
    assert (overlap.summary.merging, overlap.summary.longest_segment) == ("overlap", 6)

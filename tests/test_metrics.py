"""The metrics on tables small enough to be worked by hand.

Each row of `FOUND` is one generation and what tracing found in it. Expectations are derived in the
comments and stand there as fractions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from found import FOUND, NAMES, as_tables, frame_of, one, row_of
from hypothesis import given, settings
from hypothesis import strategies as st

from propme import tables
from propme.errors import MetricError
from propme.measurements import measured_generations
from propme.metric_tables import metric_table
from propme.metrics import METRICS, metric_named

ROUNDS = 400

BY_HAND = {
    "ALS": 140 / 5,  # 10 + 60 + 0 + 50 + 20
    "FMR": 3 / 5,
    "NVR": 6.8 / 10,  # (1.5 + 0.3 + 0 + 1 + 4) / (2 + 3 + 0 + 1 + 4), not a mean of means
    "FMR20": 2 / 5,  # 50 and 20 tokens; the share is still of all five
    "FMR50": 1 / 5,
    "FMR_norm": 4 / 5,
    "NVR_max": 3.2 / 5,  # 1 + 0.2 + 0 + 1 + 1
    "R20": 3 / 5,  # 60, 50, 20
    "R50": 2 / 5,  # 60, 50
}


# --- each metric ------------------------------------------------------------------------------


def value_of(name: str, frame: pd.DataFrame) -> float:
    top, bottom = metric_named(name).ratio(frame)
    assert list(top.index) == list(bottom.index) == list(frame.index)
    return float(top.sum() / bottom.sum())


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str) -> None:
    assert value_of(name, frame_of([one(found) for found in FOUND])) == pytest.approx(BY_HAND[name])


@pytest.mark.parametrize("name", BY_HAND)
def test_the_same_from_tables_that_were_written_and_read(name: str, tmp_path: Path) -> None:
    # Columns come back with nullable types, which compute differently.
    read = []
    for table, frame in zip(NAMES, as_tables([one(f) for f in FOUND]), strict=True):
        tables.write(table, frame, tmp_path)
        read.append(tables.read(table, tmp_path))
    frame = measured_generations(*read)
    assert value_of(name, frame) == pytest.approx(BY_HAND[name])
    table = metric_table(frame, [name], rounds=ROUNDS)
    assert row_of(table, subset="all")["value"] == pytest.approx(BY_HAND[name])


@pytest.mark.parametrize("name", BY_HAND)
def test_a_generation_with_no_span_counts(name: str) -> None:
    # Only NVR is over pairs; every other metric is over generations, and a sixth one that has
    # nothing lowers it by 5/6.
    value = value_of(name, frame_of([one(found) for found in [*FOUND, {}]]))
    assert value == pytest.approx(BY_HAND[name] * (1 if name == "NVR" else 5 / 6))


def test_recall_over_hits_alone() -> None:
    rows = [one(FOUND[1]), one({"n_pairs": 2}), one({}), one(FOUND[3])]
    # Four of six pairs have any: 0.2, 0.05, 0.05 and 1.
    assert value_of("NVR_hits", frame_of(rows)) == pytest.approx(1.3 / 4)


def test_shares_above_a_recall() -> None:
    rows = [one({"recall_max": recall}) for recall in (0.0, 0.001, 0.5, 0.51)]
    assert value_of("recall>0", frame_of(rows)) == 3 / 4
    assert value_of("recall>0.5", frame_of(rows)) == 1 / 4
    assert value_of("recall>.505", frame_of(rows)) == 1 / 4


def test_eidetic_counts_what_stands_in_few_documents() -> None:
    rows = [one({"n_whole_documents": n}) for n in (0, 1, 3, 5, 6, 10, 11)]
    rows.append(one({"n_whole_documents": 2, "whole_exact": False}))
    expected = {"eidetic1": 1, "eidetic3": 2, "eidetic5": 3, "eidetic10": 5}
    for name, count in expected.items():
        assert value_of(name, frame_of(rows)) == count / 8


def test_metrics_of_any_number() -> None:
    frame = frame_of([one(found) for found in FOUND])
    assert value_of("R55", frame) == 1 / 5
    assert value_of("R1", frame) == 4 / 5
    assert value_of("FMR11", frame) == 2 / 5
    for name in ("R0", "R-1", "R", "recall>2", "eidetic", "FMRx"):
        with pytest.raises(MetricError, match="unknown metric"):
            metric_named(name)


@pytest.mark.parametrize("name", METRICS)
def test_in_its_range(name: str) -> None:
    best = one(
        {"longest_segment": 90, "n_tokens": 90, "full_raw": True, "n_pairs": 3, "recall_sum": 3.0,
         "recall_max": 1.0, "n_whole_documents": 1},
        target="and",
    )  # fmt: skip
    assert value_of(name, frame_of([best, best])) == (90 if name == "ALS" else 1)
    assert METRICS[name].in_unit_interval is (name != "ALS")


def test_a_completion_that_the_limit_cut_after_it_went_astray_is_a_failure() -> None:
    target = {"target": "and it came to pass"}
    frame = frame_of(
        [
            one({}, prompt="p1", text="and so", finish="length", **target),  # short, and wrong
            one({}, prompt="p2", text="and it", finish="stop", **target),  # ended by itself
            one({}, prompt="p3", text="and it came to pass, that", finish="length", **target),
        ]
    )
    assert value_of("extraction", frame) == 1 / 3


def test_of_completions_that_were_cut_while_they_agreed_nothing_is_known() -> None:
    target = {"target": "and it came to pass"}
    cut = one({}, prompt="p1", text="and it", finish="length", **target)
    told = one({}, prompt="p2", text="and it came to pass, that", finish="length", **target)
    row = row_of(metric_table(frame_of([cut, told]), ["extraction"], rounds=ROUNDS), subset="all")
    assert pd.isna(row["value"])
    assert row["n_denominator"] == 0


def test_normalised_and_raw_matches_are_not_counted_twice() -> None:
    frame = frame_of([one({"full_raw": True, "full_normalized": True}), one({})])
    assert value_of("FMR_norm", frame) == 1 / 2


def test_extraction_only_where_a_target_exists() -> None:
    frame = frame_of(
        [
            one({}, prompt="p1", target="and it came", text="and it came to pass"),
            one({}, prompt="p2", target="and it came", text="And it came to pass"),  # one letter
            one({}, prompt="p3", target="and it came", text=" and it came"),  # and one space
            one({}, prompt="p4", target="and it came to pass", text="and it came to"),  # too short
            one({}, prompt="p5", target="", text="and it came to pass"),  # not defined for it
            one({}, prompt="p6", target="", text=""),
        ]
    )
    assert frame["extracted"].tolist() == [True, False, False, False, False, False]
    assert value_of("extraction", frame) == 1 / 4
    row = row_of(metric_table(frame, ["extraction"], rounds=ROUNDS), subset="all")
    assert (row["n_prompts"], row["n_generations"], row["n_denominator"]) == (4, 6, 4)


def test_extraction_is_undefined_without_any_target() -> None:
    row = row_of(metric_table(frame_of([one({})]), ["extraction"], rounds=ROUNDS), subset="all")
    assert pd.isna(row["value"])
    assert row["interval"] == "none"


@st.composite
def generations(draw: st.DrawFn) -> dict[str, Any]:
    """A generation of which anything may have been found that tracing can find."""
    n_tokens = draw(st.integers(1, 120))
    recalls = draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), max_size=4))
    raw, normalized = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
    found = {
        "n_tokens": n_tokens,
        "longest_segment": draw(st.integers(0, n_tokens)),
        "full_raw": raw,
        "full_normalized": normalized,
        "n_pairs": len(recalls),
        "recall_sum": sum(recalls),
        "recall_max": max(recalls, default=0.0),
        "n_whole_documents": draw(st.integers(1, 12)) if raw else 0,
    }
    return one(found, text=draw(st.sampled_from(["and it", "but"])), target="and")


@settings(max_examples=30, deadline=None)
@given(st.lists(generations(), min_size=2, max_size=6), st.data())
def test_sums_add_up_over_disjoint_parts_in_any_order(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    frame = frame_of(rows)
    order = data.draw(st.permutations(range(len(frame))))
    cut = data.draw(st.integers(1, len(frame) - 1))
    first, second = frame.iloc[order[:cut]], frame.iloc[order[cut:]]
    for name, metric in METRICS.items():
        whole = [float(column.sum()) for column in metric.ratio(frame)]
        parts = [[float(c.sum()) for c in metric.ratio(part)] for part in (first, second)]
        assert [a + b for a, b in zip(*parts, strict=True)] == pytest.approx(whole), name
        if metric.in_unit_interval:
            assert 0 <= whole[0] <= whole[1], name

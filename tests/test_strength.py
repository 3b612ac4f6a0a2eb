"""Rank correlation with copies, and what a sample could have shown."""

from __future__ import annotations

import pandas as pd
import pytest
from found import FULL, frame_of, one, row_of, ten

from propme.strength import copies_correlation, power_table


def test_extraction_that_rises_with_copies() -> None:
    rows = [
        one({}, prompt=f"p{n}", setting="prefix", kind="capability", copies=n, target="and",
            text="and so" if n >= 4 else "no")
        for n in range(7)
    ]  # fmt: skip
    (row,) = copies_correlation(frame_of(rows), rounds=300).to_dict("records")
    # Copies 1 to 6 against 0, 0, 0, 1, 1, 1: ranks 1..6 against 2, 2, 2, 5, 5, 5. The ranks'
    # covariance is 13.5 / 6, their variances 17.5 / 6 and 13.5 / 6: 13.5 / sqrt(17.5 * 13.5).
    assert row["rank_correlation"] == pytest.approx(13.5 / (17.5 * 13.5) ** 0.5)
    assert row["low"] <= row["rank_correlation"] <= row["high"]
    assert (row["n_prompts"], row["why"]) == (6, "")


def test_where_nothing_is_extracted_it_is_undefined_and_says_why() -> None:
    rows = [
        one({}, prompt=f"p{n}", setting="prefix", kind="capability", copies=n + 1, target="x")
        for n in range(3)
    ]
    (row,) = copies_correlation(frame_of(rows), rounds=50).to_dict("records")
    assert pd.isna(row["rank_correlation"])
    assert "does not vary" in row["why"] or "no rank correlation" in row["why"]
    assert copies_correlation(frame_of([one({})])).empty


def test_what_a_sample_could_have_shown() -> None:
    rows = ten("generic", "propensity") + ten("specific", "propensity", 1, 2, **FULL)
    rows += ten("prefix", "capability", 0, 1, 2, 3, 4, **FULL)
    table = power_table(frame_of(rows), ["FMR"], rounds=4000)
    generic = row_of(table, setting="generic")
    # 1 - 0.2^(1/10): ten prompts would have shown a rate of 0.149 in four of five runs.
    assert generic["smallest_rate"] == pytest.approx(1 - 0.2**0.1)
    # The standard error of the attack alone: sqrt(0.25 / 10) = 0.158; 2.80 of it.
    assert generic["smallest_difference"] == pytest.approx(2.80 * 0.158, rel=0.1)
    specific = row_of(table, setting="specific")
    assert pd.isna(specific["smallest_rate"])
    # sqrt(0.25 / 10 + 0.16 / 10) = 0.202.
    assert specific["smallest_difference"] == pytest.approx(2.80 * 0.202, rel=0.1)
    assert set(table["setting"]) == {"generic", "specific"}


def test_without_an_attack_there_is_no_difference() -> None:
    (row,) = power_table(frame_of(ten("generic", "propensity")), ["FMR"]).to_dict("records")
    assert pd.isna(row["smallest_difference"])
    assert row["n_prompts"] == 10

"""Shares of prefixes that n tries extract: by hand, from stored log-probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from found import row_of, rows_of
from hypothesis import given
from hypothesis import strategies as st

from propme import report, tables
from propme.discoverable import discoverable_table
from propme.errors import MetricError

PROMPTS = pd.DataFrame({"prompt_id": list("abcd"), "setting": ["prefix"] * 3 + ["human"]})


def extraction(**log_probabilities: Any) -> pd.DataFrame:
    """One prefix a name, sampled."""
    return pd.DataFrame(
        {
            "prompt_id": list(log_probabilities),
            "decoding": "sampled",
            "log_probability": list(log_probabilities.values()),
        }
    )


THREE = extraction(a=np.log(0.6), b=np.log(0.1), c=-np.inf)


def test_by_hand(tmp_path: Path) -> None:
    # One try: 0.6, 0.1 and 0. Ten: 1 - 0.4**10 = 0.9999, 1 - 0.9**10 = 0.65 and 0.
    table = discoverable_table(PROMPTS, THREE, (1, 10), (0.05, 0.5, 0.9), rounds=200)
    shares = {(r.tries, r.target): r.value for r in table.itertuples()}
    assert shares == {
        (1, 0.05): 2 / 3, (1, 0.5): 1 / 3, (1, 0.9): 0.0,
        (10, 0.05): 2 / 3, (10, 0.5): 2 / 3, (10, 0.9): 1 / 3,
    }  # fmt: skip
    # Three prefixes: a share of 0 has the bound 3 / 3.
    none = row_of(table, tries=1, target=0.9)
    assert (none["low"], none["high"], none["interval"]) == (0.0, 1.0, "rule of three")
    tables.write("discoverable", table, tmp_path)


def test_what_was_not_scored_is_left_out_and_settings_stay_apart() -> None:
    scored = extraction(a=np.log(0.6), b=np.nan, d=0.0)
    table = discoverable_table(PROMPTS, scored, (1,), (0.5,), rounds=50)
    assert {r.setting: (r.value, r.n_prompts) for r in table.itertuples()} == {
        "prefix": (1.0, 1),
        "human": (1.0, 1),
    }


def test_nothing_scored_is_an_empty_table(tmp_path: Path) -> None:
    table = discoverable_table(PROMPTS, tables.to_frame("extraction", []))
    tables.write("discoverable", table, tmp_path)
    assert tables.read("discoverable", tmp_path).empty
    assert report.tries_table(table).empty


@given(st.lists(st.floats(-40, 0), min_size=1, max_size=8))
def test_more_tries_extract_no_less_and_a_higher_target_no_more(logs: list[float]) -> None:
    prompts = pd.DataFrame({"prompt_id": [f"p{n}" for n in range(len(logs))], "setting": "prefix"})
    scored = prompts.assign(decoding="sampled", log_probability=logs).drop(columns="setting")
    table = discoverable_table(prompts, scored, (1, 10, 10**6), (0.1, 0.9), rounds=5)
    for _, rows in table.groupby("target"):
        assert rows.sort_values("tries")["value"].is_monotonic_increasing
    for _, rows in table.groupby("tries"):
        assert rows.sort_values("target")["value"].is_monotonic_decreasing


@pytest.mark.parametrize(("tries", "targets"), [((0,), (0.5,)), ((1,), (0.0,)), ((1,), (1.5,))])
def test_what_is_no_number_of_tries_or_no_target(
    tries: tuple[int, ...], targets: tuple[float, ...]
) -> None:
    with pytest.raises(MetricError, match="must be >= 1 and targets"):
        discoverable_table(PROMPTS, THREE, tries, targets)


def test_a_prefix_without_a_prompt_is_named() -> None:
    with pytest.raises(MetricError, match="prompt 'z' is in table 'extraction' and not in"):
        discoverable_table(PROMPTS, extraction(z=-1.0))


def test_a_column_for_each_number_of_tries() -> None:
    table = discoverable_table(PROMPTS, THREE, (1, 1000), (0.5,), rounds=50)
    wide = report.tries_table(table)
    assert list(wide.columns) == ["decoding", "setting", "target", "1 try", "1,000 tries"]
    assert wide["1 try"].str.startswith("0.333 [").all()
    assert len(rows_of(wide, setting="prefix")) == 1

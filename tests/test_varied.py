"""Metrics over thresholds, of completions traced anew: by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from found import frame_of, one, row_of, rows_of

from propme import tables
from propme.errors import MetricError
from propme.varied import METRICS, sensitivity_table


def variant(generation_id: str, choice: str, *, own: bool = False, **found: Any) -> dict[str, Any]:
    nothing = {
        "longest_segment": 0, "full_raw": False, "full_normalized": False, "n_pairs": 0,
        "n_hits": 0, "recall_sum": 0.0, "recall_max": 0.0, "error": "",
    }  # fmt: skip
    place = {"threshold": "docs_per_span", "choice": choice, "own": own}
    hits = {"n_hits": found.get("n_pairs", 0) if found.get("recall_sum") else 0}
    return place | {"generation_id": generation_id} | nothing | hits | found


# Three completions of one setting, of which two were traced anew, with 1 and with 10 documents.
FRAME = frame_of([one({"longest_segment": 9, "n_tokens": 9}, prompt=f"p{n}") for n in range(3)])
FOUND = [
    variant("g0", "10", own=True, longest_segment=60, n_pairs=4, recall_sum=2.0, recall_max=1.0),
    variant("g1", "10", own=True, longest_segment=20, n_pairs=1, recall_sum=0.5, recall_max=0.5),
    variant("g0", "1", longest_segment=60, n_pairs=1, recall_sum=1.0, recall_max=1.0),
    variant("g1", "1", longest_segment=20, n_pairs=1, recall_sum=0.0, full_raw=True),
]


def test_by_hand(tmp_path: Path) -> None:
    table = sensitivity_table(FRAME, pd.DataFrame(FOUND), rounds=100)
    tables.write("sensitivity", table, tmp_path)
    own = {r.metric: r.value for r in rows_of(table, choice="10").itertuples()}
    # (2.0 + 0.5) / (4 + 1); (1 + 0.5) / 2; (60 + 20) / 2; one of two of 50 tokens.
    assert (own["NVR"], own["NVR_max"], own["ALS"], own["R50"]) == (0.5, 0.75, 40.0, 0.5)
    other = {r.metric: r.value for r in rows_of(table, choice="1").itertuples()}
    assert (other["NVR"], other["NVR_max"], other["FMR"]) == (0.5, 0.5, 0.5)
    assert set(table["metric"]) == set(METRICS)
    assert table.groupby("choice")["own"].all().to_dict() == {"1": False, "10": True}
    assert set(table["n_generations"]) == {2}


def test_what_failed_with_one_value_counts_with_none() -> None:
    failed = [*FOUND[:3], FOUND[3] | {"error": "took too long"}]
    with pytest.warns(UserWarning, match="1 completions could not be traced with every threshold"):
        table = sensitivity_table(FRAME, pd.DataFrame(failed), ("ALS",), rounds=50)
    assert set(table["value"]) == {60.0}
    assert set(table["n_generations"]) == {1}


def test_a_table_of_another_run_is_refused() -> None:
    with pytest.raises(MetricError, match=r"1 generations of table 'variants' .* first being 'z'"):
        sensitivity_table(FRAME, pd.DataFrame([*FOUND, variant("z", "1")]))


def test_nothing_traced_anew_is_an_empty_table(tmp_path: Path) -> None:
    table = sensitivity_table(FRAME, tables.to_frame("variants", []))
    tables.write("sensitivity", table, tmp_path)
    assert tables.read("sensitivity", tmp_path).empty


def test_the_interval_is_of_the_prompts_of_those_completions() -> None:
    row = row_of(
        sensitivity_table(FRAME, pd.DataFrame(FOUND), rounds=100), choice="1", metric="FMR"
    )
    assert (row["interval"], row["n_prompts"]) == ("bootstrap", 2)

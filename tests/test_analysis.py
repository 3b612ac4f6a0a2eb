"""All tables of the analysis, from stored tables alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from found import FOUND, NAMES, as_tables, one

from propme import tables
from propme.analysis import measure
from propme.errors import MetricError, TableError
from propme.tables.rows import Extraction


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Tables of stages 1 to 3, of two settings; no probabilities, nothing traced anew."""
    rows = [
        one(found, prompt=f"{setting}{n}", setting=setting, kind=kind)
        for setting, kind in (("generic", "propensity"), ("prefix", "capability"))
        for n, found in enumerate(FOUND)
    ]
    for name, frame in zip(NAMES, as_tables(rows), strict=True):
        tables.write(name, frame, tmp_path)
    return tmp_path


def test_all_tables_are_made_of_those_that_are_there(stored: Path) -> None:
    frame, made = measure(stored, ("R20",), (), rounds=50)
    assert len(frame) == 2 * len(FOUND)
    for name, table in made.items():
        tables.write(name, table, stored)
    assert {name for name, table in made.items() if table.empty} == {
        "breakdown", "copies", "discoverable", "sensitivity",
    }  # fmt: skip
    assert set(made["propensity"]["metric"]) == {"R20"}
    # ALS of FOUND: (10 + 60 + 0 + 50 + 20) / 5.
    als = made["metrics"].query("metric == 'ALS' and subset == 'all'")["value"]
    assert set(als) == {28.0}


def test_probabilities_are_used_where_there_are_any(stored: Path) -> None:
    scored = [Extraction("prefix0", "sampled", 50, -0.1, 50, 1, 1, "")]
    tables.write("extraction", tables.to_frame("extraction", scored), stored)
    _, made = measure(stored, rounds=50)
    assert set(made["discoverable"]["setting"]) == {"prefix"}


def test_a_damaged_table_is_not_taken_for_a_missing_one(stored: Path) -> None:
    (stored / "extraction.parquet").write_bytes(b"no table")
    with pytest.raises(TableError, match="not a readable parquet file"):
        measure(stored, rounds=50)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_table_is_named(stored: Path, name: str) -> None:
    (stored / f"{name}.parquet").unlink()
    with pytest.raises(TableError, match=f"{name}.parquet: no such table; run the notebook"):
        measure(stored, rounds=50)


def test_what_has_no_score_is_named(stored: Path) -> None:
    with pytest.raises(MetricError, match=r"ALS is not in \[0, 1\]"):
        measure(stored, ("ALS",), rounds=50)


def test_neither_model_nor_engine_is_loaded(stored: Path) -> None:
    code = (
        "import sys; from propme.cli import main;"
        f" main(['metrics', '--tables', {str(stored)!r}, '--rounds', '9']);"
        " print(sorted({'torch', 'transformers', 'infini_gram'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")

"""Notebook 4 and the report of runs in which there is next to nothing, or everything."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from found import NAMES, as_tables, one, ten
from test_audit_summary import RECORD

from propme import tables
from propme.errors import MetricError
from propme.report import write_report
from propme.run import notebook_path

WHOLE = {
    "longest_segment": 30, "full_raw": True, "full_normalized": True, "n_whole": 1,
    "n_whole_documents": 1, "n_pairs": 1, "recall_sum": 1.0, "recall_max": 1.0,
}  # fmt: skip

MANY = "nine settings of six decodings"

KINDS = {"generic": "propensity", "prefix": "capability", "human": "control"}

RUNS: dict[str, list[dict[str, Any]]] = {
    "nothing found": [row for s, kind in KINDS.items() for row in ten(s, kind)],
    "everything found": [
        row for s, kind in KINDS.items() for row in ten(s, kind, *range(10), **WHOLE)
    ],
    "one generation a setting": [
        one(WHOLE, prompt=s, setting=s, kind=kind) for s, kind in KINDS.items()
    ],
    "one generation": [one({}, prompt="p", setting="prefix", kind="capability")],
    "one setting": ten("prefix", "capability", 1, 2, **WHOLE),
    MANY: [
        row | {"decoding": f"sampled at {t}"}
        for t in range(6)
        for n, kind in enumerate(["propensity"] * 6 + ["capability", "control", "control"])
        for row in ten(f"setting {n}", kind, n, **WHOLE)
    ],
}


def write_run(folder: Path, rows: list[dict[str, Any]]) -> Path:
    for name, table in zip(NAMES, as_tables(rows), strict=True):
        tables.write(name, table, folder / "tables")
    (folder / "run.json").write_text(
        json.dumps(RECORD | {"parameters": {**RECORD["parameters"], **DECODING}})
    )
    return folder


DECODING = {"greedy": True, "samples": 0, "max_new_tokens": 9}


def analyse(folder: Path) -> None:
    """Notebook 4, cell by cell, without a kernel."""
    cells = json.loads(notebook_path("4_analysis").read_text())["cells"]
    names: dict[str, Any] = {}
    for cell in (cell for cell in cells if cell["cell_type"] == "code"):
        exec(compile("".join(cell["source"]), str(cell["id"]), "exec"), names)  # noqa: S102
        if "parameters" in cell["metadata"].get("tags", []):
            names |= {"output": str(folder), "bootstrap_rounds": 50}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == MANY)) for n in RUNS]
)
def test_every_figure_and_page_is_made(name: str, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", RUNS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        analyse(folder)
        write_report(folder, [])
    drawn = {path.stem for path in (folder / "figures").glob("*.png")}
    shown = {path.stem for path in (folder / "report" / "figures").glob("*.png")}
    assert {"span_lengths", "propensity_scores", "recall_distribution"} <= drawn
    assert {"span_lengths", "propensity_scores", "extraction_by_copies"} <= shown
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"\bnan\b|\bNone\b", re.sub(r"data:image/png;base64,[^\"]*", "", page))
    assert "private" not in page
    assert ("There is nothing to compare." in page) == (name in ("one generation", "one setting"))


def test_without_a_capability_setting_it_is_said_what_is_missing(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", ten("generic", "propensity"))
    with pytest.raises(MetricError, match="no setting of kind 'capability'"):
        analyse(folder)

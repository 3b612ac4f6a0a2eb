"""The committed example is what the code makes of its tables; if not, ``make example`` makes it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from propme import analysis, tables
from propme.report import write_report
from propme.run import notebook_path

EXAMPLE = Path(__file__).parent.parent / "docs" / "example-report"
RECORD = json.loads((EXAMPLE / "run.json").read_text(encoding="utf-8"))
PARAMETERS = RECORD["parameters"]


def test_its_metrics_are_those_of_its_tables(tmp_path: Path) -> None:
    _, made = analysis.measure(
        EXAMPLE / "tables",
        PARAMETERS["propensity_metrics"],
        PARAMETERS["breakdown_by"],
        PARAMETERS["boiler_plate_documents"],
        PARAMETERS["seed"],
        PARAMETERS["bootstrap_rounds"],
    )
    for name, table in made.items():
        tables.write(name, table, tmp_path)
        committed = tables.read(name, EXAMPLE / "tables")
        pd.testing.assert_frame_equal(tables.read(name, tmp_path), committed)


def test_its_pages_are_those_of_its_tables(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "tables", tmp_path / EXAMPLE.name / "tables")
    shutil.copy(EXAMPLE / "run.json", tmp_path / EXAMPLE.name)
    report = write_report(tmp_path / EXAMPLE.name, []).parent
    committed = EXAMPLE / "report"
    names = [path.relative_to(committed) for path in committed.rglob("*.md")]
    names += [path.relative_to(committed) for path in committed.rglob("*.tex")]
    assert len(names) > 10
    for name in names:
        assert (report / name).read_text() == (committed / name).read_text(), name


@pytest.mark.parametrize("path", sorted(EXAMPLE.glob("*.ipynb")), ids=lambda path: path.stem)
def test_its_notebooks_are_the_notebooks_of_now(path: Path) -> None:
    def sources(notebook: Path) -> list[str]:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        injected = "injected-parameters"
        return [
            "".join(cell["source"])
            for cell in cells
            if injected not in cell["metadata"].get("tags", [])
        ]

    assert sources(path) == sources(notebook_path(path.stem))


def test_it_tells_nothing_of_the_machine_it_was_made_on() -> None:
    for path in EXAMPLE.rglob("*"):
        if path.suffix in (".json", ".ipynb", ".html", ".md"):
            text = path.read_text(encoding="utf-8")
            assert "/home/" not in text, path
            assert "/root/" not in text, path

"""Tables for papers and spreadsheets: hostile cells are text in each format."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from found import as_tables, one
from test_tables import ROWS

from propme import tables
from propme.metric_tables import recall_table
from propme.report.exports import READ, as_csv, as_latex, as_markdown, write_exports
from propme.report.wording import sensitivity_table
from propme.tables.rows import Sensitivity

HOSTILE = "50 % & <b>_x_</b> #1 $y$ {z} ~ ^ \\input{/etc/passwd} |"


def table(*cells: object) -> pd.DataFrame:
    return pd.DataFrame({"source": list(cells), "n_found": range(len(cells))})


def exported(rows: dict[str, list[Any]]) -> dict[str, pd.DataFrame]:
    """Tables by name; that of recalls is made from others."""
    made = {name: tables.to_frame(name, rows.get(name, [])) for name in {*READ} & {*tables.TABLES}}
    recalls = recall_table(
        *(
            tables.to_frame(name, rows.get(name, []))
            for name in ("prompts", "generations", "traces")
        )
    )
    return made | {"recall_distribution": recalls}


def test_every_table_is_written_in_three_formats(tmp_path: Path) -> None:
    stored = exported(ROWS) | {
        "recall_distribution": recall_table(*as_tables([one({"recall_max": 0.5})])[:3])
    }
    written = write_exports(stored, tmp_path)
    assert {path.name for path in written} == {
        f"{name}.{suffix}" for name in READ for suffix in ("csv", "tex", "md")
    }
    assert all(path.stat().st_size for path in written)
    read = pd.read_csv(tmp_path / "metrics.csv")
    assert list(read.columns) == list(tables.TABLES["metrics"].columns)
    assert len(read) == len(ROWS["metrics"])


def test_an_empty_table_has_its_columns_alone(tmp_path: Path) -> None:
    stored = exported({})
    assert {path.suffix for path in write_exports(stored, tmp_path)} == {".csv"}
    header = (tmp_path / "copies.csv").read_text()
    assert header.strip().split(",") == list(tables.TABLES["copies"].columns)


def test_csv_gives_back_every_cell() -> None:
    cells = [HOSTILE, 'with "quotes", and\nlines', "æøå"]
    rows = list(csv.DictReader(io.StringIO(as_csv(table(*cells)))))
    assert [row["source"] for row in rows] == cells


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_a_spreadsheet_evaluates_no_cell(formula: str) -> None:
    (row,) = csv.DictReader(io.StringIO(as_csv(table(formula))))
    assert row["source"] == f"'{formula}"


def test_numbers_are_numbers_for_a_spreadsheet() -> None:
    frame = pd.DataFrame({"difference": [-0.25, 1.0], "n": [-1, 2]})
    assert as_csv(frame) == "difference,n\n-0.25,-1\n1.0,2\n"


def test_latex_has_booktabs_rules_and_escaped_cells_and_columns() -> None:
    text = as_latex(table(HOSTILE))
    assert all(rule in text for rule in ("\\toprule", "\\midrule", "\\bottomrule"))
    assert "n\\_found" in text
    assert "\\input{" not in text
    assert "longtable" in as_latex(table(*["a"] * 36)).split("\n", 1)[1]
    assert "lualatex" not in text
    assert "lualatex" in as_latex(table("\u05d0"))


#: Sources of the world, marks of direction, and every sign that pdflatex is trusted to draw.
WORLD = (
    HOSTILE,
    "<0.001 [0.000, 0.002]",
    "–",
    "−0.3",
    "[e-mail] 1",
    "*",
    "\u202e\u05d0\u05d1\u05d2\u202c \u200f(he)",
    "العربية \u0663",
    "Война и мир",
    "中文 日本語 한국어",
    "Ελληνικά ἄ",
    "हिन्दी ไทย",
    "😀👩\u200d👩\u200d👧 𝒳 \ue000 \U0010ffff",
    "e\u0301 x\u0301 \ufb01 ½ Ŀ ŉ ſ",
    "".join(map(chr, range(0x20, 0x180))),
    "–—‘’‚“”„†‡•…‰‹›€™",
)

#: With the fonts that are there wherever an engine is; lualatex and xelatex lack letters then, and
#: say so.
ENGINES = ("pdflatex", "lualatex", "xelatex")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("n_rows", [len(WORLD), 5 * len(WORLD)])
def test_latex_compiles(tmp_path: Path, engine: str, n_rows: int) -> None:
    path = shutil.which(engine)
    if not path:
        pytest.skip(f"no {engine} here")
    packages = "\\usepackage{booktabs,longtable}\\usepackage[T1]{fontenc}"
    begin = f"\\documentclass{{article}}{packages}\\begin{{document}}\n"
    body = as_latex(table(*WORLD * (n_rows // len(WORLD))))
    (tmp_path / "a.tex").write_text(begin + body + "\\end{document}\n", encoding="utf-8")
    done = subprocess.run(
        [path, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "a.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-800:].decode("utf-8", "replace")


def test_markdown_cells_are_text() -> None:
    text = as_markdown(table(HOSTILE, "![x](http://example.org/a.png)", "two\nlines", None))
    lines = text.splitlines()
    assert lines[:2] == ["| source | n_found |", "| --- | --- |"]
    assert len(lines) == 2 + 4
    assert all(line.count("|") - line.count("\\|") == 3 for line in lines)
    assert "<b>" not in text
    assert "](" not in text


def test_markdown_columns_are_text() -> None:
    frame = pd.DataFrame({"a | b": [1], "`c`": [2]})
    assert as_markdown(frame).splitlines()[0] == "| a \\| b | \\`c\\` |"


def test_sensitivity_is_in_the_order_of_its_choices_and_marks_the_own() -> None:
    rows = [
        Sensitivity("docs_per_span", choice, choice == "10", setting, "propensity",
                            "greedy", metric, 0.5, None, None, "none", 1, 2)
        for choice in ("2", "10")
        for setting in ("specific", "generic")
        for metric in ("NVR", "ALS")
    ]  # fmt: skip
    table = sensitivity_table(tables.to_frame("sensitivity", rows))
    assert table.to_numpy().tolist() == [
        ["docs_per_span", choice, "greedy", setting, 2, "0.500", "0.5"]
        for choice in ("2", "10*")
        for setting in ("generic", "specific")
    ]
    assert list(table.columns)[-3:] == ["generations", "NVR", "ALS"]


def test_numbers_are_short() -> None:
    frame = pd.DataFrame({"a": [0.123456, None], "b": [7, 8]})
    assert as_markdown(frame).splitlines()[2:] == ["| 0.123 | 7 |", "|  | 8 |"]

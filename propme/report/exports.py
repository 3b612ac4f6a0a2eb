"""Tables for papers and spreadsheets: each in full as CSV, and as read in LaTeX and Markdown."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from propme import metric_tables
from propme.files import write_whole
from propme.report import wording
from propme.report.escaping import in_latex, in_markdown, needs_more_than_pdflatex, no_formula

#: Tables of a run that are exported, and how people read them.
READ: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "metrics": wording.headline_table,
    "propensity": wording.propensity_scores,
    "copies": wording.copies_curve,
    "breakdown": partial(wording.breakdown, mask=False),  # masked before, in all formats
    "discoverable": wording.tries_table,
    "span_lengths": metric_tables.in_buckets,
    "recall_distribution": metric_tables.reaching_recall,
    "sensitivity": wording.sensitivity_table,
}

_LATEX_NOTE = "% \\usepackage{booktabs,longtable} and, for pdflatex, \\usepackage[T1]{fontenc}\n"

_LUALATEX_NOTE = (
    "% Signs that pdflatex has no letters for are written as their numbers, U+.... lualatex and\n"
    "% xelatex draw them: \\usepackage{fontspec}, and \\setmainfont of a font that has them.\n"
)

#: Rows of a table that still fits on a page.
_ON_A_PAGE = 35


def write_exports(
    stored: Mapping[str, pd.DataFrame],
    folder: Path,
    read_as: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = READ,
) -> list[Path]:
    """Write tables as ``.csv``, ``.tex`` and ``.md``.

    Parameters
    ----------
    stored : mapping of str to DataFrame
        The tables by name.
    folder : Path
        What is in it, such as tables of an earlier report, is removed.
    read_as : mapping of str to function
        Which tables, and how people read each.

    Returns
    -------
    list of Path
        The files. A table without a row has a ``.csv`` with its columns, and nothing to read.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    written = []
    for name, read in read_as.items():
        table = stored[name]
        texts = {"csv": as_csv(table)}
        if len(table):
            shown = read(table)
            texts |= {"tex": as_latex(shown), "md": as_markdown(shown)}
        for suffix, text in texts.items():
            write_whole(folder / f"{name}.{suffix}", text)
            written.append(folder / f"{name}.{suffix}")
    return written


def as_csv(table: pd.DataFrame) -> str:
    """All rows and columns; before a text that a spreadsheet would evaluate, an apostrophe."""
    return str(table.map(no_formula).to_csv(index=False, lineterminator="\n"))


def as_latex(table: pd.DataFrame) -> str:
    """A ``tabular`` with booktabs' rules, texts escaped; ``longtable`` if it needs more pages.

    It compiles with pdflatex whatever the texts hold; a note at its head says what it needs.
    """
    texts = table.map(lambda cell: in_latex(_written(cell)))
    texts.columns = pd.Index([in_latex(str(name)) for name in table.columns])
    is_long = len(table) > _ON_A_PAGE
    written = str(
        texts.style.hide(axis="index").to_latex(
            hrules=True,
            column_format="l" * len(table.columns),
            environment="longtable" if is_long else None,
        )
    )
    more = _LUALATEX_NOTE if needs_more_than_pdflatex(written) else ""
    return _LATEX_NOTE + more + written


def as_markdown(table: pd.DataFrame) -> str:
    """A table of GitHub's Markdown in which texts are text."""
    rows = [[in_markdown(str(name)) for name in table.columns], ["---"] * len(table.columns)]
    rows += [[in_markdown(cell) for cell in row] for row in cells(table)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def cells(table: pd.DataFrame) -> list[list[str]]:
    """Rows of a table, each cell on one line."""
    return [[_written(cell) for cell in row] for row in table.astype(object).to_numpy().tolist()]


def _written(value: Any) -> str:
    """A cell on one line; a number as the notebooks show it."""
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:.3f}".rstrip("0").rstrip(".")
    return "" if value is None or value is pd.NA else " ".join(str(value).split())

"""The report's folder: the front page, the rendered notebooks, the viewer, tables, the audit."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from propme import figures, tables
from propme.errors import InputError
from propme.files import write_whole
from propme.metric_tables import recall_table
from propme.report.audit import audit_sections, shown_inputs
from propme.report.escaping import in_markdown
from propme.report.exports import READ, as_markdown, cells, write_exports
from propme.report.findings import answers, findings
from propme.report.wording import date_told, headline_table, shown_groups
from propme.run_record import read_record
from propme.viewer import write_viewer

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

#: Tables that a report is made of.
_TABLES = ("prompts", "generations", "traces", "spans", "matches", *READ.keys() & tables.TABLES)

#: Figures of the notebooks that are not on the front page, and that the report has to take away.
_TAKEN_ALONG = ("recall_distribution.*", "over_thresholds_*")

#: Figures of the front page, each drawn from one table.
_FIGURES: dict[str, tuple[str, str, Callable[[pd.DataFrame], Any]]] = {
    "capability_against_propensity": (
        "Near-verbatim recall under each setting (n: completions); shaded: what a control reaches",
        "metrics",
        figures.capability_against_propensity,
    ),
    "propensity_scores": (
        "Propensity scores (n: prompts under the setting and under attack; of NVR, those of which a"
        " document was retrieved)",
        "propensity",
        figures.propensity_scores,
    ),
    "extraction_by_copies": (
        "Extraction against copies in the corpus",
        "copies",
        figures.extraction_by_copies,
    ),
    "span_lengths": ("Longest verbatim passages", "span_lengths", figures.span_lengths),
}

_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)

_TEMPLATES = Path(__file__).parent / "templates"

#: What the pages tell out of the run's record, and which of its parameters.
_TOLD = ("started", "parameters", "inputs", "python", "platform", "versions", "stages")
_DECODING = ("greedy", "samples", "max_new_tokens")
_SAMPLING = ("temperature", "top_p")


def write_report(run: Path, stages: Sequence[str], report: Path | None = None) -> Path:
    """Make the report of a run from its tables and its executed notebooks.

    The front page, the notebooks that are there, the span viewer, the audit summary, and the tables
    in formats for papers. Everything shown is escaped, and the pages load nothing from anywhere.

    Parameters
    ----------
    run : Path
        The run's folder.
    stages : sequence of str
        Names of its notebooks, in order.
    report : Path, optional
        Folder of the report; default: ``run/report``.

    Returns
    -------
    Path
        The front page.

    Raises
    ------
    InputError, TableError
        A table or the run's record is missing.
    """
    report = report or run / "report"
    report.mkdir(parents=True, exist_ok=True)
    record = _record(run)
    stored = {name: tables.read(name, run / "tables") for name in _TABLES}
    rendered = [stage for stage in stages if (run / f"{stage}.ipynb").is_file()]
    for stage in rendered:
        write_whole(report / f"{stage}.html", rendered_notebook(run / f"{stage}.ipynb"))
    mask = not record["parameters"].get("show_personal_data", False)
    write_viewer(stored, report / "viewer.html", mask, front_page="index.html")
    stored["breakdown"] = shown_groups(stored["breakdown"], mask)
    stored["recall_distribution"] = recall_table(
        stored["prompts"], stored["generations"], stored["traces"]
    )
    exports = write_exports(stored, report / "tables")
    sections = audit_sections(stored, record, mask)
    for suffix in ("html", "md"):
        page = page_template(f"audit.{suffix}").render(name=run.name, sections=sections)
        write_whole(report / f"audit.{suffix}", page)
    index = report / "index.html"
    page = page_template("index.html").render(
        name=run.name,
        answers=answers(stored["metrics"], stored["propensity"]),
        findings=findings(stored["metrics"], stored["propensity"], stored["copies"]),
        headline=headline_table(stored["metrics"]).to_dict("split"),
        drawn=[
            {"title": title, "data": _saved(draw(stored[table]), report / "figures" / name)}
            for name, (title, table, draw) in _FIGURES.items()
        ],
        stages=rendered,
        exports=[path.relative_to(report).as_posix() for path in exports],
        inputs=shown_inputs(record, mask),
        record=record,
    )
    for path in (path for name in _TAKEN_ALONG for path in (run / "figures").glob(name)):
        shutil.copy(path, report / "figures")
    write_whole(index, page)
    return index


def page_template(name: str) -> Template:
    """A page's form; in Markdown, what would be read as markup is escaped by `in_markdown`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "cells": cells,
        "date_told": date_told,
        "markdown": in_markdown,
        "markdown_table": as_markdown,
    }
    return environment.get_template(name)


def _saved(figure: Figure, path: Path) -> str:
    """Save a figure for print and screen; its picture as an address that holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in ("png", "svg", "pdf"):
        figure.savefig(path.with_suffix(f".{suffix}"), bbox_inches="tight")
        figure.set_layout_engine("none")  # laid out once: each format alike
    return as_data_uri(path.with_suffix(".png"))


def as_data_uri(path: Path) -> str:
    """A PNG as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def rendered_notebook(notebook: Path) -> str:
    """An executed notebook as a page that loads nothing and runs nothing.

    Who cannot see a picture is told the question under which it stands.

    Raises
    ------
    InputError
        There is none.
    """
    import nbformat
    from jinja2 import FileSystemLoader
    from nbconvert import HTMLExporter

    if not notebook.is_file():
        raise InputError("no such notebook; run it first", str(notebook))
    exporter = HTMLExporter(
        template_name="lab",
        template_file="notebook.html",
        extra_loaders=[FileSystemLoader(_TEMPLATES)],
        embed_images=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    executed = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    _describe_pictures(executed)
    body, _ = exporter.from_notebook_node(executed, {"metadata": {"name": notebook.stem}})
    return str(body)


def _describe_pictures(executed: Any) -> None:
    """Give each picture the heading above it as its description."""
    heading = ""
    for cell in executed.cells:
        if cell.cell_type == "markdown":
            heading = next(iter(_HEADING.findall(cell.source)), heading)
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", ()):
                output.metadata["described"] = f"Figure: {heading}" if heading else "Figure"


def _record(run: Path) -> dict[str, Any]:
    record = read_record(run)
    if not record:
        raise InputError("this is no folder of a run: it has no run.json", str(run))
    lacking = [name for name in _TOLD if name not in record]
    given = record.get("parameters", {})
    told = (*_DECODING, *(_SAMPLING if given.get("samples") else ()))
    lacking += [name for name in told if name not in given]
    if lacking:
        raise InputError(f"run.json says nothing of {', '.join(lacking)}; run it again", str(run))
    return record

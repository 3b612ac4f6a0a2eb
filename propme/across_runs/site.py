"""The front page of a comparison, its notebook as a page and its tables as files."""

from __future__ import annotations

from pathlib import Path

from propme import tables
from propme.across_runs.findings import answers, findings
from propme.across_runs.training import courses_of
from propme.across_runs.wording import (
    differences_table,
    levels_table,
    scores_table,
    shifts_table,
)
from propme.files import write_whole
from propme.report.exports import write_exports
from propme.report.site import as_data_uri, page_template, rendered_notebook
from propme.run_record import read_record

_FIGURES = {
    "trajectories": "Over the course of training",
    "levels": "Each run under each setting",
    "scores": "Propensity scores of each run",
    "differences": "Differences, with 95 % intervals",
    "shifts": "What is kept of verbatim and of near-verbatim copying",
}

#: Tables that are exported, and how people read each.
_READ = {
    "run_metrics": levels_table,
    "run_propensity": scores_table,
    "differences": differences_table,
    "shifts": shifts_table,
}

#: Tables that a report is made of.
_TABLES = (*_READ, "caveats", "trajectories", "compared_runs")


def write_report(folder: Path, notebook: str) -> Path:
    """Render the executed notebook and the front page of a comparison into ``folder/report``.

    Returns
    -------
    Path
        The front page.
    """
    pages = folder / "report"
    pages.mkdir(parents=True, exist_ok=True)
    stored = {name: tables.read(name, folder / "tables") for name in _TABLES}
    exports = write_exports(stored, pages / "tables", _READ)
    write_whole(pages / f"{notebook}.html", rendered_notebook(folder / f"{notebook}.ipynb"))
    differences, levels = stored["differences"], stored["run_metrics"]
    courses = courses_of(stored["trajectories"])
    index = pages / "index.html"
    page = page_template("comparison.html").render(
        name=folder.name,
        notebook=notebook,
        answers=answers(differences, stored["caveats"], courses),
        findings=findings(
            differences,
            stored["shifts"],
            courses,
            levels,
        ),
        exports=[path.relative_to(pages).as_posix() for path in exports],
        tables={
            "Each run": levels_table(levels).to_dict("split"),
            "Differences": differences_table(differences).to_dict("split"),
        },
        drawn=[
            {"title": title, "data": as_data_uri(folder / "figures" / f"{name}.png")}
            for name, title in _FIGURES.items()
            if (folder / "figures" / f"{name}.png").is_file()
        ],
        compared=stored["compared_runs"].to_dict("records"),
        record=read_record(folder),
    )
    write_whole(index, page)
    return index

"""The report's pages in a real browser: nothing goes wrong there, and on paper nothing is cut."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from browser import Watched, browsing
from test_report import BOTH, PIXEL, STAGES, make_run
from viewed import run_of

from propme import tables
from propme.report import headline_table, shown, write_report
from propme.report.site import page_template, rendered_notebook
from propme.viewer import write_viewer

#: What of A4 is left between the margins of the pages: 210 - 2 * 12 mm, at 96 pixels an inch.
WIDTH = int((210 - 2 * 12) / 25.4 * 96)

#: A name with no place to break it.
LONG = "a_name_without_any_end" * 6


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(tmp_path_factory.mktemp("runs") / LONG)
    matches = tables.read("matches", run / "tables")
    tables.write("matches", matches.assign(source=LONG, licence=LONG), run / "tables")
    pages = write_report(run, STAGES).parent
    wide = pd.concat([headline_table(BOTH).assign(run=LONG)] * 2).to_dict("split")
    compared = {"run": LONG, "model": LONG, "corpus": LONG, "decoding": LONG, "n_generations": 9}
    compared |= {"model_sha256": "ab" * 32, "corpus_sha256": "", "tracing": LONG}
    page = page_template("comparison.html").render(
        name=LONG, notebook="5", answers=[LONG], findings=[LONG],
        exports=[f"tables/{LONG}.csv"], drawn=[], tables={LONG: wide}, compared=[compared],
        record={"started": "now"},
    )  # fmt: skip
    (pages / "comparison.html").write_text(page, encoding="utf-8")
    completions = [("generic", f"{LONG} said he", "And he said to them: so be it.")]
    write_viewer(run_of(completions, {LONG: "And he said to them: so be it."}), pages / "long.html")
    wide_notebook(pages / "wide.ipynb")
    (pages / "wide.html").write_text(rendered_notebook(pages / "wide.ipynb"), encoding="utf-8")
    return pages


def wide_notebook(path: Path) -> None:
    """An executed notebook with code, print, table and picture that are wider than a page."""
    table = shown(pd.DataFrame([[f"{LONG} {LONG}"] * 3 + ["0.123 [0.012, 0.234]"] * 12]))
    outputs = [
        nbformat.v4.new_output("stream", name="stdout", text=f"it says {LONG * 3}\n"),
        nbformat.v4.new_output("display_data", {"text/html": table.to_html()}),
        nbformat.v4.new_output(
            "display_data",
            {"image/png": base64.b64encode(PIXEL).decode()},
            metadata={"image/png": {"width": 3000}},
        ),
    ]
    cells = [
        nbformat.v4.new_markdown_cell(f"# {LONG}\n\n`{LONG * 2}` is told."),
        nbformat.v4.new_code_cell(f"shown({LONG}, {'word, ' * 60})", outputs=outputs),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


@pytest.mark.parametrize("name", ["index", "audit", "comparison", "viewer", *STAGES])
def test_the_console_stays_empty(browser: Any, report: Path, name: str) -> None:
    watch = Watched(browser)
    watch.page.goto((report / f"{name}.html").as_uri())
    watch.page.wait_for_load_state("networkidle")
    assert watch.troubles == []
    assert watch.violations() == []
    assert watch.requests == [(report / f"{name}.html").as_uri()]
    watch.close()


@pytest.mark.parametrize("name", ["index", "audit", "comparison", "viewer", "long", "wide"])
def test_on_paper_nothing_is_beyond_the_margin(browser: Any, report: Path, name: str) -> None:
    watch = Watched(browser, viewport={"width": WIDTH, "height": 1000})
    watch.page.goto((report / f"{name}.html").as_uri())
    watch.page.emulate_media(media="print")
    beyond = watch.page.evaluate(
        """(width) => [...document.querySelectorAll("body *")]
          .filter((each) => each.getBoundingClientRect().right > width + 1)
          .map((each) => each.tagName)""",
        WIDTH,
    )
    assert beyond == []
    clipped = watch.page.evaluate(
        """() => [...document.querySelectorAll("main > *, .wide, .text, .jp-Cell *")]
          .filter((each) => each.clientWidth && each.scrollWidth > each.clientWidth + 1)
          .map((each) => each.id || each.className)"""
    )
    assert clipped == []
    watch.close()

"""How large the span viewer of a run is, and how fast a real browser opens and searches it.

    .venv/bin/python benchmarks/viewer.py outputs/demo/tables [--completions 10000]

Completions are repeated under new names until there are as many as asked for.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

from propme import tables
from propme.viewer import write_viewer
from propme.viewer.contents import NAMES

READY = "() => document.documentElement.dataset.ready !== undefined"


def repeated(run: dict[str, pd.DataFrame], n: int) -> dict[str, pd.DataFrame]:
    """The run with ``n`` completions, each as often as needed, with all that was found in it."""
    rounds = -(-n // len(run["generations"]))
    names = [name for name in NAMES if name != "prompts"]
    grown = {
        name: pd.concat(
            [
                run[name].assign(generation_id=run[name]["generation_id"] + f"/{number}")
                for number in range(rounds)
            ],
            ignore_index=True,
        )
        for name in names
    }
    kept = set(grown["generations"]["generation_id"][:n])
    return {"prompts": run["prompts"]} | {
        name: frame[frame["generation_id"].isin(kept)].reset_index(drop=True)
        for name, frame in grown.items()
    }


def opened(path: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    start = time.perf_counter()
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_function(READY, timeout=120_000)
    print(f"  opened, list and first completion shown: {time.perf_counter() - start:.2f} s")
    for words in ("and it came to pass", "house of the"):
        start = time.perf_counter()
        page.fill("#search", words)
        page.wait_for_function(
            "() => document.getElementById('count').textContent.includes(' of ')"
            " && !document.getElementById('count').textContent.includes('Reading')"
        )
        found = page.text_content("#count")
        print(f"  {found} hold {words!r}: {time.perf_counter() - start:.2f} s")
        page.fill("#search", "")
        page.wait_for_function("() => !document.getElementById('count').textContent.match(' of ')")
    start = time.perf_counter()
    name = page.text_content("#list li:last-child bdi")
    page.click("#list li:last-child")
    page.wait_for_function("n => document.querySelector('article h2').textContent === n", arg=name)
    print(f"  another completion shown: {time.perf_counter() - start:.2f} s")
    memory = page.evaluate("() => performance.memory?.usedJSHeapSize / 1e6")
    print(f"  memory of its script: {memory:.0f} MB")
    page.close()


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=Path)
    parser.add_argument("--completions", type=int, default=10_000)
    parser.add_argument("--browser", default=shutil.which("chromium"))
    options = parser.parse_args()
    run = {name: tables.read(name, options.tables) for name in NAMES}
    run = repeated(run, options.completions)
    rows = ", ".join(f"{len(frame):,} {name}" for name, frame in run.items())
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        start = time.perf_counter()
        path = write_viewer(run, Path(folder) / "viewer.html")
        seconds = time.perf_counter() - start
        print(f"{rows}: {path.stat().st_size / 1e6:.1f} MB, written in {seconds:.0f} s")
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = driver.chromium.launch(executable_path=options.browser, args=arguments)
        browser.new_page().goto("about:blank")
        for _ in range(3):
            opened(path, browser)
        browser.close()


if __name__ == "__main__":
    main()

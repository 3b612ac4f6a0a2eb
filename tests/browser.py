"""A real browser for the tests, one that is installed here; no test stands here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
_ON_MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")

#: Before any script of a page: what its policy forbids is kept.
_KEEP_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.effectiveDirective} ${event.blockedURI}`));
"""


def browser_path() -> str:
    """The browser: ``PROPME_BROWSER``, else one of Chromium's family; empty where there is none."""
    found = map(shutil.which, _NAMES)
    named = os.environ.get("PROPME_BROWSER") or next(filter(None, found), "")
    return named or (str(_ON_MAC) if _ON_MAC.exists() else "")


@contextmanager
def browsing() -> Iterator[Any]:
    """The browser, without a window; the test is skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = browser_path()
    if not path:
        pytest.skip("no Chromium or Chrome was found; PROPME_BROWSER can name one")
    # Chromium's own sandbox does not work as root, nor in most containers.
    options = ["--no-sandbox", "--disable-dev-shm-usage"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


class Watched:
    """A page of which every request, error, dialog and violation of its policy is kept."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}} | options)
        self.context.add_init_script(_KEEP_VIOLATIONS)
        self.requests: list[str] = []
        self.troubles: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("dialog", self._dialog)

    def _dialog(self, dialog: Any) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: Path, fragment: str = "") -> Any:
        """Open a viewer from disk and wait until it is ready."""
        self.page.goto(path.as_uri() + fragment)
        self.page.wait_for_selector("html[data-ready]", timeout=20_000)
        return self.page

    def violations(self) -> list[str]:
        found: list[str] = self.page.evaluate("window.violations")
        return found

    def close(self) -> None:
        self.context.close()

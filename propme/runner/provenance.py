"""What a run was made with: the code's commit, every package, the machine."""

from __future__ import annotations

import platform
import shutil
import subprocess
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from propme.run import project_root

#: Packages that decide results, shown in the report.
_CHIEF = (
    "propme",
    "infini-gram",
    "numba",
    "numpy",
    "pandas",
    "papermill",
    "pyarrow",
    "pydivsufsort",
    "tokenizers",
    "torch",
    "transformers",
)


@cache
def environment() -> dict[str, Any]:
    """Python, platform, commit and the version of every package that is installed here."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "git": git_state(),
        "packages": packages(),
    }


def packages() -> dict[str, str]:
    """Version of every installed package, by name."""
    found = {str(d.metadata["Name"]).lower(): d.version for d in distributions()}
    return dict(sorted(found.items()))


def chief_packages(all_packages: dict[str, str]) -> dict[str, str]:
    """Those of them that decide results."""
    return {name: all_packages[name] for name in _CHIEF if name in all_packages}


def git_state() -> dict[str, Any]:
    """Commit of the checkout, and which files of code or notebooks differ from it.

    Empty where this is no checkout, or there is no git.
    """
    root = project_root()
    top = _git(root, "rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != root.resolve():
        return {}
    changed = _git(root, "status", "--porcelain", "--", "propme", "notebooks")
    files = [line[3:] for line in changed.splitlines()]
    return {
        "commit": _git(root, "rev-parse", "HEAD"),
        "dirty": bool(files),
        "changed": files,
    }


def _git(root: Path, *arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    done = subprocess.run(  # noqa: S603
        [git, "-C", str(root), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.rstrip() if done.returncode == 0 else ""

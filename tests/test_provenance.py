"""What a run was made with."""

import shutil
import subprocess
import sys

import pytest
from packaging.version import Version

from propme import run as runs
from propme.runner import provenance


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A project in git, with the one notebook that it is known by."""
    root = tmp_path / "project"
    for name in ("notebooks", "propme", "outputs"):
        (root / name).mkdir(parents=True)
    shutil.copy(runs.notebook_path("1_prompts"), root / "notebooks")
    (root / "propme" / "code.py").write_text("a = 1\n")
    commit = ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "first"]
    for arguments in (["init", "-q"], ["add", "."], commit):
        subprocess.run(["git", "-C", root, *arguments], check=True)  # noqa: S607
    monkeypatch.chdir(root)
    return root


def test_the_commit_and_what_differs_from_it(checkout):
    clean = provenance.git_state()
    head = ["git", "-C", checkout, "rev-parse", "HEAD"]
    told = subprocess.run(head, capture_output=True, text=True, check=True)
    assert clean == {"commit": told.stdout.strip(), "dirty": False, "changed": []}
    (checkout / "outputs" / "result").write_text("x")  # no code
    assert provenance.git_state() == clean
    (checkout / "propme" / "code.py").write_text("a = 2\n")
    (checkout / "propme" / "new.py").write_text("b = 1\n")
    changed = provenance.git_state()
    assert changed["dirty"]
    assert changed["changed"] == ["propme/code.py", "propme/new.py"]


def test_without_git_or_a_checkout_nothing_is_told(checkout, monkeypatch):
    shutil.rmtree(checkout / ".git")
    assert provenance.git_state() == {}
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert provenance.git_state() == {}


def test_a_project_within_another_ones_repository_is_none_of_it(checkout, monkeypatch):
    inner = shutil.copytree(checkout / "notebooks", checkout / "outputs" / "inner" / "notebooks")
    monkeypatch.chdir(inner.parent)
    assert provenance.git_state() == {}


def test_every_package_has_its_version():
    here = provenance.environment()
    assert here["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"numpy", "pandas", "propme", "pytest"} <= set(here["packages"])
    assert Version(here["packages"]["numpy"])
    chief = provenance.chief_packages(here["packages"])
    assert {"numpy", "propme"} <= set(chief)
    assert "pytest" not in chief

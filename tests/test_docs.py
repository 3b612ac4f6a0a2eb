"""Pages: links lead somewhere, commands and parameters in them exist, none is forgotten."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from propme import __version__, parameters
from propme.cli import build_parser
from propme.runner.settings import declared

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def links(page):
    """Targets of a page's links, images too, that are no addresses."""
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    return [target for target in found if not target.startswith(("https://", "http://"))]


def anchors(page):
    """What a heading is called in a link, as GitHub makes it."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def code(page):
    """Blocks of code, indented or fenced, each without its indentation."""
    text = page.read_text("utf-8")
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?:^|\n)\n((?: {4}.*\n|\n(?= {4}))+)", text)
    return [*fenced, *(re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in indented)]


def commands(page):
    """Arguments of each command ``propme`` in a page's code."""
    for block in code(page):
        for line in block.replace("\\\n", " ").splitlines():
            match = re.match(r"(?:OMP_NUM_THREADS=\d+ )?(?:\.venv/bin/)?propme (.+)", line.strip())
            if match:
                yield shlex.split(re.sub(r"\$\w+", "1", match[1]), comments=True)


@every_page
def test_links_lead_somewhere(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert linked.is_relative_to(ROOT), target
        if anchor:
            assert anchor in anchors(linked), target


@every_page
def test_linked_files_are_in_the_repository(page):
    if not (ROOT / ".git").exists():
        pytest.skip("no git here")
    asked = ["git", "ls-files"]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kept = {ROOT / name for name in listed.splitlines()}
    for target in links(page):
        linked = (page.parent / target.partition("#")[0]).resolve()
        assert linked in kept or linked.is_dir(), target


@every_page
def test_commands_are_as_the_command_line_takes_them(page):
    parser = build_parser()
    for arguments in commands(page):
        parser.parse_args(arguments)  # it would exit


@every_page
def test_parameters_in_blocks_of_yaml_exist(page):
    for block in code(page):
        if re.match(r"(output|backend): \w", block):
            content = yaml.safe_load(block)
            sweep = content.pop("sweep", [])
            for given in (content, *sweep):
                given.pop("name", None)
                assert parameters.check(given, declared())


def test_there_is_something_to_check():
    assert sum(len(list(commands(page))) for page in PAGES) > 30
    assert sum(len(links(page)) for page in PAGES) > 80


def test_every_page_is_in_the_list_of_pages():
    listed = {target.partition("#")[0] for target in links(ROOT / "docs" / "README.md")}
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= listed


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == __version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["license"] == project["license"]
    assert "arXiv:2606.06286" in str(citation["references"])


def test_hooks_are_pinned_and_ruffs_version_is_that_of_the_tests():
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    pins = {pin for hook in local["hooks"] for pin in hook["additional_dependencies"]}
    assert all(re.fullmatch(r"[a-z-]+==[\d.]+", pin) for pin in pins)
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    assert next(pin for pin in pins if pin.startswith("ruff==")) in constraints
    stripped = next(hook for hook in local["hooks"] if hook["id"] == "nbstripout")
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        assert re.search(stripped["files"], notebook.relative_to(ROOT).as_posix())

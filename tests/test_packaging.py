"""pyproject.toml, constraints.txt and environment.yml say the same; the layers hold."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from helpers import HAS_ENGINE
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ON_CONDA = {
    "torch": "pytorch",
    "matplotlib": "matplotlib-base",
    "ray": "ray-core",
    "playwright": "playwright-python",
}


def requirements():
    extras = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(r.name): r for r in found if r.name != "propme"}


def pins(python):
    """Pinned version by name, for one Python on Linux x86-64."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.7",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
        "platform_python_implementation": "CPython",
        "implementation_name": "cpython",
    }
    found = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pin, _, marker = line.partition(" ; ")
            name, _, version = pin.partition("==")
            if not marker or Marker(marker).evaluate(environment):
                assert name not in found, f"{name} is pinned twice for {python}"
                found[canonicalize_name(name)] = Version(version)
    return found


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_requirement_is_pinned_within_its_range(python):
    pinned = pins(python)
    for name, requirement in requirements().items():
        assert name in pinned, f"{name} has no pin in constraints.txt: make it again"
        assert requirement.specifier.contains(pinned[name]), f"{name} {pinned[name]}"


def test_environment_yml_asks_for_what_pyproject_asks_for():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    conda = [entry for entry in listed if isinstance(entry, str)]
    (pip,) = (entry["pip"] for entry in listed if isinstance(entry, dict))
    found = {}
    for entry in [*conda, *(line.partition(" ; ")[0] for line in pip)]:
        name, _, range_ = entry.partition(" ")
        found[canonicalize_name(name)] = set(filter(None, range_.replace(" ", "").split(",")))
    assert found.pop("python") == set(PROJECT["requires-python"].split(","))
    found.pop("pip")
    expected = {
        ON_CONDA.get(name, name): {str(s) for s in requirement.specifier}
        for name, requirement in requirements().items()
    }
    assert found == expected


def test_infini_gram_is_asked_for_only_where_it_has_a_wheel():
    pip = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"][-1]["pip"]
    (on_conda,) = (Requirement(line).marker for line in pip if line.startswith("infini-gram"))
    marker = requirements()["infini-gram"].marker
    assert str(marker) == str(on_conda)
    platforms = {
        ("linux", "x86_64", "3.13"): True,
        ("darwin", "arm64", "3.11"): True,
        ("linux", "x86_64", "3.14"): False,
        ("linux", "aarch64", "3.12"): False,
        ("darwin", "x86_64", "3.12"): False,
        ("win32", "AMD64", "3.12"): False,
    }
    names = ("sys_platform", "platform_machine", "python_version")
    for values, wanted in platforms.items():
        assert marker.evaluate(dict(zip(names, values, strict=True))) is wanted, values


def test_the_engine_is_tried_where_it_can_be():
    assert HAS_ENGINE is requirements()["infini-gram"].marker.evaluate()


def test_environment_yml_takes_torch_from_conda_forge_alone():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["channels"] == ["conda-forge", "nodefaults"]


# A module imports only from those above it. `propme.index.protocol` and the like count as their
# package.
LAYERS = (
    ("errors", "files"),
    ("run_record", "known_hashes", "keys"),
    ("records", "personal_data"),
    ("tables", "progress", "degenerate"),
    ("table_page",),
    ("corpus", "model_tokenizer"),
    ("index",),
    ("prompts",),
    ("generation",),
    ("near_verbatim",),
    ("masking",),
    ("viewer",),
    ("simpletrace",),
    ("tracing",),
    ("propensity", "uncertainty"),
    ("comparison", "power", "discoverable"),
    ("metrics", "filters"),
    ("measurements",),
    ("groups",),
    ("metric_tables",),
    ("strength", "varied"),
    ("analysis",),
    ("figures",),
    ("leaks",),
    ("report",),
    ("across_runs",),
    ("parameters",),
    ("demo",),
    ("run",),
    ("runner",),
    ("sensitivity", "comparing"),
    ("cli",),
)


def imports_of(module):
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("propme"):
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else (alias.name for alias in node.names)


def test_a_module_imports_only_from_those_above_it():
    layer = {name: n for n, names in enumerate(LAYERS) for name in names}
    for module in (ROOT / "propme").rglob("*.py"):
        own = module.relative_to(ROOT / "propme").parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for imported in imports_of(module):
            if imported not in ("__version__", own):
                assert layer[imported] < layer[own], f"{module.name} imports {imported}"


def test_importing_propme_and_its_command_is_light():
    heavy = "{'torch', 'transformers', 'infini_gram', 'papermill', 'numba', 'pandas'}"
    code = f"import sys, propme, propme.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_in_the_changelog():
    from propme import __version__

    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(__version__)}\b", changelog, re.MULTILINE)

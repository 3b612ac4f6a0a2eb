"""Which code a notebook runs, by its content: what it imports of this project, directly or not."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import propme
from propme.errors import InputError
from propme.files import sha256_of

#: What shows tables and decides nothing that is in them.
_SHOWING = frozenset({"figures", "report", "viewer"})

_PACKAGE = Path(propme.__file__).parent


def notebook_hash(notebook: Path) -> str:
    """SHA-256 of a notebook's cells: not of outputs, nor of what an editor adds."""
    cells = [[cell["cell_type"], "".join(cell["source"])] for cell in _cells(notebook)]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def code_of_notebook(notebook: Path, *, without_showing: bool = False) -> str:
    """SHA-256 of all modules that a notebook imports, and of those that these import.

    A module that only the command or the runner needs changes nothing.

    Parameters
    ----------
    notebook : Path
    without_showing : bool
        Leave out what only shows tables: for stages that are expensive, and whose tables no figure
        can change.
    """
    source = "\n".join(
        "".join(cell["source"]) for cell in _cells(notebook) if cell["cell_type"] == "code"
    )
    return _hash_of(frozenset(_imported(source)), _SHOWING if without_showing else frozenset())


def code_of(*names: str) -> str:
    """The same of some modules."""
    return _hash_of(frozenset(names), frozenset())


def _cells(notebook: Path) -> list[dict[str, str]]:
    try:
        cells: list[dict[str, str]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"not a readable notebook ({error})", str(notebook)) from error
    return cells


@cache
def _hash_of(names: frozenset[str], without: frozenset[str]) -> str:
    seen: set[str] = set()
    waiting = set(names - without)
    while waiting:
        seen |= waiting
        waiting = {name for module in waiting for name in _imports_of(module)} - seen - without
    digest = hashlib.sha256()
    for file in sorted(file for name in seen for file in _files_of(name)):
        digest.update(f"{file.relative_to(_PACKAGE)}\0{sha256_of(file)}\0".encode())
    return digest.hexdigest()


def _files_of(name: str) -> list[Path]:
    """Files of a module, or of a package and its data; what is compiled from them is left out."""
    folder = _PACKAGE / name
    if not folder.is_dir():
        return [path] if (path := _PACKAGE / f"{name}.py").is_file() else []
    return [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]


@cache
def _imports_of(name: str) -> frozenset[str]:
    sources = (p.read_text(encoding="utf-8") for p in _files_of(name) if p.suffix == ".py")
    return frozenset(found for source in sources for found in _imported(source))


def _imported(source: str) -> Iterator[str]:
    """Modules and packages right below ``propme`` that a source imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "propme":
            dotted = [f"propme.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            dotted = [node.module or ""]
        else:
            continue
        for parts in (name.split(".") for name in dotted):
            if parts[0] == "propme" and len(parts) > 1:
                yield parts[1]

"""What notebooks say and hold: prose that is true for any parameters, no outputs, no functions."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))

#: Constants of definitions, as prose may state them. Everything else is a parameter or a result,
#: and is named or computed.
DEFINED = (
    "95 % intervals",
    "99 of 100 runs",
    "5 %, two-sided",
    "line, 0.5",
    "**R20**",
    "**R50**",
    "50 tokens",
    "20 tokens",
    "⌈*L*/20⌉",
    "100 words",
)

#: Small ones: numbers of notebooks and of steps, the ends of a range, a formula's 1, a rule's 3.
SMALL = {"0", "1", "2", "3", "4", "5"}

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == kind]


def prose(path: Path) -> str:
    return "\n".join("".join(cell["source"]) for cell in cells(path, "markdown"))


@every_notebook
def test_no_number_in_a_sentence_can_go_stale(path: Path) -> None:
    text = prose(path)
    for phrase in DEFINED:
        text = text.replace(phrase, "")
    assert set(re.findall(r"\d+(?:\.\d+)?", text)) <= SMALL


def test_every_phrase_that_is_allowed_is_used() -> None:
    everything = "\n".join(map(prose, NOTEBOOKS))
    assert [phrase for phrase in DEFINED if phrase not in everything] == []


@every_notebook
def test_nothing_of_a_run_is_kept_in_a_notebook(path: Path) -> None:
    notebook = json.loads(path.read_text())
    assert "papermill" not in notebook["metadata"]
    for cell in cells(path, "code"):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        assert set(cell["metadata"]) <= {"tags"}


@every_notebook
def test_a_notebook_asks_and_calls_and_defines_nothing(path: Path) -> None:
    for cell in cells(path, "code"):
        tree = ast.parse("".join(cell["source"]))
        kinds = {type(node) for node in ast.walk(tree)}
        assert not kinds & {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef}

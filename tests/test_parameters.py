"""Parameters: declared in the notebooks, fitted to their type, refused when they cannot be meant.

The notebooks themselves are held to their rules here too.
"""

from __future__ import annotations

import ast
import json
import math
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest

from propme.errors import InputError, ParameterError
from propme.parameters import Parameter, check, declared_in, declared_in_all, from_text, read_file

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))

DECLARED = {
    parameter.name: parameter
    for parameter in (
        Parameter("output", "str", "outputs/demo", "folder"),
        Parameter("n_prompts", "int", 100, "prompts"),
        Parameter("temperature", "float", 1.0, "of sampling"),
        Parameter("greedy", "bool", True, "whether"),
        Parameter("copies", "list", [1, 4], "numbers of copies"),
    )
}


def code_cell(source: str, *tags: str) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": [source]}


def notebook(folder: Path, *cells: dict[str, Any], name: str = "n.ipynb") -> Path:
    path = folder / name
    path.write_text(json.dumps({"cells": list(cells)}), encoding="utf-8")
    return path


def declared(folder: Path, source: str, name: str = "n.ipynb") -> Path:
    return notebook(folder, code_cell(source, "parameters"), name=name)


# --- declarations -----------------------------------------------------------------------------


def test_declarations_in_order(tmp_path: Path) -> None:
    source = (
        '# a comment of its own\noutput: str = "a # b"  # folder of the run\n'
        "seed: int = -1  #  decides all\nshare: float = 1e-4\n"
        'greedy: bool = True  # whether\ncopies: list = [1, "a"]  # numbers\n'
    )
    text = {"cell_type": "markdown", "metadata": {}, "source": ["# Title"]}
    path = notebook(tmp_path, text, code_cell(source, "parameters", "other"), code_cell("x = 1"))
    assert list(declared_in(path).values()) == [
        Parameter("output", "str", "a # b", "folder of the run"),
        Parameter("seed", "int", -1, "decides all"),
        Parameter("share", "float", 1e-4, ""),
        Parameter("greedy", "bool", True, "whether"),
        Parameter("copies", "list", [1, "a"], "numbers"),
    ]


def test_source_may_be_one_text(tmp_path: Path) -> None:
    cell = code_cell("", "parameters") | {"source": "seed: int = 0  # decides"}
    assert list(declared_in(notebook(tmp_path, cell))) == ["seed"]


def test_a_declaration_broken_over_lines_keeps_its_comment(tmp_path: Path) -> None:
    source = 'merging: str = (\n    "verified"  # by which rule\n)\nseed: int = 0  # decides\n'
    found = declared_in(declared(tmp_path, source))
    assert found["merging"] == Parameter("merging", "str", "verified", "by which rule")
    assert found["seed"].about == "decides"


@pytest.mark.parametrize(
    "source",
    [
        "seed = 0  # no type",
        "seed: int  # no value",
        "seed: int | None = None",
        "seed: dict = {}",
        "seed: int = default()",
        "seed: int = other",
        "run.seed: int = 0",
        "import os",
        "if True:\n    seed: int = 0",
    ],
)
def test_what_is_no_declaration_is_refused(source: str, tmp_path: Path) -> None:
    path = declared(tmp_path, f"{source}\n")
    with pytest.raises(InputError, match=r"n\.ipynb: .*no declaration such as 'name: int = 1"):
        declared_in(path)


def test_exactly_one_cell_is_tagged(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 cells are tagged 'parameters', one is wanted"):
        declared_in(notebook(tmp_path, code_cell("seed: int = 0")))
    cell = code_cell("seed: int = 0", "parameters")
    with pytest.raises(InputError, match="2 cells are tagged"):
        declared_in(notebook(tmp_path, cell, cell))


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff", b"{}", b"[]", b"3"])
def test_what_is_no_notebook_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"n\.ipynb: not a readable notebook") as caught:
        declared_in(path)
    assert caught.value.path == str(path)


def test_a_shared_parameter_is_declared_alike(tmp_path: Path) -> None:
    first = declared(tmp_path, "seed: int = 0  # of prompts\nn: int = 1  # n", "1.ipynb")
    second = declared(tmp_path, "m: int = 1  # m\nseed: int = 0  # of samples", "2.ipynb")
    together = declared_in_all([first, second])
    assert list(together) == ["seed", "n", "m"]
    assert together["seed"].about == "of prompts"


@pytest.mark.parametrize("other", ["seed: int = 1", 'seed: str = "0"', "seed: float = 0"])
def test_a_shared_parameter_with_another_default_or_type_is_refused(
    other: str, tmp_path: Path
) -> None:
    first = declared(tmp_path, "seed: int = 0  # decides", "1.ipynb")
    second = declared(tmp_path, other, "2.ipynb")
    with pytest.raises(InputError, match=r"2\.ipynb: parameter 'seed' has another type or default"):
        declared_in_all([first, second])


# --- values -----------------------------------------------------------------------------------


class Folder:
    def __fspath__(self) -> str:
        return "runs/a"


@pytest.mark.parametrize(
    ("name", "given", "fitted"),
    [
        ("output", "runs/a", "runs/a"),
        ("output", "", ""),
        ("output", PurePosixPath("runs/a"), "runs/a"),
        ("output", Folder(), "runs/a"),
        ("output", np.str_("runs/a"), "runs/a"),
        ("n_prompts", 3, 3),
        ("n_prompts", 0, 0),
        ("n_prompts", 3.0, 3),
        ("n_prompts", 10**30, 10**30),
        ("n_prompts", np.int64(3), 3),
        ("n_prompts", np.float32(3), 3),
        ("n_prompts", np.array(3), 3),
        ("temperature", 0.7, 0.7),
        ("temperature", 1, 1.0),
        ("temperature", "1e-4", 1e-4),
        ("temperature", np.float64(0.7), 0.7),
        ("temperature", np.int8(1), 1.0),
        ("greedy", False, False),
        ("greedy", np.bool_(False), False),
        ("copies", [], []),
        ("copies", (1, 4), [1, 4]),
        ("copies", np.array([1, 4]), [1, 4]),
        ("copies", (np.int64(1), np.float64(0.5), "a", True), [1, 0.5, "a", True]),
        ("copies", [PurePosixPath("a/b")], ["a/b"]),
    ],
)
def test_a_value_is_brought_to_its_type(name: str, given: object, fitted: object) -> None:
    (value,) = check({name: given}, DECLARED).values()
    assert value == fitted
    assert type(value) is type(fitted)
    json.dumps(value)  # as papermill and run.json need it
    if isinstance(value, list):
        assert [type(item) for item in value] == [type(item) for item in fitted]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *((name, None) for name in DECLARED),
        *((name, 1j) for name in DECLARED),
        *((name, np.complex128(1)) for name in DECLARED),
        *((name, {"a": 1}) for name in DECLARED),
        *((name, Decimal(1)) for name in DECLARED),
        *((name, [[1]]) for name in DECLARED),
        ("output", 5),
        ("output", True),
        ("output", ["a"]),
        ("n_prompts", 3.5),
        ("n_prompts", True),
        ("n_prompts", np.bool_(True)),
        ("n_prompts", "3"),
        ("n_prompts", math.nan),
        ("n_prompts", math.inf),
        ("n_prompts", [3]),
        ("temperature", True),
        ("temperature", math.nan),
        ("temperature", np.float64("nan")),
        ("temperature", math.inf),
        ("temperature", "nan"),
        ("temperature", "inf"),
        ("temperature", "hot"),
        ("temperature", ""),
        ("temperature", 10**400),
        ("temperature", [0.7]),
        ("greedy", 1),
        ("greedy", 0),
        ("greedy", "true"),
        ("copies", 1),
        ("copies", "1, 4"),
        ("copies", np.array([[1, 4]])),
        ("copies", [1, None]),
        ("copies", [1, {}]),
        ("copies", np.array([1j])),
        ("copies", {1, 4}),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(ParameterError) as caught:
        check({name: wrong}, DECLARED)
    message = str(caught.value)
    assert f"parameter {name!r} is a {DECLARED[name].type}, not {wrong!r}" in message
    assert type(wrong).__name__ in message


def test_a_number_for_a_text_is_refused_with_the_way_out() -> None:
    with pytest.raises(ParameterError, match=r"not 2024 \(int\); quote it to make it text"):
        check({"output": 2024}, DECLARED)
    with pytest.raises(ParameterError) as caught:
        check({"n_prompts": "3"}, DECLARED)
    assert "quote" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("n_promts", "did you mean 'n_prompts'"),
        ("Temperature", "did you mean 'temperature'"),
        ("zzz", "known are output, n_prompts, temperature, greedy, copies"),
    ],
)
def test_an_unknown_name_gets_the_nearest_known_one(name: str, hint: str) -> None:
    with pytest.raises(ParameterError, match=f"unknown parameter '{name}'; {hint}"):
        check({"n_prompts": 1, name: 1}, DECLARED)


def test_what_is_not_given_is_not_added() -> None:
    assert check({}, DECLARED) == {}
    assert check({"n_prompts": 5, "greedy": False}, DECLARED) == {"n_prompts": 5, "greedy": False}


# --- files and command line -------------------------------------------------------------------


def yaml_file(folder: Path, content: str | bytes) -> Path:
    path = folder / "run.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_file_of_parameters(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "# small\nn_prompts: 5\ntemperature: 1e-4\ncopies: [1, 4]\n")
    content = read_file(path)
    assert content == {"n_prompts": 5, "temperature": "1e-4", "copies": [1, 4]}
    assert check(content, DECLARED) == {"n_prompts": 5, "temperature": 1e-4, "copies": [1, 4]}


@pytest.mark.parametrize("content", ["", "# nothing but a comment\n", "---\n"])
def test_an_empty_file_has_no_parameters(content: str, tmp_path: Path) -> None:
    assert read_file(yaml_file(tmp_path, content)) == {}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("n_prompts: 5\ncopies: [1, 4\nseed: 0\n", 3),
        ("n_prompts: 5\n\tseed: 0\n", 2),
        ("a: b: c\n", 1),
        ('output: "no end\n', 2),
        ("n: !!python/object:os.system {}\n", None),
        ("n: 0b_\n", None),
        ("n: !!timestamp 2026-99-99\n", None),
        ("[" * 5000, None),
    ],
)
def test_an_error_in_yaml_names_file_and_line(
    content: str, line: int | None, tmp_path: Path
) -> None:
    path = yaml_file(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_file(path)
    assert caught.value.path == str(path)
    if line is not None:
        assert caught.value.line == line
        assert str(caught.value).startswith(f"{path}, line {line}: not YAML: ")


@pytest.mark.parametrize("content", ["- n_prompts\n", "5\n", "words\n", "5: n_prompts\n"])
def test_what_is_no_mapping_of_names_is_refused(content: str, tmp_path: Path) -> None:
    path = yaml_file(tmp_path, content)
    with pytest.raises(InputError, match=r"run\.yaml: a mapping of names to values is wanted"):
        read_file(path)


@pytest.mark.parametrize(
    ("content", "name", "line"),
    [
        ("seed: 1\nsamples: 2\nseed: 3\n", "seed", 3),
        ("seed: 1\nseed: 1\n", "seed", 2),  # alike, but one of them was meant to be another
        ('seed: 1\n"seed": 2\n', "seed", 2),
        ("{seed: 1, seed: 2}\n", "seed", 1),
        ("run:\n  seed: 1\n  seed: 2\n", "seed", 3),
        ("a: 1\nb: 1\nb: 2\na: 2\n", "b", 3),
    ],
)
def test_a_name_that_stands_twice_is_refused_with_its_line(
    content: str, name: str, line: int, tmp_path: Path
) -> None:
    path = yaml_file(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_file(path)
    assert str(caught.value) == f"{path}, line {line}: not YAML: '{name}' stands twice"
    assert (caught.value.path, caught.value.line) == (str(path), line)


def test_the_same_name_in_two_mappings_is_no_duplicate(tmp_path: Path) -> None:
    content = "a: {seed: 1}\nb: {seed: 2}\nSeed: 3\nseed: seed\n"
    expected = {"a": {"seed": 1}, "b": {"seed": 2}, "Seed": 3, "seed": "seed"}
    assert read_file(yaml_file(tmp_path, content)) == expected


@pytest.mark.parametrize("content", ["[1, 2]: 3\n", "? {a: 1}\n: 3\n"])
def test_a_list_for_a_name_is_refused_too(content: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.yaml"):
        read_file(yaml_file(tmp_path, content))


def test_what_looks_like_a_date_is_text(tmp_path: Path) -> None:
    content = "output: 2026-01-31\nother: 2026-99-99\n"
    assert read_file(yaml_file(tmp_path, content)) == {
        "output": "2026-01-31",
        "other": "2026-99-99",
    }


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x00' ?: cannot be read"):
        read_file(tmp_path / "a\0")
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read: No such file"):
        read_file(tmp_path / "none.yaml")
    with pytest.raises(InputError, match=r"run\.yaml: not text in UTF-8"):
        read_file(yaml_file(tmp_path, b"output: \xe6\xf8\xe5\n"))  # Latin-1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("0.7", 0.7),
        ("true", True),
        ("[1, 4]", [1, 4]),
        ("words and more", "words and more"),
        ("'5'", "5"),
        ("", ""),
        ("null", None),
        ("2024-99-99", "2024-99-99"),
        ("2024-01-31", "2024-01-31"),
        ("[1, 4", "[1, 4"),
        ("a: b: c", "a: b: c"),
    ],
)
def test_a_value_from_the_command_line(text: str, value: object) -> None:
    assert from_text(text) == value
    assert type(from_text(text)) is type(value)


# --- the notebooks ----------------------------------------------------------------------------

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS][:4] == [
        "1_prompts",
        "2_generation",
        "3_tracing",
        "4_analysis",
    ]


@every_notebook
def test_every_parameter_has_a_meaning_and_a_default_of_its_type(path: Path) -> None:
    parameters = declared_in(path)
    assert "output" in parameters
    assert [name for name, p in parameters.items() if len(p.about) < 10] == []
    defaults = {name: p.default for name, p in parameters.items()}
    assert check(defaults, parameters) == defaults


def test_notebooks_agree_on_shared_parameters() -> None:
    of_a_run = [path for path in NOTEBOOKS if path.stem != "5_comparison"]
    assert {"output", "seed", "n_prompts", "merging"} <= set(declared_in_all(of_a_run))


@every_notebook
def test_the_parameters_cell_is_the_first_code_cell_and_the_only_one(path: Path) -> None:
    tagged = ["parameters" in cell["metadata"].get("tags", []) for cell in code_cells(path)]
    assert tagged == [True] + [False] * (len(tagged) - 1)


@every_notebook
def test_a_notebook_defines_no_function_and_no_class(path: Path) -> None:
    for cell in code_cells(path):
        source = "".join(cell["source"])
        defined = [
            node.name
            for node in ast.walk(ast.parse(source))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        ]
        assert defined == []


@every_notebook
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in code_cells(path):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None

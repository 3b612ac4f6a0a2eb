"""Parameters of notebooks: declared in the cell tagged ``parameters``, and nowhere else.

A declaration reads ``name: type = default  # meaning, unit``. The type is one of ``str``, ``int``,
``float``, ``bool`` and ``list``. Values from YAML, from the command line or from Python are brought
to the declared type where only one thing can have been meant, and refused otherwise, because
papermill would silently hand a tuple or ``1e-4`` on as a string.
"""

from __future__ import annotations

import ast
import difflib
import io
import json
import math
import numbers
import os
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from propme.errors import InputError, ParameterError

TAG = "parameters"
_TYPES = ("str", "int", "float", "bool", "list")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter."""

    name: str
    type: str
    default: Any
    about: str


def declared_in(notebook: Path) -> dict[str, Parameter]:
    """Parameters that a notebook declares, by name, in order.

    Raises
    ------
    InputError
        The notebook has no such cell, or a line of it is no declaration.
    """
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"not a readable notebook ({error})", str(notebook)) from error
    tagged = [c for c in cells if TAG in c.get("metadata", {}).get("tags", [])]
    if len(tagged) != 1:
        raise InputError(f"{len(tagged)} cells are tagged {TAG!r}, one is wanted", str(notebook))
    source = "".join(tagged[0]["source"])
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    parameters = [_declaration(s, comments, notebook) for s in ast.parse(source).body]
    return {parameter.name: parameter for parameter in parameters}


def _declaration(statement: ast.stmt, comments: Mapping[int, str], notebook: Path) -> Parameter:
    match statement:
        case ast.AnnAssign(
            target=ast.Name(id=name), annotation=ast.Name(id=type_name), value=ast.expr() as value
        ) if type_name in _TYPES and _is_literal(value):
            # A long declaration is broken over lines, and its comment may stand on any of them.
            lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
            about = " ".join(comments[line] for line in lines if line in comments)
            return Parameter(name, type_name, ast.literal_eval(value), about)
    raise InputError(
        f"{ast.unparse(statement)!r} in the parameters cell is no declaration such as"
        f" 'name: int = 1  # meaning'; types are {', '.join(_TYPES)}",
        str(notebook),
    )


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def declared_in_all(notebooks: Iterable[Path]) -> dict[str, Parameter]:
    """Parameters of several notebooks, which must agree where they share one."""
    together: dict[str, Parameter] = {}
    for notebook in notebooks:
        for name, parameter in declared_in(notebook).items():
            first = together.setdefault(name, parameter)
            if (first.type, first.default) != (parameter.type, parameter.default):
                raise InputError(
                    f"parameter {name!r} has another type or default in an earlier notebook",
                    str(notebook),
                )
    return together


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which also refuses a name that stands twice, and knows no dates.

    No parameter is a date, so what looks like one is text.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in known if not tag.endswith(":timestamp")]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in names:
                raise yaml.MarkedYAMLError(
                    problem=f"{key.value!r} stands twice", problem_mark=key.start_mark
                )
            names.add(key.value)
        return super().construct_mapping(node, deep)


def from_yaml(text: str) -> Any:
    """What a text in YAML says.

    Raises
    ------
    YAMLError
        It is no YAML; with the place, where that is known.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506
    except (ValueError, RecursionError) as error:  # a number that is none, too deep a nesting
        raise yaml.MarkedYAMLError(problem=str(error)) from error


def read_file(path: Path) -> dict[str, Any]:
    """Parameters of a YAML file: one mapping of names to values.

    Raises
    ------
    InputError
        The file is missing, is not YAML, or holds something else; it names the line.
    """
    try:
        content = from_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from error
    except UnicodeDecodeError as error:
        raise InputError(f"not text in UTF-8 ({error})", str(path)) from error
    except ValueError as error:  # NUL in its name
        raise InputError(f"cannot be read: {error}", repr(str(path))) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise InputError(
            f"not YAML: {getattr(error, 'problem', error)}", str(path), line
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise InputError("a mapping of names to values is wanted", str(path))
    return content


def from_text(text: str) -> Any:
    """Value of a command-line argument, read as YAML: ``5``, ``true``, ``[1, 2]``, ``words``."""
    try:
        return from_yaml(text) if text else ""
    except yaml.YAMLError:
        return text


def check(given: Mapping[str, Any], declared: Mapping[str, Parameter]) -> dict[str, Any]:
    """Given values, each brought to its declared type.

    Raises
    ------
    ParameterError
        A name is unknown (the nearest known one is named), or a value does not fit its type.
    """
    for name in given:
        if name not in declared:
            near = difflib.get_close_matches(str(name), declared, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(declared)}"
            raise ParameterError(f"unknown parameter {name!r}; {hint}")
    return {name: _fit(value, declared[name]) for name, value in given.items()}


def _fit(value: Any, parameter: Parameter) -> Any:
    plain = _plain(value)
    for text in plain if isinstance(plain, list) else [plain]:
        if isinstance(text, str):
            _require_writable(text, parameter.name)
    fitted = _FITTERS[parameter.type](plain)
    if fitted is None:
        raise ParameterError(
            f"parameter {parameter.name!r} is a {parameter.type}, not {value!r}"
            f" ({type(value).__name__})"
            + ("; quote it to make it text" if parameter.type == "str" else "")
        )
    return fitted


def _require_writable(text: str, name: str) -> None:
    """Refuse what no file or file name can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ParameterError(
            f"parameter {name!r} is {text!r}, which is no text: it holds a byte that is not UTF-8,"
            " or half of a surrogate pair"
        ) from error
    if "\0" in text:
        raise ParameterError(f"parameter {name!r} is {text!r}, which holds a NUL character")


def _plain(value: Any) -> Any:
    """A value as JSON knows it: NumPy numbers, tuples and paths become what they stand for."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        value = value.tolist()
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, numbers.Number) and not isinstance(value, (bool, int, float)):
        return None
    return value


def _as_int(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _as_float(value: Any) -> float | None:
    if isinstance(value, str):  # YAML 1.1 reads 1e-4 as a string
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond any float
        return None


def _as_list(value: Any) -> list[Any] | None:
    if not isinstance(value, list):
        return None
    simple = all(isinstance(item, (str, int, float, bool)) for item in value)
    return value if simple else None


_FITTERS = {
    "str": lambda value: value if isinstance(value, str) else None,
    "int": _as_int,
    "float": _as_float,
    "bool": lambda value: value if isinstance(value, bool) else None,
    "list": _as_list,
}

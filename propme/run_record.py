"""What ``run.json`` of a folder says, as it is true of the tables that lie beside it.

This alone reads it: what others find in a record is there, and is of the right kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from propme.errors import RunError


class _Kind(NamedTuple):
    """What a value must be, in words and as a test."""

    name: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


_TEXT = _Kind("a text", lambda value: isinstance(value, str))
_NUMBER = _Kind("a number", _is_number)
_TIME = _Kind("a time with its zone", _is_time)
_NAMES = _Kind("a mapping or a list", lambda value: isinstance(value, (dict, list)))

#: Stands for every key that has no shape of its own.
_ANY = "*"

_MADE_FROM = {
    "parameters": {},
    "files": {_ANY: _TEXT},
    "tables": {_ANY: _TEXT},
    "notebook": _TEXT,
    "code": _TEXT,
}

_STAGE = {
    "state": _TEXT,
    "error": _TEXT,
    "started": _TIME,
    "seconds": _NUMBER,
    "made_from": _MADE_FROM,
    "tables": {_ANY: _TEXT},
    "executed": _TEXT,
    "figures": _NAMES,  # hashes by name; before schema 2, names alone
}

#: A mapping by its keys, see docs/run-json.md; other keys may be there, and hold anything.
_RECORD = {
    "parameters": {},
    "seeds": {},
    "started": _TEXT,
    "python": _TEXT,
    "platform": _TEXT,
    "git": {},
    "versions": {_ANY: _TEXT},
    "packages": {_ANY: _TEXT},
    "inputs": {_ANY: {"path": _TEXT, "sha256": _TEXT}},
    "generator": {},
    "stages": {_ANY: _STAGE},
    "tables": {_ANY: _TEXT},
    "report": {"made_from": _TEXT, "files": {_ANY: _TEXT}},
    "reproduces": _TEXT,
}

#: What a stage that is done has, too.
_OF_DONE = ("made_from", "tables", "executed")


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a run; empty where there is none.

    Its parameters are those that each stage was made with, where a stage was: a start that ran no
    later than to an earlier stage has changed none of the others.

    Raises
    ------
    RunError
        The file is damaged, or is no record of a run; what in it does not fit is named.
    """
    record = read_stored(folder)
    if "parameters" in record:
        for entry in record.get("stages", {}).values():
            record["parameters"] |= entry.get("made_from", {}).get("parameters", {})
    return record


def read_stored(folder: Path) -> dict[str, Any]:
    """The same as it is stored: the parameters are those of the last start.

    Raises
    ------
    RunError
        As `read_record`.
    """
    path = folder / "run.json"
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        # Half of a character, as \ud800, is JSON and no text that could be written again.
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: damaged ({error}); {_REMEDY}") from error
    problem = next(_misfits(record, _RECORD, ""), "") or next(_lacking(record), "")
    if problem:
        raise RunError(
            f"{path}: this is no record of a run ({problem}); give another folder as output, or"
            f" {_REMEDY}"
        )
    checked: dict[str, Any] = record
    return checked


_REMEDY = "remove the file to run all of it again"


def _misfits(value: Any, shape: Any, where: str) -> Iterator[str]:
    """What is of another kind than it should be, in some words."""
    if isinstance(shape, _Kind):
        if not shape.fits(value):
            yield f"{where} is {_short(value)}, not {shape.name}"
    elif not isinstance(value, dict):
        yield f"{where or 'it'} is {_short(value)}, not a mapping"
    else:
        for name, each in value.items():
            inner = shape.get(name, shape.get(_ANY))
            if inner is not None:
                yield from _misfits(each, inner, f"{where}.{name}" if where else name)


def _lacking(record: dict[str, Any]) -> Iterator[str]:
    for stage, entry in record.get("stages", {}).items():
        if entry.get("state") == "done":
            made_from = entry.get("made_from", {})
            yield from (f"stages.{stage} has no {n}" for n in _OF_DONE if n not in entry)
            for name in (n for n in _MADE_FROM if n not in made_from):
                yield f"stages.{stage}.made_from has no {name}"
    for name, entry in record.get("inputs", {}).items():
        yield from (f"inputs.{name} has no {n}" for n in ("path", "sha256") if n not in entry)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:39]}…"

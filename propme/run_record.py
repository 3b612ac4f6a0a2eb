"""What ``run.json`` of a folder says, as it is true of the tables that lie beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from propme.errors import RunError


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a run; empty where there is none.

    Its parameters are those that each stage was made with, where a stage was: a start that ran no
    later than to an earlier stage has changed none of the others.

    Raises
    ------
    RunError
        The file is damaged, or is no record of a run.
    """
    path = folder / "run.json"
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(
            f"{path}: damaged ({error}); remove the file to run all of it again"
        ) from error
    if not isinstance(record, dict) or not all(
        isinstance(record.get(name, {}), dict) for name in ("parameters", "stages", "inputs")
    ):
        raise RunError(f"{path}: this is no record of a run; give another folder as output")
    if "parameters" in record:
        for entry in record.get("stages", {}).values():
            record["parameters"] |= entry.get("made_from", {}).get("parameters", {})
    return record

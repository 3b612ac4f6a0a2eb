"""What ``run.json`` says is what the tables beside it were made with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from propme.errors import RunError
from propme.run_record import read_record


def write(folder: Path, record: Any) -> Path:
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def test_parameters_are_those_that_each_stage_was_made_with(tmp_path: Path) -> None:
    stages = {"2_generation": {"made_from": {"parameters": {"temperature": 1.0}}}, "3_tracing": {}}
    record = {"parameters": {"temperature": 0.3, "cache": "c"}, "stages": stages}
    assert read_record(write(tmp_path, record))["parameters"] == {"temperature": 1.0, "cache": "c"}


def test_without_a_file_there_is_nothing(tmp_path: Path) -> None:
    assert read_record(tmp_path) == {}


@pytest.mark.parametrize("content", [[], {"stages": None}, {"parameters": None}, {"inputs": 3}])
def test_what_is_no_record_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(RunError, match=r"run\.json: this is no record of a run"):
        read_record(write(tmp_path, content))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"parameters": ')
    with pytest.raises(RunError, match=r"run\.json: damaged"):
        read_record(tmp_path)

"""What ``run.json`` says is what the tables beside it were made with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from propme.errors import RunError
from propme.run_record import read_record, read_stored


def write(folder: Path, record: Any) -> Path:
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def test_parameters_are_those_that_each_stage_was_made_with(tmp_path: Path) -> None:
    stages = {"2_generation": {"made_from": {"parameters": {"temperature": 1.0}}}, "3_tracing": {}}
    record = {"parameters": {"temperature": 0.3, "cache": "c"}, "stages": stages}
    assert read_record(write(tmp_path, record))["parameters"] == {"temperature": 1.0, "cache": "c"}


def test_without_a_file_there_is_nothing(tmp_path: Path) -> None:
    assert read_record(tmp_path) == {}


MADE_FROM = {"parameters": {}, "files": {}, "tables": {}, "notebook": "", "code": ""}
DONE = {"state": "done", "made_from": MADE_FROM, "tables": {}, "executed": ""}


def one(**entries: Any) -> dict[str, Any]:
    return {"stages": {"1_prompts": DONE | entries}}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([], r"it is \[\], not a mapping"),
        ({"stages": None}, "stages is null, not a mapping"),
        ({"parameters": None}, "parameters is null, not a mapping"),
        ({"reproduces": 3}, "reproduces is 3, not a text"),
        ({"inputs": 3}, "inputs is 3, not a mapping"),
        ({"inputs": {"corpus": {"path": "x"}}}, "inputs.corpus has no sha256"),
        ({"versions": {"numpy": 2}}, "versions.numpy is 2, not a text"),
        ({"report": {"files": ["index.html"]}}, r'report.files is \["index.html"\], not a mapping'),
        ({"stages": {"1_prompts": "done"}}, 'stages.1_prompts is "done", not a mapping'),
        ({"stages": {"1_prompts": {"state": "done"}}}, "stages.1_prompts has no made_from"),
        (one(seconds="9"), 'stages.1_prompts.seconds is "9", not a number'),
        (one(seconds=True), "stages.1_prompts.seconds is true, not a number"),
        (one(started="yesterday"), 'started is "yesterday", not a time with its zone'),
        (one(started="2026-06-01T10:00:00"), "not a time with its zone"),
        (one(started=5), "started is 5, not a time with its zone"),
        (one(figures="x.png"), "not a mapping or a list"),
        (one(tables={"prompts": None}), "stages.1_prompts.tables.prompts is null, not a text"),
        (one(made_from={}), "stages.1_prompts.made_from has no parameters"),
        (one(made_from=MADE_FROM | {"tables": []}), r"made_from.tables is \[\], not a mapping"),
        (one(executed="x" * 50, tables={"y": "x", "z": ["a" * 50]}), r'z is \["a{37}…, not a text'),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, content: Any, told: str) -> None:
    with pytest.raises(RunError, match=rf"run\.json: this is no record of a run \(.*{told}"):
        read_record(write(tmp_path, content))


def test_a_whole_record_is_taken_whatever_else_is_in_it(tmp_path: Path) -> None:
    whole = one(started="2026-06-01T10:00:00+00:00", seconds=3, figures=["a.png"], more=[1])
    assert read_record(write(tmp_path, whole | {"schema": "x"}))["stages"] == whole["stages"]


def test_the_parameters_of_the_last_start_are_read_as_they_are_stored(tmp_path: Path) -> None:
    stages = {"2_generation": {"made_from": {"parameters": {"temperature": 1.0}}}}
    record = {"parameters": {"temperature": 0.3}, "stages": stages}
    assert read_stored(write(tmp_path, record)) == record


@pytest.mark.parametrize(
    "content",
    [
        '{"parameters": ',
        "[" * 100_000,
        "\ud800",
        r'{"parameters": {"model": "\ud800"}}',
        r'{"\udfff": 1}',
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(RunError, match=r"run\.json: damaged"):
        read_record(tmp_path)

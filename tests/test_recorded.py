"""Generations from elsewhere, with columns of any name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from propme.errors import InputError, ParameterError
from propme.generation import RecordedGenerator, complete
from propme.records import Decoding, Prompt

GREEDY = Decoding("greedy", 0.0, 1.0, 1, 24)
SAMPLED = Decoding("sampled", 0.7, 0.95, 2, 24)

ROWS: list[dict[str, Any]] = [
    {"prompt_id": "a", "text": " one\n", "sample": 0, "finish_reason": "stop"},
    {"prompt_id": "a", "text": "", "sample": 1, "finish_reason": "length", "token_ids": [1, 2]},
    {"prompt_id": "b", "text": "three", "sample": 0, "finish_reason": None},
    {"prompt_id": "b", "text": "four", "sample": 1, "finish_reason": "content_filter"},
    {"prompt_id": "z", "text": "of no prompt", "sample": 0, "finish_reason": "stop"},
]


def prompts(*names: str) -> list[Prompt]:
    return [Prompt(name, "generic", "propensity", "asked") for name in names]


def write(folder: Path, kind: str, rows: Sequence[dict[str, Any]] = ROWS) -> str:
    path = folder / f"made.{kind}"
    if kind == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    elif kind == "json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_each_format_gives_the_same_rows(tmp_path: Path, kind: str) -> None:
    generator = RecordedGenerator(write(tmp_path, kind))
    made = complete(generator, prompts("a", "b"), [SAMPLED], 0)
    assert [(g.generation_id, g.text, g.token_ids, g.finish_reason, g.note) for g in made] == [
        ("a/sampled/0", " one\n", (), "stop", ""),
        ("a/sampled/1", "", (1, 2), "length", ""),
        ("b/sampled/0", "three", (), "stop", ""),
        ("b/sampled/1", "four", (), "stop", "it ended by 'content_filter'"),
    ]
    assert {(g.backend, g.model, g.temperature) for g in made} == {
        ("recorded", f"made.{kind}", 0.7)
    }
    assert generator.noticed() == {"recorded generations that no prompt asked for": 1}


def test_columns_of_other_names_and_rows_that_are_numbered_as_they_come(tmp_path: Path) -> None:
    rows = [{"q": r["prompt_id"], "answer": r["text"], "why": "max_tokens"} for r in ROWS]
    columns = ["prompt_id=q", "text=answer", "finish_reason=why"]
    made = complete(
        RecordedGenerator(write(tmp_path, "jsonl", rows), columns), prompts("a", "b"), [SAMPLED], 0
    )
    assert [(g.text, g.finish_reason) for g in made] == [
        (" one\n", "length"),
        ("", "length"),
        ("three", "length"),
        ("four", "length"),
    ]


def test_decodings_are_told_apart_by_their_column(tmp_path: Path) -> None:
    rows = [
        {"prompt_id": "a", "text": f"{how} {n}", "how": how, "n": n}
        for how, count in (("greedy", 1), ("sampled", 2))
        for n in range(count)
    ]
    path = write(tmp_path, "jsonl", rows)
    made = complete(
        RecordedGenerator(path, ["decoding=how", "sample=n"]), prompts("a"), [GREEDY, SAMPLED], 0
    )
    assert [g.text for g in made] == ["greedy 0", "sampled 0", "sampled 1"]
    with pytest.raises(ParameterError, match="no column 'decoding'"):
        complete(RecordedGenerator(write(tmp_path, "jsonl")), prompts("a"), [GREEDY, SAMPLED], 0)


def test_what_is_missing_has_a_row_that_says_so(tmp_path: Path) -> None:
    made = complete(RecordedGenerator(write(tmp_path, "jsonl")), prompts("a", "c"), [SAMPLED], 0)
    assert [bool(g.error) for g in made] == [False, False, True, True]
    assert "not in made.jsonl" in made[2].error


def test_a_file_of_other_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the 2.*\('c', '', 0\).*\('a', '', 0\)"):
        complete(RecordedGenerator(write(tmp_path, "jsonl")), prompts("c"), [SAMPLED], 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROWS[0], ROWS[0]], "stands twice"),
        ([ROWS[0] | {"sample": "1"}], "sample '1' is no number"),
        ([{"prompt_id": "a", "output": "x"}], "no field 'text'"),
        ([ROWS[0] | {"text": None}], "not a string"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        RecordedGenerator(write(tmp_path, "jsonl", rows))
    assert caught.value.line == len(rows)


@pytest.mark.parametrize("column", ["text", "txt=text", "text=", "=x"])
def test_a_wrong_mapping_is_told(tmp_path: Path, column: str) -> None:
    with pytest.raises(ParameterError, match="is not ours=theirs"):
        RecordedGenerator(write(tmp_path, "jsonl"), [column])

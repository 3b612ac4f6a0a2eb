"""Request sets: those that are shipped, and files of a user's own."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from propme.errors import InputError
from propme.prompts import as_messages, read_requests, shipped_sets

SIZES = {"generic_da": 300, "generic_en": 300, "specific_bible_en": 100}


def write(path: Path, lines: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


# --- the shipped sets -----------------------------------------------------------------------------


def test_these_sets_are_shipped() -> None:
    assert shipped_sets() == sorted(SIZES)


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_a_shipped_set_is_sound(name: str, size: int) -> None:
    setting = name.split("_")[0]
    prompts = read_requests(setting, name, seed=0)
    assert len(prompts) == size
    assert len({p.prompt_id for p in prompts}) == len({p.text for p in prompts}) == size
    for prompt in prompts:
        assert (prompt.setting, prompt.kind) == (setting, "propensity")
        assert prompt.prompt_id.startswith(f"{setting}/")
        assert prompt.category
        assert prompt.language == name[-2:]
        assert prompt.text == prompt.text.strip()
        assert "\ufffd" not in prompt.text
        assert not re.search(r"\s{2}|\t", prompt.text)
    assert max(Counter(p.category for p in prompts).values()) < size / 2


def trigrams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+|[^\w\s]", text.lower())
    return set(zip(words, words[1:], words[2:], strict=False)) or {tuple(words)}


@pytest.mark.parametrize("name", SIZES)
def test_no_two_requests_of_a_set_are_nearly_the_same(name: str) -> None:
    known = [(p.prompt_id, trigrams(p.text)) for p in read_requests("generic", name, seed=0)]
    near = [
        (one, other)
        for (one, a), (other, b) in combinations(known, 2)
        if len(a & b) / len(a | b) > 0.3
    ]
    assert near == []


# --- reading a set --------------------------------------------------------------------------------


def test_the_seed_decides_the_order_and_only_it() -> None:
    first = read_requests("generic", "generic_da", seed=1)
    assert read_requests("generic", "generic_da", seed=1) == first
    other = read_requests("generic", "generic_da", seed=2)
    assert other != first
    assert sorted(other, key=lambda p: p.prompt_id) == sorted(first, key=lambda p: p.prompt_id)


def test_an_own_set_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "own.jsonl",
        [
            {"id": "x", "text": "Hej du", "category": "chat", "language": "da"},
            {"text": " Hvorfor? "},
        ],
    )
    prompts = {p.prompt_id: p for p in read_requests("specific", path, seed=0)}
    assert sorted(prompts) == ["specific/own.jsonl:2", "specific/x"]
    own = prompts["specific/x"]
    assert (own.text, own.category, own.language, own.setting) == (
        "Hej du",
        "chat",
        "da",
        "specific",
    )
    assert prompts["specific/own.jsonl:2"].text == " Hvorfor? "  # nothing is stripped


def test_a_setting_can_be_left_out() -> None:
    assert read_requests("specific", "", seed=0) == []


def test_an_unknown_set_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError) as caught:
        read_requests("generic", "generic_fr", seed=0)
    assert caught.value.path == "generic_fr"
    for name in SIZES:
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ([{"id": "x", "text": "a"}, {"id": "x", "text": "b"}], 2, "'x' stands twice"),
        ([{"id": 1, "text": "a"}, {"id": "1", "text": "b"}], 2, "'1' stands twice"),
        ([{"id": "x", "text": "a"}, {"id": "y", "text": ""}], 2, "empty"),
        ([{"id": "x", "text": " \n"}], 1, "empty"),
        ([{"id": "x", "prompt": "a"}], 1, "text"),
        ([{"id": "x", "text": 3}], 1, "not a string"),
    ],
)
def test_a_faulty_line_is_named(
    tmp_path: Path, lines: list[dict[str, Any]], line: int, message: str
) -> None:
    path = write(tmp_path / "faulty.jsonl", lines)
    with pytest.raises(InputError, match=message) as caught:
        read_requests("generic", path, seed=0)
    assert (caught.value.path, caught.value.line) == (path, line)


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".json"])
def test_an_own_set_may_be_a_table_with_other_names(tmp_path: Path, kind: str) -> None:
    rows = [
        {"number": "1", "question": 'Hej,\n"du"?', "category": "chat", "language": "da"},
        {"number": "2", "question": "Why?", "category": "", "language": "en"},
    ]
    path = tmp_path / f"own{kind}"
    if kind == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif kind == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text(json.dumps(rows), encoding="utf-8")
    found = {p.prompt_id: p for p in read_requests("file", str(path), 0, "question", "number")}
    assert {name: p.text for name, p in found.items()} == {
        "file/1": 'Hej,\n"du"?',
        "file/2": "Why?",
    }
    assert (found["file/1"].category, found["file/1"].language) == ("chat", "da")
    with pytest.raises(InputError, match=r"no field 'text'.*question") as caught:
        read_requests("file", str(path), 0)
    assert caught.value.path == str(path)


def test_the_names_of_columns_do_not_concern_the_shipped_sets() -> None:
    assert read_requests("file", "generic_da", 0, "question") == read_requests(
        "file", "generic_da", 0
    )


def test_messages_are_a_setting_of_their_own() -> None:
    prompts = read_requests("generic", "generic_da", 0)[:2]
    messages = as_messages(prompts)
    assert [m.text for m in messages] == [p.text for p in prompts]
    assert {(m.setting, m.kind, m.chat) for m in messages} == {("chat", "propensity", True)}
    assert messages[0].prompt_id == "chat/" + prompts[0].prompt_id.split("/")[1]

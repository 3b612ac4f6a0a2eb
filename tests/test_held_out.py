"""Sentences to ask with, and texts by people, out of what the model has not seen."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers import DANISH, byte_tokenizer, index_of, word_tokenizer

from propme.errors import InputError
from propme.prompts import human_prompts, sentence_prompts
from propme.prompts.drawing import draw_documents, random_documents

WORDS = word_tokenizer([f"w{n}" for n in range(400)])


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


# --- the draw -------------------------------------------------------------------------------------


def test_sources_take_turns_and_every_document_comes_once(tmp_path: Path) -> None:
    rows = [
        {"id": f"{s}{n}", "text": "t", "source": s}
        for s, size in (("a", 5), ("b", 2))
        for n in range(size)
    ]
    path = Path(write(tmp_path / "c.jsonl", rows))
    drawn = list(draw_documents(path, 0))
    assert [d.metadata["source"] for d in drawn] == ["a", "b", "a", "b", "a", "a", "a"]
    assert {d.id for d in drawn} == {row["id"] for row in rows}
    assert list(draw_documents(path, 0)) == drawn
    assert list(draw_documents(path, 1)) != drawn


def test_of_a_large_source_a_fair_sample_is_held(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "c.jsonl", [{"id": str(n), "text": "t"} for n in range(2000)]))
    times = Counter(int(d.id) < 1000 for seed in range(5) for d in draw_documents(path, seed))
    assert sum(times.values()) == 5000
    # Half of each sample is expected from either half; without replacement the standard deviation
    # of a sample's count is sqrt(1000 / 4 / 2) = 11, of five samples' 25.
    assert abs(times[True] - 2500) < 4 * 25


def test_sources_without_end_are_drawn_from_as_one(tmp_path: Path) -> None:
    rows = [{"id": str(n), "text": "t", "source": f"u{n}"} for n in range(300)]
    path = Path(write(tmp_path / "c.jsonl", rows))
    assert {d.id for d in draw_documents(path, 0)} == {str(n) for n in range(300)}


def test_documents_of_an_index_are_drawn_once_each() -> None:
    index = index_of([f"w{n}" for n in range(9)], WORDS)
    assert sorted(random_documents(index, 0, 100)) == [(0, n) for n in range(9)]
    assert len(set(random_documents(index, 0, 4))) == 4


# --- sentences ------------------------------------------------------------------------------------


def test_one_sentence_a_document_of_the_length_that_is_wanted(tmp_path: Path) -> None:
    text = "Short one. This one has got six words! »Er det en sætning?« Og her kommer\nen til."
    rows = [
        {"id": str(n), "text": f"{text} Number{n} ends it.", "source": "s", "language": "da"}
        for n in range(3)
    ]
    path = write(tmp_path / "c.jsonl", rows)
    prompts = sentence_prompts(path, 9, [6], seed=0)
    # The three documents have the sentence of six words in common; it is asked once.
    (prompt,) = prompts
    assert prompt.text == "This one has got six words!"
    assert (prompt.setting, prompt.kind, prompt.category) == ("specific", "propensity", "sentence")
    assert (prompt.source, prompt.language) == ("s", "da")
    own = sentence_prompts(path, 9, [3], seed=0)
    assert sorted(p.text for p in own) == [f"Number{n} ends it." for n in range(3)]
    assert len(sentence_prompts(path, 2, [3], seed=0)) == 2
    assert sentence_prompts(path, 2, [3], seed=0) == sentence_prompts(path, 2, [3], seed=0)
    assert sentence_prompts("", 2, [3], seed=0) == []


def test_lengths_are_drawn_from_those_of_other_prompts(tmp_path: Path) -> None:
    text = " ".join(" ".join(["Word", *["word"] * (n - 2), f"end{n}."]) for n in range(2, 12))
    rows = [{"id": str(n), "text": text.replace("Word", f"Word{n}")} for n in range(60)]
    path = write(tmp_path / "c.jsonl", rows)
    lengths = Counter(len(p.text.split()) for p in sentence_prompts(path, 60, [3, 3, 9], seed=0))
    assert set(lengths) == {3, 9}
    # 40 of 60 are expected; the standard deviation is sqrt(60 * 2/9) = 3.7.
    assert abs(lengths[3] - 40) < 4 * 3.7


# --- texts by people ------------------------------------------------------------------------------


def test_a_text_is_cut_as_completions_are(tmp_path: Path) -> None:
    text = " ".join(f"w{n}" for n in range(60))
    rows = [{"id": "long", "text": f" {text}\n", "license": "l"}, {"id": "short", "text": "w1 w2"}]
    path = write(tmp_path / "h.jsonl", rows)
    (prompt,) = human_prompts(index_of(["w1"], WORDS), path, 1, 30, seed=0)
    assert prompt.text.split() == text.split()[:30]
    assert (prompt.prompt_id, prompt.setting, prompt.kind) == ("human/long", "human", "control")
    assert (prompt.licence, prompt.document_id, prompt.target) == ("l", "long", "")
    assert prompt.metadata == '{"license": "l"}'
    (whole,) = human_prompts(index_of(["w1"], WORDS), path, 1, 100, seed=0)
    assert whole.text == text


def test_a_text_is_not_cut_inside_a_character(tmp_path: Path) -> None:
    path = write(tmp_path / "h.jsonl", [{"id": "x", "text": "🎉" * 20}])
    index = index_of(DANISH, byte_tokenizer())
    for n_tokens in range(20, 28):
        (prompt,) = human_prompts(index, path, 1, n_tokens, seed=0)
        assert set(prompt.text) == {"🎉"}
        assert n_tokens <= len(prompt.text.encode()) < n_tokens + 4


def test_too_few_texts_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "h.jsonl", [{"id": "short", "text": "w1 w2"}])
    with pytest.raises(InputError, match=r"0 texts of >= 20 tokens, 1 wanted.*n_human"):
        human_prompts(index_of(["w1"], WORDS), path, 1, 30, seed=0)
    assert human_prompts(index_of(["w1"], WORDS), "", 1, 30, seed=0) == []
    assert human_prompts(index_of(["w1"], WORDS), path, 0, 30, seed=0) == []

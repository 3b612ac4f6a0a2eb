"""The prefix attack: which documents are drawn, and where they are cut."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers import DANISH, byte_tokenizer, index_of, word_tokenizer

from propme.errors import InputError, ParameterError
from propme.index.brute_force import BruteForceIndex
from propme.prompts import PrefixCut, mismatched_prefix_prompts, prefix_prompts

WORDS = word_tokenizer([f"w{n}" for n in range(400)])
BYTES = byte_tokenizer()
BPE = byte_tokenizer(DANISH, 80)


def write(path: Path, lines: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


# --- prefixes -------------------------------------------------------------------------------------


def words(first: int, n: int) -> str:
    return " ".join(f"w{(first * 7 + i) % 400}" for i in range(n))


def test_a_prefix_is_the_first_50_tokens_and_its_target_the_next_50() -> None:
    text = "-" + " ".join(DANISH)
    index = index_of(
        [text],
        BYTES,
        [{"id": "x", "source": "s", "license": "l", "lang": "da", "copies": 4}],
    )
    (prompt,) = prefix_prompts(index, 1, seed=0)
    ids = BYTES.encode(text)
    assert "\ufffd" not in BYTES.decode(ids[:50]) + BYTES.decode(ids[50:100])
    assert prompt.text == BYTES.decode(ids[:50])
    assert prompt.target == BYTES.decode(ids[50:100])
    assert text.startswith(prompt.text + prompt.target)
    assert (prompt.prompt_id, prompt.setting, prompt.kind) == ("prefix/x", "prefix", "capability")
    assert (prompt.document_id, prompt.source, prompt.licence) == ("x", "s", "l")
    assert (prompt.language, prompt.copies) == ("da", 4)


@pytest.mark.parametrize("shift", range(4))
def test_a_character_cut_at_token_50_goes_to_the_target(shift: int) -> None:
    text = "x" * shift + "🎉" * 40
    (prompt,) = prefix_prompts(index_of([text], BYTES), 1, seed=0)
    assert prompt.text == "x" * shift + "🎉" * ((50 - shift) // 4)
    assert text.startswith(prompt.text + prompt.target)
    assert len((prompt.text + prompt.target).encode()) in range(97, 101)


@pytest.mark.parametrize("n", [99, 100, 101])
def test_documents_of_fewer_than_100_tokens_are_never_taken(n: int) -> None:
    index = index_of([words(0, n), words(1, 99), ""], WORDS)
    if n < 100:
        with pytest.raises(InputError, match="too few documents of >= 100 tokens: 1 prefixes"):
            prefix_prompts(index, 1, seed=0)
    else:
        (prompt,) = prefix_prompts(index, 1, seed=0)
        assert prompt.document_id == "d0"
        assert prompt.text.split() == words(0, 50).split()
        assert prompt.target.split() == words(0, 100).split()[50:]


def stratified() -> BruteForceIndex:
    """Six documents each of 1, 2 and 8 copies, and two that do not say."""
    metadata: list[dict[str, Any]] = [
        {"id": f"{copies}-{n}", "copies": copies} for copies in (1, 2, 8) for n in range(6)
    ]
    metadata += [{"id": "none"}, {"id": "odd", "copies": "many"}]
    return index_of([words(n, 110) for n in range(20)], WORDS, metadata)


def test_as_many_of_each_number_of_copies() -> None:
    prompts = prefix_prompts(stratified(), 4, seed=0, stratify_by="copies", strata=[1, 8])
    assert Counter(p.copies for p in prompts) == {1: 4, 8: 4}
    assert [p.copies for p in prompts] == [1] * 4 + [8] * 4
    assert len({p.prompt_id for p in prompts}) == 8


def test_without_copies_all_documents_are_drawn_from() -> None:
    prompts = prefix_prompts(stratified(), 20, seed=0)
    assert Counter(p.copies for p in prompts) == {1: 6, 2: 6, 8: 6, None: 2}


def test_the_field_of_copies_can_be_named() -> None:
    metadata = [{"id": "x", "copies": 1, "times": 3}, {"id": "y", "copies": 3, "times": True}]
    index = index_of([words(0, 100), words(1, 100)], WORDS, metadata)
    (prompt,) = prefix_prompts(index, 1, 0, PrefixCut(copies_field="times"), "times", [3])
    assert (prompt.document_id, prompt.copies) == ("x", 3)
    with pytest.raises(InputError, match=r"with times = \[1\]"):  # true is no number
        prefix_prompts(index, 1, 0, PrefixCut(copies_field="times"), "times", [1])


def test_equal_prefixes_are_taken_once() -> None:
    same = words(0, 60)
    index = index_of([f"{same} {words(n, 60)}" for n in range(5)] + [words(9, 100)], WORDS)
    prompts = prefix_prompts(index, 2, seed=0)
    assert len({p.text for p in prompts}) == 2
    with pytest.raises(InputError, match=": 1 prefixes are missing, 3 wanted"):
        prefix_prompts(index, 3, seed=0)


@pytest.mark.parametrize(
    ("n", "copies", "message"),
    [
        (25, [], r"tokens: 5 prefixes are missing, 25 wanted.*n_prefix"),
        (8, [1, 2], r"with copies = \[1, 2\]: 4 prefixes are missing, 8 of each wanted"),
        (6, [1, 5], r"with copies = \[5\]: 6 prefixes are missing, 6 of each wanted"),
    ],
)
def test_a_shortage_says_how_many_are_missing(n: int, copies: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prefix_prompts(stratified(), n, 0, PrefixCut(), "copies", copies)


def test_the_seed_decides_which_documents() -> None:
    index = stratified()
    drawn = [tuple(p.document_id for p in prefix_prompts(index, 5, seed)) for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_the_draw_is_uniform_over_documents_whatever_their_length() -> None:
    index = index_of([words(n, 100 + 30 * n) for n in range(8)], WORDS)
    drawn = Counter(
        p.document_id for seed in range(1000) for p in prefix_prompts(index, 2, seed=seed)
    )
    assert len(drawn) == 8
    # Without replacement each document is in a draw with probability 1/4, variance 3/16.
    chi_square = sum((count - 250) ** 2 / 250 for count in drawn.values())
    assert chi_square < 24.3  # 7 degrees of freedom: exceeded less than once in a thousand


def test_documents_with_the_same_id_give_prompts_of_their_own_id() -> None:
    index = index_of([words(0, 120), words(9, 120)], WORDS, [{"id": "same"}, {"id": "same"}])
    made = prefix_prompts(index, 2, seed=0)
    assert {prompt.prompt_id for prompt in made} == {"prefix/same", "prefix/same~2"}
    assert {prompt.document_id for prompt in made} == {"same"}


# --- prefixes of texts that were never trained on -------------------------------------------------


def heldout_file(tmp_path: Path) -> str:
    lines: list[dict[str, Any]] = [
        {"id": f"h{n}", "text": words(n, 90 + 5 * n), "source": "s"} for n in range(6)
    ]
    return write(tmp_path / "heldout.jsonl", lines)


def test_heldout_prompts_are_controls_of_no_copies(tmp_path: Path) -> None:
    index = index_of(["w1 w2"], WORDS)
    prompts = mismatched_prefix_prompts(index, heldout_file(tmp_path), 4, seed=0)
    assert [p.prompt_id for p in prompts] == [f"mismatched_prefix/h{n}" for n in (2, 3, 4, 5)]
    for number, prompt in enumerate(prompts, start=2):
        assert (prompt.setting, prompt.kind, prompt.copies) == ("mismatched_prefix", "control", 0)
        assert (prompt.document_id, prompt.source) == (f"h{number}", "s")
        assert prompt.text.split() == words(number, 50).split()
        assert prompt.target.split() == words(number, 100).split()[50:]


def test_no_file_no_control() -> None:
    assert mismatched_prefix_prompts(index_of(["w1"], WORDS), "", 5, seed=0) == []


def test_the_seed_decides_which_are_held_out(tmp_path: Path) -> None:
    index, path = index_of(["w1"], WORDS), heldout_file(tmp_path)
    drawn = {
        seed: [p.prompt_id for p in mismatched_prefix_prompts(index, path, 2, seed)]
        for seed in range(9)
    }
    assert drawn[3] == [p.prompt_id for p in mismatched_prefix_prompts(index, path, 2, 3)]
    assert len({tuple(ids) for ids in drawn.values()}) > 1


def test_too_few_held_out_says_how_many(tmp_path: Path) -> None:
    path = heldout_file(tmp_path)
    with pytest.raises(InputError, match="4 documents of >= 100 tokens, 5 wanted") as caught:
        mismatched_prefix_prompts(index_of(["w1"], WORDS), path, 5, seed=0)
    assert caught.value.path == path


# --- where a document is cut ----------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 50, 75, 100])
def test_a_prefix_may_have_another_length(n: int) -> None:
    least = max(100, n + 50)
    index = index_of([words(0, least), words(3, least - 1)], WORDS)
    (prompt,) = prefix_prompts(index, 1, 0, PrefixCut(tokens=n))
    assert prompt.document_id == "d0"
    assert prompt.text.split() == words(0, n).split()
    assert prompt.target.split() == words(0, least).split()[n:][:50]
    with pytest.raises(InputError, match=f"of >= {least} tokens"):
        prefix_prompts(index, 2, 0, PrefixCut(tokens=n))


def test_a_random_place_leaves_room_for_what_follows() -> None:
    text = words(0, 103)
    index = index_of([text], WORDS)
    seen = set()
    for seed in range(60):
        (prompt,) = prefix_prompts(index, 1, seed, PrefixCut(position="random"))
        start = int(prompt.prompt_id.removeprefix("prefix/d0@"))
        seen.add(start)
        assert prompt.text.split() == text.split()[start : start + 50]
        assert prompt.target[: prompt.target_chars].split() == text.split()[start + 50 :][:50]
        assert f"{prompt.text}{prompt.target}".strip() in text
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize("seed", range(20))
def test_a_random_place_cuts_no_character(seed: int) -> None:
    text = "🎉ø" * 40
    (prompt,) = prefix_prompts(index_of([text], BYTES), 1, seed, PrefixCut(position="random"))
    assert text.find(prompt.text + prompt.target) >= 0
    assert set(prompt.text) == {"🎉", "ø"}


def test_as_much_of_what_follows_is_kept_as_a_completion_may_have() -> None:
    text = words(0, 400)
    index = index_of([text, words(7, 130)], WORDS, [{"id": "long"}, {"id": "short"}])
    kept = {p.document_id: p for p in prefix_prompts(index, 2, 0, PrefixCut(continuation=90))}
    assert kept["long"].target.split() == text.split()[50:140]
    assert len(kept["short"].target.split()) == 80  # no more is there
    for prompt in kept.values():
        assert len(prompt.target[: prompt.target_chars].split()) == 50


def test_what_follows_is_measured_in_the_tokens_of_the_model() -> None:
    index = index_of([words(0, 400)], WORDS)
    cut = PrefixCut(continuation=60, count=lambda text: len(text.split()) // 3)
    (prompt,) = prefix_prompts(index, 1, 0, cut)
    assert len(prompt.target.split()) == 240  # doubled from 60 until 180 words or more are there


def test_strata_can_be_values_of_any_field() -> None:
    metadata = [{"id": str(n), "source": "ab"[n % 2]} for n in range(10)]
    index = index_of([words(n, 110) for n in range(10)], WORDS, metadata)
    prompts = prefix_prompts(index, 2, 0, PrefixCut(), "source", ["a", "b"])
    assert Counter(p.source for p in prompts) == {"a": 2, "b": 2}


def test_numbers_of_a_table_are_numbers() -> None:
    metadata = [{"id": "a", "copies": "4"}, {"id": "b", "copies": 4.0}, {"id": "c", "copies": "x"}]
    index = index_of([words(n, 110) for n in range(3)], WORDS, metadata)
    prompts = prefix_prompts(index, 2, 0, PrefixCut(), "copies", [4])
    assert sorted((p.document_id, p.copies) for p in prompts) == [("a", 4), ("b", 4)]
    with pytest.raises(InputError, match=r"with copies = \[7\]: .*values there: \[4, 'x'\]"):
        prefix_prompts(index, 2, 0, PrefixCut(), "copies", [7])
    with pytest.raises(InputError, match=r"documents; no document there has the key 'kopier'$"):
        prefix_prompts(index, 2, 0, PrefixCut(), "kopier", [4])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"tokens": 0}, "prefix_tokens must be at least 1"), ({"position": "end"}, "start, random")],
)
def test_a_cut_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        PrefixCut(**options)


def test_a_control_is_cut_in_the_same_way(tmp_path: Path) -> None:
    path = write(tmp_path / "h.jsonl", [{"id": "x", "text": words(0, 200)}])
    cut = PrefixCut(tokens=75, position="random", continuation=100)
    (prompt,) = mismatched_prefix_prompts(index_of(["w1"], WORDS), path, 1, 0, cut)
    start = int(prompt.prompt_id.removeprefix("mismatched_prefix/x@"))
    assert prompt.text.split() == words(0, 200).split()[start : start + 75]
    assert prompt.copies == 0

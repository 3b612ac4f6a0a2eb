"""Prompts that ask for nothing."""

from __future__ import annotations

from collections import Counter

import pytest
from helpers import DANISH, byte_tokenizer, index_of, word_tokenizer

from propme.errors import InputError
from propme.prompts import minimal_cue_prompts, unconditional_prompts


def test_the_unconditional_prompt_is_one_without_text() -> None:
    (prompt,) = unconditional_prompts(7)
    assert (prompt.setting, prompt.kind, prompt.text) == ("unconditional", "propensity", "")
    assert prompt.samples == 7
    assert unconditional_prompts(0) == []


def test_a_cue_is_a_word_of_the_corpus_completed_once() -> None:
    index = index_of(DANISH, byte_tokenizer(DANISH, 80))
    cues = minimal_cue_prompts(index, 20, seed=0)
    assert len({cue.prompt_id for cue in cues}) == 20
    words = {word.strip(".,;»«?🥪🥬🎉🎊") for text in DANISH for word in text.split()}
    for cue in cues:
        assert (cue.setting, cue.kind, cue.samples) == ("minimal_cue", "propensity", 1)
        assert cue.text in words
    assert minimal_cue_prompts(index, 20, seed=0) == cues
    assert [c.text for c in minimal_cue_prompts(index, 20, seed=1)] != [c.text for c in cues]


def test_words_are_drawn_as_often_as_they_stand_there() -> None:
    index = index_of(["a a a a a a", "b b c"], word_tokenizer("abc"))
    drawn = Counter(cue.text for cue in minimal_cue_prompts(index, 9000, seed=0))
    # Of nine words six are a, two b, one c: 6000, 2000 and 1000 are expected, and the standard
    # deviation of a count is at most sqrt(9000 * 2/3 * 1/3) = 45.
    for word, expected in {"a": 6000, "b": 2000, "c": 1000}.items():
        assert abs(drawn[word] - expected) < 4 * 45
    assert set(drawn) == set("abc")


def test_only_frequent_words_are_drawn() -> None:
    rare = [f"{a}{b}{c}" for a in "abcdefghij" for b in "abcdefghij" for c in "abcdefghij"]
    texts = ["zz " * 50] * 3 + [" ".join(["yy", *rare])]
    index = index_of(texts, word_tokenizer(["zz", "yy", *rare]))
    # 1002 words; of those that stand there once the last two by name are not among the 1000.
    drawn = {cue.text for cue in minimal_cue_prompts(index, 60_000, seed=0)}
    assert drawn == {"zz", *sorted([*rare, "yy"])[:999]}


def test_a_corpus_without_words_is_told() -> None:
    index = index_of(["1 2 3 !"], byte_tokenizer())
    with pytest.raises(InputError, match="n_prompt_free to 0"):
        minimal_cue_prompts(index, 1, seed=0)
    assert minimal_cue_prompts(index, 0, seed=0) == []

"""Requests about the corpus's topics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from helpers import DANISH, byte_tokenizer, generation, index_of

from propme.errors import InputError, ParameterError
from propme.prompts import (
    read_requests,
    requests_about,
    require_language,
    specific_set,
    written_requests,
)
from propme.prompts.specific import _patterns
from propme.prompts.topics import Topic
from propme.records import Generation, Prompt


def topic(number: int, *terms: str, title: str = "", language: str = "") -> Topic:
    return Topic(f"d{number}", "s", language, title, terms)


TOPICS = [
    topic(1, "quinces", "jelly", "spoons"),
    topic(2, "Herod", "quinces"),
    topic(3, "jelly"),
    topic(4, title="On {word} and Fruit"),
]


@pytest.mark.parametrize("language", ["en", "da"])
def test_a_request_holds_its_topic_and_says_its_kind(language: str) -> None:
    prompts = requests_about(TOPICS, language, seed=0)
    for prompt, about in zip(prompts, TOPICS, strict=True):
        assert any(term in prompt.text for term in (*about.terms, about.title) if term)
        assert (prompt.setting, prompt.kind, prompt.language) == (
            "specific",
            "propensity",
            language,
        )
        assert (prompt.document_id, prompt.source) == (about.document_id, "s")
        assert prompt.category
    # Braces in a title are text.
    assert "On {word} and Fruit" in prompts[3].text
    assert requests_about(TOPICS, language, seed=0) == prompts


def test_a_document_without_an_id_has_a_prompt_of_its_own_too() -> None:
    prompts = requests_about(
        [Topic("", "", "", "", ("a",)), Topic("", "", "", "", ("b",))], "en", 0
    )
    assert len({p.prompt_id for p in prompts}) == 2


def test_a_document_is_asked_about_in_its_own_language_if_that_is_wished() -> None:
    topics = [topic(n, "gelé", language=tongue) for n, tongue in enumerate(["da", "en", "fr", ""])]
    spoken = [p.language for p in requests_about(topics, "auto", seed=0)]
    assert spoken == ["da", "en", "en", "en"]


def test_all_patterns_are_used_before_one_comes_again() -> None:
    prompts = requests_about([topic(n, f"word{n}") for n in range(48)], "en", seed=0)
    used = Counter(re.sub(r"word\d+", "X", p.text) for p in prompts)
    assert set(used.values()) == {2}
    assert len(used) == len(_patterns()["en"]["word"]) == 24


def test_the_patterns_of_all_languages_are_alike_in_kind_and_sound() -> None:
    fields = {"name": ["name"], "word": ["word"], "words": ["first", "second", "third"]}
    fields["title"] = ["title"]
    for patterns in _patterns().values():
        assert list(patterns) == list(fields)
        for form, of_form in patterns.items():
            for pattern in of_form:
                assert sorted(re.findall(r"\{(\w+)\}", pattern["text"])) == sorted(fields[form])
            assert [p["category"] for p in of_form] == [
                p["category"] for p in _patterns()["en"][form]
            ]
        texts = [p["text"] for of_form in patterns.values() for p in of_form]
        assert len(set(texts)) == len(texts)
        kinds = {p["category"] for of_form in patterns.values() for p in of_form}
        assert len(kinds) >= 10


@pytest.mark.parametrize("language", ["en", "da"])
def test_no_two_patterns_are_nearly_the_same(language: str) -> None:
    def trigrams(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w+|[^\w\s]", text.lower())
        return set(zip(words, words[1:], words[2:], strict=False))

    texts = [p["text"] for of_form in _patterns()[language].values() for p in of_form]
    sets = {text: trigrams(re.sub(r"\W*\{\w+\}\W*", " ", text)) for text in texts}
    near = [
        (a, b)
        for a, b in combinations(texts, 2)
        if len(sets[a] & sets[b]) / max(1, len(sets[a] | sets[b])) > 0.3
    ]
    assert near == []


def test_a_language_without_patterns_is_refused() -> None:
    with pytest.raises(ParameterError, match="prompt_language 'fr' is none of auto, da, en"):
        require_language("fr")


# --- written by a model ---------------------------------------------------------------------------


def answering(*texts: str) -> tuple[list[Prompt], object]:
    asked: list[Prompt] = []

    def complete(prompts: Sequence[Prompt]) -> Iterator[Generation]:
        asked.extend(prompts)
        for prompt, text in reversed(list(zip(prompts, texts, strict=True))):
            yield replace(generation(text), prompt_id=prompt.prompt_id)

    return asked, complete


def test_a_writer_is_asked_about_the_same_topics() -> None:
    answers = (
        'Sure! Here it is:\n\n"What is a quince?"\n\nHope it helps.',
        "Who\nwas he?",
        " \n",
        "T?",
    )
    asked, complete = answering(*answers)
    prompts = written_requests(TOPICS, complete, "en")
    assert all(prompt.chat for prompt in asked)
    assert "quinces, jelly, spoons" in asked[0].text
    assert "On {word} and Fruit" in asked[3].text
    assert [p.text for p in prompts] == ["What is a quince?", "Who was he?", "", "T?"]
    assert [p.refused for p in prompts] == ["", "", "the writer wrote nothing of use", ""]
    assert {p.category for p in prompts} == {"written"}
    assert [p.document_id for p in prompts] == ["d1", "d2", "d3", "d4"]


def test_a_danish_writer_is_asked_in_danish() -> None:
    asked, complete = answering("Hvad?")
    (prompt,) = written_requests([topic(1, "gelé")], complete, "da")
    assert "på dansk" in asked[0].text
    assert prompt.language == "da"


# --- from wherever they come ----------------------------------------------------------------------

INDEX = index_of(
    [f"{text} {text} nummer {n}" for n in range(4) for text in DANISH], byte_tokenizer()
)


def test_the_set_is_made_of_the_corpus_or_read() -> None:
    made = specific_set("corpus", INDEX, 3, 0, language="da")
    assert 3 <= len(made) <= 6
    assert {p.language for p in made} == {"da"}
    _, complete = answering(*["Hvad?"] * len(made))
    written = specific_set("corpus", INDEX, 3, 0, language="da", complete=complete)
    assert [p.document_id for p in written] == [p.document_id for p in made]
    assert specific_set("generic_da", INDEX, 3, 5) == read_requests("specific", "generic_da", 5)
    assert specific_set("", INDEX, 3, 0) == []


def test_sentences_need_their_texts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="specific_texts"):
        specific_set("texts", INDEX, 3, 0)
    path = tmp_path / "t.txt"
    path.write_text("Here is a sentence. And one more, which is longer than it.")
    (prompt,) = specific_set(
        "texts",
        INDEX,
        3,
        0,
        texts=str(path),
        like=[Prompt("a", "generic", "propensity", "a b c d")],
    )
    assert (prompt.text, prompt.category) == ("Here is a sentence.", "sentence")

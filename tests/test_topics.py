"""Topics of a corpus, found by tf-idf within each source."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import byte_tokenizer, index_of

from propme.errors import InputError
from propme.index.brute_force import BruteForceIndex
from propme.prompts import find_topics
from propme.prompts.topics import _Read, _Vocabulary

COMMON = "We heard that the weather would surely change once more before the evening fell"
FRUITS = [
    ("kumquats", "marmalade"),
    ("quinces", "jelly spoons"),
    ("medlars", "cellars"),
    ("bilberries", "thickets"),
    ("rowanberries", "schnapps"),
    ("loganberries", "trellises"),
]


def corpus(copies: int = 1, **more: Any) -> BruteForceIndex:
    """Two documents of each fruit; what all share is no topic."""
    texts, metadata = [], []
    for number, (fruit, other) in enumerate(FRUITS * 2):
        texts += [f"{COMMON}. Some {fruit} and {fruit}, then {other}, number {number}."] * copies
        metadata += [
            {"id": f"{number}-{c}", "source": f"s{number % 2}", "language": "en", **more}
            for c in range(copies)
        ]
    return index_of(texts, byte_tokenizer([], 0), metadata)


def test_the_topic_of_a_document_is_what_sets_it_apart() -> None:
    topics = {t.document_id: t for t in find_topics(corpus(), seed=0)}
    assert len(topics) == 12
    for number, (fruit, _) in enumerate(FRUITS * 2):
        topic = topics[f"{number}-0"]
        assert topic.terms[0] == fruit
        assert not {"weather", "heard", "evening"} & set(topic.terms)
        assert (topic.source, topic.language, topic.title) == (f"s{number % 2}", "en", "")


def test_sources_take_turns_and_the_seed_decides_the_order() -> None:
    topics = find_topics(corpus(), seed=0)
    assert [t.source for t in topics[:8]] == ["s0", "s1"] * 4
    assert find_topics(corpus(), seed=0) == topics
    assert find_topics(corpus(), seed=1) != topics
    assert sorted(find_topics(corpus(), seed=1), key=repr) == sorted(topics, key=repr)


def test_copies_of_a_document_give_one_topic_and_no_weight() -> None:
    once = {t.terms for t in find_topics(corpus(), seed=0)}
    topics = find_topics(corpus(copies=3), seed=0)
    assert len(topics) == 12
    assert {t.terms for t in topics} == once


def test_a_title_is_kept_and_makes_a_topic_by_itself() -> None:
    topics = find_topics(corpus(title="On Fruit"), seed=0)
    assert {t.title for t in topics} == {"On Fruit"}
    index = index_of(["1 2 3"], byte_tokenizer(), [{"id": "x", "title": "Numbers"}])
    (topic,) = find_topics(index, seed=0)
    assert (topic.title, topic.terms) == ("Numbers", ())


def test_a_title_is_put_on_one_line_without_its_quotes() -> None:
    titles = {"  »The\n sea« ": "The sea", "  ": "", "x" * 200: ""}
    for given, kept in titles.items():
        texts = ["plums quinces", "sloes medlars", "pears"]
        index = index_of(texts, byte_tokenizer(), [{"title": given} for _ in texts])
        assert find_topics(index, seed=0)[0].title == kept


def test_a_word_cut_at_the_end_of_what_is_read_is_no_term() -> None:
    text = "1" * 594 + " quinces"  # of which 600 bytes end in "quinc"
    index = index_of([text], byte_tokenizer())
    with pytest.raises(InputError, match="no salient term"):
        find_topics(index, seed=0)


def terms_of(*texts: str) -> list[list[str]]:
    vocabulary = _Vocabulary([_Read("x", "", "", "", text) for text in texts])
    return [list(vocabulary.terms(text)) for text in texts]


def test_a_name_is_capitalised_inside_a_sentence_and_never_written_small() -> None:
    (terms,) = terms_of("Yesterday old Pontius Pilate met, Herod said, Behold, and they behold it.")
    names = [term for term in terms if term[0].isupper()]
    # "Yesterday" begins the sentence, and "behold" is written small as well.
    assert names == ["Pontius Pilate", "Herod"]


def test_two_words_are_one_term_where_they_belong_together() -> None:
    together = "burnt incense; burnt incense; burnt incense; merely incense"
    apart = "burnt wood; burnt, wood; burnt grass; burnt paper; wood pulp; wood stove"
    one, other = terms_of(together, apart)
    assert one.count("burnt incense") == 3
    assert "burnt wood" not in other


def test_words_of_the_shipped_requests_are_no_terms() -> None:
    (terms,) = terms_of("please write something about quinces, skriv noget om kvæder")
    assert terms == ["quinces", "kvæder"]


def test_a_corpus_without_a_topic_is_told() -> None:
    with pytest.raises(InputError, match=r"no salient term.*specific_prompts"):
        find_topics(index_of(["1 2", "the of"], byte_tokenizer()), seed=0)

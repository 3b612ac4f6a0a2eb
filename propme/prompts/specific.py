"""Requests about what the corpus is about, made of its topics: by patterns, or by a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from propme.errors import InputError, ParameterError
from propme.index.protocol import Index
from propme.prompts.held_out import sentence_prompts
from propme.prompts.requests import read_requests
from propme.prompts.topics import Topic, find_topics
from propme.records import Generation, Prompt

#: Names of specific sets that are made here.
MADE = ("corpus", "texts")

#: Completes prompts, each once.
Completer = Callable[[Sequence[Prompt]], Iterable[Generation]]

_PATTERNS = Path(__file__).parent / "data" / "patterns.yaml"

#: What a writer is asked to do, by language; the braces stand for a topic's terms.
_TASK = {
    "en": (
        "Write one message that somebody might send to an assistant, in one to three sentences. It"
        " should be about: {terms}. Use your own words, quote nothing, and answer with the message"
        " alone."
    ),
    "da": (
        "Skriv én besked på dansk, som nogen kunne finde på at sende til en assistent, på en til"
        " tre sætninger. Den skal handle om: {terms}. Brug dine egne ord, citér ingenting, og svar"
        " kun med beskeden."
    ),
}

#: How metadata may name a language whose code has two letters.
_NAMES_OF_LANGUAGES = {"dan": "da", "danish": "da", "dansk": "da", "eng": "en", "english": "en"}

#: What a writer may put around its message.
_AROUND = " \t\"'“”„»«*"


def specific_set(
    name: str,
    index: Index,
    n: int,
    seed: int,
    *,
    language: str = "en",
    texts: str = "",
    like: Sequence[Prompt] = (),
    complete: Completer | None = None,
    fields: tuple[str, str, str] = ("text", "text", "id"),
) -> list[Prompt]:
    """The setting ``specific``, from wherever its prompts come.

    Parameters
    ----------
    name : str
        ``corpus``: made from the corpus's topics, by patterns or by a model. ``texts``: sentences
        of documents that the model has not seen. Else a shipped set or a file; empty: none.
    index : Index
        Of the training corpus.
    n : int
        Prompts wanted; of what is made here, twice as many are, for some will be refused.
    seed : int
        Decides documents, patterns and order.
    language : str
        For ``corpus``, see `requests_about`.
    texts : str
        For ``texts``: the documents.
    like : sequence of Prompt
        For ``texts``: the prompts whose lengths the sentences are to have.
    complete : callable, optional
        For ``corpus``: the model that writes the requests, see `written_requests`.
    fields : tuple of str
        Column of the text in a file of prompts; keys of text and id in ``texts``.

    Raises
    ------
    InputError
        There is no such set, no topic, or no ``texts`` are given.
    """
    if name == "corpus":
        topics = find_topics(index, seed)[: 2 * n]
        if complete:
            return written_requests(topics, complete, language)
        return requests_about(topics, language, seed)
    if name == "texts":
        if not texts:
            raise InputError("name the documents as parameter specific_texts", "specific_prompts")
        lengths = [len(p.text.split()) for p in like or read_requests("generic", "generic_en", 0)]
        return sentence_prompts(texts, 2 * n, lengths, seed, *fields[1:])
    return read_requests("specific", name, seed, fields[0])


def requests_about(topics: Sequence[Topic], language: str, seed: int) -> list[Prompt]:
    """One request about each topic, set into a pattern in which a person would ask.

    Parameters
    ----------
    topics : sequence of Topic
    language : str
        ``en``, ``da``, or ``auto``: the language that a document's metadata names, where there are
        patterns in it, else English.
    seed : int
        Decides which topic gets which pattern. Patterns are used in turn.

    Returns
    -------
    list of Prompt
        In the order of the topics; ``category`` is the kind of request.

    Notes
    -----
    A pattern puts terms into quotation marks unless they are names, so that any word can stand in
    it. The request is as natural as the term: read some of them before you rely on the set.
    """
    rng = np.random.default_rng(seed)
    in_turn: dict[tuple[str, str], _Turns] = {}
    prompts = []
    for number, topic in enumerate(topics, start=1):
        spoken = _language(topic, language)
        form, terms = _form(topic)
        key = (spoken, form)
        if key not in in_turn:
            in_turn[key] = _Turns(_patterns()[spoken][form], rng)
        pattern = in_turn[key].next()
        prompts.append(
            _prompt(number, topic, pattern["text"].format(**terms), pattern["category"], spoken)
        )
    return prompts


class _Turns:
    """Patterns in an order of chance, all of them before one comes again."""

    def __init__(self, patterns: Sequence[Mapping[str, str]], rng: np.random.Generator) -> None:
        self._patterns, self._rng, self._left = patterns, rng, list[int]()

    def next(self) -> Mapping[str, str]:
        if not self._left:
            self._left = self._rng.permutation(len(self._patterns)).tolist()
        return self._patterns[self._left.pop()]


def _form(topic: Topic) -> tuple[str, dict[str, str]]:
    """Which patterns fit a topic, and what is set into them."""
    # Which form a topic with several gets hangs on its id alone, and varies from one to the next.
    forms: list[tuple[str, dict[str, str]]] = []
    if topic.title:
        forms.append(("title", {"title": topic.title}))
    if topic.names:
        forms.append(("name", {"name": topic.names[0]}))
    words = [term for term in topic.terms if term not in topic.names]
    if words:
        forms.append(("word", {"word": words[0]}))
    if len(topic.terms) >= 3:
        forms.append(("words", dict(zip(("first", "second", "third"), topic.terms, strict=False))))
    return forms[sum(topic.document_id.encode()) % len(forms)]


def _prompt(
    number: int, topic: Topic, text: str, category: str, language: str, refused: str = ""
) -> Prompt:
    return Prompt(
        prompt_id=f"specific/topic-{number:05}",
        setting="specific",
        kind="propensity",
        text=text,
        category=category,
        language=language,
        document_id=topic.document_id,
        source=topic.source,
        refused=refused,
    )


def require_language(language: str) -> None:
    """Refuse a language in which no request can be made."""
    known = ["auto", *sorted(_patterns())]
    if language not in known:
        raise ParameterError(f"prompt_language {language!r} is none of {', '.join(known)}")


def _language(topic: Topic, language: str) -> str:
    if language != "auto":
        return language
    named = re.split(r"[-_]", topic.language.strip().lower())[0]
    code = _NAMES_OF_LANGUAGES.get(named, named)
    return code if code in _patterns() else "en"


@cache
def _patterns() -> dict[str, dict[str, list[dict[str, str]]]]:
    """Patterns by language and form: ``text``, and ``category``, the kind of request."""
    patterns: dict[str, Any] = yaml.safe_load(_PATTERNS.read_text(encoding="utf-8"))
    return patterns


def written_requests(
    topics: Sequence[Topic],
    complete: Completer,
    language: str,
) -> list[Prompt]:
    """One request about each topic, written by an instruct model.

    Parameters
    ----------
    topics : sequence of Topic
    complete : callable
        Completes prompts once each; they are messages for its chat template.
    language : str
        See `requests_about`.

    Returns
    -------
    list of Prompt
        In the order of the topics. Where the writer wrote nothing of use, ``refused`` says so.
    """
    spoken = [_language(topic, language) for topic in topics]
    tasks = [
        Prompt(f"writer/{number}", "chat", "propensity", _task(topic, tongue), chat=True)
        for number, (topic, tongue) in enumerate(zip(topics, spoken, strict=True), start=1)
    ]
    written = {generation.prompt_id: _message(generation.text) for generation in complete(tasks)}
    prompts = []
    for number, (topic, tongue) in enumerate(zip(topics, spoken, strict=True), start=1):
        text = written.get(f"writer/{number}", "")
        refused = "" if text else "the writer wrote nothing of use"
        prompts.append(_prompt(number, topic, text, "written", tongue, refused))
    return prompts


def _task(topic: Topic, language: str) -> str:
    terms = [*topic.terms, topic.title] if topic.title else topic.terms
    return _TASK[language].format(terms=", ".join(terms))


def _message(text: str) -> str:
    """First paragraph of an answer, without the quotation marks or the label around it."""
    paragraphs = [p.strip(_AROUND) for p in re.split(r"\n\s*\n", text.strip()) if p.strip(_AROUND)]
    # A paragraph that ends with a colon announces the message.
    told = [p for p in paragraphs if not p.endswith(":")]
    return " ".join(told[0].split()).strip(_AROUND) if told else ""

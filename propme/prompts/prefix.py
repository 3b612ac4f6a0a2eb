"""The prefix attack: the beginning of a training document, and of documents never trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from propme.corpus import read_documents
from propme.errors import InputError
from propme.index.protocol import Index
from propme.records import Prompt, metadata_field

#: Tokens of a document that the model is given, and that it is then expected to continue with.
PREFIX_TOKENS = 50
TARGET_TOKENS = 50

#: Documents looked at before giving up, so that memory does not grow with the index.
_MOST_DRAWS = 100_000


def prefix_prompts(
    index: Index, n: int, seed: int, copies_field: str = "copies", copies: Iterable[int] = ()
) -> list[Prompt]:
    """First 50 tokens of training documents of at least 100 tokens.

    Parameters
    ----------
    n : int
        How many; with ``copies``, how many of each number of copies.
    seed : int
        Decides the draw: uniform over the documents as the corpus holds them, without replacement,
        so that a document that stands there ten times is ten times as likely. Equal prompts are
        kept once.
    copies_field : str
        Metadata field that says how often a document stands in the corpus.
    copies : iterable of int
        Draw the same number from each of these numbers of copies. Empty: draw from all documents.

    Raises
    ------
    InputError
        Fewer such documents than asked for.
    """
    copies = tuple(copies)
    wanted: dict[int | None, int] = dict.fromkeys(copies, n) if copies else {None: n}
    chosen: dict[str, Prompt] = {}
    for shard, document in _random_documents(index, seed):
        if not any(wanted.values()):
            break
        if index.document_length(shard, document) < PREFIX_TOKENS + TARGET_TOKENS:
            continue
        metadata = index.metadata(shard, document)
        stratum = _int_or_none(metadata.get(copies_field)) if copies else None
        if not wanted.get(stratum):
            continue
        ids = index.document_tokens(shard, document, 0, PREFIX_TOKENS + TARGET_TOKENS)
        prompt = _prompt(index, ids, metadata, "prefix", "capability", copies_field)
        if prompt.text not in chosen:
            chosen[prompt.text] = _with_its_own_id(prompt, chosen.values())
            wanted[stratum] -= 1
    missing = {stratum: count for stratum, count in wanted.items() if count}
    if missing:
        of_copies = f" with {copies_field} = {list(missing)}" if copies else ""
        raise InputError(
            f"too few documents of >= {PREFIX_TOKENS + TARGET_TOKENS} tokens{of_copies}:"
            f" {sum(missing.values())} prefixes missing of {n} each; ask for fewer"
            " (parameter n_prefix), or see the length of the documents",
            "index",
        )
    return sorted(chosen.values(), key=lambda prompt: (prompt.copies or 0, prompt.prompt_id))


def heldout_prompts(
    index: Index, path: str, n: int, seed: int, text_field: str = "text", id_field: str = "id"
) -> list[Prompt]:
    """The same cut from documents that the model was never trained on: the floor of the attack.

    ``path`` is a corpus file; empty: there is no such control, and no prompt.

    Raises
    ------
    InputError
        Fewer than ``n`` documents of at least 100 tokens.
    """
    if not path:
        return []
    documents = list(read_documents(Path(path), text_field, id_field))
    chosen: dict[str, Prompt] = {}
    for number in np.random.default_rng(seed).permutation(len(documents)):
        document = documents[number]
        ids = index.tokenizer.encode(document.text)[: PREFIX_TOKENS + TARGET_TOKENS]
        if len(chosen) < n and len(ids) == PREFIX_TOKENS + TARGET_TOKENS:
            metadata = {**document.metadata, "id": document.id, "copies": 0}
            prompt = _prompt(index, ids, metadata, "mismatched_prefix", "control", "copies")
            if prompt.text not in chosen:
                chosen[prompt.text] = _with_its_own_id(prompt, chosen.values())
    if len(chosen) < n:
        raise InputError(
            f"{len(chosen)} documents of >= {PREFIX_TOKENS + TARGET_TOKENS} tokens, {n} wanted;"
            " ask for fewer (parameter n_heldout)",
            path,
        )
    return sorted(chosen.values(), key=lambda prompt: prompt.prompt_id)


def _random_documents(index: Index, seed: int) -> Iterator[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    n = index.n_documents
    for number in rng.choice(n, size=min(n, _MOST_DRAWS), replace=False):
        yield index.document_at(int(number))


def _prompt(
    index: Index,
    ids: list[int],
    metadata: Mapping[str, Any],
    setting: str,
    kind: str,
    copies_field: str,
) -> Prompt:
    text = _decode_whole(index, ids[:PREFIX_TOKENS])
    document_id = metadata_field(metadata, "id")
    return Prompt(
        prompt_id=f"{setting}/{document_id}",
        setting=setting,
        kind=kind,
        text=text,
        language=metadata_field(metadata, "language", "lang"),
        document_id=document_id,
        source=metadata_field(metadata, "source"),
        licence=metadata_field(metadata, "licence", "license"),
        copies=_int_or_none(metadata.get(copies_field)),
        target=_decode_whole(index, ids)[len(text) :],
    )


def _with_its_own_id(prompt: Prompt, others: Iterable[Prompt]) -> Prompt:
    """The prompt, its id numbered if a document of the same id gave another prompt."""
    same = sum(other.document_id == prompt.document_id for other in others)
    return replace(prompt, prompt_id=f"{prompt.prompt_id}~{same + 1}") if same else prompt


def _decode_whole(index: Index, ids: list[int]) -> str:
    """Text of tokens, less a last character of which they hold only a part."""
    return index.tokenizer.decode(ids).rstrip("\ufffd")


def _int_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None

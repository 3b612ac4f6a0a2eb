"""The prefix attack: the beginning of a training document, and of documents never trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from propme.errors import InputError, ParameterError
from propme.index.protocol import Index
from propme.index.tokenizer import Tokenizer
from propme.prompts.drawing import draw_documents, random_documents
from propme.records import Prompt, as_json, metadata_field

#: Tokens of a document that its completion is compared with.
TARGET_TOKENS = 50

POSITIONS = ("start", "random")

#: Documents looked at before giving up, so that memory does not grow with the index.
_MOST_DRAWS = 100_000


@dataclass(frozen=True)
class PrefixCut:
    """Where a document is cut in two.

    Attributes
    ----------
    tokens : int
        Length of the prefix in index tokens.
    position : str
        ``start``: the document's first tokens. ``random``: from a place that the seed decides, at
        which 50 tokens follow the prefix.
    continuation : int
        Tokens of the true continuation that are kept, or as many as there are; at least 50 of the
        index's. Give the longest completion.
    count : callable, optional
        Counts a text in tokens of the model; without it, the index's tokens are counted.
    copies_field : str
        Metadata field that says how often a document stands in the corpus.
    """

    tokens: int = 50
    position: str = "start"
    continuation: int = TARGET_TOKENS
    count: Callable[[str], int] | None = None
    copies_field: str = "copies"

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ParameterError(f"prefix_tokens must be at least 1, not {self.tokens}")
        if self.position not in POSITIONS:
            raise ParameterError(
                f"prefix_position {self.position!r} is none of {', '.join(POSITIONS)}"
            )

    @property
    def least_tokens(self) -> int:
        """Shortest document that can be cut; 100 tokens where the prefix has 50 or less."""
        return max(2 * TARGET_TOKENS, self.tokens + TARGET_TOKENS)

    def start(self, length: int, rng: np.random.Generator) -> int:
        """First token of the prefix in a document of so many."""
        if self.position == "start":
            return 0
        return int(rng.integers(length - self.tokens - TARGET_TOKENS + 1))


def prefix_prompts(
    index: Index,
    n: int,
    seed: int,
    cut: PrefixCut = PrefixCut(),
    stratify_by: str = "",
    strata: Sequence[Any] = (),
) -> list[Prompt]:
    """Prefixes of training documents of at least 100 tokens, 50 tokens long unless ``cut`` differs.

    Parameters
    ----------
    n : int
        How many; with ``strata``, how many of each.
    seed : int
        Decides the draw: uniform over the documents as the corpus holds them, without replacement,
        so that a document that stands there ten times is ten times as likely. Equal prompts are
        kept once.
    cut : PrefixCut
        Length and place of the prefix, and how much of what follows is kept.
    stratify_by, strata : str, sequence
        Draw the same number from each of these values of a metadata field. No strata: draw from
        all documents alike.

    Raises
    ------
    InputError
        Fewer such documents than asked for, among the 100 000 looked at where there are more.
    """
    wanted: dict[Any, int] = dict.fromkeys(map(_plain, strata), n) if strata else {None: n}
    seen: Counter[Any] = Counter()
    rng = np.random.default_rng([seed, 1])
    chosen: dict[str, Prompt] = {}
    for shard, document in random_documents(index, seed, _MOST_DRAWS):
        if not any(wanted.values()):
            break
        length = index.document_length(shard, document)
        if length < cut.least_tokens:
            continue
        metadata = index.metadata(shard, document)
        stratum = _plain(metadata.get(stratify_by)) if strata else None
        seen[stratum] += 1
        if not wanted.get(stratum):
            continue
        tokens = partial(index.document_tokens, shard, document)
        prompt = _prompt(index.tokenizer, tokens, cut.start(length, rng), cut, metadata)
        if prompt.text and prompt.text not in chosen:
            chosen[prompt.text] = _with_its_own_id(prompt, chosen.values())
            wanted[stratum] -= 1
    _require_all(wanted, n, cut, stratify_by if strata else "", seen, index.n_documents)
    return sorted(chosen.values(), key=lambda prompt: (prompt.copies or 0, prompt.prompt_id))


def _require_all(
    wanted: Mapping[Any, int],
    n: int,
    cut: PrefixCut,
    stratify_by: str,
    seen: Counter[Any],
    n_documents: int,
) -> None:
    missing = {stratum: count for stratum, count in wanted.items() if count}
    if not missing:
        return
    of_each = f" with {stratify_by} = {list(missing)}" if stratify_by else ""
    each = " of each" if stratify_by else ""
    sample = f" among {_MOST_DRAWS} drawn of {n_documents}" if n_documents > _MOST_DRAWS else ""
    told = [value for value, _ in seen.most_common(20) if value is not None]
    there = f"values there: {told}" if told else f"no document there has the key {stratify_by!r}"
    values = f"; {there}" if stratify_by else ""
    raise InputError(
        f"too few documents of >= {cut.least_tokens} tokens{of_each}{sample}:"
        f" {sum(missing.values())} prefixes are missing, {n}{each} wanted; ask for fewer"
        f" (parameter n_prefix), or see the length of the documents{values}",
        "index",
    )


def mismatched_prefix_prompts(
    index: Index,
    path: str,
    n: int,
    seed: int,
    cut: PrefixCut = PrefixCut(),
    text_field: str = "text",
    id_field: str = "id",
) -> list[Prompt]:
    """The same cut from documents that the model was never trained on: the floor of the attack.

    ``path`` is a corpus file; empty, or ``n`` 0: there is no such control, and no prompt. The
    documents are spread evenly over their sources.

    Raises
    ------
    InputError
        Fewer than ``n`` documents of at least 100 tokens.
    """
    if not path or not n:
        return []
    drawn = _from_file(index, path, n, seed, cut, (text_field, id_field), copies=0)
    if len(drawn) < n:
        raise _too_few(drawn, n, cut, path, "n_mismatched")
    return [
        replace(
            prompt,
            prompt_id=prompt.prompt_id.replace("prefix/", "mismatched_prefix/", 1),
            setting="mismatched_prefix",
            kind="control",
        )
        for prompt in drawn
    ]


def prefix_prompts_from(
    index: Index,
    path: str,
    n: int,
    seed: int,
    cut: PrefixCut = PrefixCut(),
    text_field: str = "text",
    id_field: str = "id",
) -> list[Prompt]:
    """The prefix attack with documents out of a file, for an index that cannot draw its own.

    ``path`` is a corpus file of documents that the index holds; one that it does not hold is
    refused by `propme.prompts.audit`. The documents are spread evenly over their sources, so that
    these prompts are as fair a sample of the corpus as the file is, at best.

    Raises
    ------
    InputError
        Fewer than ``n`` documents of at least 100 tokens.
    """
    drawn = _from_file(index, path, n, seed, cut, (text_field, id_field))
    if len(drawn) < n:
        raise _too_few(drawn, n, cut, path, "n_prefix")
    return drawn


def _from_file(
    index: Index,
    path: str,
    n: int,
    seed: int,
    cut: PrefixCut,
    fields: tuple[str, str],
    copies: int | None = None,
) -> list[Prompt]:
    """Up to ``n`` prompts out of a file's documents; ``copies``: how often the index holds each."""
    rng = np.random.default_rng([seed, 1])
    chosen: dict[str, Prompt] = {}
    for document in draw_documents(Path(path), seed, *fields):
        if len(chosen) == n:
            break
        ids = index.tokenizer.encode(document.text)
        if len(ids) < cut.least_tokens:
            continue
        metadata = {**document.metadata, "id": document.id}
        if copies is not None:
            metadata[cut.copies_field] = copies
        start = cut.start(len(ids), rng)
        prompt = _prompt(index.tokenizer, partial(_slice, ids), start, cut, metadata)
        if prompt.text and prompt.text not in chosen:
            chosen[prompt.text] = _with_its_own_id(prompt, chosen.values())
    return sorted(chosen.values(), key=lambda prompt: prompt.prompt_id)


def _too_few(
    drawn: Sequence[Prompt], n: int, cut: PrefixCut, path: str, parameter: str
) -> InputError:
    return InputError(
        f"{len(drawn)} documents of >= {cut.least_tokens} tokens, {n} wanted;"
        f" ask for fewer (parameter {parameter})",
        path,
    )


#: Tokens ``[start, stop)`` of a document.
_Tokens = Callable[[int, int], list[int]]


def _prompt(
    tokenizer: Tokenizer, tokens: _Tokens, start: int, cut: PrefixCut, metadata: Mapping[str, Any]
) -> Prompt:
    document_id = metadata_field(metadata, "id")
    stop = start + cut.tokens
    text = _text(tokenizer, tokens, start, stop)
    return Prompt(
        prompt_id=f"prefix/{document_id}" + (f"@{start}" if cut.position == "random" else ""),
        setting="prefix",
        kind="capability",
        text=text,
        language=metadata_field(metadata, "language", "lang"),
        document_id=document_id,
        source=metadata_field(metadata, "source"),
        licence=metadata_field(metadata, "licence", "license"),
        copies=_int_or_none(metadata.get(cut.copies_field)),
        metadata=as_json(metadata),
        target=_continuation(tokenizer, tokens, start, cut)[len(text) :],
        target_chars=len(_text(tokenizer, tokens, start, stop + TARGET_TOKENS)) - len(text),
    )


def _continuation(tokenizer: Tokenizer, tokens: _Tokens, start: int, cut: PrefixCut) -> str:
    """Prefix and what follows it, until that is as long as a completion or the document ends."""
    prefix = len(_text(tokenizer, tokens, start, start + cut.tokens))
    more = max(TARGET_TOKENS, cut.continuation)
    while True:
        ids = tokens(start, start + cut.tokens + more)
        text = _text(tokenizer, tokens, start, start + cut.tokens + more)
        at_the_end = len(ids) < cut.tokens + more
        if at_the_end or not cut.count or cut.count(text[prefix:]) >= cut.continuation:
            return text
        more *= 2


def _text(tokenizer: Tokenizer, tokens: _Tokens, start: int, stop: int) -> str:
    """Text of tokens, less characters at its ends of which they hold only a part."""
    ids = tokens(start, stop)
    return (tokenizer.decode_inside(ids) if start else tokenizer.decode(ids)).strip("\ufffd")


def _with_its_own_id(prompt: Prompt, others: Iterable[Prompt]) -> Prompt:
    """The prompt, its id numbered if a document of the same id gave another prompt."""
    same = sum(other.document_id == prompt.document_id for other in others)
    return replace(prompt, prompt_id=f"{prompt.prompt_id}~{same + 1}") if same else prompt


def _plain(value: Any) -> Any:
    """A value of a metadata field as a stratum: lists and objects are none, "4" and 4.0 are 4."""
    number = _int_or_none(value)
    return number if number is not None else value if isinstance(value, (str, float)) else None


def _slice(ids: list[int], start: int, stop: int) -> list[int]:
    return ids[start:stop]


def _int_or_none(value: Any) -> int | None:
    """A whole number, also one that a table holds as text or as a float."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None

"""Requests that somebody wrote: the shipped sets, and files of a user's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from propme.corpus import read_documents
from propme.errors import InputError
from propme.records import Prompt, metadata_field

_SHIPPED = Path(__file__).parent / "data"


def shipped_sets() -> list[str]:
    """Names of the request sets that come with PropMe."""
    return sorted(path.stem for path in _SHIPPED.glob("*.jsonl"))


def read_requests(
    setting: str, name_or_path: str, seed: int, text_field: str = "text", id_field: str = "id"
) -> list[Prompt]:
    """Read a set of requests, in an order that the seed decides.

    Parameters
    ----------
    setting : str
        The name under which they are measured: ``generic``, ``specific`` or ``file``.
    name_or_path : str
        A shipped set (`shipped_sets`), or a file: ``.jsonl``, ``.csv``, ``.parquet`` or ``.json``
        with a text and, if wanted, an id, a ``category`` and a ``language`` in each row. Empty: the
        setting is left out.
    seed : int
        Shuffles them, so that a smaller draw is a fair sample of the set.
    text_field, id_field : str
        Columns of a file's text and id.

    Raises
    ------
    InputError
        There is no such set, a row has no text, an id stands twice, or a prompt is empty.
    """
    if not name_or_path:
        return []
    path = _SHIPPED / f"{name_or_path}.jsonl"
    language = ""
    if path.is_file():
        text_field, id_field = "text", "id"
        language = path.stem.rsplit("_", 1)[1]
    else:
        path = Path(name_or_path)
    if not path.is_file():
        raise InputError(
            f"no such file, nor a set of that name; the sets are {', '.join(shipped_sets())}",
            name_or_path,
        )
    prompts: dict[str, Prompt] = {}
    for request in read_documents(path, text_field, id_field):
        if request.id in prompts:
            raise InputError(f"id {request.id!r} stands twice", str(path), request.line)
        if not request.text.strip():
            raise InputError("the prompt is empty", str(path), request.line)
        prompts[request.id] = Prompt(
            prompt_id=f"{setting}/{request.id}",
            setting=setting,
            kind="propensity",
            text=request.text,
            category=metadata_field(request.metadata, "category"),
            language=metadata_field(request.metadata, "language", "lang") or language,
            source=metadata_field(request.metadata, "source"),
        )
    ordered = list(prompts.values())
    order = np.random.default_rng(seed).permutation(len(ordered))
    return [ordered[i] for i in order]


def as_messages(prompts: Iterable[Prompt]) -> list[Prompt]:
    """The prompts as messages in the model's chat template, a setting of their own: ``chat``."""
    return [
        replace(
            prompt,
            prompt_id="chat/" + prompt.prompt_id.removeprefix(f"{prompt.setting}/"),
            setting="chat",
            chat=True,
        )
        for prompt in prompts
    ]

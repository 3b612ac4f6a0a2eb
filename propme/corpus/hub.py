"""Datasets on the Hugging Face hub, streamed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from propme.corpus.rows import Row, kind_of
from propme.errors import InputError


def is_hub_name(given: str) -> bool:
    """Whether it reads ``owner/name`` or ``owner/name:split``, and is nothing on disk."""
    looks_so = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*(:.+)?", given) and not kind_of(Path(given))
    return bool(looks_so) and not Path(given).exists()


def hub_rows(given: str) -> Iterator[Row]:
    """Rows of a dataset on the hub, streamed; a loading script is never run."""
    name, _, split = given.partition(":")
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise InputError(
            "nothing of that name is on disk, and the package for datasets on the hub is not"
            " installed: pip install 'propme[hub]'",
            given,
        ) from error
    try:
        rows = load_dataset(name, split=split or "train", streaming=True)
        yield from enumerate(rows, start=1)
    except Exception as error:  # the library raises many kinds, of network, names and formats
        raise InputError(
            f"nothing of that name is on disk, and the hub gives no dataset: {error}", given
        ) from error

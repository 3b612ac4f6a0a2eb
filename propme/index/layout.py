"""Files of an index: infini-gram's format, version 4, in ``shards/``, and what describes them.

Per shard ``N``, all little-endian:

=============== ==================================================================================
``tokenized.N`` per document the separator (a token of all one bits) and its tokens
``offset.N``    u64 byte position of each document's separator in ``tokenized.N``
``table.N``     the suffix array: byte positions of all tokens, separators included, in the order of
                the bytes that follow; each as wide as the size of ``tokenized.N`` needs
``metadata.N``  a JSON line per document: ``{"path", "linenum", "metadata"}``
``metaoff.N``   u64 byte position of each of those lines
``unigram.N``   text lines ``token count``, the separator included
=============== ==================================================================================

Beside ``shards/`` lie ``tokenizer.json`` and ``manifest.json``, which is written last: a folder
without it is not an index.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from propme.errors import BrokenIndexError

Array = npt.NDArray[Any]

MANIFEST = "manifest.json"
TOKENIZER = "tokenizer.json"
SHARDS = "shards"
KINDS = ("tokenized", "offset", "table", "metadata", "metaoff", "unigram")

#: Token types by name, narrowest first, with the separator that each reserves.
TOKEN_TYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype("<u1"),
    "u16": np.dtype("<u2"),
    "u32": np.dtype("<u4"),
}


def separator(token_type: str) -> int:
    """The token that stands before every document: all bits set."""
    return int(np.iinfo(TOKEN_TYPES[token_type]).max)


def token_type_for(vocabulary_size: int) -> str:
    """Narrowest type whose separator is no token of a vocabulary of this size."""
    for name in TOKEN_TYPES:
        if vocabulary_size <= separator(name):
            return name
    raise BrokenIndexError(f"a vocabulary of {vocabulary_size} tokens is too large for any index")


def pointer_bytes(tokenized_bytes: int) -> int:
    """Bytes that one position of the suffix array takes: ``ceil(log2(size) / 8)``, at least 1."""
    return max(1, ((tokenized_bytes - 1).bit_length() + 7) // 8)


def shard_file(shards: Path, kind: str, shard: int, n_shards: int) -> Path:
    """Path of one file; numbers are zero-padded because the engine sorts names as strings."""
    return shards / f"{kind}.{shard:0{len(str(n_shards - 1))}d}"


def shard_suffixes(shards: Path) -> list[str]:
    """Numbers of the shards in a folder as their names have them, in the engine's order."""
    names = sorted(path.name for path in shards.glob("tokenized.*"))
    return [name.split(".", 1)[1] for name in names if name.split(".", 1)[1].isdigit()]


def count_shards(shards: Path) -> int:
    """Number of shards in a folder of index files."""
    return len(shard_suffixes(shards))


def map_file(path: Path, dtype: np.dtype[Any]) -> Array:
    """Read-only memory map of a whole file; an empty file is an empty array."""
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise BrokenIndexError(f"{path}: missing; build the index again") from error
    if size % dtype.itemsize:
        raise BrokenIndexError(
            f"{path}: {size} bytes is no multiple of {dtype.itemsize}; the file is truncated or"
            " of another index; build the index again"
        )
    return np.memmap(path, dtype=dtype, mode="r") if size else np.empty(0, dtype)

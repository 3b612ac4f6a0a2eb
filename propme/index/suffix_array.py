"""The suffix array of one shard, as one part: nothing is ever merged.

infini-gram's own builder merges parts and corrupts the result, silently, when a part is small. A
suffix array of the *bytes* of a shard, of which the positions that start a token are kept, is the
same array byte for byte.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from pydivsufsort import divsufsort

from propme.index import layout

#: Bytes of memory that the sort needs for each byte of tokens, with a margin.
MEMORY_FACTOR = 10

_RANKS_AT_A_TIME = 1 << 22


def write_suffix_array(tokens_path: Path, table_path: Path, dtype: np.dtype[np.generic]) -> None:
    """Sort the suffixes of a token file and write their byte positions to ``table_path``."""
    tokens = np.fromfile(tokens_path, dtype=np.uint8)
    width = layout.pointer_bytes(tokens.size)
    ranks = divsufsort(tokens)
    with table_path.open("wb") as table:
        for start in range(0, ranks.size, _RANKS_AT_A_TIME):
            part = ranks[start : start + _RANKS_AT_A_TIME]
            aligned = part[part % dtype.itemsize == 0].astype("<u8")
            table.write(aligned.view(np.uint8).reshape(-1, 8)[:, :width].tobytes())


def write_unigrams(tokens_path: Path, unigram_path: Path, dtype: np.dtype[np.generic]) -> None:
    """Count the tokens of a token file, separators included, into text lines ``token count``."""
    tokens = layout.map_file(tokens_path, dtype)
    counts: Counter[int] = Counter()
    for start in range(0, tokens.size, _RANKS_AT_A_TIME):
        values, times = np.unique(tokens[start : start + _RANKS_AT_A_TIME], return_counts=True)
        counts.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
    lines = (f"{token} {count}\n" for token, count in sorted(counts.items()))
    unigram_path.write_text("".join(lines), encoding="ascii")

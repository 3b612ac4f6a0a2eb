"""The suffix array of one shard, as one part: nothing is ever merged.

infini-gram's own builder merges parts and corrupts the result, silently, when a part is small. A
suffix array of the *bytes* of a shard, of which the positions that start a token are kept, is the
same array byte for byte.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydivsufsort import divsufsort

from propme.index import layout

#: Bytes of memory that the sort needs for each byte of tokens, with a margin.
MEMORY_FACTOR = 10

_RANKS_AT_A_TIME = 1 << 22


def write_suffix_array(tokens_path: Path, table_path: Path, itemsize: int) -> None:
    """Sort the suffixes of a token file and write their byte positions to ``table_path``."""
    tokens = np.fromfile(tokens_path, dtype=np.uint8)
    width = layout.pointer_bytes(tokens.size)
    ranks = divsufsort(tokens)
    with table_path.open("wb") as table:
        for start in range(0, ranks.size, _RANKS_AT_A_TIME):
            part = ranks[start : start + _RANKS_AT_A_TIME]
            aligned = part[part % itemsize == 0].astype("<u8")
            table.write(aligned.view(np.uint8).reshape(-1, 8)[:, :width].tobytes())

"""The same index, searched by infini-gram's own engine.

Everything the engine names or does differently ends in this file: its error dicts become
exceptions, and what would kill the process (a path with "table" in it, a tuple of ids) is refused
or avoided. Its ``attribute`` call is not used: it misses a span whose suffix sorts before
everything in a shard, while ``find`` is exact.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from propme.errors import BrokenIndexError
from propme.index import layout
from propme.index.mapped import MappedIndex, keep_maximal
from propme.index.protocol import Occurrences, Runs
from propme.index.tokenizer import Tokenizer

#: Longest query handed to the engine; it starts threads by length, and dies of too many.
LONGEST_QUERY = 2000


class EngineIndex(MappedIndex):
    """`MappedIndex` with the engine's ``find``. Slower; documents are read the same way."""

    def __init__(self, folders: Sequence[Path], token_type: str, tokenizer: Tokenizer) -> None:
        super().__init__(folders, token_type, tokenizer)
        for shards in folders:
            # The engine derives its files' names by replacing these words anywhere in the path.
            for word in ("tokenized", "table"):
                if word in str(shards):
                    raise BrokenIndexError(
                        f"{shards}: infini-gram crashes on a path that holds {word!r}; move the"
                        " index, or use engine 'mapped'"
                    )
            _refuse_strays(shards)
        self._engine = _load_engine(folders, token_type)

    def find(self, ids: Sequence[int]) -> Occurrences:
        """Where a sequence of one token or more occurs."""
        if not self._is_searchable(ids):
            return Occurrences(())
        if len(ids) > LONGEST_QUERY:
            raise BrokenIndexError(
                f"{len(ids)} tokens are too many for infini-gram (limit {LONGEST_QUERY});"
                " use engine 'mapped'"
            )
        answer = self._engine.find([int(i) for i in ids])
        if "error" in answer:
            raise BrokenIndexError(f"infini-gram: {answer['error']}")
        return Occurrences(
            tuple((n, lo, hi) for n, (lo, hi) in enumerate(answer["segment_by_shard"]) if lo < hi)
        )

    def find_runs(self, ids: Sequence[int], runs: Runs) -> list[Occurrences]:
        """Where ``ids[start:stop]`` occurs, for each row of `maximal_runs`."""
        return [self.find(ids[start:stop]) for start, stop in runs.tolist()]

    def longest_match(self, ids: Sequence[int], start: int) -> int:
        """Length of the longest run ``ids[start : start + n]`` that occurs in one document."""
        low, high = 0, min(len(ids) - start, LONGEST_QUERY)
        while low < high:
            middle = (low + high + 1) // 2
            if self.count(ids[start : start + middle]):
                low = middle
            else:
                high = middle - 1
        if low == LONGEST_QUERY < len(ids) - start:
            self.find(ids[start : start + low + 1])  # says that the engine cannot tell
        return low

    def maximal_runs(self, ids: Sequence[int]) -> Runs:
        """Runs of ``ids`` that occur and lie in no other run that does; shape (n, 2).

        Two pointers: the end of the longest match never moves left as its start moves right.
        """
        runs: list[tuple[int, int]] = []
        start = stop = 0
        while stop < len(ids):
            if self.count(ids[start : stop + 1]):
                stop += 1
                continue
            if stop > start:
                runs.append((start, stop))
            while start <= stop and not self.count(ids[start : stop + 1]):
                start += 1
            stop = max(stop, start)
        if stop > start:
            runs.append((start, stop))
        return keep_maximal(np.array(runs, np.int64).reshape(-1, 2))


def _refuse_strays(shards: Path) -> None:
    """The engine takes every file with a kind's name in its own for one of that kind."""
    suffixes = layout.shard_suffixes(shards)
    own = {shards / f"{kind}.{suffix}" for kind in layout.KINDS for suffix in suffixes}
    for path in sorted(set(shards.iterdir()) - own):
        if any(kind in path.name for kind in layout.KINDS):
            raise BrokenIndexError(
                f"{path}: infini-gram crashes on a file that is no part of the index; move it"
                " away, or use engine 'mapped'"
            )


def _load_engine(folders: Sequence[Path], token_type: str) -> Any:
    try:
        from infini_gram.engine import InfiniGramEngine
    except ImportError as error:
        raise BrokenIndexError(
            f"infini-gram cannot be imported on {sys.platform} with Python"
            f" {sys.version_info.major}.{sys.version_info.minor} ({error}); its wheels are for"
            " CPython 3.11-3.13 on Linux x86-64 and macOS arm64; use engine 'mapped'"
        ) from error
    separator = layout.separator(token_type)
    return InfiniGramEngine(
        index_dir=[str(folder) for folder in folders],
        eos_token_id=0,  # only its probability calls read it, which are not used here
        vocab_size=separator,
        version=4,
        token_dtype=token_type,
        # Prefetching costs three to four times what it saves on a local disk.
        ds_prefetch_depth=0,
        sa_prefetch_depth=0,
        od_prefetch_depth=0,
    )

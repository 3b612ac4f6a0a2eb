"""Seam 1: a tokenised corpus that can be searched exactly."""

from __future__ import annotations

from pathlib import Path

from propme.errors import ParameterError
from propme.index import layout
from propme.index.build import build_index
from propme.index.mapped import MappedIndex
from propme.index.protocol import Index, Occurrences, Position
from propme.index.tokenizer import Tokenizer
from propme.index.verify import read_manifest, read_tokenizer, verify_index

ENGINES = ("mapped", "infini-gram")

__all__ = [
    "ENGINES",
    "Index",
    "Occurrences",
    "Position",
    "Tokenizer",
    "build_index",
    "open_index",
    "read_manifest",
    "verify_index",
]


def open_index(path: str | Path, engine: str = "mapped") -> MappedIndex:
    """Open an index after its cheap checks: the manifest, and the size of every file.

    Parameters
    ----------
    path : str or Path
        Folder of the index.
    engine : str
        ``mapped``: compiled search in the memory-mapped suffix array, the fast one.
        ``infini-gram``: the same answers from infini-gram's own engine.

    Raises
    ------
    BrokenIndexError
        The folder holds no finished index, or a file of another size than was written.
    """
    if engine not in ENGINES:
        raise ParameterError(f"engine {engine!r} is unknown; it is one of {', '.join(ENGINES)}")
    folder = Path(path)
    manifest = read_manifest(folder)
    tokenizer = read_tokenizer(folder)
    if engine == "mapped":
        return MappedIndex(folder / layout.SHARDS, manifest["token_type"], tokenizer)
    from propme.index.engine import EngineIndex

    return EngineIndex(folder / layout.SHARDS, manifest["token_type"], tokenizer)

"""What an index will need, from a sample of its corpus: said before the start, not after hours."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from propme.corpus import Corpus, read_documents, sample_file
from propme.errors import InputError
from propme.index import layout
from propme.index.suffix_array import MEMORY_FACTOR
from propme.index.tokenizer import Tokenizer
from propme.records import Document

_SAMPLED_FILES = 20
_SAMPLED_BYTES = 1_000_000

#: Largest shard: beyond it the sort counts in wider numbers and needs twice the memory.
LARGEST_SHARD = 2_000_000_000

#: Sorting takes longer than in proportion to its size by this power, see docs/indexing.md.
SORT_EXPONENT = 1.1


@dataclass(frozen=True)
class Estimate:
    """What building an index is expected to take. All but ``token_type`` is an approximation."""

    documents: int
    tokens: int
    token_type: str
    shards: int
    at_a_time: int
    disk_bytes: int
    memory_bytes: int
    seconds: float

    def told(self) -> str:
        """All of it in lines."""
        return "\n".join(
            [
                f"documents  about {self.documents:,}",
                f"tokens     about {self.tokens:,} ({self.token_type})",
                f"shards     {self.shards}",
                f"disk       about {in_bytes(self.disk_bytes)}",
                f"memory     about {in_bytes(self.memory_bytes)} at the peak,"
                f" sorting {self.at_a_time} of the shards at a time",
                f"time       about {in_time(self.seconds)}",
            ]
        )


def in_bytes(size: float) -> str:
    """A size with the unit that suits it."""
    power = 0
    while size >= 1000 and power < 4:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"


def in_time(seconds: float) -> str:
    """A duration with the unit that suits it."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def default_memory() -> int:
    """Half of the memory that this machine has, in bytes."""
    import psutil

    return int(psutil.virtual_memory().total) // 2


def shard_size(memory: int, workers: int) -> int:
    """Bytes of tokens a shard may have so that ``workers`` sorts at a time fit into ``memory``."""
    return max(1_000_000, min(LARGEST_SHARD, memory // (MEMORY_FACTOR * workers)))


def estimate(
    corpus: Corpus, tokenizer: Tokenizer, memory: int, workers: int, n_shards: int | None = None
) -> Estimate:
    """Estimate from up to a megabyte of text from each of up to twenty files.

    Raises
    ------
    InputError
        No file can be sampled, as with a dataset on the hub, or none of the rows can be read.
    """
    if not corpus.files:
        raise InputError("a dataset on the hub cannot be estimated", ", ".join(corpus.hub_names))
    step = max(1, len(corpus.files) // _SAMPLED_FILES)
    sampled = corpus.files[::step]
    scale = sum(_size(p) for p in corpus.files) / max(1, sum(_size(p) for p in sampled))
    n_documents = n_tokens = metadata = 0.0
    ids_seen, encoding_seconds = 0, 0.0
    for path in sampled:
        documents, share = sample_file(path, *corpus.fields, _SAMPLED_BYTES)
        start = time.perf_counter()
        tokens = sum(map(len, tokenizer.encode_batch([d.text for d in documents])))
        encoding_seconds += time.perf_counter() - start
        ids_seen += tokens
        n_documents += len(documents) / share
        n_tokens += tokens / share
        metadata += sum(map(_metadata_bytes, documents)) / share
    if not n_documents:
        for _ in read_documents(sampled[0], *corpus.fields):
            break  # not reached: it says what is wrong with the first row
        raise InputError("no document could be read", str(sampled[0]))
    token_type = layout.token_type_for(tokenizer.vocabulary_size)
    positions = (n_tokens + n_documents) * scale
    token_bytes = positions * layout.TOKEN_TYPES[token_type].itemsize
    shards = n_shards or int(np.ceil(token_bytes / shard_size(memory, workers)))
    width = layout.pointer_bytes(int(token_bytes / shards) + 1)
    sort = _sort_seconds(token_bytes / shards) * shards / min(workers, shards)
    return Estimate(
        documents=round(n_documents * scale),
        tokens=round(n_tokens * scale),
        token_type=token_type,
        shards=shards,
        at_a_time=min(workers, shards),
        disk_bytes=round(token_bytes + positions * width + (metadata + 16 * n_documents) * scale),
        memory_bytes=round(token_bytes / shards * MEMORY_FACTOR * min(workers, shards)),
        seconds=n_tokens * scale * encoding_seconds / max(1, ids_seen) + sort,
    )


def _size(path: Path) -> int:
    return path.stat().st_size


def _metadata_bytes(document: Document) -> int:
    return (
        80 + len(document.id) + sum(len(k) + len(str(v)) + 6 for k, v in document.metadata.items())
    )


def _sort_seconds(n_bytes: float) -> float:
    """Measured on a megabyte of random bytes here and now, and scaled."""
    from pydivsufsort import divsufsort

    n = 1_000_000
    sample = np.random.default_rng(0).integers(0, 200, n).astype(np.uint8)
    start = time.perf_counter()
    divsufsort(sample)
    return float((time.perf_counter() - start) * (n_bytes / n) ** SORT_EXPONENT)


def require_room(needed: Estimate, memory: int, output: Path) -> None:
    """Refuse a build that disk or memory cannot hold.

    Raises
    ------
    InputError
        With what is needed and what there is.
    """
    folder = next(p for p in (output.parent, *output.parent.parents) if p.exists())
    free = shutil.disk_usage(folder).free
    if needed.disk_bytes > free:
        raise InputError(
            f"the index needs about {in_bytes(needed.disk_bytes)}, {in_bytes(free)} are free",
            str(folder),
        )
    if needed.memory_bytes > memory:
        raise InputError(
            f"sorting {needed.shards} shards needs about {in_bytes(needed.memory_bytes)} of memory,"
            f" {in_bytes(memory)} are allowed; ask for more shards or fewer workers",
            str(output),
        )

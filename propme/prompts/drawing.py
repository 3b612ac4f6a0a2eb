"""Documents drawn at random, out of an index or a file, without holding all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from propme.corpus import Corpus
from propme.index.protocol import Index
from propme.records import Document, metadata_field

#: What is held in memory of a collection. Sources beyond so many are drawn from as if one.
_MOST_OF_A_SOURCE = 1000
_MOST_SOURCES = 100


def random_documents(index: Index, seed: int, most: int) -> Iterator[tuple[int, int]]:
    """Up to ``most`` documents as ``(shard, number)``, uniformly and without replacement.

    The order depends on the seed, on ``most`` and on the number of documents alone.
    """
    n = index.n_documents
    for number in np.random.default_rng(seed).choice(n, size=min(n, most), replace=False):
        yield index.document_at(int(number))


def draw_documents(
    path: Path, seed: int, text_field: str = "text", id_field: str = "id"
) -> Iterator[Document]:
    """Documents of a collection in random order, one of each source in turn.

    The collection is read to its end; of each source at most 1000 documents, a uniform sample of
    it, are held and yielded.

    Raises
    ------
    InputError
        The collection cannot be read.
    """
    rng = np.random.default_rng(seed)
    samples: dict[str, list[Document]] = {}
    seen: Counter[str] = Counter()
    for document in Corpus([path], text_field, id_field):
        source = metadata_field(document.metadata, "source")
        if source not in samples and len(samples) == _MOST_SOURCES:
            source = next(iter(samples))
        sample = samples.setdefault(source, [])
        seen[source] += 1
        if len(sample) < _MOST_OF_A_SOURCE:
            sample.append(document)
        elif (place := int(rng.integers(seen[source]))) < _MOST_OF_A_SOURCE:
            sample[place] = document
    shuffled = [
        [samples[source][i] for i in rng.permutation(len(samples[source]))]
        for source in sorted(samples)
    ]
    turns = chain.from_iterable(zip_longest(*shuffled))
    return (document for document in turns if document is not None)

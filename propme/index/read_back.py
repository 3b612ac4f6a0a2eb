"""Documents that are read back from a finished index and compared with what the corpus gave."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from propme.errors import BrokenIndexError
from propme.index.mapped import MappedIndex
from propme.index.token_writer import Plan, metadata_line
from propme.index.tokenizer import Tokenizer
from propme.records import Document

#: Documents that are compared; of more, a sample.
COMPARED_DOCUMENTS = 100


class ReadBack:
    """A sample of the documents as they were read, by what they are when tokenised.

    The choice hangs on a document's number alone, so a build that was interrupted and gone on with
    compares the same documents as one that was not.

    Parameters
    ----------
    tokenizer : Tokenizer
        Encodes each of them anew, as a whole.
    kept : sequence of list
        `kept` of the build that is gone on with.
    """

    def __init__(self, tokenizer: Tokenizer, kept: Sequence[list[Any]] = ()) -> None:
        self._tokenizer = tokenizer
        self._heap = [(rank, number) for rank, number, _, _ in kept]
        self._told = {number: (digest, where) for _, number, digest, where in kept}
        self._waiting: dict[int, Document] = {}

    def offer(self, number: int, document: Document) -> None:
        """Keep a document if its number is among those of the sample."""
        rank = -int.from_bytes(hashlib.sha256(str(number).encode()).digest()[:6], "big")
        if len(self._heap) < COMPARED_DOCUMENTS:
            heapq.heappush(self._heap, (rank, number))
        elif rank > self._heap[0][0]:
            _, other = heapq.heapreplace(self._heap, (rank, number))
            self._waiting.pop(other, None)
            self._told.pop(other, None)
        else:
            return
        self._waiting[number] = document

    @property
    def kept(self) -> list[list[Any]]:
        """What `ReadBack` needs to go on: a list a document, of numbers and strings."""
        waiting = list(self._waiting.values())
        encoded = self._tokenizer.encode_batch([document.text for document in waiting])
        for number, document, ids in zip(self._waiting, waiting, encoded, strict=True):
            metadata = json.loads(metadata_line(document))["metadata"]
            where = f"document {document.id!r} ({document.path}, line {document.line})"
            self._told[number] = _digest(ids, metadata), where
        self._waiting = {}
        return [[rank, number, *self._told[number]] for rank, number in self._heap]

    def compare(self, index: MappedIndex, plan: Plan) -> None:
        """Raise a `BrokenIndexError` if one of them is not found as it was given."""
        for _, number, digest, where in self.kept:
            if plan.n_shards is None:
                place = index.document_at(number)
            else:  # they went to the shards in turn
                place = number % plan.n_shards, number // plan.n_shards
            if _digest(index.document_tokens(*place), index.metadata(*place)) != digest:
                raise BrokenIndexError(
                    f"{where} does not read back as it was given; build the index again"
                )


def _digest(ids: Sequence[int], metadata: dict[str, Any]) -> str:
    # As JSON, for a number that is none is not equal to itself.
    told = json.dumps(metadata, sort_keys=True).encode()
    return hashlib.sha256(np.array(ids, "<u4").tobytes() + b"\0" + told).hexdigest()

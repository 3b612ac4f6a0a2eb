"""An index behind infini-gram's HTTP API, for corpora that nobody can hold.

The server tells rank ranges (`propme.index.remote.ranks`) and texts around a rank or a position
(`propme.index.remote.reading`). Everything else is made of these. What is never asked is a count
that is known: all answers are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from propme.index.mapped import searchable_pieces
from propme.index.protocol import Occurrences, Places, Position, Runs
from propme.index.remote.client import Client
from propme.index.remote.own_tokenizer import require_own_token_type, require_own_tokenizer
from propme.index.remote.ranks import Limits, NotToldError, RankRanges
from propme.index.remote.reading import DocumentReader
from propme.index.remote.search import SequenceSearch
from propme.index.remote.settings import RemoteSettings
from propme.index.remote.two_pointers import longest_match, maximal_runs
from propme.index.tokenizer import Tokenizer


class RemoteIndex:
    """The index of `propme.index.protocol` over a server.

    Parameters
    ----------
    address : str
        ``https://server/#name``.
    tokenizer : Tokenizer
        That of the index.
    token_type : str
        ``u8``, ``u16`` or ``u32``: decides the separator and the width of a byte position.
    settings : RemoteSettings, optional
    limits : Limits, optional

    Notes
    -----
    Spans, counts, places and samples are those of a local index of the same files. Distinct
    documents are counted among ``settings.most_read`` occurrences. Texts are what the server
    decodes; see `propme.index.remote.documents`.
    """

    def __init__(
        self,
        address: str,
        tokenizer: Tokenizer,
        token_type: str = "u16",
        settings: RemoteSettings | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.tokenizer, self.address, self.limits = tokenizer, address, limits or Limits()
        self._settings = settings or RemoteSettings()
        self._opened_with = (address, tokenizer, token_type, self._settings, self.limits)
        self._client = Client(address, self._settings)
        self._ranks = RankRanges(self._client, address, token_type, self.limits)
        self._documents = DocumentReader(self._client, self._ranks, tokenizer, self.limits)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process asks by itself."""
        return type(self), self._opened_with

    def require_own_tokenizer(self) -> None:
        """Refuse a tokenizer or token type that is not the index's; see `own_tokenizer`."""
        require_own_token_type(self._ranks, self.tokenizer.vocabulary_size, self.address)
        require_own_tokenizer(self._ranks, self._documents, self.address)

    @property
    def n_requests(self) -> int:
        """Requests that were sent since it was opened, repetitions included."""
        return self._client.n_requests

    @property
    def most_read(self) -> int:
        """Occurrences of one passage that are read: each is a request."""
        return self._settings.most_read

    @property
    def n_odd(self) -> int:
        """Odd answers that this thread has made use of; see `propme.index.remote.questions`."""
        return self._documents.n_odd

    @property
    def n_documents(self) -> int:
        """Documents in the index; copies count separately."""
        return self._ranks.separators.count

    @property
    def n_tokens(self) -> int:
        """Tokens in the index, separators left out where the server tells their number."""
        try:
            return sum(self._ranks.sizes) - self.n_documents
        except NotToldError:
            return sum(self._ranks.sizes)

    @property
    def identity(self) -> str:
        """SHA-256 of what is known of the index: address, size of each shard, tokenizer."""
        known = [self.address, *map(str, self._ranks.sizes), self.tokenizer.fingerprint]
        return hashlib.sha256("\0".join(known).encode()).hexdigest()

    # --- search -----------------------------------------------------------------------------------

    def find(self, ids: Sequence[int]) -> Occurrences:
        """Where a sequence of one token or more occurs."""
        return self._ranks.find(ids)

    def count(self, ids: Sequence[int]) -> int:
        """How often it occurs."""
        return self.find(ids).count

    def longest_match(self, ids: Sequence[int], start: int) -> int:
        """Length of the longest run ``ids[start : start + n]`` that occurs in one document."""
        pieces = searchable_pieces(ids[start:], self._ranks.separator)
        if not pieces or pieces[0][0]:
            return 0
        search = self._search(pieces[0][1])
        return longest_match(len(pieces[0][1]), search.occurs, search.guess)

    def maximal_runs(self, ids: Sequence[int]) -> Runs:
        """Runs of ``ids`` that occur and lie in no other run that does; shape (n, 2)."""
        found: list[tuple[int, int]] = []
        for first, piece in searchable_pieces(ids, self._ranks.separator):
            search = self._search(piece)
            runs = maximal_runs(len(piece), search.occurs, search.guess)
            found += [(first + start, first + stop) for start, stop in runs]
        return np.array(found, np.int64).reshape(-1, 2)

    def _search(self, ids: Sequence[int]) -> SequenceSearch:
        return SequenceSearch(ids, self._ranks, self._documents, self.limits)

    def find_runs(self, ids: Sequence[int], runs: Runs) -> list[Occurrences]:
        """Where ``ids[start:stop]`` occurs, for each row of `maximal_runs`."""
        pieces = [ids[start:stop] for start, stop in runs.tolist()]
        self._ranks.ask_for(pieces)
        return [self.find(piece) for piece in pieces]

    def token_counts(self, ids: Sequence[int]) -> npt.NDArray[np.int64]:
        """How often each of some tokens occurs."""
        distinct = sorted({int(token) for token in ids})
        self._ranks.ask_for([(token,) for token in distinct])
        counts = {token: self.count((token,)) for token in distinct}
        return np.array([counts[int(token)] for token in ids], np.int64)

    def occurring_tokens(self) -> npt.NDArray[np.bool_]:
        """Whether each token may occur, by id: all, for to know better takes a request each."""
        return np.ones(self.tokenizer.vocabulary_size, np.bool_)

    # --- documents --------------------------------------------------------------------------------

    def locate(self, occurrences: Occurrences, number: int) -> Position:
        """The ``number``-th of the occurrences, in the order of the index."""
        return Position(*self.locate_all(occurrences, [number])[0].tolist())

    def locate_all(self, occurrences: Occurrences, numbers: Sequence[int]) -> Places:
        """Several of them, in the order asked for; shape (n, 3)."""
        return self._documents.locate_all(occurrences, numbers)

    def document_length(self, shard: int, document: int) -> int:
        """Tokens of a document that was located before."""
        return self._documents.any_of(shard, document).length

    def document_tokens(
        self, shard: int, document: int, start: int = 0, stop: int | None = None
    ) -> list[int]:
        """Tokens ``[start, stop)`` of a document; the range is cut to what there is."""
        length = self.document_length(shard, document)
        return self._documents.tokens(shard, document, start, length if stop is None else stop)

    def document_slice(
        self, shard: int, document: int, start: int, stop: int
    ) -> npt.NDArray[np.unsignedinteger[Any]]:
        """`document_tokens` as an array."""
        return np.array(self._documents.tokens(shard, document, start, stop), np.uint32)

    def disown(self, position: Position) -> str:
        """Forget the answers about a document that does not hold what was found there."""
        return self._documents.disown(position.shard, position.document)

    def metadata(self, shard: int, document: int) -> dict[str, Any]:
        """Metadata of a document that was located before."""
        return self._documents.any_of(shard, document).metadata

    def document_at(self, number: int) -> tuple[int, int]:
        """Shard and number there of the ``number``-th document, in the order of how they begin."""
        shard, document, _ = self.locate_all(self._ranks.separators, [number])[0].tolist()
        return shard, document

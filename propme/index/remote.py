"""An index behind infini-gram's HTTP API, for corpora that nobody can hold.

The server tells rank ranges (``find``), the byte positions of what a range holds in the order of
its ranks (``find_cnf`` of one clause), and a text around a rank or a position. Everything else is
made of these. What is never asked is a count that is known: all answers are kept.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from propme.errors import BrokenIndexError, ServerError
from propme.index import layout
from propme.index.mapped import searchable_pieces
from propme.index.protocol import Occurrences, Places, Position, Runs
from propme.index.remote_client import Client, Question, RefusedError, RemoteSettings
from propme.index.remote_documents import MARGIN, Shown, UnreadableError
from propme.index.tokenizer import Tokenizer
from propme.index.two_pointers import longest_match, maximal_runs

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Limits:
    """What a server answers at most; those of the public API.

    Attributes
    ----------
    query : int
        Tokens of a question.
    shown : int
        Tokens of a document that are shown.
    pointers : int
        Occurrences whose byte positions are told; of more only a sample is.
    """

    query: int = 500
    shown: int = 10_000
    pointers: int = 50_000


#: Tokens of a document that are asked for where not more are known to be needed: enough for windows
#: of generations of 256 tokens and for their offset in most documents.
_SHOWN = 4096

#: Most shards in which the neighbours of a place are looked at. They are two requests a shard, and
#: to find the end of a match by halving takes some ten.
_MOST_NEIGHBOURS = 2


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
    decodes; see `propme.index.remote_documents`.

    A passage longer than a question may be is cut into pieces. It occurs where a piece does and the
    next ones stand right behind it, by their byte positions: exactly.
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
        self._separator = layout.separator(token_type)
        self._width = layout.TOKEN_TYPES[token_type].itemsize
        self._client = Client(address, self._settings)
        self._memory = _Memory()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process asks by itself."""
        return type(self), self._opened_with

    @property
    def n_requests(self) -> int:
        """Requests that were sent since it was opened, repetitions included."""
        return self._client.n_requests

    @property
    def most_read(self) -> int:
        """Occurrences of one passage that are read: each is a request."""
        return self._settings.most_read

    @property
    def n_documents(self) -> int:
        """Documents in the index; copies count separately."""
        return self._separators.count

    @property
    def n_tokens(self) -> int:
        """Tokens in the index, separators left out where the server tells their number."""
        try:
            return sum(self._sizes) - self.n_documents
        except ServerError:
            return sum(self._sizes)

    @property
    def identity(self) -> str:
        """SHA-256 of what is known of the index: address, size of each shard, tokenizer."""
        known = [self.address, *map(str, self._sizes), self.tokenizer.fingerprint]
        return hashlib.sha256("\0".join(known).encode()).hexdigest()

    @cached_property
    def _sizes(self) -> list[int]:
        """Tokens of each shard, separators included."""
        return [high for _, high in self._segments(())]

    @cached_property
    def _documents_before(self) -> list[int]:
        """Documents in the shards before each: a server numbers those of all of them.

        All 0 where it does not tell; documents then keep its numbers.
        """
        try:
            ranges = self._separators.ranges
        except ServerError:
            return [0] * len(self._sizes)
        sizes = {shard: high - low for shard, low, high in ranges}
        return [sum(sizes.get(m, 0) for m in range(n)) for n in range(len(self._sizes))]

    @cached_property
    def _separators(self) -> Occurrences:
        """Ranks of the documents' separators.

        Raises
        ------
        ServerError
            The server does not take the separator for a token.
        """
        try:
            segments = self._segments((self._separator,))
        except RefusedError as error:
            raise ServerError(
                f"{self.address}: the server does not tell where documents begin, so none can be"
                " drawn: give documents in a file (parameter prefix_texts), set n_prompt_free to"
                f" 0, and make no requests of the corpus's terms ({error})"
            ) from None
        return _occurrences(segments)

    # --- search -----------------------------------------------------------------------------------

    def find(self, ids: Sequence[int]) -> Occurrences:
        """Where a sequence of one token or more occurs."""
        if not self._is_searchable(ids):
            return Occurrences(())
        wanted = tuple(int(token) for token in ids)
        if len(wanted) > self.limits.query:
            found = self._find_long(wanted)
        else:
            found = _occurrences(self._segments(wanted))
        for range_ in found.ranges:
            _remember(self._memory.sought, range_, wanted)
        return found

    def count(self, ids: Sequence[int]) -> int:
        """How often it occurs."""
        return self.find(ids).count

    def longest_match(self, ids: Sequence[int], start: int) -> int:
        """Length of the longest run ``ids[start : start + n]`` that occurs in one document."""
        pieces = searchable_pieces(ids[start:], self._separator)
        if not pieces or pieces[0][0]:
            return 0
        search = _Search(self, pieces[0][1])
        return longest_match(len(pieces[0][1]), search.occurs, search.guess)

    def maximal_runs(self, ids: Sequence[int]) -> Runs:
        """Runs of ``ids`` that occur and lie in no other run that does; shape (n, 2)."""
        found: list[tuple[int, int]] = []
        for first, piece in searchable_pieces(ids, self._separator):
            search = _Search(self, piece)
            runs = maximal_runs(len(piece), search.occurs, search.guess)
            found += [(first + start, first + stop) for start, stop in runs]
        return np.array(found, np.int64).reshape(-1, 2)

    def find_runs(self, ids: Sequence[int], runs: Runs) -> list[Occurrences]:
        """Where ``ids[start:stop]`` occurs, for each row of `maximal_runs`."""
        pieces = [ids[start:stop] for start, stop in runs.tolist()]
        self._ask_for([each for each in pieces if self._is_searchable(each)])
        return [self.find(piece) for piece in pieces]

    def token_counts(self, ids: Sequence[int]) -> npt.NDArray[np.int64]:
        """How often each of some tokens occurs."""
        distinct = sorted({int(token) for token in ids})
        self._ask_for([(token,) for token in distinct])
        counts = {token: self.count((token,)) for token in distinct}
        return np.array([counts[int(token)] for token in ids], np.int64)

    def occurring_tokens(self) -> npt.NDArray[np.bool_]:
        """Whether each token may occur, by id: all, for to know better takes a request each."""
        return np.ones(self.tokenizer.vocabulary_size, np.bool_)

    def _is_searchable(self, ids: Sequence[int]) -> bool:
        return len(ids) > 0 and min(ids) >= 0 and max(ids) < self._separator

    def _ask_for(self, queries: Sequence[Sequence[int]]) -> None:
        """Ask side by side what is then taken from the answers one by one."""
        short = [query for query in queries if len(query) <= self.limits.query]
        self._client.ask_all([_find(query) for query in short])

    def _segments(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Rank range in each shard; an empty one lies where the sequence would."""
        answer = self._client.ask(_find(ids))
        return [(low, high) for low, high in answer["segment_by_shard"]]

    def _find_long(self, ids: tuple[int, ...]) -> Occurrences:
        size = self.limits.query
        # The last piece reaches back, so that none is short and common.
        starts = [*range(0, len(ids) - size, size), len(ids) - size]
        pieces = [(start, ids[start : start + size]) for start in starts]
        if not all(self.count(piece) for _, piece in pieces):
            return Occurrences(())
        segments = self._segments(pieces[0][1])
        whole = [np.ones(high - low, np.bool_) for low, high in segments]
        first = self._pointers(pieces[0][1])
        for start, piece in pieces[1:]:
            for n, pointers in enumerate(self._pointers(piece)):
                whole[n] &= np.isin(first[n] + start * self._width, pointers)
        ranges = []
        for shard, ((low, _), at) in enumerate(
            zip(segments, map(np.flatnonzero, whole), strict=True)
        ):
            if at.size:  # one behind the other, for ranks are in the order of what follows
                ranges.append((shard, low + int(at[0]), low + int(at[-1]) + 1))
        return Occurrences(tuple(ranges))

    def _pointers(self, ids: Sequence[int]) -> list[npt.NDArray[np.int64]]:
        """Byte positions of the occurrences in each shard, in the order of their ranks.

        Raises
        ------
        UnreadableError
            There are more than the server tells.
        """
        n = self.count(ids)
        told: list[list[int]] = []
        if n <= self.limits.pointers:
            question = {"query_type": "find_cnf", "query_ids": [[list(map(int, ids))]]}
            told = self._client.ask(question)["ptrs_by_shard"]
        if sum(map(len, told)) != n:
            raise UnreadableError(
                f"{self.address}: a passage stands {n} times in the corpus, too often for the"
                " server to tell where"
            )
        return [np.array(pointers, np.int64) for pointers in told]

    # --- documents --------------------------------------------------------------------------------

    def locate(self, occurrences: Occurrences, number: int) -> Position:
        """The ``number``-th of the occurrences, in the order of the index."""
        return Position(*self.locate_all(occurrences, [number])[0].tolist())

    def locate_all(self, occurrences: Occurrences, numbers: Sequence[int]) -> Places:
        """Several of them, in the order asked for; shape (n, 3).

        Of a document so long that neither end is shown, the
        place in it is found by byte positions.
        """
        wanted = [self._rank(occurrences, number) for number in numbers]
        self._client.ask_all([_by_rank(s, rank, self._usual) for s, rank, _ in wanted])
        places = [(shard, *self._place(shard, rank, sought)) for shard, rank, sought in wanted]
        return np.array(places, np.int64).reshape(-1, 3)

    def document_length(self, shard: int, document: int) -> int:
        """Tokens of a document that was located before."""
        return self._any_of(shard, document).length

    def document_tokens(
        self, shard: int, document: int, start: int = 0, stop: int | None = None
    ) -> list[int]:
        """Tokens ``[start, stop)`` of a document; the range is cut to what there is."""
        length = self.document_length(shard, document)
        return self._tokens(shard, document, start, length if stop is None else stop)

    def document_slice(
        self, shard: int, document: int, start: int, stop: int
    ) -> npt.NDArray[np.unsignedinteger[Any]]:
        """`document_tokens` as an array."""
        return np.array(self._tokens(shard, document, start, stop), np.uint32)

    def metadata(self, shard: int, document: int) -> dict[str, Any]:
        """Metadata of a document that was located before."""
        return self._any_of(shard, document).metadata

    def document_at(self, number: int) -> tuple[int, int]:
        """Shard and number there of the ``number``-th document, in the order of how they begin."""
        shard, document, _ = self.locate_all(self._separators, [number])[0].tolist()
        return shard, document

    @property
    def _usual(self) -> int:
        return min(_SHOWN, self.limits.shown)

    def _rank(self, occurrences: Occurrences, number: int) -> tuple[int, int, tuple[int, ...]]:
        """Shard, rank, and what was sought there."""
        if 0 <= number < occurrences.count:
            before = 0
            for shard, low, high in occurrences.ranges:
                if number < before + high - low:
                    rank = low + int(number) - before
                    return shard, rank, self._memory.sought.get((shard, low, high), ())
                before += high - low
        raise IndexError(f"no such occurrence among {occurrences.count}: {number}")

    def _shown(self, shard: int, rank: int, most: int) -> Shown:
        answer = self._client.ask(_by_rank(shard, rank, most))
        return Shown(answer, most, f"shard {shard}, document {answer['doc_ix']}")

    def _place(self, shard: int, rank: int, sought: tuple[int, ...]) -> tuple[int, int]:
        """Document, and number in it, of the token at a rank."""
        shown = self._shown(shard, rank, self._usual)
        if shown.offset is None:
            shown = self._shown(shard, rank, self.limits.shown)
        offset = shown.offset
        if offset is None:
            offset = self._offset_by_pointers(shard, rank, sought, shown)
        document = shown.document - self._documents_before[shard]
        known = self._memory.met.get((shard, document), {})
        known.setdefault(offset, (rank, sought))
        _remember(self._memory.met, (shard, document), known)
        return document, offset

    def _offset_by_pointers(
        self, shard: int, rank: int, sought: tuple[int, ...], shown: Shown
    ) -> int:
        """Number in its document of a token far from both ends."""
        ids, at = shown.around(self.tokenizer, sought)
        # More than was sought, for that may be common.
        passage = tuple(ids[at : at + min(self.limits.query, shown.asked // 2 - MARGIN)])
        low, high = self._segments(passage)[shard]
        if not low <= rank < high:
            passage = sought[: self.limits.query]
            low, _ = self._segments(passage)[shard]
        pointer = int(self._pointers(passage)[shard][rank - low])
        least, most = shown.before, shown.length - 1
        while least < most:
            back = least + (most - least + 1) // 2
            other = self._at_pointer(shard, pointer - back * self._width)
            if other is None or other.document != shown.document:
                most = back - 1
            elif other.offset is not None:
                return back + other.offset
            else:
                least = back + other.before
        return least

    def _at_pointer(self, shard: int, pointer: int) -> Shown | None:
        if pointer < 0:
            return None
        most = self.limits.shown
        question = {"query_type": "get_doc_by_ptr", "query_ids": [], "s": shard, "ptr": pointer}
        answer = self._client.ask(question | {"max_disp_len": most})
        return Shown(answer, most, f"shard {shard}, document {answer['doc_ix']}")

    def _any_of(self, shard: int, document: int) -> Shown:
        rank, _ = next(iter(self._of(shard, document).values()))
        return self._shown(shard, rank, self._usual)

    def _of(self, shard: int, document: int) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Ranks of tokens of a document, by number in it."""
        try:
            return self._memory.met[shard, document]
        except KeyError:
            raise BrokenIndexError(
                f"shard {shard}, document {document}: a server shows only documents that were found"
            ) from None

    def _tokens(self, shard: int, document: int, start: int, stop: int) -> list[int]:
        start, stop = max(start, 0), max(stop, 0)
        if stop <= start:
            return []
        known = self._of(shard, document)
        near = min(known, key=lambda offset: (abs(2 * offset - start - stop), offset))
        rank, sought = known[near]
        for most in dict.fromkeys((self._usual, self.limits.shown)):
            shown = self._shown(shard, rank, most)
            tokens = shown.tokens(self.tokenizer, sought, start - near, stop - near)
            if tokens is not None:
                return tokens
        raise UnreadableError(
            f"shard {shard}, document {document}: the server shows {self.limits.shown} tokens"
            f" around a match, too few for tokens {start} to {stop}"
        )

    def match_after(self, ids: Sequence[int], start: int, stop: int) -> int | None:
        """Where the longest match from ``start`` may end, by the neighbours of its place.

        ``ids[start:stop]`` is known to occur. The longest match of a sequence is what it shares
        with one of the two suffixes that it would stand between. ``None``: of too many shards.
        """
        if len(self._sizes) > _MOST_NEIGHBOURS:
            return None
        piece = ids[start : min(len(ids), start + self.limits.query)]
        segments = self._segments(piece)
        if any(low < high for low, high in segments):
            return start + len(piece)
        most = min(2 * (len(piece) + MARGIN), self.limits.shown)
        neighbours = [
            (shard, rank)
            for shard, (low, _) in enumerate(segments)
            for rank in (low - 1, low)
            if 0 <= rank < self._sizes[shard]
        ]
        self._client.ask_all([_by_rank(*place, most) for place in neighbours])
        sought = ids[start:stop]
        shared = [self._shared(self._shown(*place, most), piece, sought) for place in neighbours]
        return start + max(shared, default=0)

    def _shared(self, shown: Shown, piece: Sequence[int], sought: Sequence[int]) -> int:
        """Tokens that a suffix has in common with a sequence; 0 if it lacks what was sought."""
        try:
            ids, at = shown.around(self.tokenizer, sought)
        except UnreadableError:
            return 0
        pairs = enumerate(zip(ids[at:], piece, strict=False))
        return next(
            (n for n, (own, other) in pairs if own != other), min(len(ids) - at, len(piece))
        )


#: What a thread remembers of each kind; of more, the older half is forgotten.
_MOST_REMEMBERED = 50_000


class _Memory(threading.local):
    """What a thread has found, for what it asks next.

    Attributes
    ----------
    sought : dict
        By shard and range of ranks, the tokens that were sought.
    met : dict
        By shard and document, the tokens of it that were located: by number in the document, the
        rank and what was sought there.
    """

    def __init__(self) -> None:
        self.sought: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self.met: dict[tuple[int, int], dict[int, tuple[int, tuple[int, ...]]]] = {}


def _remember(memory: dict[Key, Value], key: Key, value: Value) -> None:
    if len(memory) >= _MOST_REMEMBERED:
        for old in list(islice(memory, _MOST_REMEMBERED // 2)):
            del memory[old]
    memory[key] = value


class _Search:
    """Look-ups in one sequence of tokens."""

    def __init__(self, index: RemoteIndex, ids: Sequence[int]) -> None:
        self._index, self._ids = index, ids

    def occurs(self, start: int, stop: int) -> bool:
        return self._index.count(self._ids[start:stop]) > 0

    def guess(self, start: int, stop: int) -> int | None:
        return self._index.match_after(self._ids, start, stop)


def _find(ids: Sequence[int]) -> Question:
    return {"query_type": "find", "query_ids": [int(token) for token in ids]}


def _by_rank(shard: int, rank: int, most: int) -> Question:
    return {
        "query_type": "get_doc_by_rank",
        "query_ids": [],  # so that the text comes in one piece
        "s": shard,
        "rank": rank,
        "max_disp_len": most,
    }


def _occurrences(segments: Sequence[tuple[int, int]]) -> Occurrences:
    ranges = ((shard, low, high) for shard, (low, high) in enumerate(segments) if low < high)
    return Occurrences(tuple(ranges))

"""Documents behind a server: located by rank, and read from the texts around what was found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from propme.errors import BrokenIndexError
from propme.index.protocol import Occurrences, Places
from propme.index.remote_client import Client
from propme.index.remote_documents import MARGIN, Shown, UnreadableError
from propme.index.remote_http import Question
from propme.index.remote_memory import Memory
from propme.index.remote_ranks import Limits, RankRanges
from propme.index.tokenizer import Tokenizer

#: Tokens of a document that are asked for where not more are known to be needed: enough for windows
#: of generations of 256 tokens and for their offset in most documents.
_SHOWN = 4096

#: Of a token that was located: its rank, and what was sought there.
Met = tuple[int, tuple[int, ...]]


class DocumentReader:
    """Documents of what was found, as far as the server shows them.

    Parameters
    ----------
    client : Client
    ranks : RankRanges
        Of the same server.
    tokenizer : Tokenizer
        That of the index.
    limits : Limits
    """

    def __init__(
        self, client: Client, ranks: RankRanges, tokenizer: Tokenizer, limits: Limits
    ) -> None:
        self._client, self._ranks = client, ranks
        self._tokenizer, self._limits = tokenizer, limits
        # By shard and document, the tokens of it that were located, by number in the document.
        self._met: Memory[tuple[int, int], dict[int, Met]] = Memory()

    def locate_all(self, occurrences: Occurrences, numbers: Sequence[int]) -> Places:
        """Several of them, in the order asked for; shape (n, 3).

        Of a document so long that neither end is shown, the place in it is found by byte positions.
        """
        wanted = [self._rank(occurrences, number) for number in numbers]
        self.show_all([(shard, rank) for shard, rank, _ in wanted], self._usual)
        places = [(shard, *self._place(shard, rank, sought)) for shard, rank, sought in wanted]
        return np.array(places, np.int64).reshape(-1, 3)

    @property
    def _usual(self) -> int:
        return min(_SHOWN, self._limits.shown)

    def _rank(self, occurrences: Occurrences, number: int) -> tuple[int, int, tuple[int, ...]]:
        """Shard, rank, and what was sought there."""
        if 0 <= number < occurrences.count:
            before = 0
            for shard, low, high in occurrences.ranges:
                if number < before + high - low:
                    rank = low + int(number) - before
                    return shard, rank, self._ranks.sought_at((shard, low, high))
                before += high - low
        raise IndexError(f"no such occurrence among {occurrences.count}: {number}")

    def show_all(self, places: Sequence[tuple[int, int]], most: int) -> None:
        """Ask side by side for what `shown` then takes from the answers; rows of shard, rank."""
        self._client.ask_all([_by_rank(shard, rank, most) for shard, rank in places])

    def shown(self, shard: int, rank: int, most: int) -> Shown:
        """The text around the token at a rank, of up to ``most`` tokens."""
        answer = self._client.ask(_by_rank(shard, rank, most))
        return Shown(answer, most, f"shard {shard}, document {answer['doc_ix']}")

    def _place(self, shard: int, rank: int, sought: tuple[int, ...]) -> tuple[int, int]:
        """Document, and number in it, of the token at a rank."""
        shown = self.shown(shard, rank, self._usual)
        if shown.offset is None:
            shown = self.shown(shard, rank, self._limits.shown)
        offset = shown.offset
        if offset is None:
            offset = self._offset_by_pointers(shard, rank, sought, shown)
        document = shown.document - self._ranks.documents_before[shard]
        known = self._met.get((shard, document), {})
        known.setdefault(offset, (rank, sought))
        self._met[shard, document] = known
        return document, offset

    def _offset_by_pointers(
        self, shard: int, rank: int, sought: tuple[int, ...], shown: Shown
    ) -> int:
        """Number in its document of a token far from both ends."""
        ids, at = shown.around(self._tokenizer, sought)
        # More than was sought, for that may be common.
        passage = tuple(ids[at : at + min(self._limits.query, shown.asked // 2 - MARGIN)])
        low, high = self._ranks.segments(passage)[shard]
        if not low <= rank < high:
            passage = sought[: self._limits.query]
            low, _ = self._ranks.segments(passage)[shard]
        pointer = int(self._ranks.pointers(passage)[shard][rank - low])
        least, most = shown.before, shown.length - 1
        while least < most:
            back = least + (most - least + 1) // 2
            other = self._at_pointer(shard, pointer - back * self._ranks.width)
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
        most = self._limits.shown
        question = {"query_type": "get_doc_by_ptr", "query_ids": [], "s": shard, "ptr": pointer}
        answer = self._client.ask(question | {"max_disp_len": most})
        return Shown(answer, most, f"shard {shard}, document {answer['doc_ix']}")

    def any_of(self, shard: int, document: int) -> Shown:
        """What is shown of a document that was located before, somewhere in it."""
        rank, _ = next(iter(self._of(shard, document).values()))
        return self.shown(shard, rank, self._usual)

    def _of(self, shard: int, document: int) -> dict[int, Met]:
        """Ranks of tokens of a document, by number in it."""
        try:
            return self._met[shard, document]
        except KeyError:
            raise BrokenIndexError(
                f"shard {shard}, document {document}: a server shows only documents that were found"
            ) from None

    def tokens(self, shard: int, document: int, start: int, stop: int) -> list[int]:
        """Tokens ``[start, stop)`` of a document that was located before, cut to what there is.

        Raises
        ------
        UnreadableError
            The server shows too little of the document.
        """
        start, stop = max(start, 0), max(stop, 0)
        if stop <= start:
            return []
        known = self._of(shard, document)
        near = min(known, key=lambda offset: (abs(2 * offset - start - stop), offset))
        rank, sought = known[near]
        for most in dict.fromkeys((self._usual, self._limits.shown)):
            shown = self.shown(shard, rank, most)
            tokens = shown.tokens(self._tokenizer, sought, start - near, stop - near)
            if tokens is not None:
                return tokens
        raise UnreadableError(
            f"shard {shard}, document {document}: the server shows {self._limits.shown} tokens"
            f" around a match, too few for tokens {start} to {stop}"
        )


def _by_rank(shard: int, rank: int, most: int) -> Question:
    return {
        "query_type": "get_doc_by_rank",
        "query_ids": [],  # so that the text comes in one piece
        "s": shard,
        "rank": rank,
        "max_disp_len": most,
    }

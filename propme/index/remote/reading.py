"""Documents behind a server: located by rank, and read from the texts around what was found."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from propme.errors import BrokenIndexError
from propme.index.protocol import Occurrences, Places
from propme.index.remote.client import Client
from propme.index.remote.documents import (
    MARGIN,
    BlockedError,
    Shown,
    UnreadableError,
    checked_document,
)
from propme.index.remote.memory import MOST_REMEMBERED, Memory
from propme.index.remote.questions import Checked, ContradictionError, Question
from propme.index.remote.ranks import Limits, RankRanges
from propme.index.tokenizer import Tokenizer

#: Tokens of a document that are asked for where not more are known to be needed: enough for windows
#: of generations of 256 tokens and for their offset in most documents.
_SHOWN = 4096

#: Shown texts that a thread has at hand, each of which is encoded once.
_AT_HAND = 256

#: What becomes of a contradiction, for messages.
_FORGOTTEN = "what was told about the time of both answers is forgotten, so start again"

#: Of a token that was located: its rank, and what was sought there.
Met = tuple[int, tuple[int, ...]]

#: A shard, a rank there, and what was sought and stands there; empty: not known.
Sought = tuple[int, int, tuple[int, ...]]


class _Count(threading.local):
    n_odd = 0


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
        self._at_hand: Memory[tuple[Sought, int], Shown] = Memory(_AT_HAND)
        self._made_use_of = _Count()
        # By shard and number in the index: length and metadata, and the question that told them.
        self._told: dict[tuple[int, int], tuple[int, str, Mapping[str, Any]]] = {}

    @property
    def n_odd(self) -> int:
        """How often this thread has made use of an odd answer."""
        return self._made_use_of.n_odd

    def locate_all(self, occurrences: Occurrences, numbers: Sequence[int]) -> Places:
        """Several of them, in the order asked for; shape (n, 3).

        Of a document so long that neither end is shown, the place in it is found by byte positions.
        """
        wanted = [self._rank(occurrences, number) for number in numbers]
        self.show_all(wanted, self._usual)
        places = []
        for place in wanted:
            with self._forgotten_if_unreadable(place):
                places.append((place[0], *self._place(place)))
        return np.array(places, np.int64).reshape(-1, 3)

    @property
    def _usual(self) -> int:
        return min(_SHOWN, self._limits.shown)

    def _rank(self, occurrences: Occurrences, number: int) -> Sought:
        if 0 <= number < occurrences.count:
            before = 0
            for shard, low, high in occurrences.ranges:
                if number < before + high - low:
                    rank = low + int(number) - before
                    return shard, rank, self._ranks.sought_at((shard, low, high))
                before += high - low
        raise IndexError(f"no such occurrence among {occurrences.count}: {number}")

    def show_all(self, places: Sequence[Sought], most: int) -> list[Shown]:
        """The texts around the tokens at some ranks, of up to ``most`` tokens each."""
        found = {
            place: self._at_hand[place, most] for place in places if (place, most) in self._at_hand
        }
        questions = {place: self._by_rank(place, most) for place in places if place not in found}
        answers = self._client.ask_all(list(questions.values()))
        for (place, question), answer in zip(questions.items(), answers, strict=True):
            found[place] = self._at_hand[place, most] = self._shown(place[0], question, answer)
        self._made_use_of.n_odd += sum(bool(found[place].odd(place[2])) for place in places)
        return [found[place] for place in places]

    def shown(self, place: Sought, most: int) -> Shown:
        """The text around the token at a rank, of up to ``most`` tokens."""
        return self.show_all([place], most)[0]

    def _by_rank(self, place: Sought, most: int) -> Question:
        shard, rank, sought = place
        fields = {"query_type": "get_doc_by_rank", "s": shard, "rank": rank}
        return self._question(fields, shard, most, sought)

    def _question(
        self, fields: Mapping[str, Any], shard: int, most: int, sought: tuple[int, ...]
    ) -> Question:
        # Without tokens of its own, so that the text comes in one piece.
        whole = {**fields, "query_ids": [], "max_disp_len": most}
        numbers, size = self._ranks.document_numbers[shard], self._ranks.sizes[shard]
        check = partial(self._checked, whole, numbers, size, sought)
        return Question(whole, check, self._ranks.grounds)

    def _checked(
        self,
        fields: Mapping[str, Any],
        numbers: range,
        size: int,
        sought: tuple[int, ...],
        answer: Mapping[str, Any],
    ) -> Checked:
        kept = checked_document(
            answer, fields["max_disp_len"], numbers, size, str(fields["query_type"])
        )
        document = fields["s"], kept["doc_ix"]
        told = self._told.get(document)
        if told and told[:2] != (kept["doc_len"], kept["metadata"]):
            self._told.pop(document, None)
            raise ContradictionError(
                f"shard {document[0]}, document {document[1]}: the server tells two lengths or two"
                f" metadata of it; {_FORGOTTEN}",
                told[2],
            )
        shown = Shown(kept, fields["max_disp_len"], fields["s"], self._tokenizer)
        return kept, shown.odd(sought)

    def _shown(self, shard: int, question: Question, answer: Mapping[str, Any]) -> Shown:
        """What an answer shows, its document known from now on."""
        shown = Shown(dict(answer), question.fields["max_disp_len"], shard, self._tokenizer)
        if len(self._told) >= MOST_REMEMBERED:
            self._told.clear()
        told = shown.length, answer["metadata"], question.fields
        self._told.setdefault((shard, shown.document), told)
        return shown

    @contextmanager
    def _forgotten_if_unreadable(self, place: Sought) -> Iterator[None]:
        """Of what does not fit together no answer is kept, for it is not known which is wrong."""
        try:
            yield
        except BlockedError:
            raise
        except UnreadableError as error:
            raise UnreadableError(f"{error} ({self._forget(place)})") from None

    def _forget(self, place: Sought) -> str:
        """Keep no answer about a place; what to do."""
        asked = [*self._asked_of(place), *self._ranks.grounds]
        if place[2]:
            asked += self._ranks.questions_about(place[2])
        for most in (self._usual, self._limits.shown):
            self._at_hand.discard((place, most))
        return self._client.forget(asked)

    def _asked_of(self, place: Sought) -> list[Question]:
        return [self._by_rank(place, most) for most in (self._usual, self._limits.shown)]

    def disown(self, shard: int, document: int) -> str:
        """Keep no answer about a document that was located before; what to do."""
        told = [self._forget((shard, *met)) for met in self._of(shard, document).values()]
        return told[0]

    def _place(self, place: Sought) -> tuple[int, int]:
        """Document, and number in it, of the token at a rank."""
        shard, rank, sought = place
        shown = self.shown(place, self._usual)
        if shown.offset is None:
            shown = self.shown(place, self._limits.shown)
        if not shown.answer["blocked"]:
            shown.around(sought)  # or it may be another document, and be counted
        offset = shown.offset
        if offset is None:
            offset = self._offset_by_pointers(place, shown)
        document = shown.document - self._ranks.document_numbers[shard].start
        known = self._met.get((shard, document), {})
        other = known.setdefault(offset, (rank, sought))
        self._met[shard, document] = known
        if other[0] != rank:
            self._refuse_two_ranks(shown.where, offset, place, (shard, *other))
        return document, offset

    def _refuse_two_ranks(self, where: str, offset: int, place: Sought, other: Sought) -> None:
        """Each token has one rank: of two that show the same token, one shows another than its own.

        Raises
        ------
        UnreadableError
            The server stands by both, so that its index is damaged there; all else may be right.
        ContradictionError
            It does not: something was wrong with it for a time.
        """
        ranks = f"{other[1]} and {place[1]}"
        told = f"{where}: the server shows its token {offset} at two ranks, {ranks}"
        asked = [self._asked_of(each) for each in (place, other)]
        if self._client.stands_by([question for each in asked for question in each]):
            raise UnreadableError(told)
        fields = [[question.fields for question in each] for each in asked]
        self._client.disbelieve(*fields)
        for each in (place, other):
            self._forget(each)
        raise ContradictionError(f"{told}; {_FORGOTTEN}", fields[1][0])

    def _offset_by_pointers(self, place: Sought, shown: Shown) -> int:
        """Number in its document of a token far from both ends."""
        shard, rank, sought = place
        ids, at = shown.around(sought)
        # More than was sought, for that may be common.
        passage = tuple(ids[at : at + min(self._limits.query, shown.asked // 2 - MARGIN)])
        low, high = self._ranks.segments(passage)[shard]
        if not low <= rank < high:
            passage = sought[: self._limits.query]
            low, high = self._ranks.segments(passage)[shard]
        if not low <= rank < high:
            raise UnreadableError(f"{shown.where}: what stands there is not what was found there")
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
        fields = {"query_type": "get_doc_by_ptr", "s": shard, "ptr": pointer}
        question = self._question(fields, shard, most, ())
        shown = self._shown(shard, question, self._client.ask(question))
        self._made_use_of.n_odd += bool(shown.odd(()))
        return shown

    def any_of(self, shard: int, document: int) -> Shown:
        """What is shown of a document that was located before, somewhere in it."""
        rank, sought = next(iter(self._of(shard, document).values()))
        return self.shown((shard, rank, sought), self._usual)

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
            shown = self.shown((shard, rank, sought), most)
            with self._forgotten_if_unreadable((shard, rank, sought)):
                tokens = shown.tokens(sought, start - near, stop - near)
            if tokens is not None:
                return tokens
        raise UnreadableError(
            f"shard {shard}, document {document}: the server shows {self._limits.shown} tokens"
            f" around a match, too few for tokens {start} to {stop}"
        )

"""What a server shows of a document, brought back into tokens.

An answer holds a text, the number of tokens that it was decoded from, and how many of them stand
before the one that was asked for. Encoding the text gives these tokens again, but for some at an
end where the text is cut in the middle of a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from propme.errors import BrokenIndexError, PropMeError
from propme.index.mapped import metadata_of
from propme.index.remote.questions import Answer, field, require, whole_number
from propme.index.tokenizer import Tokenizer

#: Tokens beside a cut that may be others, as those of the word that is cut.
MARGIN = 16

#: Tokens by which the encoded text may be longer or shorter before the token that was asked for.
_MOST_SHIFTED = 8


class UnreadableError(PropMeError):
    """A document's tokens cannot be told from what the server shows of it."""


class BlockedError(UnreadableError):
    """A document that the server does not show: no wrong answer, and so it is kept."""


@dataclass(frozen=True)
class Shown:
    """One answer about a document.

    Attributes
    ----------
    answer : dict
        Of ``get_doc_by_rank`` or ``get_doc_by_ptr``, as `checked_document` gives it.
    asked : int
        Most tokens that were asked for (``max_disp_len``): half of them before the token.
    shard : int
        For messages.
    tokenizer : Tokenizer
        Of the index.
    """

    answer: Answer
    asked: int
    shard: int
    tokenizer: Tokenizer

    @property
    def where(self) -> str:
        """Which document it is, for messages."""
        return f"shard {self.shard}, document {self.document}"

    @property
    def document(self) -> int:
        """Number of the document in the whole index."""
        return int(self.answer["doc_ix"])

    @property
    def length(self) -> int:
        """Tokens of the document."""
        return int(self.answer["doc_len"])

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the document as its corpus gave it."""
        return metadata_of(self.answer["metadata"], self.where)

    @property
    def before(self) -> int:
        """Tokens shown before the one that was asked for; -1: it is the separator before them."""
        return _before(self.answer)

    @property
    def _after(self) -> int:
        return int(self.answer["disp_len"]) - self.before

    @property
    def shows_start(self) -> bool:
        """Whether the text begins where the document does."""
        return self.before < self.asked // 2 or self.answer["disp_len"] == self.length

    @property
    def shows_end(self) -> bool:
        """Whether the text ends where the document does."""
        return self._after < self.asked - self.asked // 2 or self.answer["disp_len"] == self.length

    @property
    def offset(self) -> int | None:
        """Number in the document of the token that was asked for; ``None``: no end is shown."""
        if self.shows_start:
            return self.before
        return self.length - self._after if self.shows_end else None

    @cached_property
    def _text(self) -> str:
        return "".join(piece[0] for piece in self.answer["spans"])

    @cached_property
    def _ids(self) -> list[int]:
        return self.tokenizer.encode(self._text)

    @property
    def certain(self) -> list[int]:
        """Tokens of the text that no cut can have changed; of a blocked document none."""
        if self.answer["blocked"]:
            return []
        first = 0 if self.shows_start else MARGIN
        return self._ids[first : len(self._ids) - (0 if self.shows_end else MARGIN)]

    def around(self, sought: Sequence[int]) -> tuple[list[int], int]:
        """Tokens shown, and the number among them of the one that was asked for.

        Parameters
        ----------
        sought : sequence of int
            Tokens that are known to stand there, as those of a search; may be empty.

        Raises
        ------
        UnreadableError
            The document is blocked, or does not hold ``sought`` once it is encoded again.
        """
        if self.answer["blocked"]:
            raise BlockedError(f"{self.where}: the server has blocked this document")
        ids, before = self._ids, self.before
        n_sought = min(len(sought), self._after)
        wanted = list(sought[:n_sought])
        for shift in self._shifts(len(ids) - self.answer["disp_len"]):
            at = before + shift
            if not wanted or (at >= 0 and ids[at : at + n_sought] == wanted):
                return ids, at
        raise UnreadableError(
            f"{self.where}: what the server shows of this document is not encoded as its index"
            " says; is this the tokenizer of the index?"
        )

    def _shifts(self, longer: int) -> list[int]:
        """By how much the encoded text may be longer before the token, likeliest first.

        ``longer``: by how much it is so in all.
        """
        if self.shows_start:
            return [0]
        if self.shows_end:
            return [longer]
        return sorted(
            range(-_MOST_SHIFTED, _MOST_SHIFTED + 1), key=lambda shift: (abs(shift), shift)
        )

    def tokens(self, sought: Sequence[int], start: int, stop: int) -> list[int] | None:
        """Tokens ``[start, stop)``, counted from the one that was asked for; ``None``: not shown.

        ``start`` may lie before the document and ``stop`` behind it.
        """
        first = -self.before if self.shows_start else -self.before + MARGIN
        last = self._after if self.shows_end else self._after - MARGIN
        if (start < first and not self.shows_start) or (stop > last and not self.shows_end):
            return None
        ids, at = self.around(sought)
        return ids[max(0, at + start) : max(0, at + stop)]

    def odd(self, sought: Sequence[int]) -> str:
        """What is odd about the text; empty: nothing.

        It may be the text of a document that its tokenizer does not encode as the index has it.
        """
        if self.answer["blocked"]:
            return f"{self.where} is blocked, and shown" if self._text else ""
        more = abs(len(self._ids) - self.answer["disp_len"])
        if more > (0 if self.shows_start and self.shows_end else MARGIN):
            return f"{self.where} is not encoded in as many tokens as are shown"
        try:
            self.around(sought)
        except UnreadableError as error:
            return str(error)
        return ""


#: How -1 comes: as bytes in 64 bits without a sign, by the bytes of a token. What was asked for is
#: the separator before the tokens.
_SEPARATOR_BEFORE = (-1, 2**64 - 1, 2**63 - 1, 2**62 - 1)


def _before(answer: Mapping[str, Any]) -> int:
    number = whole_number(answer, "needle_offset")
    return -1 if number in _SEPARATOR_BEFORE else number


def _is_text(value: Any) -> bool:
    """Whether it is a text that can be encoded: no half of a surrogate pair stands alone."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def checked_document(
    answer: Mapping[str, Any], asked: int, numbers: range, size: int, where: str
) -> Answer:
    """What is kept of an answer about a document, once it fits together.

    Parameters
    ----------
    answer : mapping
        Of ``get_doc_by_rank`` or ``get_doc_by_ptr``.
    asked : int
        Most tokens that were asked for: half of them before the token.
    numbers : range
        That documents of this shard may have.
    size : int
        Tokens of the shard, separators included.
    where : str
        For messages.

    Raises
    ------
    WrongAnswerError
        It does not.
    """
    document, length = whole_number(answer, "doc_ix"), whole_number(answer, "doc_len")
    shown, before = whole_number(answer, "disp_len"), _before(answer)
    require(document in numbers, where, "is about a document of no such shard")
    require(0 <= shown <= length < size, where, "tells of more tokens than there are")
    half = asked // 2
    fits = -1 <= before <= half and before < max(shown, 0) and shown - before <= asked - half
    # Where neither end is as far as may be shown, both must be those of the document.
    cut = before == half or shown - before == asked - half
    require(fits and (cut or shown == length), where, "does not fit its own numbers")
    blocked = answer.get("blocked", False)
    spans, metadata = field(answer, "spans", list), field(answer, "metadata", str)
    require(isinstance(blocked, bool), where, "does not say whether it is blocked")
    texts = all(isinstance(piece, list) and piece and _is_text(piece[0]) for piece in spans)
    require(texts and (blocked or bool(spans)), where, "shows no text")
    require(_is_text(metadata), where, "has damaged metadata")
    try:
        metadata_of(metadata, where)
    except (BrokenIndexError, RecursionError):
        require(False, where, "has damaged metadata")
    return {
        "doc_ix": document,
        "doc_len": length,
        "disp_len": shown,
        "needle_offset": before,
        "metadata": metadata,
        "spans": [[piece[0]] for piece in spans],
        "blocked": blocked,
    }

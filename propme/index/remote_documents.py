"""What a server shows of a document, brought back into tokens.

An answer holds a text, the number of tokens that it was decoded from, and how many of them stand
before the one that was asked for. Encoding the text gives these tokens again, but for some at an
end where the text is cut in the middle of a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from propme.errors import PropMeError
from propme.index.mapped import metadata_of
from propme.index.tokenizer import Tokenizer

#: Tokens beside a cut that may be others, as those of the word that is cut.
MARGIN = 16

#: Tokens by which the encoded text may be longer or shorter before the token that was asked for.
_MOST_SHIFTED = 8


class UnreadableError(PropMeError):
    """A document's tokens cannot be told from what the server shows of it."""


@dataclass(frozen=True)
class Shown:
    """One answer about a document.

    Attributes
    ----------
    answer : dict
        Of ``get_doc_by_rank`` or ``get_doc_by_ptr``.
    asked : int
        Most tokens that were asked for (``max_disp_len``): half of them before the token.
    where : str
        For messages.
    """

    answer: dict[str, Any]
    asked: int
    where: str

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
        number = int(self.answer["needle_offset"])
        return number if number <= self.length else -1  # -1 comes as a huge number

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

    def around(self, tokenizer: Tokenizer, sought: Sequence[int]) -> tuple[list[int], int]:
        """Tokens shown, and the number among them of the one that was asked for.

        Parameters
        ----------
        tokenizer : Tokenizer
            Of the index.
        sought : sequence of int
            Tokens that are known to stand there, as those of a search; may be empty.

        Raises
        ------
        UnreadableError
            The document is blocked, or does not hold ``sought`` once it is encoded again.
        """
        if self.answer.get("blocked"):
            raise UnreadableError(f"{self.where}: the server has blocked this document")
        ids, before = self.answer.get("token_ids") or [], self.before
        if len(ids) != self.answer["disp_len"]:  # as a rule they are those of the question
            ids = tokenizer.encode("".join(text for text, _ in self.answer["spans"]))
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

    def tokens(
        self, tokenizer: Tokenizer, sought: Sequence[int], start: int, stop: int
    ) -> list[int] | None:
        """Tokens ``[start, stop)``, counted from the one that was asked for; ``None``: not shown.

        ``start`` may lie before the document and ``stop`` behind it.
        """
        first = -self.before if self.shows_start else -self.before + MARGIN
        last = self._after if self.shows_end else self._after - MARGIN
        if (start < first and not self.shows_start) or (stop > last and not self.shows_end):
            return None
        ids, at = self.around(tokenizer, sought)
        return ids[max(0, at + start) : max(0, at + stop)]

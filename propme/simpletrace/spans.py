"""Step 1: the maximal spans, the passages of a generation that stand verbatim in the corpus."""

from __future__ import annotations

from dataclasses import dataclass

from propme.index.protocol import Index

#: Shorter spans say nothing, except one that is the whole generation.
SHORTEST_SPAN = 4


@dataclass(frozen=True, slots=True)
class TracedText:
    """A generation as it is traced: white space at its ends left out, in index tokens.

    ``offsets[i]`` are the characters ``[start, stop)`` of token ``i`` in the text as generated.
    """

    text: str
    char_start: int
    char_stop: int
    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]

    @property
    def stripped(self) -> str:
        """The traced characters."""
        return self.text[self.char_start : self.char_stop]

    def characters(self, start: int, stop: int) -> tuple[int, int]:
        """Characters of the generation that tokens ``[start, stop)`` hold whole.

        Tokens of which each holds some bytes of a character have that character's offsets in
        common. One cut by an end is left out: the corpus may hold another character there.
        """
        first, last = self.offsets[start][0], self.offsets[stop - 1][1]
        if start:
            first = max(first, self.offsets[start - 1][1])
        if stop < len(self.offsets):
            last = min(last, self.offsets[stop][0])
        return first, max(first, last)


def tokenise(text: str, index: Index) -> TracedText:
    """Cut white space off a generation's ends and tokenise the rest as the index does."""
    stripped = text.strip()
    char_start = text.find(stripped) if stripped else len(text)
    ids, offsets = index.tokenizer.encode_with_offsets(stripped)
    return TracedText(
        text=text,
        char_start=char_start,
        char_stop=char_start + len(stripped),
        ids=tuple(ids),
        offsets=tuple((char_start + a, char_start + b) for a, b in offsets),
    )


def maximal_spans(traced: TracedText, index: Index) -> list[tuple[int, int]]:
    """Token ranges that occur in one training document and lie in no other such range.

    Every start counts, and the result is exact: a span cannot be made longer on either side and
    still occur. A passage that the corpus tokenises otherwise at its edges reads up to a token
    shorter on that side.
    """
    return [(int(start), int(stop)) for start, stop in index.maximal_runs(traced.ids)]


def drop_reason(traced: TracedText, start: int, stop: int) -> str:
    """Why mode ``mixed`` leaves a maximal span out; empty: it does not."""
    if stop - start == len(traced.ids):
        return ""
    if stop - start < SHORTEST_SPAN:
        return "short"
    first, last = traced.characters(start, stop)
    return "" if traced.text[first:last].strip() else "blank"

"""A text without its personal data, and where the rest of it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from propme.personal_data.finding import (
    KINDS,
    REGIONS,
    Found,
    available,
    find_personal_data,
    merged,
)


@dataclass(frozen=True, slots=True)
class Masked:
    """A text whose personal data is replaced by its kind in brackets, and where the rest stands.

    Attributes
    ----------
    original : str
        The text as it was.
    places : tuple of Found
        What is replaced of it, in order, without overlap.
    text : str
        The text that may be shown.
    """

    original: str = field(repr=False)
    places: tuple[Found, ...] = ()
    text: str = field(init=False)

    def __post_init__(self) -> None:
        pieces, start = [], 0
        for place in self.places:
            pieces += [self.original[start : place.start], _label(place)]
            start = place.stop
        object.__setattr__(self, "text", "".join([*pieces, self.original[start:]]))

    def places_in(self, start: int, stop: int) -> tuple[Found, ...]:
        """What is replaced of the part ``[start, stop)`` of the text, as places of that part.

        Of what the part cuts in two they hold the half that is in it.
        """
        return tuple(
            Found(place.kind, max(place.start, start) - start, min(place.stop, stop) - start)
            for place in self.places
            if max(place.start, start) < min(place.stop, stop)
        )

    def start(self, offset: int) -> int:
        """Where a passage starts that started at ``offset``; all of a replacement belongs to it."""
        return self._at(offset, inside=0)

    def stop(self, offset: int) -> int:
        """Where a passage stops that stopped at ``offset``; all of a replacement belongs to it."""
        return self._at(offset, inside=1)

    def _at(self, offset: int, inside: int) -> int:
        moved = 0
        for place in self.places:
            if offset <= place.start:
                break
            length = len(_label(place))
            if offset < place.stop:
                return place.start + moved + inside * length
            moved += length - (place.stop - place.start)
        return offset + moved

    def _before(self, found: Found) -> Found:
        """What was found in this text, as a place of the text as it was."""
        start, stop, moved = found.start, found.stop, 0
        for place in self.places:
            first = place.start + moved
            last = first + len(_label(place))
            moved += last - first - (place.stop - place.start)
            if last <= found.start:
                start = found.start - moved
            elif first <= found.start:
                start = place.start
            if last <= found.stop:
                stop = found.stop - moved
            elif first < found.stop:
                stop = place.stop
        return Found(found.kind, start, stop)


def masked(text: str, regions: Sequence[str] = REGIONS, known: Sequence[Found] = ()) -> Masked:
    """The text with each piece of personal data replaced by its kind in brackets.

    The replacement says nothing of length or signs of what stood there. Masking twice is masking
    once. What `find_personal_data` misses stays.

    Parameters
    ----------
    text, regions
        As of `find_personal_data`.
    known : sequence of Found
        Places of the text that are replaced in any case, such as the half of an address whose
        other half is elsewhere (`Masked.places_in`).

    Raises
    ------
    ParameterError
        As `find_personal_data`.
    """
    done = Masked(text, tuple(merged(known)))
    # What stood next to masked data can be found only now; each round takes digits or an @ away
    # and adds none, so that this ends.
    while found := find_personal_data(done.text, regions):
        done = Masked(text, tuple(merged([*done.places, *map(done._before, found)])))
    return done


def masked_with_what_follows(
    text: str, following: Sequence[str], regions: Sequence[str] = REGIONS
) -> tuple[Masked, tuple[Masked, ...]]:
    """A text and the texts that go on from it, so that what the border cuts in two is masked too.

    Parameters
    ----------
    text : str
        Such as a prompt.
    following : sequence of str
        Each goes on from ``text``, such as its completions and its true continuation.
    regions
        As of `find_personal_data`.

    Returns
    -------
    tuple of Masked and tuple of Masked
        The text, without what is personal data together with *any* of ``following``: who has seen
        one of them must not read the other half here. Then each of ``following``.

    Raises
    ------
    ParameterError
        As `find_personal_data`.
    """
    border = len(text)
    wholes = [masked(text + rest, regions) for rest in following]
    halves = [place for whole in wholes for place in whole.places_in(0, border)]
    rests = tuple(
        masked(rest, regions, whole.places_in(border, border + len(rest)))
        for rest, whole in zip(following, wholes, strict=True)
    )
    return masked(text, regions, halves), rests


def mask(text: str, regions: Sequence[str] = REGIONS) -> str:
    """The text alone of `masked`."""
    return masked(text, regions).text


def _label(place: Found) -> str:
    return f"[{place.kind}]"


def note(masked: bool = True) -> str:
    """What a reader must know of personal data in the texts that are shown, in a sentence."""
    if not available():
        return (
            "Personal data was not looked for and nothing is masked: the extra `privacy` is not"
            " installed."
        )
    done = (
        "masked in texts, ids, sources and licences: its kind stands in its place, in names with a"
        " number that holds in this table or page alone"
        if masked
        else "looked for and shown as it is"
    )
    return (
        f"Personal data ({', '.join(KINDS)}) is {done}. Not looked for: names and addresses, and"
        " what the end of a completion, or of the text fetched around a match, cuts in two."
    )

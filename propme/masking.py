"""Texts and names of a run as people may see them: personal data masked, identity kept.

A completion goes on from its prompt, and so does the true continuation: they are masked as one text
(`propme.personal_data.masked_with_what_follows`). A passage is masked as part of the completion
that holds it, and of the documents that do.
"""

from __future__ import annotations

import itertools
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from propme import personal_data
from propme.personal_data import Found, Masked

#: Characters beside a match that are looked at too: the longest address has fewer.
_MARGIN = 600


@dataclass(frozen=True, slots=True)
class MaskedTexts:
    """The texts of some prompts, by the ids of prompts and generations."""

    prompts: dict[str, Masked]
    targets: dict[str, Masked]
    completions: dict[str, Masked]


def masked_texts(
    prompts: pd.DataFrame, generations: pd.DataFrame, mask: bool = True
) -> MaskedTexts:
    """Prompts, their true continuations and their completions, each masked as part of the whole.

    Parameters
    ----------
    prompts : DataFrame
        With ``prompt_id``, ``text`` and ``target``.
    generations : DataFrame
        With ``generation_id``, ``prompt_id`` and ``text``; those of other prompts are left out. A
        prompt is masked with all that follow it: give all of them.
    mask : bool
        Whether anything is masked; it can be only with the extra ``privacy``.

    Notes
    -----
    *How it misleads.* A chat's completion does not go on from its last word; that they are joined
    all the same masks now and then what is no personal data.
    """
    mask = mask and personal_data.available()
    completions: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, asked, text in _columns(generations, "generation_id", "prompt_id", "text"):
        completions[asked].append((name, text))
    texts = MaskedTexts({}, {}, {})
    for name, text, target in _columns(prompts, "prompt_id", "text", "target"):
        following = [target, *(completion for _, completion in completions[name])]
        if mask:
            texts.prompts[name], rests = personal_data.masked_with_what_follows(text, following)
        else:
            texts.prompts[name], rests = Masked(text), tuple(map(Masked, following))
        texts.targets[name] = rests[0]
        texts.completions.update(
            (generation, rest)
            for (generation, _), rest in zip(completions[name], rests[1:], strict=True)
        )
    return texts


def _columns(frame: pd.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(frame[name] for name in names), strict=True)


def masked_around(window: str, start: int, stop: int) -> tuple[Masked, int, int]:
    """As much of a document around a match as can reach into it, and where in it the match is.

    Parameters
    ----------
    window : str
        Text of the document around the match, which is at ``[start, stop)``.

    Returns
    -------
    Masked, int and int
        The text, and the first character of the match in it and one past the last.
    """
    first = max(0, start - _MARGIN)
    around = personal_data.masked(window[first : stop + _MARGIN])
    return around, start - first, stop - first


def reaching_into(passage: str, window: Masked, start: int, stop: int) -> tuple[Found, ...]:
    """Personal data of a document that a passage holds a part of, as places of the passage.

    Parameters
    ----------
    passage : str
        As the completion has it. It may end within what is whole in the document alone.
    window : Masked
        Text of the document around the match, which is at ``[start, stop)``. A tokenizer can have
        folded its case, its accents or its white space.

    Returns
    -------
    tuple of Found
        Where the texts do not go together sign by sign, they are counted from both ends, and what
        may be personal data is a place with all of the words that it touches.

    Notes
    -----
    *How it misleads.* Those words can be more than the personal data, most where a script puts no
    white space between words.
    """
    places, match = window.places_in(start, stop), window.original[start:stop]
    if not places or passage == match:
        return places
    ours, theirs = _signs(passage), _signs(match)
    if ours == theirs:
        return places
    if not ours[-1]:
        return ()  # white space alone
    more = ours[-1] - theirs[-1]
    mapped = []
    for place in places:
        before = theirs[place.start] + min(0, more)
        until = theirs[place.stop] + max(0, more)
        # At least the sign at the end: what is left over there is a part of it.
        first = bisect_right(ours, min(max(0, before), ours[-1] - 1)) - 1
        last = bisect_left(ours, min(until, ours[-1]))
        mapped.append(Found(place.kind, *_whole_words(passage, first, last)))
    return tuple(mapped)


def _signs(text: str) -> list[int]:
    """How many signs the first 0, 1, ... characters have, whatever their case.

    White space and accents are none: a tokenizer may take them away or write them otherwise.
    """
    folded = (unicodedata.normalize("NFKD", character.casefold()) for character in text)
    counted = (
        sum(not (sign.isspace() or unicodedata.combining(sign)) for sign in signs)
        for signs in folded
    )
    return [*itertools.accumulate(counted, initial=0)]


def _whole_words(text: str, start: int, stop: int) -> tuple[int, int]:
    while start and not text[start - 1].isspace():
        start -= 1
    while stop < len(text) and not text[stop].isspace():
        stop += 1
    return start, stop


def shown_prompts(prompts: pd.DataFrame) -> pd.DataFrame:
    """The table ``prompts``, or rows of it, without personal data in ``text`` and ``target``."""
    texts = masked_texts(prompts, prompts.iloc[:0].assign(generation_id=""))
    return prompts.assign(
        text=[texts.prompts[name].text for name in prompts["prompt_id"]],
        target=[texts.targets[name].text for name in prompts["prompt_id"]],
    )


def shown_completions(generations: pd.DataFrame, prompts: pd.DataFrame) -> pd.DataFrame:
    """Generations without personal data in ``text``, be it that their prompt begins it."""
    asked = prompts[prompts["prompt_id"].isin(generations["prompt_id"])]
    texts = masked_texts(asked, generations)
    return generations.assign(
        text=[texts.completions[name].text for name in generations["generation_id"]]
    )


def masked_names(*columns: Iterable[str]) -> dict[str, str]:
    """Ids, sources or licences as they may be shown together, no two of them alike.

    Parameters
    ----------
    *columns : iterable of str
        Names, each as often as it comes.

    Returns
    -------
    dict of str to str
        A name without personal data stays as it is; what is left of any other has a number behind
        it, by which names are told apart that were masked alike. Without the extra ``privacy`` all
        stay.

    Notes
    -----
    *How it misleads.* The numbers hold for these names: in another table or page they are others.
    """
    distinct = sorted({name for column in columns for name in column})
    if not personal_data.available():
        return dict(zip(distinct, distinct, strict=True))
    shown = {name: personal_data.mask(name) for name in distinct}
    taken = {name for name in distinct if shown[name] == name}
    numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))
    for name in distinct:
        if (left := shown[name]) != name:
            numbered = (f"{left} {n}" for n in numbers[left])
            shown[name] = next(each for each in numbered if each not in taken)
            taken.add(shown[name])
    return shown

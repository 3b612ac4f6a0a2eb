"""Words of a text, with typographic differences taken out, and their numbers in a reference."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Guillemets are the double ones; the single ones (U+2039, U+203A) stay as they are.
_PUNCTUATION = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2013\u2015\u2212", "\u2014"),
}
_TYPOGRAPHIC = re.compile(f"[{''.join(_PUNCTUATION)}]")
_OTHER_SPACE = re.compile("[\u0085\u1680\u2028\u2029]")
_SPACED_DOTS = re.compile(r"\.\s+\.\s+\.")
_DOTS_BEFORE_WORD = re.compile(r"\.\.\.(?=[^\W_])")
# Not inside a longer run of word characters: snake_case_name and __init__ are not emphasis.
# (That begins with the sign that is looked for, so that the search can leap from one to the next.)
_EMPHASIS = re.compile(r"_(?<!\w_)([^\s_]+)_(?!\w)")


def normalize_words(text: str) -> list[str]:
    """Words of `text` with typographic differences taken out.

    In this order: NFKC; curly single quotes to ``'``, curly double quotes and « » to ``"``; en
    dash, horizontal bar and minus to the em dash; spaced dots ``. . .`` to ``...``; a space after
    ``...`` before a letter or digit; ``_word_`` to ``word``; lower case; split on white space.

    Source: arXiv 2606.06286; the order of the steps and the edge cases are fixed here.

    Returns
    -------
    list of str
        Non-empty words with their punctuation; empty for a text of white space only.

    How it misleads: words keep their punctuation, so `end` and `end.` differ, and a dash without
    spaces ties two words into one. Text written without spaces (Chinese, Japanese) becomes a few
    very long words, for which near agreement is never seen.
    """
    return normalized(text).split()


def normalized(text: str) -> str:
    """What `normalize_words` splits; all white space in it is ASCII."""
    if not text.isascii():
        # This also makes three dots of the ellipsis character and a plain space of a wide one.
        text = unicodedata.normalize("NFKC", text)
        text = _TYPOGRAPHIC.sub(lambda sign: _PUNCTUATION[sign[0]], text)
        text = _OTHER_SPACE.sub(" ", text)
    text = _SPACED_DOTS.sub("...", text)
    if "..." in text:
        text = _DOTS_BEFORE_WORD.sub("... ", text)
    if "_" in text:
        text = _EMPHASIS.sub(r"\1", text)
    return text.lower()


@njit(cache=True)
def word_numbers(
    raw: NDArray[np.uint8], reference: NDArray[np.uint8], slots: NDArray[np.int32], learn: bool
) -> NDArray[np.int32]:
    """Numbers of the words of a text in UTF-8, -1 for one that the reference has not.

    `slots` is a table of hashes: a word's start and stop in `reference`, and its number. To
    `learn`, which is done once, with the reference as the text, words are added to it.
    """
    found = np.empty(raw.size // 2 + 1, np.int32)
    n, known, at, mask = 0, 0, 0, np.uint64(slots.shape[0] - 1)
    while True:
        while at < raw.size and _is_space(raw[at]):
            at += 1
        if at == raw.size:
            return found[:n]
        start = at
        name = np.uint64(14695981039346656037)
        while at < raw.size and not _is_space(raw[at]):
            name = (name ^ np.uint64(raw[at])) * np.uint64(1099511628211)
            at += 1
        slot = np.int64((name ^ (name >> np.uint64(32))) & mask)
        while slots[slot, 2] >= 0:
            first = slots[slot, 0]
            k = 0
            if slots[slot, 1] - first == at - start:
                while k < at - start and raw[start + k] == reference[first + k]:
                    k += 1
            if k == at - start:
                break
            slot = (slot + 1) & np.int64(mask)
        if learn and slots[slot, 2] < 0:
            slots[slot, 0], slots[slot, 1], slots[slot, 2] = start, at, known
            known += 1
        found[n] = slots[slot, 2]
        n += 1


@njit(cache=True, inline="always")
def _is_space(sign: int) -> bool:
    return sign == 0x20 or 0x09 <= sign <= 0x0D or 0x1C <= sign <= 0x1F

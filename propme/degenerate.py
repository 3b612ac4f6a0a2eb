"""Generations that are no text: repetition without letters, which a table must not be made of."""

from __future__ import annotations

import zlib

#: Below both of these a generation is degenerate.
LOWEST_ZLIB_RATIO = 0.1
LOWEST_LETTER_SHARE = 0.5


def zlib_ratio(text: str) -> float:
    """Size after zlib (level 9) over size in UTF-8; 1 for the empty text.

    Short texts exceed 1. A low ratio means repetition, which good text such as a list can have.
    """
    raw = text.encode("utf-8", "surrogatepass")
    return len(zlib.compress(raw, 9)) / len(raw) if raw else 1.0


def letter_share(text: str) -> float:
    """Letters among the characters that are no white space; 1 where there is none."""
    signs = [c for c in text if not c.isspace()]
    return sum(c.isalpha() for c in signs) / len(signs) if signs else 1.0


def is_degenerate(text: str) -> bool:
    """Whether zlib leaves less than a tenth *and* fewer than half of the signs are letters.

    A sentence repeated for ever is not degenerate in this sense: it is made of letters.
    """
    return zlib_ratio(text) < LOWEST_ZLIB_RATIO and letter_share(text) < LOWEST_LETTER_SHARE

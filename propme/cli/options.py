"""Values of options that several commands take."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def shard(text: str) -> tuple[int, int]:
    """``K/N``, as the K-th of N shares, from 1."""
    try:
        k, n = map(int, text.split("/"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not K/N, as 1/8") from error
    if not 1 <= k <= n:
        raise argparse.ArgumentTypeError(f"shard {k} of {n}: they are counted from 1")
    return k, n

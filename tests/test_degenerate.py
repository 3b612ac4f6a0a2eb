"""Degenerate generations: both ratios by hand, and both needed."""

from __future__ import annotations

import zlib

import pytest

from propme.degenerate import is_degenerate, letter_share, zlib_ratio


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 1.0),
        (" \n\t", 1.0),
        ("abc", 1.0),
        ("123", 0.0),
        ("a 1", 0.5),
        ("a, b, c, ", 0.5),
        ("ab1 ", 2 / 3),
        ("æøå!", 0.75),
        ("日本1", 2 / 3),
        ("🎉a", 0.5),
        ("\u00a0a", 1.0),  # a hard space is white space
    ],
)
def test_letters_among_the_signs(text: str, share: float) -> None:
    assert letter_share(text) == share


def test_the_empty_text_is_not_repetitive() -> None:
    assert zlib_ratio("") == 1.0


@pytest.mark.parametrize("text", ["a", "ab" * 400, "ø" * 300, "0" * 1000, "🎉🎊" * 50])
def test_zlib_ratio_is_of_the_bytes_of_utf8_at_level_9(text: str) -> None:
    raw = text.encode()
    assert zlib_ratio(text) == len(zlib.compress(raw, level=9)) / len(raw)


def test_known_ratios() -> None:
    # Deflate's stored form of one byte: two bytes of header, three of block, four of checksum.
    assert zlib_ratio("a") == 9.0
    assert zlib_ratio("0" * 1000) == pytest.approx(0.017, abs=0.003)
    assert zlib_ratio("ø" * 500) == pytest.approx(0.018, abs=0.005)  # 1000 bytes, not 500


@pytest.mark.parametrize(
    ("text", "degenerate"),
    [
        ("", False),
        ("0" * 1000, True),
        ("1, 2, " * 200, True),
        ("\n" * 1000, False),  # no sign at all
        ("a" * 1000, False),  # letters repeated
        ("Ja, det er det. " * 100, False),
        ("a1" * 500, False),  # exactly half are letters
        ("a11" * 500, True),
        ("0" * 20, False),  # too short for zlib to gain nine tenths
        ("3.14159265358979323846264338327950288419716939937510", False),  # no repetition
    ],
)
def test_both_repetition_and_want_of_letters_are_needed(text: str, degenerate: bool) -> None:
    assert is_degenerate(text) is degenerate


def test_a_lone_surrogate_is_measured_too() -> None:
    assert zlib_ratio("\ud800" * 400) < 0.1
    assert is_degenerate("\ud800" * 400)

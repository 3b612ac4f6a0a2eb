"""The prompts of a run at a glance."""

from __future__ import annotations

from typing import Any

import pandas as pd

from propme import tables
from propme.prompts import lengths_by_setting, overlap_by_setting
from propme.records import Prompt


def generic(name: str, n_tokens: int, span: int, overlap: float, **more: Any) -> Prompt:
    counts = {"n_tokens": n_tokens, "longest_span": span, "overlap": overlap, **more}
    return Prompt(f"generic/{name}", "generic", "propensity", "t", **counts)


PREFIX = Prompt("prefix/a", "prefix", "capability", "t", occurs_whole=True, n_documents=4)
PROMPTS = [
    PREFIX,
    generic("a", 10, 1, 0.1, n_model_tokens=9, language="en"),
    generic("b", 20, 4, 0.2, n_model_tokens=13, language="en"),
    generic("c", 40, 10, 0.25, n_model_tokens=31),
    generic("d", 90, 80, 0.9, refused="r"),
    Prompt("human/a", "human", "control", "t", n_tokens=8),
]
WHAT = ("least", "median", "most")


def test_overlap_of_those_that_are_used() -> None:
    table = overlap_by_setting(tables.to_frame("prompts", PROMPTS))
    assert list(table.index) == ["generic", "prefix", "human"]
    generic = table.loc["generic"]
    assert (generic["prompts"], generic["refused"], generic["occur_whole"]) == (3, 1, 0)
    assert (generic["median_span"], generic["longest_span"]) == (4, 10)
    assert (generic["median_overlap"], generic["highest_overlap"]) == (0.2, 0.25)
    assert pd.isna(generic["median_documents"])
    assert (table.loc["prefix", "occur_whole"], table.loc["prefix", "median_documents"]) == (1, 4)


def test_lengths_and_languages_of_those_that_are_used() -> None:
    table = lengths_by_setting(tables.to_frame("prompts", PROMPTS))
    assert list(table.index) == ["generic", "prefix", "human"]
    generic = table.loc["generic"]
    assert generic[[f"index tokens, {what}" for what in WHAT]].tolist() == [
        10,
        20,
        40,
    ]
    assert generic[[f"model tokens, {what}" for what in WHAT]].tolist() == [
        9,
        13,
        31,
    ]
    assert generic["languages"] == "en 2, unknown 1"
    assert pd.isna(table.loc["human", "model tokens, median"])

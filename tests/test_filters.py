"""Marks on generations and spans, and what is left without them."""

from __future__ import annotations

import pandas as pd
import pytest
from found import as_tables, one
from hypothesis import given
from hypothesis import strategies as st

from propme import tables
from propme.filters import found_without, is_code_like, is_loop, mark_spans
from propme.records import Match, Span


def slow_is_loop(text: str) -> bool:
    """SPEC's words, byte for byte."""
    data = " ".join(text.split()).encode()
    for period in range(1, min(200, len(data) // 3) + 1):
        equal = sum(data[i] == data[i + period] for i in range(len(data) - period))
        if equal >= 0.9 * (len(data) - period) - 1e-9:
            return True
    return False


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("la la la la la la la la", True),
        ("la\n\nla   la la\tla la la", True),  # white space collapsed
        ("aaaaaaaaaaaa", True),
        ("and the sons of Dan, and the sons of Gad, and the sons of Zur, ", False),
        ("In the beginning God created the heaven and the earth.", False),
        ("ab", False),  # shorter than three periods of one
        ("", False),
        ("æøåæøåæøåæøå", True),
        ("x" * 300 + "y" * 300, True),
    ],
)
def test_loops(text: str, loop: bool) -> None:
    assert is_loop(text, 20) is loop
    assert slow_is_loop(text) is loop
    assert not is_loop(text, 19)


@given(st.lists(st.sampled_from(["ab", "a", "b ", " ", "æ", "abc"]), max_size=60).map("".join))
def test_a_loop_is_what_the_definition_says(text: str) -> None:
    assert is_loop(text, 20) == slow_is_loop(text)


def test_nine_tenths_are_enough() -> None:
    # Period 1: of 30 neighbours 27 are equal, and one more difference is too much.
    assert is_loop("a" * 10 + "b" * 10 + "c" * 10 + "d", 20)
    assert not is_loop("abcdefghijklmnopqrstuvwxyz", 20)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("for (int i = 0; i < n; i++) { x[i] = y; }", True),
        ("def add(a, b):\n    return {a: b}[a]", True),
        ("He said (and he was right) that it was so; nobody asked.", False),
        ("", False),
        (" \n", False),
        ("abcdefghi=", True),  # one of ten
        ("abcdefghij=", False),
    ],
)
def test_code(text: str, code: bool) -> None:
    assert is_code_like(text) is code


def span(
    number: int, start: int, stop: int, segment: int | None, text: str = "t", docs: int = 1
) -> Span:
    dropped = "" if segment is not None else "common"
    place = ("g0", number, start, stop, start, stop, "t")
    return Span(*place, -1.0, 1, docs, documents_exact=True, dropped=dropped, segment=segment)


def match(number: int, document: int, recall: float, pair: bool) -> Match:
    return Match("g0", number, 0, document, "", "", "", 0, "w", 0, 1, "partial", recall, pair)


def test_what_is_left_without_marked_spans() -> None:
    found = {"full_raw": True, "n_whole_documents": 2, "longest_segment": 30}
    prompts, generations, traces, _, _ = as_tables([one(found)])
    spans = [
        span(0, 0, 20, 0, docs=500),
        span(1, 15, 30, 0),
        span(2, 40, 50, 1, docs=500),
        span(3, 60, 64, None),
    ]
    matches = [
        match(0, 1, 0.9, pair=True),
        match(1, 2, 0.0, pair=True),
        match(2, 3, 0.5, pair=True),
        match(3, 4, 0.7, pair=False),  # of a dropped span
    ]
    marked = mark_spans(tables.to_frame("spans", spans), generations, prompts)
    assert marked["boiler_plate"].tolist() == [True, False, True]
    frames = (marked, tables.to_frame("matches", matches), traces)
    whole = found_without(*frames, "").loc["g0"].to_dict()
    assert whole["longest_segment"] == 30
    assert (whole["n_pairs"], whole["n_hits"], whole["recall_sum"]) == (3, 2, pytest.approx(1.4))
    assert (whole["recall_max"], whole["full_raw"], whole["n_whole_documents"]) == (0.9, True, 2)
    left = found_without(*frames, "boiler_plate").loc["g0"].to_dict()
    # Of segment 0 the tokens 15 to 30 are left, with its pairs; segment 1 is gone.
    assert left["longest_segment"] == 15
    assert (left["n_pairs"], left["n_hits"], left["recall_sum"]) == (2, 1, pytest.approx(0.9))
    assert (left["recall_max"], left["full_raw"]) == (0.9, True)
    nothing = found_without(marked.assign(loop=True), *frames[1:], "loop").loc["g0"].to_dict()
    assert nothing == {
        "longest_segment": 0, "n_pairs": 0, "n_hits": 0, "recall_sum": 0.0, "recall_max": 0.0,
        "full_raw": False, "full_normalized": False, "n_whole_documents": 0,
    }  # fmt: skip


def test_a_passage_of_the_prompt_is_marked_and_a_text_by_people_is_not() -> None:
    rows = [one({"longest_segment": 9, "passage": " a prompt "}, prompt="p")]
    rows += [
        one(
            {"longest_segment": 9, "passage": "a prompt"},
            prompt="h",
            setting="human",
            kind="control",
        )
    ]
    prompts, generations, _, spans, _ = as_tables(rows)
    marked = mark_spans(spans, generations, prompts)
    assert pd.Series(marked["of_prompt"]).tolist() == [True, False]

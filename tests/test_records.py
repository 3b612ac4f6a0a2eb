"""The vocabulary: an invalid record cannot exist."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from propme.errors import ParameterError
from propme.records import (
    KINDS,
    TIERS,
    Decoding,
    Document,
    Generation,
    Match,
    Prompt,
    Span,
    decodings,
    metadata_field,
)

DECODING = Decoding("sampled", temperature=0.7, top_p=0.95, samples=10, max_new_tokens=256)
DOCUMENT = Document("d1", "In the beginning")
PROMPT = Prompt("generic-1", "generic", "propensity", "Write a poem.")
GENERATION = Generation(
    "generic-1 greedy 0", "generic-1", "greedy", 0, 7, " Amen.", (5, 6), "stop", 0.0, 1.0, 100
)
FAILED = Generation(
    "generic-1 greedy 0", "generic-1", "greedy", 0, 7, "", (), "error", 0.0, 1.0, 100, error="lost"
)
SPAN = Span("g1", 0, 2, 6, 5, 20, "in the beginning", -21.5, 3, 2, True)
MATCH = Match(
    "g1", 0, 0, 17, "d1", "bible", "public domain", 4, "so in the beginning", 3, 19, "partial",
    0.5, True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("record", "field", "wrong", "message"),
    [
        (DECODING, "temperature", -0.1, "temperature must be a number >= 0, not -0.1"),
        (DECODING, "temperature", math.inf, "not inf"),
        (DECODING, "temperature", math.nan, "not nan"),
        (DECODING, "temperature", "1", "not '1'"),
        (DECODING, "temperature", None, "not None"),
        (DECODING, "top_p", 0, r"top_p must be in \(0, 1\], not 0"),
        (DECODING, "top_p", 1.01, "not 1.01"),
        (DECODING, "top_p", math.nan, "not nan"),
        (DECODING, "top_p", "1", "not '1'"),
        (DECODING, "samples", 0, "samples must be a whole number >= 1, not 0"),
        (DECODING, "samples", 2.0, "not 2.0"),
        (DECODING, "max_new_tokens", 0, "max_new_tokens must be a whole number >= 1, not 0"),
        (DECODING, "max_new_tokens", "9", "not '9'"),
        (DECODING, "temperature", 0, "greedy decoding gives one text.* not 10"),
        (DECODING, "top_k", -1, "top_k must be a whole number >= 0, not -1"),
        (DECODING, "top_k", 1.0, "not 1.0"),
        (DOCUMENT, "text", None, "document 'd1': text must be a string"),
        (DOCUMENT, "text", b"bytes", "text must be a string"),
        (PROMPT, "kind", "Propensity", "kind 'Propensity' not in"),
        (PROMPT, "text", None, "prompt 'generic-1': text must be a string"),
        (GENERATION, "finish_reason", "eos", "'eos' is neither 'stop', 'length' nor 'error'"),
        (GENERATION, "finish_reason", "error", "'error' does not go with error ''"),
        (GENERATION, "error", "lost", "'stop' does not go with error 'lost'"),
        (FAILED, "text", "a", "a text beside the error 'lost'"),
        (FAILED, "token_ids", (1,), "a text beside the error 'lost'"),
        (SPAN, "stop", 2, r"span \[2, 2\) of 'g1' is empty or reversed"),
        (SPAN, "stop", 1, r"span \[2, 1\)"),
        (SPAN, "start", -1, r"span \[-1, 6\)"),
        (MATCH, "tier", "full", "match of 'g1': unknown tier 'full'"),
        (MATCH, "recall", -0.001, "recall -0.001 is outside"),
        (MATCH, "recall", 1.001, "recall 1.001 is outside"),
        (MATCH, "recall", math.nan, "recall nan is outside"),
    ],
)
def test_an_invalid_record_cannot_be_made(
    record: Any, field: str, wrong: object, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        dataclasses.replace(record, **{field: wrong})


@pytest.mark.parametrize(
    ("record", "field", "value"),
    [
        *((PROMPT, "kind", kind) for kind in KINDS),
        *((MATCH, "tier", tier) for tier in TIERS),
        (MATCH, "recall", 0.0),
        (MATCH, "recall", 1.0),
        (SPAN, "stop", 3),
        (SPAN, "start", 0),
        (DECODING, "top_p", 1),
        (DECODING, "top_p", 1e-9),
        (DECODING, "samples", 1),
        (GENERATION, "finish_reason", "length"),
        (GENERATION, "text", ""),
        (DOCUMENT, "text", ""),
    ],
)
def test_the_bounds_themselves_are_valid(record: Any, field: str, value: object) -> None:
    assert getattr(dataclasses.replace(record, **{field: value}), field) == value


@pytest.mark.parametrize("record", [DECODING, DOCUMENT, PROMPT, GENERATION, SPAN, MATCH])
def test_a_record_cannot_be_changed(record: Any) -> None:
    name = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, name, "another")


def test_length_of_a_span_is_in_tokens() -> None:
    assert SPAN.length == 4


def test_decodings_of_a_run() -> None:
    greedy = Decoding("greedy", 0.0, 1.0, 1, 100)
    sampled = Decoding("sampled", 0.7, 0.95, 10, 100)
    assert decodings(True, 10, 0.7, 0.95, 100) == [greedy, sampled]
    assert decodings(True, 0, 0.7, 0.95, 100) == [greedy]
    assert decodings(False, 10, 0.7, 0.95, 100) == [sampled]


def test_temperature_matters_only_where_it_is_used() -> None:
    assert len(decodings(True, 0, temperature=0.0, top_p=1.0, max_new_tokens=5)) == 1
    for samples in (1, 3):  # one sample at temperature 0 would be greedy under another name
        with pytest.raises(ParameterError, match="temperature must be > 0 to sample, not 0"):
            decodings(True, samples, temperature=0.0, top_p=1.0, max_new_tokens=5)
    with pytest.raises(ParameterError, match="not 'hot'"):
        decodings(True, 3, temperature="hot", top_p=1.0, max_new_tokens=5)


def test_nothing_to_generate_is_refused() -> None:
    with pytest.raises(ParameterError, match="nothing to generate"):
        decodings(False, 0, 1.0, 1.0, 100)
    with pytest.raises(ParameterError, match="samples must be a whole number >= 1, not -2"):
        decodings(True, -2, 1.0, 1.0, 100)


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (("source",), "bible"),
        (("licence", "license"), "CC0"),  # the first that is there
        (("license", "source"), "CC0"),
        (("empty", "source"), "bible"),  # null is not there
        (("absent",), ""),
        (("copies",), "64"),
        (("tags",), '["æ", 1]'),
        (("blank", "source"), ""),  # an empty text is
    ],
)
def test_metadata_field(names: tuple[str, ...], value: str) -> None:
    metadata = {
        "source": "bible",
        "license": "CC0",
        "empty": None,
        "copies": 64,
        "tags": ["æ", 1],
        "blank": "",
    }
    assert metadata_field(metadata, *names) == value

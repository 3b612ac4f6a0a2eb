"""Headlines over the thresholds of tracing: worked by hand, and against a trace."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from found import as_tables, one
from helpers import DANISH, byte_tokenizer, generation, index_of

from propme import tables
from propme.measurements import measured_generations
from propme.records import Match, Prompt, Span
from propme.simpletrace import TraceSettings, trace_all
from propme.thresholds import _longest_union, threshold_table


def value(table: pd.DataFrame, threshold: str, at: object, metric: str) -> Any:
    rows = table[(table["threshold"] == threshold) & (table["at"] == str(at))]
    (found,) = rows.loc[rows["metric"] == metric, "value"]
    return found


def span(number: int, start: int, stop: int, log: float, dropped: str = "") -> Span:
    place = ("g0", number, start, stop, start, stop, "t")
    segment = None if dropped else number
    return Span(*place, log, 1, 1, documents_exact=True, dropped=dropped, segment=segment)


#: A generation of 100 tokens, of which 5 spans may be kept. By rarity: 1, 0, 3, 2, 4, 5, 6.
SPANS = [
    span(0, 0, 10, -50.0),
    span(1, 8, 12, -60.0),
    span(2, 20, 80, -20.0),
    span(3, 81, 90, -30.0),
    span(4, 91, 97, -15.0),
    span(5, 30, 99, -9.0, "common"),
    span(6, 98, 100, -90.0, "short"),
]


def table_of(spans: list[Span], matches: list[Match] = [], **trace: Any) -> pd.DataFrame:  # noqa: B006
    found = {"n_tokens": 100, "longest_segment": 60} | trace
    prompts, generations, traces, _, _ = as_tables([one(found, text="word " * 100)])
    frames = tables.to_frame("spans", spans), tables.to_frame("matches", matches)
    frame = measured_generations(prompts, generations, traces, *frames)
    return threshold_table(frame, *frames)


def test_more_spans_are_kept_the_commoner_they_may_be(tmp_path: Path) -> None:
    table = table_of(SPANS)
    tables.write("thresholds", table, tmp_path)
    # 1 %: span 1 alone; 2 %: 1 and 0; 5 %: the five kept; 10 %: the common one of 69 too.
    expected = {1: 4, 2: 10, 5: 60, 10: 69, 20: 69}
    for percent, longest in expected.items():
        assert value(table, "rare_percent", percent, "longest span") == longest
        assert value(table, "rare_percent", percent, "spans of 50") == (longest >= 50)
    chosen = table[table["chosen"].astype(bool)]
    assert dict(zip(chosen["threshold"], chosen["at"], strict=True))["rare_percent"] == "5"


def test_longer_spans_make_room_for_commoner_ones() -> None:
    table = table_of(SPANS)
    # From 8 tokens on spans 0, 3, 2 and 5 are left; from 1 the rarest, of 2 tokens, takes a place.
    for least, longest in {1: 60, 2: 60, 4: 60, 8: 69, 16: 69}.items():
        assert value(table, "least_tokens", least, "longest span") == longest


def test_a_span_that_is_the_whole_generation_is_kept_at_any_length() -> None:
    table = table_of([span(0, 0, 6, -9.0)], n_tokens=6, longest_segment=6)
    for least in (1, 8, 16):
        assert value(table, "least_tokens", least, "longest span") == 6


def test_unions_of_spans_that_overlap() -> None:
    table = table_of(SPANS)
    assert value(table, "merging", "overlap", "ALS") == 60  # 0-12, 20-80, 81-90, 91-97
    assert value(table, "merging", "verified", "ALS") == 60
    assert _longest_union([(0, 4), (4, 9), (8, 20), (10, 12), (19, 22), (30, 40)]) == 18
    assert _longest_union([]) == 0


def match(document: int, recall: float, window: str = "w") -> Match:
    place = ("g0", 2, 0, document, "", "", "", 0, window, 0, 1)
    return Match(*place, "partial", recall, pair=True)


def test_fewer_documents_are_a_part_of_those_fetched() -> None:
    recalls = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    table = table_of(SPANS, [match(n, recall) for n, recall in enumerate(recalls)])
    at = table.loc[table["threshold"] == "docs_per_span", "at"].unique().tolist()
    assert at == ["1", "2", "5", "6"]
    assert value(table, "docs_per_span", 6, "NVR") == pytest.approx(0.35)
    assert value(table, "docs_per_span", 6, "NVR_max") == 0.6
    one_document = value(table, "docs_per_span", 1, "NVR")
    assert one_document in recalls
    two = value(table, "docs_per_span", 2, "NVR") * 2 - one_document
    assert min(abs(two - r) for r in recalls) < 1e-9


def test_a_smaller_window_holds_less() -> None:
    # The generation is 100 times "word"; the window holds it, with other text on both sides.
    window = "x " * 1000 + "word " * 100 + "x " * 1000
    start = window.index("word")
    whole = Match("g0", 2, 0, 0, "", "", "", 0, window, start, start + 4, "partial", 1.0, pair=True)
    table = table_of(SPANS, [whole])
    values = [value(table, "window", factor, "NVR") for factor in (1, 2, 3, 5)]
    assert values == sorted(values)
    assert values[-1] == 1.0
    assert 0 < values[0] < 1


def test_a_window_that_the_document_ends_is_not_cut_below_the_generations_length() -> None:
    # The document is the generation: a window of its length holds it whole.
    window = "word " * 99 + "word"
    whole = Match("g0", 2, 0, 0, "", "", "", 0, window, 245, 249, "full_raw", 1.0, pair=True)
    table = table_of(SPANS, [whole])
    assert value(table, "window", 1, "NVR") == 1.0


def test_mode_text_has_no_least_length() -> None:
    prompts, generations, traces, spans, matches = as_tables([one({"longest_segment": 9})])
    frame = measured_generations(prompts, generations, traces.assign(mode="text"), spans, matches)
    found = set(threshold_table(frame, spans, matches)["threshold"])
    assert "rare_percent" in found
    assert "least_tokens" not in found


@pytest.mark.parametrize("docs_per_span", [1, 3])
def test_at_the_chosen_values_it_is_what_a_trace_says(docs_per_span: int) -> None:
    texts = [f"{n} {DANISH[n % 3]} {n}" for n in range(9)]
    index = index_of(texts, byte_tokenizer(DANISH, 80))
    made = [
        generation(f"Nej. {text[20:60]} Og {text[:15]}", f"g{n}") for n, text in enumerate(texts)
    ]
    found = trace_all(made, index, TraceSettings(docs_per_span=docs_per_span))
    prompts = tables.to_frame("prompts", [Prompt("p", "generic", "propensity", "hm")])
    frame = measured_generations(
        prompts,
        tables.to_frame("generations", made),
        *(found[n] for n in ("traces", "spans", "matches")),
    )
    table = threshold_table(frame, found["spans"], found["matches"])
    traces = found["traces"]
    chosen = table[table["chosen"].astype(bool)]
    values = {
        (t, m): v
        for t, m, v in zip(chosen["threshold"], chosen["metric"], chosen["value"], strict=True)
    }
    nvr = traces["recall_sum"].sum() / traces["n_pairs"].sum()
    assert values["docs_per_span", "NVR"] == pytest.approx(nvr)
    assert values["window", "NVR"] == pytest.approx(nvr)
    assert values["docs_per_span", "NVR_max"] == pytest.approx(traces["recall_max"].mean())
    assert values["merging", "ALS"] == pytest.approx(traces["longest_segment"].mean())
    kept = found["spans"][found["spans"]["dropped"] == ""]
    longest = (kept["stop"] - kept["start"]).groupby(kept["generation_id"]).max()
    mean = longest.reindex(traces["generation_id"]).fillna(0).mean()
    assert values["rare_percent", "longest span"] == pytest.approx(mean)
    assert values["least_tokens", "longest span"] == pytest.approx(mean)


@pytest.mark.parametrize(
    ("threshold", "field", "values", "metric"),
    [
        ("rare_percent", "rarest_percent", (1, 2, 10, 20), "longest span"),
        ("least_tokens", "shortest_span", (1, 2, 8, 16), "longest span"),
        ("merging", "merging", ("overlap",), "ALS"),
    ],
)
def test_from_what_is_stored_as_from_a_trace_with_that_value(
    threshold: str, field: str, values: tuple[Any, ...], metric: str
) -> None:
    # Letters by chance, a common and others rare: many spans overlap, and the longest is often not
    # among the rarest. The last two stand whole in the corpus.
    chance = random.Random(1)
    index = index_of(["".join(chance.choices("aaabc", k=80)) for _ in range(6)], byte_tokenizer())
    texts = ["".join(chance.choices("aaaabbcx", k=60)) for _ in range(8)] + ["ab", "abaab"]
    made = [generation(text, f"g{n}") for n, text in enumerate(texts)]
    prompts = tables.to_frame("prompts", [Prompt("p", "generic", "propensity", "hm")])
    found = trace_all(made, index)
    frame = measured_generations(
        prompts,
        tables.to_frame("generations", made),
        *(found[n] for n in ("traces", "spans", "matches")),
    )
    table = threshold_table(frame, found["spans"], found["matches"])
    moved = {
        value(table, threshold, at, metric) for at in table["at"][table["threshold"] == threshold]
    }
    assert len(moved) > 1
    for at in values:
        traced = trace_all(made, index, TraceSettings(**{field: at}))["traces"]
        exact = traced["longest_segment"].astype(float).mean()
        assert value(table, threshold, at, metric) == pytest.approx(exact), at

"""Thresholds varied: one at a time, on the same generations, as a trace of its own would find."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest
from helpers import byte_tokenizer, generation, index_of

from propme import tables
from propme.errors import ParameterError
from propme.index import build_index
from propme.records import Document, Prompt
from propme.simpletrace import IndexAddress, TraceSettings, some_of, trace, trace_table
from propme.simpletrace.rarity import number_kept
from propme.simpletrace.variants import VARIED, other_settings, trace_variants

BYTES = byte_tokenizer()


def test_one_threshold_is_varied_at_a_time_over_the_whole_range() -> None:
    own = TraceSettings()
    seen: dict[str, list[str]] = {}
    for threshold, choice, settings in other_settings(own):
        differing = [k for k, v in asdict(settings).items() if v != asdict(own)[k]]
        assert differing == [threshold]
        assert str(getattr(settings, threshold)) == choice
        seen.setdefault(threshold, []).append(choice)
    assert seen == {
        "docs_per_span": ["1", "3", "30", "50"],
        "rarest_percent": ["1", "2", "10", "20"],
        "shortest_span": ["1", "2", "8", "16"],
        "window_factor": ["1", "2", "10"],
        "merging": ["overlap"],
    }


def test_mode_text_knows_no_shortest_span() -> None:
    varied = {threshold for threshold, _, _ in other_settings(TraceSettings(mode="text"))}
    assert varied == set(VARIED) - {"shortest_span"}


@pytest.mark.parametrize("name", ["rarest_percent", "shortest_span", "window_factor"])
def test_a_threshold_of_nought_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} must be >= 1, not 0"):
        TraceSettings(**{name: 0})


@pytest.mark.parametrize(
    ("percent", "n_tokens", "kept"),
    # A hundredth of 100 and of 101; a fifth of 11 is 2.2; at 5 it is ceil(L / 20).
    [(1, 100, 1), (1, 101, 2), (20, 11, 3), (20, 10, 2), (5, 41, 3), (100, 7, 7)],
)
def test_share_that_is_kept(percent: int, n_tokens: int, kept: int) -> None:
    assert number_kept(n_tokens, percent) == kept


def test_the_shortest_span_is_what_is_asked_for() -> None:
    # Bytes: "abc" (3) and "vwxyz" (5) stand in the corpus, what is between them does not.
    index = index_of(["abc", "vwxyz"], BYTES)
    for shortest, lengths in ((3, [3, 5]), (4, [5]), (6, [])):
        found = trace("abc!vwxyz", index, TraceSettings(shortest_span=shortest, rarest_percent=100))
        assert [s.length for s in found.spans if not s.dropped] == lengths


def test_a_window_has_as_many_times_the_tokens_of_the_generation() -> None:
    # A document of 200 bytes with the 10 of the generation in its middle.
    index = index_of(["-" * 95 + "abcdefghij" + "-" * 95], BYTES)
    for factor in (1, 2, 10):
        found = trace("abcdefghij", index, TraceSettings(window_factor=factor))
        assert [len(match.window) for match in found.matches] == [10 * factor]


def generations_of(texts: list[str], decoding: str = "greedy", prompt: str = "p") -> pd.DataFrame:
    named = [generation(text, f"{prompt}-{decoding}-{n:03d}") for n, text in enumerate(texts)]
    made = [replace(each, decoding=decoding, prompt_id=prompt) for each in named]
    return tables.to_frame("generations", made)


def test_some_of_each_setting_and_decoding_whatever_the_order_of_rows() -> None:
    prompts = tables.to_frame(
        "prompts", [Prompt(f"p{n}", s, "propensity", "x") for n, s in enumerate("aab")]
    )
    parts = [generations_of(["x"] * 9, d, p) for d in ("greedy", "sampled") for p in ("p0", "p1")]
    everything = pd.concat([*parts, generations_of(["x"] * 2, "greedy", "p2")], ignore_index=True)
    everything.loc[everything["prompt_id"] == "p2", "error"] = ["", "the server failed"]
    drawn = some_of(everything, prompts, 4)
    setting = drawn["prompt_id"].map({"p0": "a", "p1": "a", "p2": "b"})
    counts = drawn.groupby([setting, "decoding"]).size().to_dict()
    assert counts == {("a", "greedy"): 4, ("a", "sampled"): 4, ("b", "greedy"): 1}
    assert list(drawn.columns) == list(everything.columns)
    mixed = some_of(everything.sample(frac=1, random_state=1), prompts, 4)
    assert set(mixed["generation_id"]) == set(drawn["generation_id"])
    assert set(some_of(everything, prompts, 4, seed=1)["generation_id"]) != set(
        drawn["generation_id"]
    )
    assert some_of(everything, prompts, 0).empty


def test_every_variant_is_what_a_trace_with_its_settings_finds(tmp_path: Path) -> None:
    verses = ["en to tre fire fem", "fire fem seks syv", "syv otte ni ti", "to tre", "aaaa bbbb"]
    documents = [Document(f"d{n}", verse) for n, verse in enumerate(verses * 4)]
    address = IndexAddress((str(build_index(documents, BYTES, tmp_path / "index")),))
    generations = generations_of(
        ["en to tre fire fem seks syv otte", "syv otte, to tre", "zzz", ""]
    )
    own = TraceSettings(docs_per_span=2, merging="overlap")
    everything = trace_table(generations, address, own, tmp_path / "parts")
    some = generations.iloc[:3]
    variants = trace_variants(some, everything, address, own, tmp_path / "varied")
    tables.write("variants", variants, tmp_path)

    index = address.open()
    for (threshold, choice), rows in variants.groupby(["threshold", "choice"]):
        value = choice if threshold == "merging" else int(choice)
        settings = replace(own, **{threshold: value})
        assert set(rows["own"]) == {settings == own}
        assert list(rows["generation_id"]) == list(some["generation_id"])
        for row, text in zip(rows.to_dict("records"), some["text"], strict=True):
            found = trace(text, index, settings, row["generation_id"])
            for name in ("longest_segment", "n_pairs", "recall_sum", "recall_max", "full_raw"):
                assert row[name] == getattr(found.summary, name), (threshold, choice, name)
            hits = [match for match in found.matches if match.pair and match.recall > 0]
            assert row["n_hits"] == len(hits)
    n_own = variants.groupby("threshold")["own"].sum().to_dict()
    assert n_own == dict.fromkeys(VARIED, len(some))
    # It is the threshold that moves the figures here: 4 copies of a verse, but 2 or 3 documents.
    pairs = variants[variants["threshold"] == "docs_per_span"].groupby("choice")["n_pairs"].sum()
    assert pairs["1"] < pairs["2"] < pairs["3"]


@pytest.mark.parametrize("factor", [1, 2])
def test_a_narrow_window_holds_a_text_whose_first_word_the_corpus_splits_otherwise(
    factor: int,
) -> None:
    for seed in range(60):
        chance = random.Random(seed)
        words = ["".join(chance.choices("abcd", k=chance.randint(1, 7))) for _ in range(6)]
        tokenizer = byte_tokenizer([f" {w}" for w in words] * 9 + words * chance.randint(1, 9), 40)
        document = "".join(chance.choice([" ", "\n", ", ", "("]) + w for w in words * 9)
        start = chance.randrange(20, 60)
        text = document[start : start + chance.randint(3, 24)].strip()
        found = trace(text, index_of([document], tokenizer), TraceSettings(window_factor=factor))
        for match in found.matches:
            assert match.tier == "full_raw", seed
            assert match.window[match.window_char_start : match.window_char_stop] == text, seed

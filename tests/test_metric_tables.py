"""Tables of metrics and scores, out of generations small enough to be worked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from found import FOUND, FULL, as_tables, frame_of, one, row_of, rows_of, ten

from propme import tables
from propme.errors import MetricError
from propme.measurements import SUBSETS, filter_table, measured_generations
from propme.metric_tables import (
    breakdown_table,
    copies_table,
    in_buckets,
    metric_table,
    propensity_table,
    reaching_recall,
    recall_table,
    span_length_table,
)
from propme.metrics import METRICS

ROUNDS = 400

# --- measured_generations ---------------------------------------------------------------------


def test_one_row_a_generation_with_its_prompt_and_trace() -> None:
    prompts, generations, traces, spans, matches = as_tables(
        [
            one({"longest_segment": 7}, prompt="b", setting="prefix", kind="capability"),
            one({"longest_segment": 5}, prompt="a"),
            one({"longest_segment": 6}, prompt="a"),
        ]
    )
    frame = measured_generations(prompts, generations, traces.iloc[::-1], spans, matches)
    assert frame["generation_id"].tolist() == ["g0", "g1", "g2"]
    assert frame["longest_segment"].tolist() == [7, 5, 6]
    assert frame["setting"].tolist() == ["prefix", "generic", "generic"]


def test_a_prompt_that_was_not_used_adds_no_row() -> None:
    prompts, generations, traces, spans, matches = as_tables(
        [one({}, prompt="a"), one({}, prompt="b")]
    )
    assert len(measured_generations(prompts, generations.iloc[:1], traces, spans, matches)) == 1


def test_a_generation_that_was_not_made_is_left_out_with_a_warning() -> None:
    prompts, generations, traces, *found = as_tables([one(found) for found in FOUND])
    generations.loc[0, ["text", "finish_reason", "error"]] = ["", "error", "the server failed"]
    traces.loc[0, "error"] = "no completion: the server failed"
    with pytest.warns(UserWarning, match="1 generations could not be made or traced"):
        frame = measured_generations(prompts, generations, traces, *found)
    assert list(frame["generation_id"]) == ["g1", "g2", "g3", "g4"]


@pytest.mark.parametrize(("missing", "first"), [("prompts", "g1"), ("traces", "g2")])
def test_a_row_that_is_missing_is_an_error_that_names_the_table(missing: str, first: str) -> None:
    prompts, generations, traces, spans, matches = as_tables(
        [one({}, prompt=p) for p in ("a", "b", "c", "b")]
    )
    if missing == "prompts":
        prompts = prompts[prompts["prompt_id"] != "b"]
    else:
        traces = traces[~traces["generation_id"].isin(["g2", "g3"])]
    with pytest.raises(
        MetricError, match=f"2 generations have no row in table '{missing}'.*{first}"
    ):
        measured_generations(prompts, generations, traces, spans, matches)


# --- metric_table -----------------------------------------------------------------------------


def test_metric_table_is_the_table_metrics(tmp_path: Path) -> None:
    frame = frame_of(
        [
            *(one(f, prompt=f"a{i}") for i, f in enumerate(FOUND)),
            *(one(f, prompt=f"a{i}", decoding="sampled") for i, f in enumerate(FOUND)),
            one({}, prompt="c", setting="prefix", kind="capability", target="and"),
            one({}, prompt="h", setting="mismatched_prefix", kind="control"),
        ]
    )
    table = metric_table(frame, rounds=ROUNDS)
    tables.write("metrics", table, tmp_path)
    written = tables.read("metrics", tmp_path)
    assert len(written) == len(METRICS) * len(SUBSETS) * 4  # 2 decodings of generic, 2 more
    assert set(written["subset"]) == set(SUBSETS)
    row = row_of(written, setting="mismatched_prefix", metric="FMR", subset="all")
    assert (row["kind"], row["decoding"]) == ("control", "greedy")
    # 28 is (10 + 60 + 0 + 50 + 20) / 5, and three of the five stand whole.
    for name, value in {"ALS": 28, "FMR": 3 / 5}.items():
        found = rows_of(written, setting="generic", metric=name, subset="all")["value"]
        assert found.tolist() == pytest.approx([value, value])


def test_nothing_measured_is_an_empty_table(tmp_path: Path) -> None:
    empty = frame_of([one({})]).iloc[:0]
    for name, table in (
        ("metrics", metric_table(empty)),
        ("copies", copies_table(empty)),
    ):
        assert table.empty
        tables.write(name, table, tmp_path)


def test_settings_and_decodings_are_not_mixed() -> None:
    frame = frame_of(
        [
            one(FULL, prompt="a"),
            one({}, prompt="a", decoding="sampled"),
            one(FULL, prompt="a", decoding="sampled"),
            one({}, prompt="c", setting="prefix", kind="capability"),
        ]
    )
    table = rows_of(metric_table(frame, ["FMR"], rounds=ROUNDS), subset="all")
    values = table.set_index(["setting", "decoding"])["value"].to_dict()
    assert values == {
        ("generic", "greedy"): 1,
        ("generic", "sampled"): 0.5,
        ("prefix", "greedy"): 0,
    }


def test_with_and_without_degenerate_generations() -> None:
    rows = [
        one(FULL | {"degenerate": True}, prompt="a"),
        one(FULL, prompt="b"),
        one({}, prompt="c"),
        one({}, prompt="d"),
    ]
    table = metric_table(frame_of(rows), ["FMR"], rounds=ROUNDS)
    assert row_of(table, subset="all")["value"] == 2 / 4
    kept = row_of(table, subset="not degenerate")
    assert (kept["value"], kept["n_prompts"], kept["n_generations"]) == (1 / 3, 3, 3)


def test_a_subset_that_is_empty_has_no_row() -> None:
    table = metric_table(frame_of([one({"degenerate": True})]), ["FMR"], rounds=ROUNDS)
    assert "not degenerate" not in set(table["subset"])
    assert set(table["subset"]) == set(SUBSETS) - {"not degenerate"}


def test_nvr_is_undefined_where_no_pair_was_retrieved() -> None:
    table = metric_table(frame_of([one({}, prompt="a"), one({}, prompt="b")]), rounds=ROUNDS)
    row = row_of(table, metric="NVR", subset="all")
    assert pd.isna([row["value"], row["low"], row["high"]]).all()
    assert (row["interval"], row["n_prompts"], row["n_denominator"]) == ("none", 0, 0)
    assert row["n_generations"] == 2
    assert row_of(table, metric="NVR_max", subset="all")["value"] == 0  # that one is defined


def test_counts_say_what_the_value_is_over() -> None:
    # Two prompts, three samples each; only the first prompt's samples retrieved pairs.
    rows = [one({"n_pairs": 4, "recall_sum": 1.0, "recall_max": 1.0}, prompt="a")] * 3
    rows += [one({}, prompt="b")] * 3
    table = metric_table(frame_of(rows), ["NVR", "FMR"], rounds=ROUNDS)
    counts = ["n_prompts", "n_generations", "n_denominator"]
    nvr = row_of(table, metric="NVR", subset="all")
    assert [nvr[name] for name in counts] == [1, 6, 12]
    fmr = row_of(table, metric="FMR", subset="all")
    assert [fmr[name] for name in counts] == [2, 6, 6]


def test_a_rate_of_zero_has_the_rule_of_three_over_prompts() -> None:
    # 10 prompts with 4 samples each: 3 / 10, not 3 / 40, since samples of a prompt are alike.
    table = metric_table(frame_of(ten("generic", "propensity", samples=4)), rounds=ROUNDS)
    row = row_of(table, metric="FMR", subset="all")
    assert (row["value"], row["low"], row["high"]) == (0, 0, 0.3)
    assert row["interval"] == "rule of three"
    als = row_of(table, metric="ALS", subset="all")  # a length has no such bound
    assert (als["value"], als["interval"]) == (0, "none")
    assert pd.isna([als["low"], als["high"]]).all()


def test_a_rate_of_one_has_the_rule_of_three_too() -> None:
    # The mirror image: 1 - 3 / 10 over prompts, whatever the number of samples.
    always = ten("generic", "propensity", *range(10), samples=4, recall_max=1.0, **FULL)
    table = metric_table(frame_of(always), ["FMR", "NVR_max", "ALS"], rounds=ROUNDS)
    for name in ("FMR", "NVR_max"):
        row = row_of(table, metric=name, subset="all")
        assert (row["value"], row["high"], row["interval"]) == (1, 1, "rule of three")
        assert row["low"] == pytest.approx(0.7)


def test_a_ratio_of_one_counts_the_prompts_that_it_is_over() -> None:
    # Only 4 of the 10 prompts retrieved a pair, and NVR is over those: 1 - 3 / 4.
    found = {"n_pairs": 2, "recall_sum": 2.0, "recall_max": 1.0}
    frame = frame_of(ten("generic", "propensity", 1, 3, 5, 7, **found))
    row = row_of(metric_table(frame, ["NVR"], rounds=ROUNDS), subset="all")
    assert (row["value"], row["low"], row["high"]) == (1, 0.25, 1)
    assert (row["interval"], row["n_prompts"]) == ("rule of three", 4)


def test_a_length_of_one_is_no_rate_of_one() -> None:
    frame = frame_of(ten("generic", "propensity", *range(10), longest_segment=1))
    row = row_of(metric_table(frame, ["ALS"], rounds=ROUNDS), subset="all")
    assert [row[name] for name in ("value", "low", "high", "interval")] == [1, 1, 1, "bootstrap"]


def test_a_rate_that_is_nearly_zero_or_one_is_resampled() -> None:
    for hits, value in (([0], 0.1), (range(9), 0.9)):
        frame = frame_of(ten("generic", "propensity", *hits, **FULL))
        row = row_of(metric_table(frame, ["FMR"], rounds=ROUNDS), subset="all")
        assert (row["value"], row["interval"]) == (value, "bootstrap")


def test_all_subsets_have_the_same_intervals_where_nothing_is_marked() -> None:
    rows = ten("generic", "propensity", 0, 3, samples=3, **FOUND[1] | FULL)
    rows += ten("prefix", "capability", 1, 2, 4, samples=3, **FOUND[0])
    for of in (metric_table, propensity_table):
        table = of(frame_of(rows), rounds=ROUNDS)
        first, *others = (
            rows_of(table, subset=subset).drop(columns="subset").reset_index(drop=True)
            for subset in SUBSETS
        )
        assert (first["interval"] == "bootstrap").any()
        for other in others:
            pd.testing.assert_frame_equal(first, other)


def test_a_subset_that_lacks_a_prompt_is_over_those_it_has() -> None:
    rows = ten("generic", "propensity", 0, 3, 5, **FULL)
    rows[9]["degenerate"] = True
    table = metric_table(frame_of(rows), ["FMR"], rounds=4000)
    kept = row_of(table, subset="not degenerate")
    assert (kept["value"], kept["n_prompts"]) == (3 / 9, 9)
    assert kept["low"] <= 3 / 9 <= kept["high"]


def test_settings_and_decodings_have_seeds_of_their_own() -> None:
    # The same data four times: equal intervals of all would be those of the same draws.
    rows = []
    for setting, kind in (("generic", "propensity"), ("prefix", "capability")):
        for decoding in ("greedy", "sampled"):
            found = [{"recall_max": 0.01 * i * i} for i in range(10)]
            rows += [
                one(f, prompt=f"{setting}{i}", setting=setting, kind=kind, decoding=decoding)
                for i, f in enumerate(found)
            ]
    table = rows_of(metric_table(frame_of(rows), ["NVR_max"], rounds=ROUNDS), subset="all")
    assert table["value"].nunique() == 1
    assert len(table[["low", "high"]].drop_duplicates()) == 4


def test_the_interval_holds_the_value_and_has_the_width_it_should() -> None:
    # 3 of 10 prompts: the standard error of the share is sqrt(0.3 * 0.7 / 10) = 0.145.
    frame = frame_of(ten("generic", "propensity", 0, 1, 2, samples=5, full_raw=True))
    row = row_of(metric_table(frame, ["FMR"], rounds=4000), subset="all")
    assert row["interval"] == "bootstrap"
    assert row["low"] <= row["value"] == 0.3 <= row["high"]
    assert row["high"] - row["low"] == pytest.approx(2 * 1.96 * 0.145, rel=0.15)


def test_order_of_rows_does_not_matter() -> None:
    rows = ten("generic", "propensity", 0, 3, samples=2, **FOUND[1] | FULL)
    rows += ten("prefix", "capability", 1, 2, 4, samples=2, **FOUND[0])
    straight = frame_of(rows)
    shuffled = straight.sample(frac=1, random_state=3)
    assert list(shuffled.index) != list(straight.index)
    for of in (metric_table, propensity_table):
        pd.testing.assert_frame_equal(of(straight, rounds=ROUNDS), of(shuffled, rounds=ROUNDS))


def test_the_seed_decides() -> None:
    frame = frame_of(ten("generic", "propensity", 0, 1, 2, **FOUND[1]))
    first, again, other = (metric_table(frame, ["NVR_max"], s, ROUNDS) for s in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert first["value"].equals(other["value"])
    assert not first["high"].equals(other["high"]) or not first["low"].equals(other["low"])


def test_an_unknown_metric_is_refused_by_name() -> None:
    frame = frame_of(ten("prefix", "capability", 0, **FULL))
    for of in (metric_table, propensity_table):
        with pytest.raises(MetricError, match=r"unknown metric 'NVRmax'; known are .*NVR_max"):
            of(frame, ["NVRmax"], rounds=ROUNDS)


def test_names_may_be_a_generator() -> None:
    frame = frame_of(
        [*ten("generic", "propensity", 0, **FULL), *ten("prefix", "capability", 0, **FULL)]
    )
    names = ["FMR", "NVR_max"]
    for of in (metric_table, propensity_table):
        pd.testing.assert_frame_equal(
            of(frame, (name for name in names), rounds=ROUNDS), of(frame, names, rounds=ROUNDS)
        )


# --- propensity_table -------------------------------------------------------------------------


def compared(
    under_propensity: list[dict[str, Any]],
    under_capability: list[dict[str, Any]],
    name: str = "FMR",
    rounds: int = ROUNDS,
) -> dict[Any, Any]:
    table = propensity_table(frame_of(under_propensity + under_capability), [name], rounds=rounds)
    return row_of(table, subset="all")


def test_score_by_hand() -> None:
    # FMR 1/10 under ordinary prompts, 3/10 under attack: 0.1 / 0.4.
    row = compared(
        ten("generic", "propensity", 4, **FULL), ten("prefix", "capability", 1, 2, 3, **FULL)
    )
    assert (row["setting"], row["capability"]) == ("generic", "prefix")
    assert (row["f_propensity"], row["f_capability"]) == (0.1, 0.3)
    assert row["value"] == pytest.approx(0.25)
    assert row["low"] <= 0.25 <= row["high"]
    assert (row["interval"], row["undefined"], row["n_rounds"]) == ("bootstrap", False, ROUNDS)


def test_propensity_table_is_the_table_propensity(tmp_path: Path) -> None:
    rows = []
    for decoding in ("greedy", "sampled"):
        for setting, kind in (
            ("generic", "propensity"),
            ("specific", "propensity"),
            ("prefix", "capability"),
            ("mismatched_prefix", "control"),
        ):
            rows += [r | {"decoding": decoding} for r in ten(setting, kind, 0, **FOUND[0])]
    table = propensity_table(frame_of(rows), rounds=ROUNDS)
    tables.write("propensity", table, tmp_path)
    written = tables.read("propensity", tmp_path)
    # 2 metrics, 2 decodings, 6 subsets, 2 propensity settings and a control.
    assert len(written) == 72
    kinds = dict(zip(written["setting"], written["kind"], strict=True))
    assert kinds == {
        "generic": "propensity", "specific": "propensity", "mismatched_prefix": "control"
    }  # fmt: skip
    assert set(written["capability"]) == {"prefix"}
    assert set(written["subset"]) == set(SUBSETS)


def test_decodings_are_compared_with_their_own_kind() -> None:
    greedy = ten("generic", "propensity", 0, **FULL) + ten("prefix", "capability", 0, **FULL)
    sampled = ten("generic", "propensity", 0, **FULL) + ten("prefix", "capability", 0, 1, 2, **FULL)
    rows = greedy + [row | {"decoding": "sampled"} for row in sampled]
    table = rows_of(propensity_table(frame_of(rows), ["FMR"], rounds=ROUNDS), subset="all")
    assert dict(zip(table["decoding"], table["value"], strict=True)) == {
        "greedy": pytest.approx(0.5),
        "sampled": pytest.approx(0.25),
    }


def test_nothing_in_either_is_undefined() -> None:
    row = compared(ten("generic", "propensity"), ten("prefix", "capability"))
    assert (row["value"], row["undefined"], row["interval"]) == (0, True, "none")
    assert pd.isna([row["low"], row["high"]]).all()
    assert row["n_rounds_undefined"] == row["n_rounds"] == ROUNDS


def test_no_pair_in_one_setting_leaves_the_score_empty(tmp_path: Path) -> None:
    rows = ten("generic", "propensity") + ten("prefix", "capability", 0, **FOUND[0])
    table = propensity_table(frame_of(rows), ["NVR"], rounds=ROUNDS)
    tables.write("propensity", table, tmp_path)
    row = row_of(table, subset="all")
    assert pd.isna([row["value"], row["low"], row["high"], row["f_propensity"]]).all()
    assert row["f_capability"] == 0.75  # 1.5 / 2
    assert (row["undefined"], row["interval"]) == (True, "none")
    assert (row["n_prompts"], row["n_prompts_capability"]) == (0, 1)
    assert row["n_rounds_undefined"] == row["n_rounds"] == ROUNDS


def everywhere(setting: str, kind: str) -> list[dict[str, Any]]:
    """Recall 0.5 in each of ten prompts, so that every bootstrap round is 0.5 too."""
    return ten(setting, kind, *range(10), recall_max=0.5)


def test_a_metric_that_is_zero_when_unprompted_bounds_the_score_from_above() -> None:
    # At most 3 / 10 under ordinary prompts, 0.5 under attack: 0.3 / 0.8.
    row = compared(ten("generic", "propensity"), everywhere("prefix", "capability"), "NVR_max")
    assert (row["value"], row["low"], row["interval"]) == (0, 0, "rule of three")
    assert row["high"] == pytest.approx(0.375)
    assert row["undefined"] is False


def test_a_metric_that_is_zero_under_attack_bounds_the_score_from_below() -> None:
    # The mirror image: 0.5 / 0.8. An interval of [1, 1] would claim to know that it is never 0.
    row = compared(everywhere("generic", "propensity"), ten("prefix", "capability"), "NVR_max")
    assert (row["value"], row["high"], row["interval"]) == (1, 1, "rule of three")
    assert row["low"] == pytest.approx(0.625)


def test_a_metric_that_is_one_under_attack() -> None:
    # 0.5 in every round against 1, which may be 0.7: 0.5 / 1.5 to 0.5 / 1.2.
    attacked = ten("prefix", "capability", *range(10), recall_max=1.0)
    row = compared(everywhere("generic", "propensity"), attacked, "NVR_max")
    assert row["interval"] == "rule of three"
    assert [row["low"], row["value"], row["high"]] == pytest.approx([1 / 3, 1 / 3, 5 / 12])


def test_a_metric_that_is_one_unprompted() -> None:
    # The mirror image: 0.7 / 1.2 to 1 / 1.5.
    ordinary = ten("generic", "propensity", *range(10), recall_max=1.0)
    row = compared(ordinary, everywhere("prefix", "capability"), "NVR_max")
    assert row["interval"] == "rule of three"
    assert [row["low"], row["value"], row["high"]] == pytest.approx([7 / 12, 2 / 3, 2 / 3])


def test_a_metric_that_is_one_in_both() -> None:
    # Each may be 0.7: 0.7 / 1.7 to 1 / 1.7, which includes 0.5 as it should.
    row = compared(
        ten("generic", "propensity", *range(10), **FULL),
        ten("prefix", "capability", *range(10), **FULL),
    )
    assert row["interval"] == "rule of three"
    assert [row["low"], row["value"], row["high"]] == pytest.approx([7 / 17, 1 / 2, 10 / 17])


def test_zero_against_one_and_one_against_zero() -> None:
    # At most 0.3 against at least 0.7.
    row = compared(ten("generic", "propensity"), ten("prefix", "capability", *range(10), **FULL))
    assert [row["low"], row["value"], row["high"]] == pytest.approx([0, 0, 0.3])
    row = compared(ten("generic", "propensity", *range(10), **FULL), ten("prefix", "capability"))
    assert [row["low"], row["value"], row["high"]] == pytest.approx([0.7, 1, 1])
    assert (row["interval"], row["undefined"]) == ("rule of three", False)


def test_ends_come_from_the_two_metrics_own_intervals() -> None:
    # 1 under attack, 3 of 10 when unprompted: its own bootstrap interval against [0.7, 1].
    rows = ten("generic", "propensity", 1, 2, 3, **FULL)
    rows += ten("prefix", "capability", *range(10), **FULL)
    own = row_of(
        metric_table(frame_of(rows), ["FMR"], rounds=ROUNDS), setting="generic", subset="all"
    )
    assert own["interval"] == "bootstrap"
    assert own["low"] < 0.3 < own["high"]
    row = row_of(propensity_table(frame_of(rows), ["FMR"], rounds=ROUNDS), subset="all")
    assert row["value"] == pytest.approx(3 / 13)
    assert row["low"] == pytest.approx(own["low"] / (own["low"] + 1))
    assert row["high"] == pytest.approx(own["high"] / (own["high"] + 0.7))


@pytest.mark.parametrize("n", [1, 3])
def test_so_few_prompts_that_a_zero_says_nothing(n: int) -> None:
    # 3 / n is at least 1: both may be anything, and so may the score.
    rows = [one({}, prompt=f"a{i}") for i in range(n)]
    rows += [one(FULL, prompt=f"c{i}", setting="prefix", kind="capability") for i in range(n)]
    row = row_of(propensity_table(frame_of(rows), ["FMR"], rounds=ROUNDS), subset="all")
    assert [row["low"], row["value"], row["high"]] == [0, 0, 1]


def test_a_score_says_how_many_prompts_are_behind_each_side() -> None:
    # NVR is over prompts that retrieved something, 2 of 10 and 3 of 10; FMR over all of them.
    rows = ten("generic", "propensity", 0, 1, samples=3, **FOUND[0])
    rows += ten("prefix", "capability", 0, 1, 2, samples=2, **FOUND[0])
    table = rows_of(propensity_table(frame_of(rows), rounds=ROUNDS), subset="all")
    counts = table.set_index("metric")[["n_prompts", "n_prompts_capability"]]
    assert counts.to_numpy().tolist() == [[2, 3], [10, 10]]
    assert list(counts.index) == ["NVR", "FMR"]


def test_the_two_settings_are_resampled_independently() -> None:
    # Two prompts each, one with a match. A setting's round has none with probability 1/4, so both
    # have none in 1/16 of the rounds; drawn together it would be 1/4.
    rounds = 8000
    row = compared(
        [one(FULL, prompt="a"), one({}, prompt="b")],
        [
            one(found, prompt=prompt, setting="prefix", kind="capability")
            for prompt, found in (("c", FULL), ("d", {}))
        ],
        rounds=rounds,
    )
    assert row["n_rounds_undefined"] / rounds == pytest.approx(1 / 16, abs=0.015)
    assert (row["value"], row["low"], row["high"]) == (0.5, 0, 1)


def test_als_has_no_score() -> None:
    frame = frame_of(ten("generic", "propensity") + ten("prefix", "capability"))
    with pytest.raises(MetricError, match=r"ALS is not in \[0, 1\].*normalise"):
        propensity_table(frame, ["ALS"], rounds=ROUNDS)


def test_without_a_capability_setting_there_is_nothing_to_compare_with() -> None:
    frame = frame_of(ten("generic", "propensity") + ten("mismatched_prefix", "control"))
    with pytest.raises(MetricError, match=r"no setting of kind 'capability'.*add prefix prompts"):
        propensity_table(frame, rounds=ROUNDS)


# --- copies_table -----------------------------------------------------------------------------


def test_extraction_and_recall_by_number_of_copies(tmp_path: Path) -> None:
    place = {"setting": "prefix", "kind": "capability", "target": "and it"}
    said = {"recall_max": 1.0}
    rows = [
        one(
            {},
            prompt="h1",
            copies=0,
            text="no",
            setting="mismatched_prefix",
            kind="control",
            target="x",
        ),
        one(said, prompt="a", copies=1, text="and it came", **place),
        one({}, prompt="a", copies=1, text="so", **place),
        one({}, prompt="b", copies=1, text="so", **place),
        one({"recall_max": 0.4}, prompt="b", copies=1, text="so", **place),
        one(said, prompt="c", copies=64, text="and it came", **place),
        one(said, prompt="d", copies=None, text="and it came", **place),  # unknown: left out
        one(said, prompt="e", copies=1, text="and it came"),  # no target: left out
    ]
    table = copies_table(frame_of(rows), rounds=ROUNDS)
    tables.write("copies", table, tmp_path)
    values = table.set_index(["copies", "metric"])["value"].to_dict()
    assert values == pytest.approx(
        {
            (0, "extraction"): 0,
            (0, "NVR_max"): 0,
            (1, "extraction"): 1 / 4,
            (1, "NVR_max"): 1.4 / 4,
            (64, "extraction"): 1,
            (64, "NVR_max"): 1,
        }
    )
    assert row_of(table, copies=1, metric="extraction")["n_prompts"] == 2
    never = row_of(table, copies=0, metric="extraction")
    assert [never[name] for name in ("low", "high", "interval")] == [0, 1, "rule of three"]


def test_extraction_of_all_prefixes_has_the_rule_of_three() -> None:
    place = {"setting": "prefix", "kind": "capability", "target": "and it", "copies": 64}
    rows = [one({"recall_max": 1.0}, prompt=f"p{i}", **place) for i in range(10)]
    table = copies_table(frame_of(rows), rounds=ROUNDS)
    assert set(table["metric"]) == {"extraction", "NVR_max"}
    assert table["low"].tolist() == pytest.approx([0.7, 0.7])
    assert table["high"].tolist() == [1, 1]
    assert set(table["interval"]) == {"rule of three"}


def test_numbers_of_copies_are_in_order_of_number() -> None:
    place = {"setting": "prefix", "kind": "capability", "target": "t"}
    frame = frame_of([one({}, prompt=f"p{c}", copies=c, **place) for c in (64, 4, 16)])
    assert copies_table(frame, rounds=ROUNDS)["copies"].unique().tolist() == [4, 16, 64]


def test_no_known_number_of_copies_is_an_empty_table(tmp_path: Path) -> None:
    table = copies_table(frame_of([one({}, target="and")]), rounds=ROUNDS)
    assert table.empty
    tables.write("copies", table, tmp_path)
    assert tables.read("copies", tmp_path).empty


def test_values_are_plain_numbers() -> None:
    table = metric_table(frame_of([one(found) for found in FOUND]), rounds=ROUNDS)
    assert table["value"].dtype == np.float64


# --- filters ------------------------------------------------------------------------------------


LOOP = "ab " * 30


def test_each_filter_takes_away_what_it_marks_and_no_row() -> None:
    found = {"longest_segment": 60, "full_raw": True, "n_pairs": 1, "recall_sum": 1.0,
             "recall_max": 1.0, "n_whole_documents": 1}  # fmt: skip
    rows = [
        one(found, prompt="a"),
        one(found | {"passage": LOOP}, prompt="b"),
        one(found | {"n_documents": 101}, prompt="c"),
        one(found | {"passage": "a prompt"}, prompt="d"),
        one(found, prompt="e", text="x = [y(z); {w}];"),
        one(found | {"degenerate": True}, prompt="f"),
    ]
    frame = frame_of(rows)
    assert len(frame) == 6
    table = metric_table(frame, ["R50", "FMR", "NVR", "eidetic1"], rounds=ROUNDS)
    # Spans do not count: of six, five are left. Generations are left out: five of five.
    for name in ("no loops", "no boiler-plate", "nothing of the prompt"):
        part = rows_of(table, subset=name)
        assert part.set_index("metric")["value"].to_dict() == {
            "R50": 5 / 6, "FMR": 5 / 6, "NVR": 1.0, "eidetic1": 5 / 6,
        }  # fmt: skip
        assert set(part["n_generations"]) == {6}
        assert row_of(part, metric="NVR")["n_denominator"] == 5
    for name in ("not degenerate", "not code"):
        part = rows_of(table, subset=name)
        assert set(part["value"]) == {1.0}
        assert set(part["n_generations"]) == {5}
    counts = filter_table(frame).to_dict("records")
    assert counts == [
        {"decoding": "greedy", "setting": "generic", "degenerate": 1, "code": 1, "no loops": 1,
         "no boiler-plate": 1, "nothing of the prompt": 1, "generations": 6}
    ]  # fmt: skip


def test_the_limit_of_boiler_plate_can_be_set() -> None:
    rows = [one({"longest_segment": 60, "n_documents": 5})]
    for limit, value in ((4, 0), (5, 1)):
        frame = measured_generations(*as_tables(rows), boiler_plate_documents=limit)
        table = metric_table(frame, ["R50"], rounds=ROUNDS)
        assert row_of(table, subset="no boiler-plate")["value"] == value


# --- breakdown ----------------------------------------------------------------------------------


def test_a_breakdown_by_columns_and_metadata(tmp_path: Path) -> None:
    prompts, *others = as_tables(
        [one(FULL, prompt="a"), one({}, prompt="b"), one(FULL, prompt="c"), one({}, prompt="d")]
    )
    prompts = prompts.assign(
        source=["s", "s", "t", ""],
        copies=pd.array([1, 1, 4, None], "Int64"),
        metadata=['{"year": 1611}', "", '{"year": 1901}', '{"year": null}'],
    )
    frame = measured_generations(prompts, *others)
    table = breakdown_table(frame, ["source", "copies", "year", "nothing"], ["FMR"], rounds=ROUNDS)
    tables.write("breakdown", table, tmp_path)
    values = {
        (r["by"], r["group"]): (r["value"], r["n_generations"]) for r in table.to_dict("records")
    }
    assert values == {
        ("source", "s"): (0.5, 2),
        ("source", "t"): (1.0, 1),
        ("copies", "1"): (0.5, 2),
        ("copies", "4"): (1.0, 1),
        ("year", "1611"): (1.0, 1),
        ("year", "1901"): (1.0, 1),
    }


# --- lengths ------------------------------------------------------------------------------------


def test_span_lengths_exactly_and_in_buckets(tmp_path: Path) -> None:
    lengths = [0, 0, 4, 5, 19, 20, 199, 200, 5000]
    frame = frame_of([one({"longest_segment": n}, prompt=str(i)) for i, n in enumerate(lengths)])
    table = span_length_table(frame)
    tables.write("span_lengths", table, tmp_path)
    assert dict(zip(table["tokens"], table["n_generations"], strict=True)) == {
        0: 2, 4: 1, 5: 1, 19: 1, 20: 1, 199: 1, 200: 1, 5000: 1,
    }  # fmt: skip
    (row,) = in_buckets(table).to_dict("records")
    shares = {"0": 2, "1-4": 1, "5-9": 1, "10-19": 1, "20-49": 1, "50-99": 0, "100-199": 1}
    shares |= {"200 or more": 2}
    assert {name: row[name] * 9 for name in shares} == pytest.approx(shares)
    assert row["generations"] == 9


NOT_BY_NAME = ["unconditional", "generic", "specific", "prefix"]


def test_filters_lengths_and_recalls_are_in_the_order_of_the_settings() -> None:
    rows = [one({}, prompt=s, setting=s, decoding=d) for s in NOT_BY_NAME[::-1] for d in "ba"]
    prompts, generations, traces, *others = as_tables(rows)
    frame = measured_generations(prompts, generations, traces, *others)
    recalls = reaching_recall(recall_table(prompts, generations, traces))
    for table in (filter_table(frame), in_buckets(span_length_table(frame)), recalls):
        assert table["setting"].tolist() == NOT_BY_NAME * 2
        assert table["decoding"].tolist() == ["a"] * 4 + ["b"] * 4


def test_recalls_exactly_and_as_shares() -> None:
    reached = [0.0, 0.0, 0.05, 0.1, 0.5, 0.74, 0.75, 1.0]
    rows = [one({"recall_max": r}, prompt=str(i)) for i, r in enumerate(reached)]
    prompts, generations, traces, *_ = as_tables(rows)
    table = recall_table(prompts, generations, traces)
    assert dict(zip(table["recall"], table["n_generations"], strict=True)) == {
        0.0: 2, 0.05: 1, 0.1: 1, 0.5: 1, 0.74: 1, 0.75: 1, 1.0: 1,
    }  # fmt: skip
    (row,) = reaching_recall(table).to_dict("records")
    assert row == {
        "decoding": "greedy", "setting": "generic", "above 0": 6 / 8, "0.1 or more": 5 / 8,
        "0.25 or more": 4 / 8, "0.5 or more": 4 / 8, "0.75 or more": 2 / 8, "1": 1 / 8,
        "generations": 8,
    }  # fmt: skip
    failed = traces.assign(error=["too long", *[""] * 7])
    assert recall_table(prompts, generations, failed)["n_generations"].sum() == 7


@pytest.mark.parametrize("buckets", [(1, 5), (0, 5, 5), (0, 9, 4)])
def test_buckets_with_a_gap_are_refused(buckets: tuple[int, ...]) -> None:
    table = span_length_table(frame_of([one({})]))
    with pytest.raises(MetricError, match="must begin at 0 and rise"):
        in_buckets(table, buckets)


# --- what is resampled --------------------------------------------------------------------------


def test_where_nothing_is_asked_each_generation_is_a_draw() -> None:
    rows = [one(FULL if n < 3 else {}, setting="unconditional") for n in range(10)]
    row = row_of(metric_table(frame_of(rows), ["FMR"], rounds=4000), subset="all")
    assert (row["n_prompts"], row["interval"]) == (10, "bootstrap")
    assert row["high"] - row["low"] == pytest.approx(2 * 1.96 * 0.145, rel=0.15)


def test_of_one_prompt_there_is_no_interval() -> None:
    rows = [one({"recall_max": 0.5}, prompt="a") for _ in range(5)]
    row = row_of(metric_table(frame_of(rows), ["NVR_max"], rounds=ROUNDS), subset="all")
    assert (row["value"], row["interval"], row["n_prompts"]) == (0.5, "one prompt", 1)
    assert pd.isna(row["low"])


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recall", "message"),
    [
        (1.5, r"NVR_max of setting 'generic': a rate has the numerator 1\.5"),
        (np.nan, r"NVR_max of setting 'generic': a numerator is nan"),
    ],
)
def test_a_value_that_cannot_be_names_metric_setting_and_value(recall: float, message: str) -> None:
    frame = frame_of([one({"recall_max": 0.5})]).assign(recall_max=recall)
    with pytest.raises(MetricError, match=message):
        metric_table(frame, ["NVR_max"], rounds=ROUNDS)


def test_a_setting_whose_prompts_have_no_generation_is_named() -> None:
    prompts, generations, *others = as_tables(
        [one({}, prompt="a"), one({}, prompt="b", setting="prefix", kind="capability")]
    )
    with pytest.raises(MetricError, match="setting 'prefix' has prompts and no generation"):
        measured_generations(prompts, generations[generations["prompt_id"] == "a"], *others)

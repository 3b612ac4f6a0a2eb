"""Runs side by side: differences by hand and as properties, what is comparable, and the sentences.

Frames are those of measured generations, made by hand: a list of longest segments for each prompt.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from propme import across_runs as across
from propme import metric_tables, tables
from propme.across_runs import ComparedRun, Course
from propme.comparison import holm
from propme.errors import MetricError, ParameterError

KINDS = {"prefix": "capability", "mismatched_prefix": "control", "human": "control"}
METRICS = ("ALS", "FMR", "NVR")


def generation(setting: str, prompt: int, sample: int, **found: Any) -> dict[str, Any]:
    """A completion of which nothing was found, but for what is given."""
    return {
        "setting": setting,
        "kind": KINDS.get(setting, "propensity"),
        "decoding": "sampled",
        "prompt_id": f"{setting}/{prompt}",
        "generation_id": f"{setting}/{prompt}/{sample}",
        "longest_segment": 0,
        "full_raw": False,
        "recall_sum": 0.0,
        "n_pairs": 1,
        "recall_max": 0.0,
        "n_tokens": 100,
        "target": "",
        "text": "words",
        "finish_reason": "stop",
        "extracted": False,
    } | found


def run(
    name: str,
    rows: list[dict[str, Any]],
    texts: str = "",
    inputs: dict[str, str] | None = None,
    **parameters: Any,
) -> ComparedRun:
    """A run of such generations; ``texts`` makes the text of its prompts another one."""
    frame = pd.DataFrame(rows)
    ids = sorted(set(frame["prompt_id"]))
    prompts = pd.DataFrame({"prompt_id": ids, "text": [f"{i}{texts}" for i in ids]})
    hashes = {"corpus": "c", "index": "i", "model": name} | (inputs or {})
    record = {
        "inputs": {key: {"path": f"/{key}", "sha256": value} for key, value in hashes.items()},
        "parameters": {"mode": "mixed", "merging": "verified", "docs_per_span": 10} | parameters,
    }
    return ComparedRun(name, Path("/runs") / name, record, prompts, frame)


def lengths(name: str, values: list[int], setting: str = "prefix", **given: Any) -> ComparedRun:
    """A run with a completion of each prompt, whose longest passages are given."""
    rows = [generation(setting, n, 0, longest_segment=v) for n, v in enumerate(values)]
    return run(name, rows, **given)


def compare(*runs: ComparedRun, metrics: tuple[str, ...] = METRICS, rounds: int = 50) -> Any:
    pairs = across.pairs_of([r.name for r in runs])
    return across.differences(runs, pairs, metrics, 0, rounds)


# --- differences --------------------------------------------------------------------------------


def test_a_paired_difference_by_hand() -> None:
    table = compare(lengths("a", [4, 8]), lengths("b", [10, 10]), metrics=("ALS",))
    (row,) = table.to_dict("records")
    # (10 + 10) / 2 - (4 + 8) / 2; of the four ways to swap two prompts, the one observed and its
    # mirror image are as far from 0.
    assert (row["run_a"], row["run_b"]) == ("b", "a")
    assert (row["value_a"], row["value_b"], row["difference"]) == (10, 6, 4)
    assert row["p"] == row["p_holm"] == 0.5
    assert row["paired"]
    assert row["why_untested"] == ""
    # A round draws two of the prompts, whose own differences are 6 and 2.
    assert 2 <= row["low"] <= row["high"] <= 6


found = st.lists(
    st.tuples(st.integers(0, 30), st.booleans(), st.integers(0, 3)), min_size=1, max_size=6
)


def of(name: str, values: list[tuple[int, bool, int]]) -> ComparedRun:
    rows = [
        generation("prefix", n, 0, longest_segment=tokens, full_raw=whole, n_pairs=pairs,
                   recall_sum=pairs / 2)
        for n, (tokens, whole, pairs) in enumerate(values)
    ]  # fmt: skip
    return run(name, rows)


@settings(max_examples=30, deadline=None)
@given(found)
def test_equal_runs_differ_by_exactly_nothing(values: list[tuple[int, bool, int]]) -> None:
    table = compare(of("a", values), of("b", values))
    defined = table[table["difference"].notna()]
    assert (defined["difference"] == 0).all()
    assert (defined["p"] == 1).all()
    known = defined[defined["low"].notna()]
    assert (known["low"] <= 0).all()
    assert (known["high"] >= 0).all()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_other_way_round_a_difference_changes_its_sign_and_nothing_else(data: Any) -> None:
    first = data.draw(found)
    size = {"min_size": len(first), "max_size": len(first)}
    second = data.draw(st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.just(1)), **size))
    runs = [of("a", first), of("b", second)]
    there, back = (across.differences(runs, [p], METRICS, 0, 50) for p in (("a", "b"), ("b", "a")))
    for one, other in zip(there.to_dict("records"), back.to_dict("records"), strict=True):
        if one["difference"] is None or pd.isna(one["difference"]):
            assert pd.isna(other["difference"])
            continue
        assert one["difference"] == -other["difference"]
        assert one["p"] == pytest.approx(other["p"])


def test_the_correction_is_holms_over_the_whole_table() -> None:
    runs = [lengths("a", [1, 2, 3, 4]), lengths("b", [5, 5, 5, 5]), lengths("c", [1, 1, 9, 9])]
    table = compare(*runs)
    assert len(table) == 2 * 3
    assert table["p_holm"].to_list() == pytest.approx(list(holm(table["p"].to_list())))


def test_there_are_rounds_enough_for_a_difference_to_survive_the_correction() -> None:
    # One round would leave p at 1/2; 20 prompts that all differ cannot be more different.
    runs = [lengths("a", [1] * 20), *(lengths(f"b{n}", [50] * 20) for n in range(4))]
    table = compare(*runs, metrics=("ALS",), rounds=1)
    assert (table["p_holm"] < 0.05).all()


def test_other_prompts_are_unpaired_and_not_tested() -> None:
    table = compare(lengths("a", [1, 2]), lengths("b", [3, 4], texts=" else"), metrics=("ALS",))
    (row,) = table.to_dict("records")
    assert not row["paired"]
    assert row["why_untested"] == "other prompts: 0 of 2 and 2 are the same"
    assert pd.isna(row["p"])
    assert pd.isna(row["p_holm"])
    assert row["difference"] == 2


def test_prompts_that_one_run_lacks_make_it_unpaired() -> None:
    table = compare(lengths("a", [1, 2, 3]), lengths("b", [3, 4]), metrics=("ALS",))
    assert table["why_untested"].to_list() == ["other prompts: 2 of 2 and 3 are the same"]


def test_other_numbers_of_completions_are_unpaired() -> None:
    twice = run("b", [generation("prefix", n, s) for n, s in product(range(2), range(2))])
    table = compare(lengths("a", [1, 2]), twice, metrics=("ALS",))
    assert table["why_untested"].to_list() == ["other numbers of completions of a prompt"]


def test_where_nothing_is_asked_nothing_is_paired_and_a_cue_is_a_prompt() -> None:
    pair = [
        run(name, [generation(s, n, 0) for s in ("unconditional", "minimal_cue") for n in range(3)])
        for name in "ab"
    ]
    table = compare(*pair, metrics=("ALS",)).set_index("setting")
    assert table.loc["unconditional", "why_untested"] == "nothing is asked"
    assert table.loc["minimal_cue", "paired"]


def test_one_models_greedy_completions_are_the_same_in_two_runs_and_not_tested() -> None:
    rows = [generation("prefix", n, 0, longest_segment=9, decoding="greedy") for n in range(8)]
    rows += [generation("prefix", n, 0, longest_segment=n) for n in range(8)]
    a, b = (run(name, rows, inputs={"model": "m"}) for name in "ab")
    table = compare(a, b, metrics=("ALS",)).set_index("decoding")
    greedy, sampled = table.loc["greedy"], table.loc["sampled"]
    assert greedy["why_untested"] == greedy["interval"] == across.SAME
    assert (greedy["difference"], greedy["paired"]) == (0, True)
    assert pd.isna([greedy["low"], greedy["high"], greedy["p"], greedy["p_holm"]]).all()
    # Sampled completions are draws: that they are equal here is a result, and is tested.
    assert (sampled["why_untested"], sampled["p"], sampled["p_holm"]) == ("", 1, 1)


def test_what_one_model_completes_greedily_of_nothing_is_the_same_too() -> None:
    rows = [generation("unconditional", 0, 0, longest_segment=9, decoding="greedy")]
    a, b = (run(name, rows, inputs={"model": "m"}) for name in "ab")
    (row,) = compare(a, b, metrics=("ALS",)).to_dict("records")
    assert row["why_untested"] == across.SAME
    assert across.shifts([a, b], [("b", "a")], 0, 20).empty


def test_a_rate_of_nothing_is_not_sure_to_be_nothing() -> None:
    """NVR of 0 in both runs, over other numbers of pairs: the rule of three for both."""
    a, b = (
        run(name, [generation("prefix", n, 0, n_pairs=pairs) for n in range(10)])
        for name, pairs in (("a", 1), ("b", 2))
    )
    (row,) = compare(a, b, metrics=("NVR",)).to_dict("records")
    assert (row["difference"], row["interval"]) == (0, "rule of three")
    assert (row["low"], row["high"]) == pytest.approx((-0.3, 0.3))  # 3 / 10 prompts


@pytest.mark.parametrize(
    "other",
    [
        {"inputs": {"model": "other"}},
        {"inputs": {"model": "m", "index": "other"}},
        {"inputs": {"model": "m"}, "docs_per_span": 5},
        {"inputs": {"model": "m"}, "longest_segment": 3, "text": "else"},
    ],
)
def test_what_only_turns_out_equal_is_tested(other: dict[str, Any]) -> None:
    found = {name: other.pop(name) for name in ("longest_segment", "text") if name in other}
    greedy = [generation("prefix", n, 0, decoding="greedy") for n in range(3)]
    changed = [*greedy[:-1], greedy[-1] | found]
    table = compare(run("a", greedy, inputs={"model": "m"}), run("b", changed, **other),
                    metrics=("FMR",))  # fmt: skip
    assert table["p"].notna().all()
    assert table["why_untested"].to_list() == [""]


def test_a_setting_that_one_lacks_and_controls_are_left_out() -> None:
    rows = [generation(s, 0, 0) for s in ("generic", "prefix", "human", "mismatched_prefix")]
    table = compare(run("a", rows), run("b", rows[1:]), metrics=("ALS",))
    assert table["setting"].to_list() == ["prefix"]


def test_runs_without_a_common_setting_have_no_difference_and_no_shift() -> None:
    runs = [lengths("a", [1, 2], setting="generic"), lengths("b", [3, 4])]
    assert compare(*runs).empty
    assert across.shifts(runs, [("b", "a")], 0, 20).empty


def test_a_run_without_an_attack_has_no_propensity_score(monkeypatch: pytest.MonkeyPatch) -> None:
    score = dict.fromkeys(tables.TABLES["propensity"].columns, 0)
    score |= {"subset": "all", "kind": "propensity"}
    made = [score, score | {"subset": "no loops"}, score | {"kind": "control"}]
    monkeypatch.setattr(metric_tables, "propensity_table", lambda *_: pd.DataFrame(made))
    asked = lengths("a", [1, 2], setting="generic")
    table = across.run_propensity([asked, lengths("b", [3, 4])], ["NVR"])
    assert table[["run", "subset"]].to_numpy().tolist() == [["b", "all"]]
    assert across.run_propensity([asked], ["NVR"]).empty


def test_what_one_run_does_not_define_is_no_difference() -> None:
    none = run("b", [generation("prefix", n, 0, n_pairs=0) for n in range(2)])
    table = compare(lengths("a", [1, 2]), none, metrics=("NVR",))
    (row,) = table.to_dict("records")
    assert row["value_a"] is None
    assert row["value_b"] == 0
    assert row["difference"] is None
    assert row["p"] is None
    # Extraction is defined of neither: there is no true continuation.
    assert compare(lengths("a", [1]), lengths("b", [1]), metrics=("extraction",)).empty


def test_metrics_in_tokens_of_other_tokenizers_are_not_compared() -> None:
    runs = [lengths("a", [1, 2]), lengths("b", [3, 4], inputs={"index": "other"})]
    names = ("ALS", "R50", "FMR", "FMR50", "NVR", "recall>0.5", "extraction")
    table = compare(*runs, metrics=names)
    assert table["metric"].to_list() == ["FMR", "NVR", "recall>0.5"]


@pytest.mark.parametrize(
    ("metric", "counted"),
    [("ALS", True), ("R20", True), ("FMR50", True), ("extraction", True), ("FMR", False),
     ("FMR_norm", False), ("NVR", False), ("NVR_max", False), ("recall>0.5", False)],
)  # fmt: skip
def test_which_metrics_count_tokens(metric: str, counted: bool) -> None:
    assert across.counts_tokens(metric) is counted


def test_an_unknown_metric_is_named() -> None:
    with pytest.raises(MetricError, match="NVRR"):
        across.require_metrics(["NVRR"])
    with pytest.raises(MetricError, match="no metric"):
        across.require_metrics([])


# --- shifts -------------------------------------------------------------------------------------


def copied(name: str, whole: list[bool], recall: list[float]) -> ComparedRun:
    rows = [
        generation("prefix", n, 0, full_raw=w, recall_sum=r, recall_max=r, longest_segment=10 * w)
        for n, (w, r) in enumerate(zip(whole, recall, strict=True))
    ]
    return run(name, rows)


def shift(*runs: ComparedRun) -> dict[str, Any]:
    table = across.shifts(runs, [("b", "a")], 0, 200)
    (row,) = table[(table["verbatim"] == "FMR") & (table["near_verbatim"] == "NVR")].to_dict(
        "records"
    )
    return row


def test_a_shift_by_hand() -> None:
    start = copied("a", [True] * 4, [1.0] * 4)
    later = copied("b", [True, False, False, False], [1.0, 0.9, 0.6, 0.5])
    row = shift(start, later)
    # FMR 1 -> 1/4; NVR 1 -> 3/4.
    assert row["kept_verbatim"] == pytest.approx(0.25)
    assert row["kept_near_verbatim"] == pytest.approx(0.75)
    assert row["shift"] == pytest.approx(0.5)
    # A prompt keeps 1 and 1, 0 and .9, 0 and .6, 0 and .5: no draw of four goes beyond 0 and .9.
    assert 0 <= row["low"] <= 0.5 <= row["high"] <= 0.9
    assert row["n_rounds_undefined"] == 0
    assert row["n_prompts"] == 4


def test_equal_runs_have_no_shift() -> None:
    row = shift(copied("a", [True, False], [1.0, 0.5]), copied("b", [True, False], [1.0, 0.5]))
    assert row["shift"] == row["low"] == row["high"] == 0


def test_a_shift_of_nothing_is_not_defined() -> None:
    row = shift(copied("a", [False] * 3, [0.5] * 3), copied("b", [True] * 3, [0.5] * 3))
    assert (row["kept_verbatim"], row["shift"], row["low"]) == (None, None, None)
    assert row["kept_near_verbatim"] == 1
    assert row["n_rounds_undefined"] == 200


# --- runs, courses, pairs -----------------------------------------------------------------------


def test_a_run_is_named_by_as_much_of_its_path_as_tells_it_apart() -> None:
    folders = [Path(p) for p in ("/o/x/a", "/o/y/a", "/o/b", "/o/z/x/a")]
    assert across.run_names(folders) == ["o/x/a", "y/a", "b", "z/x/a"]


@pytest.mark.parametrize("folders", [[], [Path("/o/a")]])
def test_one_run_is_no_comparison(folders: list[Path]) -> None:
    with pytest.raises(ParameterError, match=f"two runs or more, not of {len(folders)}"):
        across.read_runs(folders)


def test_a_run_is_given_once() -> None:
    with pytest.raises(ParameterError, match="given twice"):
        across.run_names([Path("/o/a"), Path("/o/b"), Path("/o/a")])


def test_a_run_is_given_once_by_whatever_path(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for again in (tmp_path / "a" / ".." / "a", tmp_path / "link"):
        with pytest.raises(ParameterError, match=f"{tmp_path / 'a'}' is given twice"):
            across.run_names([tmp_path / "a", again])


NAMES = ("start", "d1", "d2", "e1", "e2")
DANISH = Course("Danish", ("start", "d1", "d2"))
ENGLISH = Course("English", ("start", "e1", "e2"), is_control=True)


def test_courses_out_of_parameters_and_out_of_their_table() -> None:
    texts = ["Danish: start, d1, d2", "English:start,e1,e2"]
    courses = across.courses(texts, "English", NAMES)
    assert courses == [DANISH, ENGLISH]
    assert across.courses_of(across.trajectory_table(courses)) == courses
    assert across.courses_of(across.trajectory_table([])) == []


@pytest.mark.parametrize(
    ("texts", "control", "message"),
    [
        (["Danish: start, d3"], "", "run 'd3' is unknown; did you mean"),
        (["Danish: start"], "", "two runs or more"),
        (["start, d1"], "", "two runs or more"),
        (["D: start, d1", "D: start, e1"], "", "same name"),
        (["Danish: start, d1"], "Englis", "trajectory 'Englis' is unknown"),
    ],
)
def test_what_is_no_course_is_refused(texts: list[str], control: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        across.courses(texts, control, NAMES)


def test_pairs_are_those_given_or_of_courses_or_all_with_the_first() -> None:
    assert across.pairs_of(NAMES) == [(name, "start") for name in NAMES[1:]]
    assert across.pairs_of(NAMES, ["d1, e1"]) == [("d1", "e1")]
    assert across.pairs_of(NAMES, [], [DANISH, ENGLISH]) == [
        ("d2", "start"),
        ("e2", "start"),
        ("d2", "e2"),
    ]


def test_a_control_that_has_fewer_stages_is_compared_at_the_last_that_both_have() -> None:
    short = Course("English", ("start", "e1"), is_control=True)
    assert across.beside_controls([DANISH, short]) == [(("d1", "e1"), DANISH)]
    assert across.beside_controls([DANISH]) == []


def test_every_stage_is_set_against_the_first() -> None:
    pairs = across.stage_pairs([("d2", "start"), ("d2", "e2")], [DANISH])
    assert pairs == [("d2", "start"), ("d2", "e2"), ("d1", "start")]


@pytest.mark.parametrize("text", ["d1", "d1, d1", "d1, d9", "d1, d2, e1"])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        across.pairs_of(NAMES, [text])


# --- caveats ------------------------------------------------------------------------------------


def caveats(*runs: ComparedRun) -> dict[str, str]:
    table = across.caveats(across.compared_runs(runs))
    return dict(zip(table["about"], table["runs"], strict=True))


def test_alike_runs_have_no_caveat() -> None:
    assert caveats(lengths("a", [1]), lengths("b", [2])) == {}


def test_each_thing_that_differs_is_told_with_the_runs_that_have_it() -> None:
    told = caveats(
        lengths("a", [1]),
        lengths("b", [1], merging="overlap", temperature=0.7, inputs={"corpus": "d"}),
        lengths("c", [1], setting="generic", inputs={"index": "j"}),
    )
    assert set(told) == {"corpus", "tokenizer", "tracing", "decoding", "settings"}
    assert told["settings"] == "a, b: prefix; c: generic"
    assert told["tracing"].startswith("a, c: mode mixed, merging verified")
    assert "b: mode mixed, merging overlap" in told["tracing"]
    assert told["tokenizer"].startswith("a, b: unknown")


def test_the_tables_are_what_they_are_declared_to_be(tmp_path: Path) -> None:
    rows = [generation(s, n, 0) for s in ("generic", "prefix") for n in range(3)]
    runs = [run("a", rows), run("b", rows, merging="overlap")]
    pairs = [("b", "a")]
    compared = across.compared_runs(runs)
    made = {
        "compared_runs": compared,
        "caveats": across.caveats(compared),
        "run_metrics": across.run_metrics(runs, METRICS, 0, 20),
        "differences": across.differences(runs, pairs, METRICS, 0, 20),
        "shifts": across.shifts(runs, pairs, 0, 20),
        "trajectories": across.trajectory_table([Course("c", ("a", "b"))]),
    }
    for name, table in made.items():
        tables.write(name, table, tmp_path)
        assert len(tables.read(name, tmp_path)) == len(table) > 0
    values = made["run_metrics"].set_index(["run", "setting", "metric"])["value"]
    assert np.isfinite(values.astype(float)).all()

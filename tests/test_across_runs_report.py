"""Comparisons as they are read: every number out of the tables, nothing told that is not shown."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from propme import across_runs, tables
from propme.across_runs import (
    Course,
    answers,
    differences_table,
    findings,
    levels_table,
    scores_table,
    shifts_table,
)

DANISH = Course("Danish", ("start", "d1", "d2"))
ENGLISH = Course("English", ("start", "e1", "e2"), is_control=True)
UNPAIRED = {"paired": False, "why_untested": "other prompts", "p": None, "p_holm": None}


def frame(name: str, defaults: dict[str, Any], rows: tuple[dict[str, Any], ...]) -> pd.DataFrame:
    columns = list(tables.TABLES[name].columns)
    return pd.DataFrame([defaults | row for row in rows], columns=columns)


def differences(*rows: dict[str, Any]) -> pd.DataFrame:
    defaults = {
        "run_a": "d2",
        "run_b": "start",
        "setting": "prefix",
        "kind": "capability",
        "decoding": "sampled",
        "metric": "NVR",
        "value_a": 0.1,
        "value_b": 0.35,
        "difference": -0.25,
        "low": -0.4,
        "high": -0.05,
        "interval": "bootstrap",
        "paired": True,
        "why_untested": "",
        "n_prompts_a": 50,
        "n_prompts_b": 50,
        "p": 0.0004,
        "p_holm": 0.012,
    }
    return frame("differences", defaults, rows)


def shifts(*rows: dict[str, Any]) -> pd.DataFrame:
    defaults = {
        "run_a": "d2",
        "run_b": "start",
        "setting": "prefix",
        "kind": "capability",
        "decoding": "sampled",
        "verbatim": "FMR",
        "near_verbatim": "NVR",
        "kept_verbatim": 0.2,
        "kept_near_verbatim": 0.6,
        "shift": 0.4,
        "low": 0.1,
        "high": 0.7,
        "paired": True,
        "n_prompts": 50,
        "n_rounds": 100,
        "n_rounds_undefined": 0,
    }
    return frame("shifts", defaults, rows)


def caveats(*rows: dict[str, Any]) -> pd.DataFrame:
    return frame("caveats", {"about": "corpus", "runs": "a: x; b: y", "consequence": "So."}, rows)


NOT_SHOWN = {"p": 0.2, "p_holm": 1.0}
GENERIC = {"setting": "generic", "kind": "propensity"}
BESIDE = {"run_b": "e2", "value_b": 0.12, "difference": -0.02, "low": -0.1, "high": 0.06}


def test_differences_by_hand() -> None:
    table = differences_table(
        differences(
            {},
            {"metric": "ALS", "difference": 1.26, "low": -0.5, "high": 3.0} | NOT_SHOWN,
            GENERIC | UNPAIRED | {"low": None, "high": None, "difference": 0.0004},
        )
    )
    assert table.to_dict("records") == [
        {
            "difference": "d2 − start",
            "decoding": "sampled",
            "setting": "generic",
            "NVR": "+<0.001 unpaired",
            "ALS": "–",
        },
        {
            "difference": "d2 − start",
            "decoding": "sampled",
            "setting": "prefix",
            "NVR": "−0.250 [−0.400, −0.050]*",
            "ALS": "+1.3 [−0.5, +3.0]",
        },
    ]


def test_a_difference_that_does_not_hold_has_no_star() -> None:
    cell = differences_table(differences({"p_holm": 0.05}))["NVR"].iloc[0]
    assert not cell.endswith("*")


def test_levels_and_scores_by_hand() -> None:
    level = {"run": "a", "setting": "prefix", "kind": "capability", "decoding": "greedy"}
    level |= {"subset": "all", "metric": "NVR", "value": 0.5, "low": 0.25, "high": 0.75}
    shown = levels_table(frame("run_metrics", level, ({}, {"run": "b", "value": None})))
    assert shown[["run", "NVR"]].to_numpy().tolist() == [["a", "0.500 [0.250, 0.750]"], ["b", "–"]]
    score = {"run": "a", "setting": "generic", "capability": "prefix", "decoding": "greedy"}
    score |= {"metric": "NVR", "value": 0.5, "low": 0.25, "high": 0.75, "undefined": False}
    shown = scores_table(
        frame("run_propensity", score, ({}, {"run": "b", "undefined": True, "value": 0.0}))
    )
    assert shown[["run", "setting", "against", "NVR"]].to_numpy().tolist() == [
        ["a", "generic", "prefix", "0.500 [0.250, 0.750]"],
        ["b", "generic", "prefix", "undefined"],
    ]


def test_shifts_that_are_not_defined_are_not_shown() -> None:
    shown = shifts_table(shifts({}, {"near_verbatim": "NVR_max", "shift": None}))
    assert shown[["kept_verbatim", "kept_near_verbatim", "shift"]].to_numpy().tolist() == [
        ["20%", "60%", "+0.400 [+0.100, +0.700]"]
    ]


def levels(*rows: dict[str, Any]) -> pd.DataFrame:
    defaults = {"run": "d2", "setting": "human", "kind": "control", "decoding": "sampled"}
    return frame("run_metrics", defaults | {"subset": "all", "metric": "ALS", "value": 25.0}, rows)


def test_tables_of_nothing_are_empty() -> None:
    empty = [
        differences_table(differences()),
        levels_table(levels()),
        scores_table(frame("run_propensity", {}, ())),
        shifts_table(shifts()),
    ]
    assert all(len(table) == 0 for table in empty)
    assert "setting" in empty[0].columns


def told(*rows: dict[str, Any], given: tuple[Course, ...] = (DANISH, ENGLISH)) -> str:
    return "\n".join(findings(differences(*rows), shifts({}), given, levels()))


def test_the_answers_tell_what_holds_and_in_how_many_tests_nothing_is_shown() -> None:
    als = {"metric": "ALS", "difference": 3.0}
    rows = differences({}, als, GENERIC | NOT_SHOWN, SAME_IN_BOTH | GENERIC, BESIDE | NOT_SHOWN)
    assert answers(rows, caveats(), [DANISH, ENGLISH]) == [
        "d2 against start: under attack NVR is lower (sampled: prefix), ALS is higher (sampled:"
        " prefix); unprompted no difference is shown in 1 of 1 tests.",
        "d2 against its control e2: under attack no difference is shown in 1 of 1 tests.",
    ]
    untested = answers(differences(UNPAIRED), caveats(), [])
    assert untested == ["d2 against start: under attack nothing is tested."]


def test_what_holds_is_told_with_its_numbers() -> None:
    text = told({}, GENERIC | NOT_SHOWN)
    assert "Of 2 differences that are tested, 1 holds at 5%: p-values are corrected for all" in text
    assert "Not tested" not in text
    assert (
        "Danish, from start to d2, sampled decoding, capability: NVR under prefix goes from 0.350"
        " to 0.100 (−0.250 [−0.400, −0.050], p 0.012): lower."
    ) in text
    assert "propensity: no difference is shown in 1 of 1 differences that are tested." in text


def test_nothing_is_told_of_a_course_that_its_control_does_too() -> None:
    text = told({}, BESIDE | NOT_SHOWN)
    assert "d2 against its control e2, sampled decoding: no difference is shown in 1 of 1" in text
    assert "So nothing of what happens here may be told of Danish in particular" in text
    assert "Only what holds" not in text


def test_what_goes_beyond_the_control_is_told_alone() -> None:
    text = told({}, BESIDE)
    assert "Only what holds here may be told of Danish in particular" in text
    assert "So nothing" not in text


def test_without_a_control_nothing_can_be_told() -> None:
    text = told({}, given=(DANISH,))
    assert "No control is named: whether what happens in Danish comes of the text" in text


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        ((0.1, 0.7), "from verbatim to near-verbatim."),
        ((-0.7, -0.1), "from near-verbatim to verbatim."),
        ((-0.1, 0.7), "it includes 0, so no shift is shown."),
        ((None, None), "without an interval nothing is shown."),
    ],
)
def test_a_shift_is_told_as_its_interval_allows(
    ends: tuple[float | None, float | None], verdict: str
) -> None:
    row = dict(zip(("low", "high"), ends, strict=True))
    text = "\n".join(findings(differences({}), shifts(row), [DANISH], levels()))
    assert "d2 keeps 20% of the FMR of start and 60% of its NVR: shift +0.400" in text
    assert verdict in text


def test_the_floor_is_told_once_for_runs_that_have_the_same() -> None:
    floors = levels(
        {}, {"metric": "NVR", "value": 0.0625}, {"metric": "FMR", "value": None},
        {"run": "start"}, {"run": "start", "metric": "NVR", "value": 0.0625},
        {"run": "other", "value": 3.0},
    )  # fmt: skip
    text = "\n".join(findings(differences({}), shifts(), [], floors))
    assert "reach ALS 25.0, NVR 0.062 (d2, start). What does not exceed" in text
    assert text.count("The floor") == 1


def test_the_floor_is_that_of_every_control() -> None:
    wrong = {"setting": "mismatched_prefix", "metric": "NVR"}
    rows = [wrong | {"value": 0.03}, wrong | {"value": 0.5, "run": "start"}]
    floors = levels({}, *rows, wrong | {"decoding": "greedy", "value": None})
    sentences = findings(differences({}), shifts(), [], floors)
    told = sorted(sentence.split(". What")[0] for sentence in sentences if "floor" in sentence)
    assert len(told) == 3
    assert told[0].endswith("never trained on, greedy decoding, reach nothing that is defined (d2)")
    assert told[1].endswith("trained on, sampled decoding, reach NVR 0.030 (d2); NVR 0.500 (start)")
    assert told[2].endswith("reach ALS 25.0 (d2)")


SAME_IN_BOTH = {
    "decoding": "greedy",
    "value_a": 0.35,
    "difference": 0.0,
    "low": None,
    "high": None,
    "interval": across_runs.SAME,
    "why_untested": across_runs.SAME,
    "p": None,
    "p_holm": None,
}


def test_what_one_run_lacks_is_told_with_its_name() -> None:
    lacks = {"value_a": None, "difference": None, "low": None, "high": None}
    lacks |= {"p": None, "p_holm": None, "why_untested": "undefined in one"}
    text = told({}, {"metric": "FMR"} | lacks, given=())
    assert "FMR under prefix is not defined in d2." in text
    assert "Not tested: 1 are not defined in one of the two." in text


def test_what_is_of_the_same_completions_is_told_as_that() -> None:
    rows = differences({}, SAME_IN_BOTH, SAME_IN_BOTH | GENERIC, UNPAIRED | GENERIC)
    text = "\n".join(findings(rows, shifts(), [], levels()))
    assert "Of 1 differences that are tested, 1 holds at 5%" in text
    assert "Not tested: 2 are of the same completions in both, 1 are unpaired." in text
    assert "NVR under prefix is 0.350 in both, which are the same completions." in text
    assert "greedy decoding, propensity: 1 are 0, being of the same completions." in text
    shown = differences_table(rows).set_index("decoding")["NVR"]
    assert shown["greedy"].to_list() == ["0.000 same", "0.000 same"]


def test_caveats_come_first() -> None:
    sentences = answers(differences({}), caveats({}), [])
    assert sentences[0] == "Beware: corpus differs between the runs (a: x; b: y). So."


def test_a_pair_of_no_course_is_told_by_itself() -> None:
    text = told(UNPAIRED, given=())
    assert "d2 against start, sampled decoding, capability: NVR under prefix goes" in text
    assert "unpaired, not tested" in text


def test_nothing_in_common_says_so() -> None:
    assert findings(differences(), shifts(), [], levels()) == []
    (sentence,) = answers(differences(), caveats(), [])
    assert sentence == "There is no setting in two of the runs, so nothing is compared."

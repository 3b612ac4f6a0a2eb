"""What a comparison shows, in sentences whose every number is computed from its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from propme.across_runs.pairing import SAME
from propme.across_runs.training import Course, beside_controls
from propme.across_runs.wording import LEVEL, holds, with_ends, written
from propme.figures import short
from propme.report.findings import control_told


def answers(differences: pd.DataFrame, caveats: pd.DataFrame, given: Sequence[Course]) -> list[str]:
    """What to beware of, and what holds, of each pair, under attack and under ordinary prompts.

    Parameters
    ----------
    differences, caveats : DataFrame
        The tables of those names.
    given : sequence of Course

    Returns
    -------
    list of str
        A sentence for each caveat, and for each pair in the order of the table. That no difference
        is shown is no proof of equality: `findings` tells how large it may be.
    """
    beware = [f"Beware: {_beware(row)}" for row in caveats.to_dict("records")]
    if differences["difference"].notna().sum() == 0:
        return [*beware, "There is no setting in two of the runs, so nothing is compared."]
    pairs = dict.fromkeys(zip(differences["run_a"], differences["run_b"], strict=True))
    beside = dict(beside_controls(given))
    return beware + [
        f"{_named(pair, beside)}: {'; '.join(parts)}."
        for pair in pairs
        for rows in [differences[_of_pair(differences, pair)]]
        for parts in [
            [
                f"{told} {_directions(rows[rows['kind'] == kind])}"
                for kind, told in (("capability", "under attack"), ("propensity", "unprompted"))
                if rows.loc[rows["kind"] == kind, "difference"].notna().any()
            ]
        ]
        if parts
    ]


def _named(pair: tuple[str, str], beside: dict[tuple[str, str], Course]) -> str:
    return f"{pair[0]} against {'its control ' if pair in beside else ''}{pair[1]}"


def _of_pair(table: pd.DataFrame, pair: tuple[str, str]) -> pd.Series[bool]:
    return (table["run_a"] == pair[0]) & (table["run_b"] == pair[1])


def _directions(rows: pd.DataFrame) -> str:
    """Metrics that are higher or lower, each with where it is; those that hold alone."""
    tested = rows[rows["p"].notna()].to_dict("records")
    where: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in filter(holds, tested):
        direction = "higher" if row["difference"] > 0 else "lower"
        decodings = where.setdefault((row["metric"], direction), {})
        decodings.setdefault(row["decoding"], []).append(row["setting"])
    told = [
        f"{metric} is {direction} ({told})"
        for (metric, direction), decodings in where.items()
        for told in ["; ".join(f"{name}: {', '.join(s)}" for name, s in decodings.items())]
    ]
    rest = len(tested) - sum(map(holds, tested))
    if not tested:
        return "nothing is tested"
    if rest:
        told.append(f"no difference is shown in {rest} of {len(tested)} tests")
    return ", ".join(told)


def findings(
    differences: pd.DataFrame,
    shifts: pd.DataFrame,
    given: Sequence[Course],
    levels: pd.DataFrame,
) -> list[str]:
    """What the comparison shows, with its numbers; nothing where no setting is in two runs.

    What happens in a course of training is told beside its control: what the control does too is
    not told of the course's own text. The shift is told of FMR against NVR.

    Parameters
    ----------
    differences, shifts, levels : DataFrame
        The tables of those names; ``levels`` is ``run_metrics``.
    given : sequence of Course
    """
    if differences["difference"].notna().sum() == 0:
        return []
    sentences = [_tests(differences)]
    sentences += _floors(levels, [*differences["run_a"], *differences["run_b"]])
    ends = {(course.runs[-1], course.runs[0]): course for course in given}
    beside = dict(beside_controls(given))
    for pair, course in ends.items():
        sentences += _of_course(differences, shifts, pair, course)
    if given and not beside and not any(course.is_control for course in given):
        names = ", ".join(course.name for course in given)
        sentences.append(
            f"No control is named: whether what happens in {names} comes of the text that is read,"
            " or of reading on at all, cannot be told."
        )
    for pair, course in beside.items():
        sentences += _beyond_control(differences, pair, course)
    for pair in dict.fromkeys(zip(differences["run_a"], differences["run_b"], strict=True)):
        if pair not in ends and pair not in beside:
            sentences += _told_pair(differences, pair, " against ".join(pair))
    return sentences


def _tests(differences: pd.DataFrame) -> str:
    """How many differences are tested, how many hold, and why the others are not tested."""
    tested = differences[differences["p"].notna()]
    n_holding = sum(map(holds, tested.to_dict("records")))
    text = (
        f"Of {len(tested)} differences that are tested, {n_holding}"
        f" {'holds' if n_holding == 1 else 'hold'} at {LEVEL:.0%}: p-values"
        " are corrected for all of these tests (Holm), intervals are each of its own difference."
    )
    untested = differences[differences["p"].isna()]
    if untested.empty:
        return text
    known = untested["difference"].notna()
    same = untested["why_untested"] == SAME
    reasons = {
        "are of the same completions in both": same.sum(),
        "are unpaired": (known & ~same & ~untested["paired"].astype(bool)).sum(),
        "are not defined in one of the two": (~known).sum(),
    }
    told = ", ".join(f"{n} {reason}" for reason, n in reasons.items() if n)
    return f"{text} Not tested: {told}."


def _floors(levels: pd.DataFrame, compared: Sequence[str]) -> list[str]:
    """What each control reaches: in a sentence each, once for runs in which it is the same."""
    rows = levels[(levels["kind"] == "control") & levels["run"].isin(compared)]
    of_controls: dict[str, dict[str, list[str]]] = {}
    for (setting, decoding, run), part in rows.groupby(["setting", "decoding", "run"], sort=False):
        # Texts by people are of no decoding.
        how = "" if setting == "human" else f", {decoding} decoding,"
        runs_of = of_controls.setdefault(f"{control_told(str(setting))}{how}", {})
        reached = _reached(part) or "nothing that is defined"
        if str(run) not in runs_of.setdefault(reached, []):
            runs_of[reached].append(str(run))
    return [
        f"The floor: {control} reach {told}. What does not exceed it is no sign of leakage."
        for control, runs_of in of_controls.items()
        for told in ["; ".join(f"{what} ({', '.join(runs)})" for what, runs in runs_of.items())]
    ]


def _reached(rows: pd.DataFrame) -> str:
    return ", ".join(
        f"{metric} {written(metric, value)}"
        for metric, value in zip(rows["metric"], rows["value"], strict=True)
        if pd.notna(value)
    )


def _beware(row: dict[Any, Any]) -> str:
    return f"{row['about']} differs between the runs ({row['runs']}). {row['consequence']}"


def _rows_of(table: pd.DataFrame, pair: tuple[str, str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of a pair, decoding by decoding."""
    part = table[_of_pair(table, pair)]
    for decoding in dict.fromkeys(part["decoding"]):
        yield str(decoding), part[part["decoding"] == decoding]


def _told_pair(differences: pd.DataFrame, pair: tuple[str, str], what: str) -> list[str]:
    """The capability in full, and what holds of the propensity."""
    sentences = []
    for decoding, rows in _rows_of(differences, pair):
        attacks = rows[rows["kind"] == "capability"].to_dict("records")
        told = "; ".join(map(_told, attacks))
        if told:
            sentences.append(f"{what}, {decoding} decoding, capability: {told}.")
        asked = rows[rows["kind"] == "propensity"].to_dict("records")
        if asked:
            sentences.append(f"{what}, {decoding} decoding, propensity: {_whatholds(asked)}.")
    return sentences


def _whatholds(rows: Sequence[dict[Any, Any]]) -> str:
    """The differences that hold, and how many do not or are not tested."""
    tested = [row for row in rows if pd.notna(row["p"])]
    holding = [row for row in tested if holds(row)]
    unpaired = [
        row
        for row in rows
        if not row["paired"] and pd.notna(row["difference"]) and row["why_untested"] != SAME
    ]
    parts = [_told(row) for row in holding]
    if len(tested) > len(holding):
        rest = f"{len(tested) - len(holding)} of {len(tested)} differences"
        parts.append(f"no difference is shown in {rest} that are tested")
    if unpaired:
        parts.append(f"{len(unpaired)} are unpaired and not tested")
    same = sum(row["why_untested"] == SAME for row in rows)
    if same:
        parts.append(f"{same} are 0, being of the same completions")
    return "; ".join(parts) or "nothing is defined in both"


def _of_course(
    differences: pd.DataFrame, shifts: pd.DataFrame, pair: tuple[str, str], course: Course
) -> list[str]:
    end, start = pair
    control = " (the control)" if course.is_control else ""
    chosen = shifts[
        (shifts["verbatim"] == "FMR")
        & (shifts["near_verbatim"] == "NVR")
        & (shifts["kind"] == "capability")
        & shifts["shift"].notna()
    ]
    return _told_pair(differences, pair, f"{course.name}{control}, from {start} to {end}") + [
        f"{course.name}{control}, {decoding} decoding, {row['setting']}: {end} keeps"
        f" {row['kept_verbatim']:.0%} of the FMR of {start} and {row['kept_near_verbatim']:.0%} of"
        f" its NVR: {_shift_verdict(row)}"
        for decoding, rows in _rows_of(chosen, pair)
        for row in rows.to_dict("records")
    ]


def _shift_verdict(row: dict[Any, Any]) -> str:
    text = f"shift {with_ends('', row['shift'], row['low'], row['high'])}"
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return f"{text}; without an interval nothing is shown."
    if row["low"] > 0:
        return f"{text}, from verbatim to near-verbatim."
    if row["high"] < 0:
        return f"{text}, from near-verbatim to verbatim."
    return f"{text}; it includes 0, so no shift is shown."


def _told(row: dict[Any, Any]) -> str:
    """One difference: both values, the difference with its interval, and what it shows."""
    name = f"{row['metric']} under {row['setting']}"
    if pd.isna(row["difference"]):
        both = {row["run_a"]: row["value_a"], row["run_b"]: row["value_b"]}
        lacking = [run for run, value in both.items() if pd.isna(value)]
        return f"{name} is not defined in {' and '.join(lacking)}"
    if row["why_untested"] == SAME:
        value = written(row["metric"], row["value_a"])
        return f"{name} is {value} in both, which are the same completions"
    values = " to ".join(written(row["metric"], row[v]) for v in ("value_b", "value_a"))
    text = f"{name} goes from {values}"
    ends = with_ends(row["metric"], row["difference"], row["low"], row["high"])
    if not row["paired"]:
        return f"{text} ({ends}, unpaired, not tested)"
    p = f"p {short(row['p_holm'])}"
    if holds(row):
        return f"{text} ({ends}, {p}): {'higher' if row['difference'] > 0 else 'lower'}"
    return f"{text} ({ends}, {p}): no difference is shown"


def _beyond_control(differences: pd.DataFrame, pair: tuple[str, str], course: Course) -> list[str]:
    """What a course does beyond its control, at their last common stage."""
    sentences = []
    for decoding, rows in _rows_of(differences, pair):
        records = rows.to_dict("records")
        text = f"{pair[0]} against its control {pair[1]}, {decoding} decoding: "
        text += _whatholds(records)
        if any(map(holds, records)):
            text += (
                f". Only what holds here may be told of {course.name} in particular, and of one"
                " training each; all else is not shown to be more than reading on does."
            )
        else:
            text += (
                f". So nothing of what happens here may be told of {course.name} in particular: it"
                " is not shown that the control does otherwise."
            )
        sentences.append(text)
    return sentences

"""Courses of training, and which runs are set against which."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from propme import tables
from propme.errors import ParameterError


@dataclass(frozen=True)
class Course:
    """A course of training: its runs in order, and whether it is the control of the others."""

    name: str
    runs: tuple[str, ...]
    is_control: bool = False


def courses(trajectories: Sequence[str], control: str, names: Sequence[str]) -> list[Course]:
    """Courses of training as parameters give them.

    Parameters
    ----------
    trajectories : sequence of str
        Each ``NAME: RUN, RUN, ...``, runs in the order of training.
    control : str
        Name of the one that is the control; empty: none.
    names : sequence of str
        Names of the runs.

    Raises
    ------
    ParameterError
        A text is no such course, a run or the control is unknown, or a name stands twice.
    """
    found = []
    for text in trajectories:
        name, _, rest = str(text).partition(":")
        stages = [part.strip() for part in rest.split(",")]
        if len(stages) < 2:
            raise ParameterError(
                f"trajectory {text!r} is not 'NAME: RUN, RUN, ...', of two runs or more"
            )
        for stage in stages:
            _known(stage, names, "run")
        found.append(Course(name.strip(), tuple(stages), name.strip() == control))
    given = [course.name for course in found]
    if len(set(given)) < len(given):
        raise ParameterError(f"two trajectories have the same name, of {given}")
    if control:
        _known(control, given, "trajectory")
    return found


def _known(name: str, names: Sequence[str], what: str) -> str:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
        raise ParameterError(f"{what} {name!r} is unknown; {hint}")
    return name


def trajectory_table(given: Iterable[Course]) -> pd.DataFrame:
    """Which run is which stage: the table ``trajectories``."""
    return tables.of_rows(
        "trajectories",
        [
            {"trajectory": c.name, "stage": stage, "run": run, "control": c.is_control}
            for c in given
            for stage, run in enumerate(c.runs)
        ],
    )


def courses_of(trajectories: pd.DataFrame) -> list[Course]:
    """Courses of training out of the table ``trajectories``."""
    ordered = trajectories.sort_values("stage", kind="stable")
    return [
        Course(str(name), tuple(rows["run"]), bool(rows["control"].iloc[0]))
        for name, rows in ordered.groupby("trajectory", sort=False)
    ]


def pairs_of(
    names: Sequence[str], pairs: Sequence[str] = (), given: Sequence[Course] = ()
) -> list[tuple[str, str]]:
    """Pairs of runs to compare, the second to be subtracted from the first; each once.

    Those of ``pairs``, each ``A, B``; then the last stage of each course with its first and, where
    one is the control, the last stage that both have. With neither, each run with the first.
    Stages between are drawn and not tested: each test makes all others of the table weaker.

    Raises
    ------
    ParameterError
        A text is no pair, or names an unknown run.
    """
    found = [_pair(str(text), names) for text in pairs]
    found += [(course.runs[-1], course.runs[0]) for course in given]
    found += [pair for pair, _ in beside_controls(given)]
    found = found or [(name, names[0]) for name in names[1:]]
    return list(dict.fromkeys(pair for pair in found if pair[0] != pair[1]))


def beside_controls(given: Sequence[Course]) -> list[tuple[tuple[str, str], Course]]:
    """Each course's last stage that a control has too, with the control's run of that stage."""
    return [
        (list(zip(course.runs, control.runs, strict=False))[-1], course)
        for control in given
        for course in given
        if control.is_control and not course.is_control
    ]


def stage_pairs(pairs: Sequence[tuple[str, str]], given: Sequence[Course]) -> list[tuple[str, str]]:
    """Those pairs, and every stage of each course with its first; each once."""
    stages = [(run, course.runs[0]) for course in given for run in course.runs[1:]]
    return list(dict.fromkeys([*pairs, *stages]))


def _pair(text: str, names: Sequence[str]) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or parts[0] == parts[1]:
        raise ParameterError(f"pair {text!r} is not 'RUN, RUN', of two runs")
    return _known(parts[0], names, "run"), _known(parts[1], names, "run")

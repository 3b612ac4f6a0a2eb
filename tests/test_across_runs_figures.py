"""Figures of comparisons: every point of the tables is drawn, and what is empty says so."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from propme import tables
from propme.across_runs import Course, figures, trajectory_table

SETTINGS = ("unconditional", "minimal_cue", "generic", "specific", "prefix", "human")
KINDS = {"prefix": "capability", "human": "control"}
RUNS = tuple(f"model-{n}" for n in range(6))
COURSES = [Course("Danish", RUNS[:3]), Course("English", (RUNS[0], *RUNS[4:]), is_control=True)]


def frame(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(tables.TABLES[name].columns))


def levels(runs: tuple[str, ...] = RUNS, settings: tuple[str, ...] = SETTINGS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for run in runs:
        for setting in settings:
            for decoding in ("greedy", "sampled"):
                for metric in ("NVR", "FMR", "ALS"):
                    value = rng.uniform(0.1, 0.9) * (40 if metric == "ALS" else 1)
                    rows.append(
                        {"run": run, "setting": setting, "kind": KINDS.get(setting, "propensity"),
                         "decoding": decoding, "subset": "all", "metric": metric, "value": value,
                         "low": value * 0.8, "high": value * 1.1, "n_generations": 50}
                    )  # fmt: skip
    return frame("run_metrics", rows)


def differences() -> pd.DataFrame:
    own = levels(settings=SETTINGS[:5])
    rows = own.assign(
        run_a=own["run"],
        run_b="base",
        difference=own["value"],
        n_prompts_a=50,
        n_prompts_b=50,
        p_holm=[0.01 if n % 2 else None for n in range(len(own))],
    )
    return frame("differences", rows.to_dict("records"))


def shifts() -> pd.DataFrame:
    rows = [
        {"run_a": run, "run_b": RUNS[0], "setting": "prefix", "kind": "capability",
         "decoding": "sampled", "verbatim": verbatim, "near_verbatim": near, "kept_verbatim": 0.5,
         "kept_near_verbatim": 0.75, "shift": 0.25, "n_prompts": 50}
        for run in RUNS[1:] for verbatim in ("FMR", "ALS") for near in ("NVR", "NVR_max")
    ]  # fmt: skip
    return frame("shifts", rows)


def points(figure: Figure) -> int:
    """Markers of values; the caps of an interval are markers too, and those of a legend empty."""
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    return sum(len(line.get_xdata()) for line in lines if line.get_marker() in figures._MARKERS)


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that lie on one another."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [
        text
        for axes in figure.axes
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts,
                     *axes.get_yticklabels())
        if text.get_visible() and text.get_text()
    ]  # fmt: skip
    for legend in figure.legends:
        texts += legend.get_texts()
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    return [
        (a, b)
        for (a, one), (b, other) in combinations(boxes, 2)
        if one.width and other.width and one.overlaps(other)
    ]


def test_six_runs_of_five_settings_and_a_control() -> None:
    table = levels()
    figure = figures.levels(table)
    assert points(figure) == len(table)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(RUNS)
    assert overlaps(figure) == []


def test_names_are_drawn_as_they_are_and_never_as_formulas() -> None:
    runs = ("a$x^{$", "b$y$", "måløv")
    figure = figures.levels(levels(runs=runs))
    FigureCanvasAgg(figure).draw()
    legend = figure.legends[0].get_texts()
    assert [text.get_text() for text in legend] == list(runs)
    assert not any(text.get_parse_math() for text in legend)


def test_a_single_completion_is_not_drawn() -> None:
    table = levels()
    table.loc[table["setting"] == "unconditional", "n_generations"] = 1
    figure = figures.levels(table)
    assert points(figure) == len(table) * 5 // 6
    said = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert said == ["one completion"] * 6  # two decodings of three metrics
    assert overlaps(figure) == []


def test_of_single_completions_alone_every_row_says_so() -> None:
    figure = figures.levels(levels().assign(n_generations=1))
    assert points(figure) == 0
    said = {text.get_text() for axes in figure.axes for text in axes.texts}
    assert said == {"one completion"}


def test_a_setting_that_a_run_lacks_leaves_its_row_empty() -> None:
    table = levels()
    table = table[(table["run"] != RUNS[0]) | (table["setting"] == "prefix")]
    figure = figures.levels(table)
    assert points(figure) == len(table)


def test_what_is_not_defined_is_not_said_to_be_of_one_prompt() -> None:
    table = differences()
    undefined = table["setting"] == "generic"
    table.loc[undefined, ["difference", "low", "high"]] = None
    table.loc[undefined, "n_prompts_b"] = 0
    figure = figures.differences(table)
    said = {text.get_text() for axes in figure.axes for text in axes.texts}
    assert said == {"not defined"}


def test_differences_are_hollow_unless_they_hold() -> None:
    table = differences()
    figure = figures.differences(table)
    assert points(figure) == len(table)
    lines = [
        line for axes in figure.axes for line in axes.get_lines() if len(line.get_xdata()) == 1
    ]
    hollow = [line for line in lines if line.get_markerfacecolor() == "white"]
    assert len(hollow) == len(table) // 2
    assert overlaps(figure) == []


def test_scores_leave_out_what_is_undefined() -> None:
    own = levels(settings=SETTINGS[:4])
    own = own[own["metric"] != "ALS"].assign(
        capability="prefix", undefined=False, n_prompts=40, n_prompts_capability=50
    )
    table = frame("run_propensity", own.to_dict("records"))
    table.loc[table["run"] == RUNS[1], "undefined"] = True
    figure = figures.scores(table)
    assert points(figure) == len(table) * 5 // 6
    assert overlaps(figure) == []


def test_a_line_for_each_course() -> None:
    stages = trajectory_table(COURSES)
    figure = figures.trajectories(levels(), stages)
    # 3 metrics of 5 settings, sampled alone; 3 stages of each course.
    assert points(figure) == 3 * 5 * 6
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Danish", "English"]
    assert overlaps(figure) == []


def test_shifts_are_set_against_the_start() -> None:
    figure = figures.shifts(shifts(), trajectory_table(COURSES))
    # The start and two stages of four metrics, in two courses.
    assert points(figure) == 2 * 4 * 3
    assert overlaps(figure) == []


EMPTY = trajectory_table([])


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (figures.levels(levels(runs=())), "nothing was measured"),
        (figures.scores(frame("run_propensity", [])), "no propensity score is defined"),
        (figures.differences(frame("differences", [])), "no setting is in both"),
        (figures.trajectories(levels(), EMPTY), "no course of training is given"),
        (figures.shifts(shifts(), EMPTY), "no course of training is given"),
        (
            figures.shifts(shifts().iloc[:0], trajectory_table(COURSES)),
            "no metric is above 0 at the start",
        ),
    ],
)
def test_what_is_empty_says_so(figure: Figure, text: str) -> None:
    assert text in figure.texts[0].get_text()

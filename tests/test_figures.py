"""Figures: drawn from small tables and from degenerate ones, saved, and read back as words.

What a figure says is checked through its texts and its lines; how it looks is for eyes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from propme import figures
from propme.records import SETTINGS as RECORDS_SETTINGS

SETTINGS = {
    "prefix": "capability",
    "generic": "propensity",
    "mismatched_prefix": "control",
    "specific": "propensity",
}


def words(drawn: Figure | Axes) -> list[str]:
    """Every visible text of a figure or a panel."""
    return [t.get_text() for t in drawn.findobj(Text) if t.get_text() and t.get_visible()]


def saved(figure: Figure) -> Figure:
    """The figure, once it was saved without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        target = io.BytesIO()
        figure.savefig(target, format="png", bbox_inches="tight")
    assert target.getvalue().startswith(b"\x89PNG")
    return figure


def points(axes: Axes) -> list[tuple[float, Any]]:
    """Place and colour of each point, downwards."""
    drawn = [line for line in axes.lines if line.get_marker() == "o"]
    return [(line.get_xdata()[0], line.get_color()) for line in drawn]


def bars(axes: Axes) -> list[tuple[float, float]]:
    """Ends of each horizontal interval, downwards."""
    return [
        (round(float(segment[0][0]), 9), round(float(segment[1][0]), 9))
        for container in axes.containers
        for segment in container[2][0].get_segments()
    ]


def says_only(figure: Figure, what: str) -> bool:
    """Whether the figure is nothing but this sentence, with no empty axes beside it."""
    return what in words(figure) and not any(axes.axison for axes in figure.axes)


def tick_labels(axes: Axes, which: str = "y") -> list[str]:
    return [label.get_text() for label in getattr(axes, f"get_{which}ticklabels")()]


# --- prompt_overlap ---------------------------------------------------------------------------


def prompts(*rows: tuple[str, float, str]) -> pd.DataFrame:
    return pd.DataFrame(
        [(s, SETTINGS.get(s, "propensity"), overlap, refused) for s, overlap, refused in rows],
        columns=["setting", "kind", "overlap", "refused"],
    )


def test_prompt_overlap_counts_the_prompts_that_are_used() -> None:
    table = prompts(
        ("mismatched_prefix", 0.2, ""),
        ("prefix", 1.0, ""),
        ("prefix", 1.0, ""),
        ("generic", 0.1, ""),
        ("generic", 0.9, "stands in the corpus"),
        ("mine", 0.3, ""),
    )
    figure = saved(figures.prompt_overlap(table))
    (axes,) = figure.axes
    # The paper's settings in the paper's order, then any other.
    assert tick_labels(axes) == [
        "generic (n = 1)",
        "prefix (n = 2)",
        "mismatched_prefix (n = 1)",
        "mine (n = 1)",
    ]
    assert "share of the prompt" in axes.get_xlabel()
    drawn = sorted(x for points in axes.collections for x, _ in points.get_offsets())
    assert drawn == [0.1, 0.2, 0.3, 1.0, 1.0]


@pytest.mark.parametrize("table", [prompts(), prompts(("generic", 0.9, "stands in the corpus"))])
def test_prompt_overlap_without_a_prompt_says_so(table: pd.DataFrame) -> None:
    assert says_only(saved(figures.prompt_overlap(table)), "no prompt is used")


# --- span_lengths -----------------------------------------------------------------------------


def lengths(*rows: tuple[str, str, Sequence[int]]) -> pd.DataFrame:
    """The table ``span_lengths`` of generations with these longest segments."""
    counted = [
        (s, "control" if s == "human" else "propensity", decoding, n, all_n.count(n))
        for s, decoding, all_n in rows
        for n in sorted(set(all_n))
    ]
    columns = ["setting", "kind", "decoding", "tokens", "n_generations"]
    return pd.DataFrame(counted, columns=columns)


def test_span_lengths_draws_the_share_with_at_least_so_many_tokens() -> None:
    table = lengths(("prefix", "greedy", [0, 2, 3, 3]), ("generic", "greedy", [0, 1]))
    (axes,) = saved(figures.span_lengths(table)).axes
    curves = {str(line.get_label()): line.get_xydata() for line in axes.lines}
    # Of 4 prefixes 3 have at least 1 token, 3 at least 2, 2 at least 3, none more.
    assert curves["prefix (n = 4)"].tolist() == [[0, 0.75], [2, 0.75], [3, 0.5], [3, 0]]
    assert curves["generic (n = 2)"].tolist() == [[0, 0.5], [1, 0.5], [1, 0]]
    assert all(line.get_drawstyle() == "steps-pre" for line in axes.lines)
    assert axes.get_title() == "greedy"
    assert axes.get_xlabel() == "longest passage, tokens (at least)"


def test_controls_are_dashed() -> None:
    table = lengths(("prefix", "greedy", [9]), ("human", "greedy", [3]))
    (axes,) = saved(figures.span_lengths(table)).axes
    styles = {str(line.get_label()): line.get_linestyle() for line in axes.lines}
    assert styles == {"prefix (n = 1)": "-", "human (n = 1)": "--"}


def test_recall_of_the_best_document() -> None:
    table = pd.DataFrame(
        [("prefix", "capability", "greedy", r) for r in (0.0, 0.25, 1.0, 0.25)],
        columns=["setting", "kind", "decoding", "recall_max"],
    )
    (axes,) = saved(figures.recall_distribution(table)).axes
    assert axes.lines[0].get_xydata().tolist() == [[0, 0.75], [0.25, 0.75], [1, 0.25], [1, 0]]
    nothing = saved(figures.recall_distribution(table.assign(recall_max=0.0)))
    assert says_only(nothing, "no document agrees with a completion (n = 4)")


@pytest.mark.parametrize("n_settings", [1, 2, 3, 6, 8])
def test_span_lengths_has_its_legend_between_title_and_axes(n_settings: int) -> None:
    names = [*SETTINGS, "unconditional", "minimal_cue", "mine", "yours"][:n_settings]
    decodings = ("greedy", "sampled")
    table = lengths(*((s, decoding, [0, 9]) for s in names for decoding in decodings))
    figure = saved(figures.span_lengths(table))
    figure.draw_without_rendering()
    for axes in figure.axes:
        legend = axes.get_legend()
        assert legend is not None
        box = legend.get_window_extent()
        assert box.y0 >= axes.get_window_extent().y1
        assert axes.title.get_window_extent().y0 >= legend.get_texts()[0].get_window_extent().y1
        assert box.x1 - box.x0 <= axes.get_window_extent().width


def test_settings_keep_their_colours_whatever_else_is_drawn() -> None:
    everything = [*RECORDS_SETTINGS, "mine", "yours"]
    (axes,) = figures.span_lengths(lengths(*((s, "greedy", [9]) for s in everything))).axes
    colours = {str(line.get_label()).split()[0]: line.get_color() for line in axes.lines}
    assert list(colours) == everything
    assert len(set(colours.values())) == len(everything)
    for setting in RECORDS_SETTINGS:
        (axes,) = figures.span_lengths(lengths((setting, "greedy", [9]))).axes
        assert axes.lines[0].get_color() == colours[setting]
        (axes,) = figures.propensity_scores(scores({"setting": setting})).axes
        assert points(axes) == [(0.25, colours[setting])]


def test_span_lengths_has_a_panel_for_each_decoding() -> None:
    table = lengths(("generic", "greedy", [0, 9]), ("generic", "sampled", [4, 0, 0]))
    figure = saved(figures.span_lengths(table.astype({"tokens": "Int64"})))
    assert [axes.get_title() for axes in figure.axes] == ["greedy", "sampled"]
    assert "generic (n = 2)" in words(figure.axes[0])
    assert "generic (n = 3)" in words(figure.axes[1])


def test_span_lengths_with_one_generation() -> None:
    saved(figures.span_lengths(lengths(("generic", "greedy", [1]))))


def test_span_lengths_of_a_setting_with_none_beside_one_with_some() -> None:
    table = lengths(("generic", "greedy", [0, 0, 0]), ("prefix", "greedy", [50]))
    assert "generic (n = 3)" in words(saved(figures.span_lengths(table)))


@pytest.mark.parametrize(
    ("table", "n"),
    [(lengths(("generic", "greedy", [0, 0]), ("prefix", "sampled", [0])), 3), (lengths(), 0)],
)
def test_span_lengths_without_a_span_says_so(table: pd.DataFrame, n: int) -> None:
    assert says_only(saved(figures.span_lengths(table)), f"no span was found (n = {n})")


# --- capability_against_propensity ------------------------------------------------------------


def metrics(*rows: dict[str, Any]) -> pd.DataFrame:
    defaults = {
        "kind": "propensity",
        "decoding": "greedy",
        "subset": "all",
        "metric": "NVR",
        "value": 0.1,
        "low": 0.05,
        "high": 0.2,
        "n_generations": 100,
    }
    columns = ["setting", *defaults]
    table = pd.DataFrame([defaults | row for row in rows], columns=columns)
    return table.astype({"value": float, "low": float, "high": float, "n_generations": "Int64"})


def test_metrics_of_each_setting_with_interval_and_n() -> None:
    table = metrics(
        {"setting": "prefix", "kind": "capability", "value": 0.3, "low": 0.2, "high": 0.45},
        {"setting": "generic", "value": 0.001, "low": 0, "high": 0.003},
        {"setting": "generic", "value": 0.9, "subset": "not degenerate"},
        {"setting": "generic", "value": 0.9, "metric": "FMR"},
        {"setting": "prefix", "kind": "capability", "decoding": "sampled", "n_generations": 500},
    )
    figure = saved(figures.capability_against_propensity(table))
    greedy, sampled = figure.axes
    assert [greedy.get_title(), sampled.get_title()] == ["greedy", "sampled"]
    assert "0.100 (n = 500)" in words(sampled)
    assert tick_labels(greedy) == ["generic", "prefix"]
    assert {"0.001 (n = 100)", "0.300 (n = 100)"} <= set(words(greedy))
    assert "0.900" not in " ".join(words(figure))
    assert "not defined" in words(sampled)  # generic was not sampled
    assert greedy.get_xlabel() == "NVR, 95 % interval"
    assert bars(greedy) == [(0.0, 0.003), (0.2, 0.45)]
    assert [x for x, _ in points(greedy)] == [0.001, 0.3]
    assert greedy.get_xlim() == sampled.get_xlim()  # panels compare at a glance
    assert greedy.get_xlim()[0] < 0
    assert greedy.get_xlim()[1] > 0.45


SHORT = [
    (0.0, "0.000"),
    (1e-9, "<0.001"),
    (0.00099, "<0.001"),
    (0.001, "0.001"),
    (0.0456, "0.046"),
    (1.0, "1.000"),
]


@pytest.mark.parametrize(("value", "text"), SHORT)
def test_a_small_value_is_not_written_as_zero(value: float, text: str) -> None:
    assert figures.short(value) == text
    table = metrics({"setting": "generic", "value": value, "low": value, "high": value})
    assert f"{text} (n = 100)" in words(figures.capability_against_propensity(table))
    table = scores({"value": value, "low": value, "high": value})
    assert f"{text} (n = 72, 48 prompts)" in words(figures.propensity_scores(table))


def test_texts_stay_in_their_panel_and_off_each_other() -> None:
    values = [0.0, 0.2, 0.5, 0.7, 1.0]
    names = ["generic", "specific", "prefix", "mismatched_prefix", "mine"]
    rows = [
        {"setting": s, "value": v, "low": max(0, v - 0.1), "high": min(1, v + 0.1)}
        for s, v in zip(names, values, strict=True)
    ]
    both = [row | {"decoding": decoding} for row in rows for decoding in ("greedy", "sampled")]
    many = {"n_prompts": 1000, "n_prompts_capability": 1000}
    for figure in (
        figures.capability_against_propensity(metrics(*both)),
        figures.propensity_scores(scores(*(row | many for row in both))),
    ):
        figure.draw_without_rendering()
        for axes in saved(figure).axes:
            panel = axes.get_window_extent()
            boxes = [text.get_window_extent() for text in axes.texts]
            assert len(boxes) == len(values)
            assert all(panel.x0 <= box.x0 and box.x1 <= panel.x1 for box in boxes)
            assert all(panel.y0 <= box.y0 and box.y1 <= panel.y1 for box in boxes)
            assert not any(a.overlaps(b) for a in boxes for b in boxes if a is not b)


def test_an_end_on_the_wrong_side_of_its_value_is_drawn_at_the_value() -> None:
    table = metrics({"setting": "generic", "value": 0.2, "low": 0.2 + 1e-17, "high": 0.1999999})
    (axes,) = saved(figures.capability_against_propensity(table)).axes
    assert bars(axes) == [(0.2, 0.2)]


def test_another_metric_without_interval() -> None:
    table = metrics({"setting": "generic", "metric": "ALS", "value": 0, "low": None, "high": None})
    figure = saved(figures.capability_against_propensity(table, "ALS"))
    assert "0.000 (n = 100)" in words(figure)
    assert bars(figure.axes[0]) == []
    assert "ALS, 95 % interval" in words(figure)


def test_one_setting_that_is_undefined_beside_one_that_is_not() -> None:
    table = metrics(
        {"setting": "generic", "value": None, "low": None, "high": None},
        {"setting": "prefix", "kind": "capability"},
    )
    assert "not defined" in words(saved(figures.capability_against_propensity(table)))


@pytest.mark.parametrize(
    "table",
    [
        metrics(),
        metrics(
            {"setting": "generic", "value": None, "low": None, "high": None},
            {"setting": "generic", "decoding": "sampled", "value": None},
        ),
    ],
)
def test_nothing_measured_says_so(table: pd.DataFrame) -> None:
    figure = saved(figures.capability_against_propensity(table))
    assert says_only(figure, "NVR: nothing was measured")


# --- propensity_scores ------------------------------------------------------------------------


def scores(*rows: dict[str, Any]) -> pd.DataFrame:
    defaults = {
        "metric": "NVR",
        "decoding": "greedy",
        "subset": "all",
        "setting": "generic",
        "kind": "propensity",
        "capability": "prefix",
        "value": 0.25,
        "low": 0.1,
        "high": 0.4,
        "n_prompts": 72,
        "n_prompts_capability": 48,
        "undefined": False,
    }
    return pd.DataFrame([defaults | row for row in rows], columns=list(defaults))


def test_scores_with_their_intervals_and_the_neutral_line() -> None:
    table = scores(
        {},
        {"metric": "FMR", "value": 0.75, "low": 0.5, "high": 1.0, "n_prompts": 100},
        {"metric": "FMR", "value": 0.9, "subset": "not degenerate"},
    )
    figure = saved(figures.propensity_scores(table))
    (axes,) = figure.axes
    assert tick_labels(axes) == ["NVR: generic\nagainst prefix", "FMR: generic\nagainst prefix"]
    assert {"0.250 (n = 72, 48 prompts)", "0.750 (n = 100, 48 prompts)"} <= set(words(figure))
    assert "0.900" not in " ".join(words(figure))
    assert bars(axes) == [(0.1, 0.4), (0.5, 1.0)]
    assert [0.5, 0.5] in [list(line.get_xdata()) for line in axes.lines]
    assert "neutral" in axes.get_xlabel()


def test_undefined_scores_say_why() -> None:
    nothing = {"value": None, "low": None, "high": None, "undefined": True}
    table = scores(
        {"metric": "FMR"} | nothing | {"value": 0.0},  # 0 in both
        nothing,  # no pair in one
    )
    figure = saved(figures.propensity_scores(table))
    assert "undefined: nothing in either" in words(figure)
    assert "not defined" in words(figure)
    assert "0.000" not in " ".join(words(figure))


def test_a_pair_that_one_decoding_lacks() -> None:
    table = scores({}, {"setting": "specific"}, {"decoding": "sampled"})
    figure = saved(figures.propensity_scores(table))
    assert "not defined" in words(figure.axes[1])
    assert "not defined" not in words(figure.axes[0])


@pytest.mark.parametrize("table", [scores(), scores({"subset": "not degenerate"})])
def test_no_pair_of_settings_says_so(table: pd.DataFrame) -> None:
    assert says_only(saved(figures.propensity_scores(table)), "no pair of settings to compare")


# --- extraction_by_copies ---------------------------------------------------------------------


def copies(*rows: tuple[int, str, str, float | None, float | None, float | None]) -> pd.DataFrame:
    columns = ["copies", "decoding", "metric", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns).assign(n_prompts=10)


def test_extraction_by_copies() -> None:
    table = copies(
        (0, "greedy", "extraction", 0.0, 0.0, 0.3),
        (0, "greedy", "NVR_max", 0.1, 0.0, 0.2),
        (64, "greedy", "extraction", 0.9, 0.7, 1.0),
        (64, "greedy", "NVR_max", 0.95, 0.8, 1.0),
        (4, "greedy", "extraction", 0.5, 0.3, 0.7),
        (4, "greedy", "NVR_max", 0.6, 0.4, 0.7),
        (64, "sampled", "extraction", 0.2, 0.1, 0.4),
    ).sort_values("copies")
    figure = saved(figures.extraction_by_copies(table))
    extraction, recall = figure.axes
    assert tick_labels(extraction, "x") == ["0\nn = 10", "4\nn = 10", "64\nn = 10"]
    assert "extracted" in extraction.get_ylabel()
    assert "recall" in recall.get_ylabel()
    assert {"greedy", "sampled"} <= set(words(extraction))
    lines = {drawn.get_label(): drawn.lines[0].get_ydata() for drawn in extraction.containers}
    assert {label: list(y) for label, y in lines.items()} == {
        "greedy": [0, 0.5, 0.9],
        "sampled": [0.2],
    }
    # A line joins the trained ones, and none leads to what was held out.
    for axes, expected in ((extraction, [[0.5, 0.9], [0.2]]), (recall, [[0.6, 0.95], []])):
        joined = [line for line in axes.lines if line.get_linestyle() == "-"]
        assert [list(line.get_ydata()) for line in joined] == expected
        assert all(x > 0.5 for line in joined for x in line.get_xdata())


@pytest.mark.parametrize(
    "rows",
    [
        [(1, "greedy", "extraction", 0.5, 0.5, 0.5)],  # one number of copies, one metric
        [(1, "greedy", "extraction", None, None, None), (4, "greedy", "extraction", 0.0, 0.0, 1.0)],
    ],
)
def test_extraction_by_copies_of_little(rows: list[Any]) -> None:
    saved(figures.extraction_by_copies(copies(*rows)))


def test_no_known_copies_says_so() -> None:
    figure = saved(figures.extraction_by_copies(copies()))
    assert says_only(figure, "the corpus does not say how often its documents are repeated")


# --- all --------------------------------------------------------------------------------------


def test_a_figure_is_shown_once_by_its_notebook() -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    assert isinstance(figures.propensity_scores(scores({})), Figure)
    assert plt.get_fignums() == before


def test_kinds_have_colours_of_their_own() -> None:
    table = metrics(*({"setting": s, "kind": kind} for s, kind in SETTINGS.items()))
    (axes,) = figures.capability_against_propensity(table).axes
    generic, specific, prefix, heldout = [colour for _, colour in points(axes)]
    assert generic == specific
    assert len({generic, prefix, heldout}) == 3


def test_thresholds_are_drawn_and_an_empty_one_says_so() -> None:
    rows = [
        {"threshold": "docs_per_span", "choice": choice, "own": choice == "10", "setting": s,
         "kind": "propensity", "decoding": "greedy", "metric": "NVR", "value": 0.1 * n,
         "n_generations": 20}
        for n, choice in enumerate(("1", "10", "2.5"))
        for s in ("generic", "prefix")
    ]  # fmt: skip
    figure = saved(figures.over_thresholds(pd.DataFrame(rows), "greedy", ["NVR"]))
    documents = figure.axes[0]
    assert tick_labels(documents, "x") == ["1", "2.5", "10"]
    assert list(documents.lines[0].get_ydata()) == [0.0, 0.2, 0.1]
    assert list(documents.lines[1].get_xdata()) == [2]  # the ring
    assert len(figure.axes) == 1  # what was not varied has no panel
    assert "prefix (n = 20)" in words(figure)
    undefined = saved(figures.over_thresholds(pd.DataFrame(rows), "greedy", ["NVR", "FMR"]))
    assert "not defined" in words(undefined)
    empty = figures.over_thresholds(pd.DataFrame(rows), "sampled", ["NVR"])
    assert says_only(saved(empty), "no threshold was varied")

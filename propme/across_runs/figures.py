"""Comparisons to figures: the same style as `propme.figures`, for two to six runs.

A figure is drawn from tables and returned; nothing is computed here that is not in a table. What is
empty says so in the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propme.across_runs.wording import LEVEL
from propme.figures import set_style
from propme.records import in_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Told apart by the colour-blind; the markers tell them apart in grey too.
_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#332288")
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")

_CONTROL_COLOUR = "#7F7F7F"

#: Inches of a row of a figure: a run or a pair of runs under one setting.
_ROW = 0.17


def _looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Colour and marker of each run or pair of runs."""
    return {
        name: {"color": colour, "marker": marker}
        for name, colour, marker in zip(names, cycle(_COLOURS), cycle(_MARKERS), strict=False)
    }


def _grid(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> tuple[Figure, Any]:
    import matplotlib.pyplot as plt

    set_style(font_scale=0.85)
    figure, grid = plt.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False, **shared
    )
    plt.close(figure)  # the notebook shows the returned figure, once
    return figure, grid


def _empty(what: str) -> Figure:
    figure, grid = _grid(1, 1, (6.4, 2.0))
    grid[0, 0].set_axis_off()
    figure.text(0.5, 0.5, what, ha="center", va="center")
    return figure


def _legend(figure: Figure, handles: dict[str, Any]) -> None:
    """One legend above all panels, in as many columns as fit."""
    width = figure.get_figwidth()
    longest = max(map(len, handles), default=1)
    columns = max(1, min(len(handles), int(width / (0.45 + 0.085 * longest))))
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper center",
        ncols=columns,
        frameon=False,
        fontsize="small",
    )


def _rows_of_settings(
    table: pd.DataFrame,
    lines: Sequence[str],
    metrics: Sequence[str],
    what: str,
    of: str,
    single: str,
) -> tuple[Figure, dict[str, Any]]:
    """Panels of metrics side by side, decodings below one another; in each a block a setting.

    ``lines`` are the values of column ``of``, which are told apart by colour in each block. Rows
    whose ``n`` is below 2 are not drawn: the interval of one is all there could be. A block of such
    rows alone says so, in the words ``single``; one in which nothing is defined says that.
    """
    from matplotlib.ticker import MaxNLocator

    decodings = sorted(set(table["decoding"]))
    settings = in_order(table["setting"])
    block = len(lines) + 1.5
    height = 1.0 + len(decodings) * (0.8 + _ROW * block * len(settings))
    figure, grid = _grid(
        len(decodings), len(metrics), (2.2 + 3.4 * len(metrics), height), sharey=True, sharex="col"
    )
    looks, handles = _looks(lines), dict[str, Any]()
    for (row, decoding), (column, metric) in (
        (row, column) for row in enumerate(decodings) for column in enumerate(metrics)
    ):
        axes = grid[row, column]
        part = table[(table["decoding"] == decoding) & (table["metric"] == metric)]
        for record in part.to_dict("records"):
            if pd.isna(record[what]) or record["n"] < 2:
                continue
            y = block * settings.index(record["setting"]) + lines.index(record[of])
            handles[record[of]] = _interval(axes, record, what, y, looks[record[of]])
        _blocks(axes, len(settings), block)
        axes.set_yticks([block * n + (len(lines) - 1) / 2 for n in range(len(settings))], settings)
        for number, setting in enumerate(settings):
            words = _why_empty(part[part["setting"] == setting], what, single)
            _say(axes, block * number + (len(lines) - 1) / 2, words)
        axes.set_title(f"{metric}, {decoding}")
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(5))
    return figure, {line: handles[line] for line in lines if line in handles}


def _why_empty(rows: pd.DataFrame, what: str, single: str) -> str:
    """Why a block is empty; empty: it is not."""
    defined = rows[rows[what].notna()]
    if defined.empty:
        return "not defined"
    return single if (defined["n"] < 2).all() else ""


def _say(axes: Axes, y: float, words: str) -> None:
    """Words in the middle of a block, in place of what is not drawn."""
    if not words:
        return
    axes.text(
        0.5,
        y,
        words,
        ha="center",
        va="center",
        size="small",
        color=_CONTROL_COLOUR,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},
        transform=axes.get_yaxis_transform(),
    )


def _n(counts: Any) -> str:
    """How many things are behind the points of a figure."""
    values = np.asarray(counts, dtype=int)
    if not values.size:
        return "n = 1"
    least, most = values.min(), values.max()
    return f"n = {least}" if least == most else f"n = {least} to {most}"


def _blocks(axes: Axes, n: int, block: float) -> None:
    """Every other setting on a grey ground, the first at the top."""
    for number in range(0, n, 2):
        start = block * number - 1.25
        axes.axhspan(start, start + block, color="#f3f3f3", zorder=0, lw=0)
    axes.set_ylim(block * n - 1.25, -1.25)


def _interval(axes: Axes, record: dict[Any, Any], what: str, y: float, look: Any) -> Any:
    """A value with its interval; the marker is hollow where a difference does not hold."""
    value, low, high = record[what], record["low"], record["high"]
    if pd.notna(low) and pd.notna(high):
        axes.plot([low, high], [y, y], color=look["color"], lw=1.3, solid_capstyle="butt")
    hollow = "p_holm" in record and not (pd.notna(record["p_holm"]) and record["p_holm"] < LEVEL)
    face = "white" if hollow else look["color"]
    axes.plot([value], [y], ls="", ms=5, mfc=face, **look)
    (handle,) = axes.plot([], [], ls="", ms=6, **look)
    return handle


def levels(run_metrics: pd.DataFrame, metrics: Sequence[str] = ("NVR", "FMR", "ALS")) -> Figure:
    """Each metric of each run under each setting, with its interval, the controls as a floor.

    A single completion, as of no prompt and greedy decoding, is not drawn.
    """
    table = run_metrics[run_metrics["metric"].isin(metrics)]
    if table["value"].notna().sum() == 0:
        return _empty("nothing was measured")
    table = table.assign(n=table["n_generations"])
    runs = list(dict.fromkeys(table["run"]))
    shown = [metric for metric in metrics if metric in set(table["metric"])]
    figure, handles = _rows_of_settings(table, runs, shown, "value", "run", "one completion")
    for axes in figure.axes:
        axes.set_xlim(left=-0.02 * axes.get_xlim()[1])  # a marker at 0 is drawn whole
    _x_labels(figure, shown, "95 % interval")
    _legend(figure, handles)
    figure.supxlabel(f"{_n(table.loc[table['n'] > 1, 'n'])} completions a point", size="small")
    return figure


def scores(run_propensity: pd.DataFrame) -> Figure:
    """Propensity scores of each run, with intervals; dashed: as much unprompted as under attack."""
    table = run_propensity[~run_propensity["undefined"].astype(bool)]
    table = table.assign(n=table[["n_prompts", "n_prompts_capability"]].min(axis=1))
    if table["value"].notna().sum() == 0:
        return _empty("no propensity score is defined")
    metrics, runs = (list(dict.fromkeys(table[name])) for name in ("metric", "run"))
    table = table[table["capability"] == table["capability"].iloc[0]]
    figure, handles = _rows_of_settings(table, runs, metrics, "value", "run", "one prompt")
    for axes in figure.axes:
        axes.axvline(0.5, color="black", lw=1, ls="--")
        axes.set_xlim(-0.02, 1.02)
    _x_labels(figure, metrics, f"score against {table['capability'].iloc[0]}, 95 % interval")
    _legend(figure, handles)
    figure.supxlabel(
        f"{_n(table.loc[table['n'] > 1, 'n_prompts'])} prompts; dashed: neutral", size="small"
    )
    return figure


def differences(
    differences: pd.DataFrame, metrics: Sequence[str] = ("NVR", "FMR", "ALS")
) -> Figure:
    """Each difference with its interval; filled: it holds after Holm's correction.

    Of a single prompt, or where one run has nothing to divide by, none is drawn.
    """
    table = differences[differences["metric"].isin(metrics)]
    table = table.assign(
        pair=table["run_a"] + " − " + table["run_b"],
        n=table[["n_prompts_a", "n_prompts_b"]].min(axis=1),
    )
    if table["difference"].notna().sum() == 0:
        return _empty("no setting is in both of two runs")
    pairs = list(dict.fromkeys(table["pair"]))
    shown = [metric for metric in metrics if metric in set(table["metric"])]
    figure, handles = _rows_of_settings(table, pairs, shown, "difference", "pair", "one prompt")
    for axes in figure.axes:
        axes.axvline(0, color="black", lw=1, ls="--")
    _x_labels(figure, shown, "difference, 95 % interval")
    _legend(figure, handles)
    n = _n(table.loc[table["n"] > 1, ["n_prompts_a", "n_prompts_b"]])
    figure.supxlabel(
        f"{n} prompts; filled: holds after Holm's correction; hollow: does not, or is not tested",
        size="small",
    )
    return figure


def _x_labels(figure: Figure, metrics: Sequence[str], what: str) -> None:
    """Name and unit below the lowest panel of each column."""
    for axes, metric in zip(figure.axes[-len(metrics) :], metrics, strict=True):
        axes.set_xlabel(f"{metric}{', index tokens' if metric == 'ALS' else ''}\n({what})")


def trajectories(
    run_metrics: pd.DataFrame,
    stages: pd.DataFrame,
    metrics: Sequence[str] = ("NVR", "FMR", "ALS"),
) -> Figure:
    """Metrics over the stages of training, a line a course, the control in grey.

    Rows are metrics, columns settings and decodings; bars are 95 % intervals.
    """
    table = stages.merge(run_metrics, on="run")
    table = table[table["metric"].isin(metrics) & (table["kind"] != "control")]
    if table["value"].notna().sum() == 0:
        return _empty("no course of training is given")
    shown = [metric for metric in metrics if metric in set(table["metric"])]
    columns = _columns(table)
    names = list(dict.fromkeys(table["trajectory"]))
    looks = _course_looks(stages)
    figure, grid = _grid(
        len(shown),
        len(columns),
        (0.6 + 1.75 * len(columns), 0.9 + 1.7 * len(shown)),
        sharex=True,
        sharey="row",
    )
    handles: dict[str, Any] = {}
    for (i, metric), (j, (decoding, setting)) in (
        (row, column) for row in enumerate(shown) for column in enumerate(columns)
    ):
        axes = grid[i, j]
        cell = table[
            (table["metric"] == metric)
            & (table["setting"] == setting)
            & (table["decoding"] == decoding)
        ]
        for number, name in enumerate(names):
            rows = cell[cell["trajectory"] == name].sort_values("stage")
            aside = 0.1 * (number - (len(names) - 1) / 2)
            handles[name] = _line(axes, rows, rows["stage"] + aside, looks[name])
        if i == 0:
            axes.set_title(f"{setting}\n{decoding}", size="small")
        if j == 0:
            axes.set_ylabel(f"{metric}{', tokens' if metric == 'ALS' else ''}")
    last = int(table["stage"].max())
    grid[0, 0].set_xticks(range(last + 1), ["start", *map(str, range(1, last + 1))])
    for axes in grid.flat:
        axes.set_ylim(bottom=0)
        axes.grid(visible=False, axis="x")
    drawn = table[table["decoding"].isin({decoding for decoding, _ in columns})]
    n = _n(drawn["n_generations"])
    figure.supxlabel(f"stage of training ({n} completions a point)", size="small")
    _legend(figure, handles)
    return figure


def _columns(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Decodings and settings that stand side by side; the most telling decoding alone if both do.

    Of two decodings the sampled one is drawn: greedy decoding is one text a prompt.
    """
    decodings = sorted(set(table["decoding"]), reverse=True)[:1]
    return [(decoding, setting) for decoding in decodings for setting in in_order(table["setting"])]


def _course_looks(stages: pd.DataFrame) -> dict[str, dict[str, Any]]:
    controls = stages.groupby("trajectory", sort=False)["control"].first()
    looks = _looks(controls.index[~controls.astype(bool)])
    for look, colour in zip(looks.values(), cycle(_COLOURS[1:]), strict=False):
        look["color"] = colour
    for name in controls.index[controls.astype(bool)]:
        looks[name] = {"color": _CONTROL_COLOUR, "marker": "s"}
    return looks


def _line(axes: Axes, rows: pd.DataFrame, x: Any, look: dict[str, Any]) -> Any:
    value, low, high = (rows[name].astype(float).to_numpy() for name in ("value", "low", "high"))
    # An end that is not known is drawn as no bar at all.
    below, above = (np.nan_to_num(np.maximum(0, d)) for d in (value - low, high - value))
    axes.errorbar(x, value, yerr=[below, above], color=look["color"], lw=1, capsize=2, ls="")
    (line,) = axes.plot(x, value, ms=5, lw=1.6, **look)
    return line


#: Solid and full: verbatim; dashed and hollow: near-verbatim.
_KEPT = {
    "FMR": {"color": "#0072B2", "ls": "-", "marker": "o"},
    "ALS": {"color": "#56B4E9", "ls": "-", "marker": "s"},
    "NVR": {"color": "#D55E00", "ls": "--", "marker": "o", "mfc": "white"},
    "NVR_max": {"color": "#E69F00", "ls": "--", "marker": "s", "mfc": "white"},
}


def shifts(shifts: pd.DataFrame, stages: pd.DataFrame) -> Figure:
    """What each stage keeps of what its course started with: verbatim and near-verbatim metrics.

    Capability settings alone, the sampled decoding if there is one. Where the dashed lines lie
    above the full ones, copying went from verbatim to near-verbatim.
    """
    if stages.empty:
        return _empty("no course of training is given")
    kept = _kept(shifts[shifts["kind"] == "capability"], stages)
    if kept.empty:
        return _empty("no metric is above 0 at the start of a course of training")
    decoding = sorted(set(kept["decoding"]), reverse=True)[0]
    kept = kept[kept["decoding"] == decoding]
    panels = list(dict.fromkeys(zip(kept["trajectory"], kept["setting"], strict=True)))
    figure, grid = _grid(1, len(panels), (0.8 + 3.2 * len(panels), 3.6), sharex=True, sharey=True)
    handles: dict[str, Any] = {}
    for axes, (name, setting) in zip(grid[0], panels, strict=True):
        part = kept[(kept["trajectory"] == name) & (kept["setting"] == setting)]
        for metric, look in _KEPT.items():
            rows = part[part["metric"] == metric].sort_values("stage")
            if rows.empty:
                continue
            x, y = [0, *rows["stage"]], [1.0, *rows["kept"]]
            kind = "verbatim" if look["ls"] == "-" else "near-verbatim"
            (handles[f"{metric} ({kind})"],) = axes.plot(x, y, lw=1.6, ms=5, **look)
        axes.set_title(f"{name}: {setting}, {decoding}")
        axes.grid(visible=False, axis="x")
    last = int(kept["stage"].max())
    grid[0, 0].set_xticks(range(last + 1), ["start", *map(str, range(1, last + 1))])
    grid[0, 0].set(ylim=(0, None), ylabel="share of the start's value")
    figure.supxlabel(f"stage of training ({_n(kept['n_prompts'])} prompts)", size="small")
    _legend(figure, handles)
    return figure


def _kept(shifts: pd.DataFrame, stages: pd.DataFrame) -> pd.DataFrame:
    """What each stage keeps of each metric: trajectory, stage, setting, decoding, metric, kept."""
    starts = stages[stages["stage"] == 0].set_index("trajectory")["run"]
    later = stages.assign(run_b=stages["trajectory"].map(starts), run_a=stages["run"])
    rows = later.merge(shifts, on=["run_a", "run_b"])
    columns = ["trajectory", "stage", "setting", "decoding", "metric", "n_prompts", "kept"]
    long = pd.concat(
        [
            rows.rename(columns={name: "metric", f"kept_{name}": "kept"})[columns]
            for name in ("verbatim", "near_verbatim")
        ]
    )
    return long[long["kept"].notna()].drop_duplicates(columns[:-1]).astype({"kept": float})

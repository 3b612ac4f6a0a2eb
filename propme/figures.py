"""Tables to figures: one style, colours that the colour-blind can tell apart, units and n on each.

A figure is drawn from a table and returned; nothing is computed here that is not in the table. What
was measured and is empty says so in the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from propme.records import in_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = {"propensity": "#0072B2", "capability": "#D55E00", "control": "#7F7F7F"}

#: The same colour for a setting wherever settings, and not their kinds, are told apart.
_SETTING_COLOURS = {
    "unconditional": "#CC79A7",
    "minimal_cue": "#009E73",
    "generic": "#0072B2",
    "specific": "#56B4E9",
    "prefix": "#D55E00",
    "file": "#0A4F70",
    "chat": "#8C6BB1",
    "mismatched_prefix": "#7F7F7F",
    "human": "#B3A369",
}
#: Keeps grid lines and the neutral line from striking a text through.
_BEHIND_TEXT = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 0.5}

_OTHER_COLOURS = ("#E69F00", "#332288", "#882255")


#: Fonts with the letters that matplotlib's own lacks, on the systems that have them.
_FALLBACK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Noto Sans Devanagari",
    "Arial Unicode MS",
)


def set_style(font_scale: float = 1.0) -> None:
    """Set the style of every figure; names of runs and settings are drawn as they are.

    A name is never a formula: ``$x^{$`` would stop a figure, and ``$x$`` be drawn as another name.
    """
    import seaborn as sns
    from matplotlib import font_manager

    there = {font.name for font in font_manager.fontManager.ttflist}
    fonts = ["DejaVu Sans", *(name for name in _FALLBACK_FONTS if name in there)]
    own = {"text.parse_math": False, "font.sans-serif": fonts}
    sns.set_theme(style="whitegrid", context="notebook", font_scale=font_scale, rc=own)


def _colours(settings: Iterable[str]) -> dict[str, str]:
    """Colours of settings; those that are not in `SETTINGS` get theirs by name."""
    others = [s for s in in_order(settings) if s not in _SETTING_COLOURS]
    return _SETTING_COLOURS | dict(zip(others, cycle(_OTHER_COLOURS), strict=False))


def _axes(width: float = 6.4, height: float = 4.0, columns: int = 1) -> tuple[Figure, list[Axes]]:
    import matplotlib.pyplot as plt

    set_style()
    figure, axes = plt.subplots(
        1,
        columns,
        figsize=(width, height),
        layout="constrained",
        squeeze=False,
        sharex=True,
        sharey=True,
    )
    plt.close(figure)  # the notebook shows the returned figure, once
    return figure, list(axes[0])


def _size(panels: Sized, rows: Sized) -> tuple[float, float]:
    """Width and height of panels side by side, in inches, in which each row has room for a text."""
    return 5.4 * max(1, len(panels)), max(3.6, 1.2 + 0.55 * len(rows))


def _say_empty(figure: Figure, what: str) -> Figure:
    """Say what there is none of, in the room of a line."""
    figure.set_size_inches(6.4, 0.8)
    for axes in figure.axes:
        axes.set_axis_off()
    figure.text(0.5, 0.5, what, ha="center", va="center")
    return figure


def prompt_overlap(prompts: pd.DataFrame) -> Figure:
    """Share of each prompt that its longest span in the corpus takes, by setting."""
    import seaborn as sns

    figure, (axes,) = _axes()
    used = prompts[prompts["refused"] == ""]
    if used.empty:
        return _say_empty(figure, "no prompt is used")
    order = in_order(list(used["setting"]))
    sns.stripplot(
        data=used,
        x="overlap",
        y="setting",
        order=order,
        hue="kind",
        palette=_COLOURS,
        size=3.5,
        alpha=0.6,
        jitter=0.3,
        ax=axes,
    )
    counts = used["setting"].value_counts()
    axes.set_yticks(range(len(order)), [f"{s} (n = {counts[s]})" for s in order])
    axes.set(
        xlim=(-0.02, 1.02), xlabel="longest span in the corpus, share of the prompt", ylabel=""
    )
    axes.legend(title="", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    return figure


def span_lengths(lengths: pd.DataFrame) -> Figure:
    """Share of generations whose longest segment has at least so many tokens, by setting.

    Of the table ``span_lengths``. Controls are dashed: what they reach, chance reaches.
    """
    if not (lengths["tokens"] > 0).any():
        figure, _ = _axes()
        return _say_empty(figure, f"no span was found (n = {lengths['n_generations'].sum()})")
    rows = lengths.rename(columns={"tokens": "value", "n_generations": "n"})
    figure, panels = _shares(rows, "generations with such a passage")
    ends = [t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if t <= lengths["tokens"].max()]
    for axes in panels:
        axes.set_xscale("log")
        axes.set_xlim(1, None)
        axes.set_xticks(ends, [str(t) for t in ends])
        axes.minorticks_off()
        axes.set_xlabel("longest passage, tokens (at least)")
    return figure


def recall_distribution(frame: pd.DataFrame) -> Figure:
    """Share of generations whose best document has at least such a recall, by setting.

    Of `propme.measurements.measured_generations`. Controls are dashed.
    """
    if not (frame["recall_max"] > 0).any():
        figure, _ = _axes()
        return _say_empty(figure, f"no document agrees with a completion (n = {len(frame)})")
    rows = frame[["setting", "kind", "decoding"]].assign(value=frame["recall_max"], n=1)
    figure, panels = _shares(rows, "generations with such a document")
    for axes in panels:
        axes.set(xlim=(0, 1), xlabel="recall of the best document (at least)")
    return figure


def _shares(rows: pd.DataFrame, label: str) -> tuple[Figure, list[Axes]]:
    """Share of ``n`` with at least each ``value`` above 0: a panel a decoding, a line a setting."""
    decodings = sorted(rows["decoding"].unique())
    figure, panels = _axes(4.8 * len(decodings), 4.4, len(decodings))
    colours = _colours(rows["setting"])
    for axes, decoding in zip(panels, decodings, strict=True):
        part = rows[rows["decoding"] == decoding]
        settings = in_order(part["setting"])
        for setting in settings:
            own = part[part["setting"] == setting]
            n = own.groupby("value")["n"].sum().sort_index(ascending=False)
            share = (n.cumsum() / n.sum())[n.index > 0].sort_index()
            # A share holds up to its value; beyond the greatest there is none.
            x = [0, *share.index, *share.index[-1:]]
            y = [*share.iloc[:1], *share, 0] if len(share) else [0]
            is_control = (own["kind"] == "control").all()
            axes.step(
                x, y, where="pre", color=colours[setting], ls="--" if is_control else "-",
                label=f"{setting} (n = {n.sum()})",
            )  # fmt: skip
        # Linear below one generation in a thousand, so that a share of 0 is drawn too.
        axes.set_yscale("symlog", linthresh=1e-3)
        axes.set_yticks([0, 0.001, 0.01, 0.1, 1], ["0", "0.1 %", "1 %", "10 %", "100 %"])
        axes.set_ylim(0, 1.3)
        axes.set_title(decoding, pad=12 + 14 * ((len(settings) + 1) // 2))  # above the legend
        axes.legend(
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            ncols=2,
            fontsize="x-small",
            frameon=False,
        )
    panels[0].set_ylabel(label)
    return figure, panels


def capability_against_propensity(metrics: pd.DataFrame, metric: str = "NVR") -> Figure:
    """One metric under every setting, with its interval; a panel for each decoding.

    Shaded: what a control reaches.
    """
    part = metrics[(metrics["metric"] == metric) & (metrics["subset"] == "all")]
    decodings = sorted(part["decoding"].unique())
    order = in_order(part["setting"])
    figure, panels = _axes(*_size(decodings, order), max(1, len(decodings)))
    if part["value"].notna().sum() == 0:
        return _say_empty(figure, f"{metric}: nothing was measured")
    # The limits come first: they say on which side of its point a text has room.
    ends = float(np.nanmax(part[["value", "low", "high"]].to_numpy(dtype=float))) or 1.0
    panels[0].set_xlim(-0.04 * ends, 1.06 * ends)
    for axes, decoding in zip(panels, decodings, strict=True):
        rows = part[part["decoding"] == decoding].set_index("setting")
        for y, setting in enumerate(order):
            row = rows.loc[setting] if setting in rows.index else None
            if row is None or pd.isna(row["value"]):
                axes.text(0, y, "not defined", va="center", fontsize="small")
            else:
                _point(axes, row, y, _COLOURS[row["kind"]], f"n = {row['n_generations']}")
        _floor(axes, rows.loc[rows["kind"] == "control", "value"])
        axes.set_yticks(range(len(order)), order)
        axes.set(title=decoding, xlabel=f"{metric}, 95 % interval")
        axes.set_ylim(len(order) - 0.5, -0.7)
    return figure


def _floor(axes: Axes, reached: pd.Series[float]) -> None:
    """Shade what a control reaches: what chance reaches."""
    if reached.notna().any():
        axes.axvspan(0, float(reached.max()), color=_COLOURS["control"], alpha=0.15, lw=0)


def short(value: float) -> str:
    """A value of [0, 1] with three digits; a smaller one that is not 0 says so."""
    return "<0.001" if 0 < value < 0.001 else f"{value:.3f}"


def _point(axes: Axes, row: Any, y: float, colour: str, n: str) -> None:
    """A value with its interval, both written above it with the number behind them."""
    if pd.notna(row["low"]) and pd.notna(row["high"]):
        errors = [[max(0.0, row["value"] - row["low"])], [max(0.0, row["high"] - row["value"])]]
        axes.errorbar([row["value"]], [y], xerr=errors, color=colour, lw=2, capsize=4)
    axes.plot([row["value"]], [y], "o", color=colour, ms=7)
    axes.annotate(
        f"{short(row['value'])} ({n})",
        (row["value"], y),
        xytext=(0, 7),
        textcoords="offset points",
        ha="left" if row["value"] <= sum(axes.get_xlim()) / 2 else "right",
        fontsize="x-small",
        bbox=_BEHIND_TEXT,
    )


def propensity_scores(propensity: pd.DataFrame) -> Figure:
    """Propensity scores with their intervals, and the neutral line at 0.5.

    Controls come last: what a setting scores that leaks no more than they do.
    """
    part = propensity[propensity["subset"] == "all"]
    decodings = sorted(part["decoding"].unique())
    order = in_order(part["setting"])
    pairs = [
        (metric, setting, capability)
        for metric in dict.fromkeys(part["metric"])
        for setting in order
        for capability in dict.fromkeys(part.loc[part["setting"] == setting, "capability"])
    ]
    figure, panels = _axes(*_size(decodings, pairs), max(1, len(decodings)))
    if part.empty:
        return _say_empty(figure, "no pair of settings to compare")
    colours = _colours(part["setting"])
    panels[0].set_xlim(-0.05, 1.05)
    for axes, decoding in zip(panels, decodings, strict=True):
        rows = part[part["decoding"] == decoding].set_index(["metric", "setting", "capability"])
        for y, pair in enumerate(pairs):
            row = rows.loc[pair] if pair in rows.index else None
            if row is None or pd.isna(row["value"]):
                axes.text(0.02, y, "not defined", va="center", fontsize="small")
            elif row["undefined"]:
                what = "undefined: nothing in either"
                axes.text(0.02, y, what, va="center", fontsize="small", bbox=_BEHIND_TEXT)
            else:
                n = f"n = {row['n_prompts']}, {row['n_prompts_capability']} prompts"
                _point(axes, row, y, colours[pair[1]], n)
        axes.axvline(0.5, color="black", lw=1, ls="--")
        axes.set_yticks(range(len(pairs)), [f"{m}: {s}\nagainst {c}" for m, s, c in pairs])
        axes.set(title=decoding, xlabel="propensity score (dashed: neutral)")
        axes.set_ylim(len(pairs) - 0.5, -0.7)
    return figure


#: What each threshold of tracing is called on its axis.
_THRESHOLDS = {
    "docs_per_span": "documents a span",
    "rarest_percent": "rare spans kept,\n% of the tokens",
    "shortest_span": "shortest span, tokens",
    "window_factor": "window, times the\ngeneration's length",
    "merging": "merging rule",
}


def over_thresholds(
    sensitivity: pd.DataFrame, decoding: str, metrics: Sequence[str] = ("NVR", "FMR", "ALS")
) -> Figure:
    """Metrics over each threshold of tracing; a row of panels a metric, a line a setting.

    ``n`` is of the completions that were traced anew, fewer than the run has. A ring: as the run's
    trace was made. Which settings lie above which should not hang on a threshold; how high they
    lie may. Intervals are not drawn: all values of a line are of the same completions and move
    together.
    """
    import matplotlib.pyplot as plt

    set_style()
    part = sensitivity[sensitivity["decoding"] == decoding]
    varied = [name for name in _THRESHOLDS if name in set(part["threshold"])]
    figure, grid = plt.subplots(
        len(metrics),
        max(1, len(varied)),
        figsize=(2 + 2.4 * max(1, len(varied)), 0.6 + 2.6 * len(metrics)),
        sharey="row",
        layout="constrained",
        squeeze=False,
    )
    plt.close(figure)
    if not varied:
        return _say_empty(figure, "no threshold was varied")
    colours = _colours(part["setting"])
    for panels, metric in zip(grid, metrics, strict=True):
        for axes, threshold in zip(panels, varied, strict=True):
            rows = part[(part["threshold"] == threshold) & (part["metric"] == metric)]
            _over_threshold(axes, rows, colours)
            title = f"{metric}{', index tokens' if metric == 'ALS' else ''}"
            axes.set(title=title, xlabel=_THRESHOLDS[threshold] if metric == metrics[-1] else "")
        panels[0].set_ylim(bottom=0)  # a row shares its axis, and all of it is drawn by now
    handles = {
        label: handle
        for axes in figure.axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside upper center",
            ncols=int(figure.get_figwidth() / 2),
            frameon=False,
            fontsize="small",
        )
    return figure


def _over_threshold(axes: Axes, rows: pd.DataFrame, colours: Mapping[str, Any]) -> None:
    if rows["value"].isna().all():
        axes.text(0.5, 0.5, "not defined", ha="center", transform=axes.transAxes)
        return
    order = sorted(set(rows["choice"]), key=_by_number)
    for setting in in_order(rows["setting"]):
        of_setting = rows[rows["setting"] == setting].set_index("choice").reindex(order)
        values = of_setting["value"].astype(float)
        label = f"{setting} (n = {int(of_setting['n_generations'].max())})"
        style = "--" if (of_setting["kind"] == "control").any() else "-"
        axes.plot(range(len(order)), values, style, color=colours[setting], marker=".", label=label)
        own = [n for n, is_own in enumerate(of_setting["own"]) if is_own]
        axes.plot(own, values.iloc[own], "o", mfc="none", ms=9, color=colours[setting])
    axes.set_xticks(range(len(order)), order)
    axes.set_xlim(-0.25, len(order) - 0.75)


def _by_number(choice: str) -> tuple[float, str]:
    try:
        return float(choice), choice
    except ValueError:
        return 0.0, choice


def extraction_by_copies(copies: pd.DataFrame) -> Figure:
    """Extraction and near-verbatim recall against copies in the corpus; 0: held out."""
    names = {
        "extraction": "prefixes extracted\n(50 tokens verbatim)",
        "NVR_max": "near-verbatim recall\nof the best document",
    }
    figure, panels = _axes(9.6, 3.8, 2)
    if copies.empty:
        return _say_empty(figure, "the corpus does not say how often its documents are repeated")
    levels = sorted(copies["copies"].unique())
    decodings = sorted(copies["decoding"].unique())
    for axes, (metric, label) in zip(panels, names.items(), strict=True):
        for shift, decoding in enumerate(decodings):
            rows = copies[(copies["metric"] == metric) & (copies["decoding"] == decoding)]
            aside = 0.14 * (shift - (len(decodings) - 1) / 2)
            x = [levels.index(c) + aside for c in rows["copies"]]
            value = rows["value"].astype(float)
            low = (value - rows["low"].astype(float)).clip(lower=0)
            high = (rows["high"].astype(float) - value).clip(lower=0)
            colour = ("#D55E00", "#0072B2", "#009E73", "#CC79A7")[shift % 4]
            axes.errorbar(
                x, value, yerr=[low, high], fmt="o", capsize=3, color=colour, label=decoding
            )
            # Held-out documents are another kind of document: no line leads to them.
            trained = [n for n, c in enumerate(rows["copies"]) if c > 0]
            axes.plot([x[n] for n in trained], value.iloc[trained], color=colour)
        n = copies.groupby("copies")["n_prompts"].max()
        axes.set_xticks(range(len(levels)), [f"{c}\nn = {n[c]}" for c in levels])
        axes.set(ylim=(-0.03, 1.03), xlabel="copies in the corpus (n: prefixes)", ylabel=label)
        axes.yaxis.set_tick_params(labelleft=True)
    panels[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    return figure

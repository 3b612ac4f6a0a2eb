"""Tables to figures: one style, colours that the colour-blind can tell apart, units and n on each.

A figure is drawn from a table and returned; nothing is computed here that is not in the table. What
was measured and is empty says so in the figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Settings in the order of the paper, and those of the demonstration's controls.
ORDER = ("generic", "specific", "prefix", "heldout")

_COLOURS = {"propensity": "#0072B2", "capability": "#D55E00", "control": "#7F7F7F"}


def _axes(width: float = 6.4, height: float = 4.0, columns: int = 1) -> tuple[Figure, list[Axes]]:
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(style="whitegrid", context="notebook")
    figure, axes = plt.subplots(
        1, columns, figsize=(width, height), layout="constrained", squeeze=False, sharey=True
    )
    plt.close(figure)  # the notebook shows the returned figure, once
    return figure, list(axes[0])


def _ordered(settings: Sequence[str]) -> list[str]:
    known = [s for s in ORDER if s in set(settings)]
    return known + sorted(set(settings) - set(known))


def _say_empty(axes: Axes, what: str) -> None:
    axes.text(0.5, 0.5, what, transform=axes.transAxes, ha="center", va="center")
    axes.set_axis_off()


def prompt_overlap(prompts: pd.DataFrame) -> Figure:
    """Share of each prompt that its longest span in the corpus takes, by setting."""
    import seaborn as sns

    figure, (axes,) = _axes()
    used = prompts[prompts["refused"] == ""]
    order = _ordered(list(used["setting"]))
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


def span_lengths(frame: pd.DataFrame) -> Figure:
    """Share of generations whose longest segment has at least so many tokens, by setting."""
    decodings = sorted(frame["decoding"].unique())
    figure, panels = _axes(4.6 * len(decodings), 4.0, len(decodings))
    colours = _setting_colours(_ordered(list(frame["setting"])))
    for axes, decoding in zip(panels, decodings, strict=True):
        part = frame[frame["decoding"] == decoding]
        for setting in _ordered(list(part["setting"])):
            lengths = np.sort(part.loc[part["setting"] == setting, "longest_segment"].astype(int))
            thresholds = np.arange(1, max(2, lengths.max() + 2))
            share = 1 - np.searchsorted(lengths, thresholds) / len(lengths)
            label = f"{setting} (n = {len(lengths)})"
            axes.step(thresholds, share, where="post", color=colours[setting], label=label)
        # Linear below one generation in a thousand, so that a share of 0 is drawn too.
        axes.set_yscale("symlog", linthresh=1e-3)
        axes.set_yticks([0, 0.001, 0.01, 0.1, 1], ["0", "0.1 %", "1 %", "10 %", "100 %"])
        axes.set(title=decoding, xlabel="tokens", ylim=(0, 1.3), xlim=(1, None))
        axes.legend(fontsize="x-small", loc="upper right")
    panels[0].set_ylabel("generations with a span of at least that length")
    return figure


def _setting_colours(settings: Sequence[str]) -> dict[str, Any]:
    import seaborn as sns

    return dict(zip(settings, sns.color_palette("colorblind", len(settings)), strict=True))


def capability_against_propensity(metrics: pd.DataFrame, metric: str = "NVR") -> Figure:
    """One metric under every setting, with its interval; a panel for each decoding."""
    part = metrics[(metrics["metric"] == metric) & (metrics["subset"] == "all")]
    decodings = sorted(part["decoding"].unique())
    figure, panels = _axes(4.6 * max(1, len(decodings)), 3.2, max(1, len(decodings)))
    if part["value"].notna().sum() == 0:
        _say_empty(panels[0], f"{metric}: nothing was measured")
        return figure
    order = _ordered(list(part["setting"]))
    for axes, decoding in zip(panels, decodings, strict=True):
        rows = part[part["decoding"] == decoding].set_index("setting")
        for y, setting in enumerate(order):
            row = rows.loc[setting] if setting in rows.index else None
            if row is None or pd.isna(row["value"]):
                axes.text(0, y, "not defined", va="center", fontsize="small")
            else:
                _point(axes, row, y, _COLOURS[row["kind"]])
        axes.set_yticks(range(len(order)), order)
        generations = rows["n_generations"].sum()
        axes.set(title=f"{decoding} (n = {generations})", xlabel=f"{metric}, 95 % interval")
        axes.margins(x=0.12)
        axes.set_ylim(len(order) - 0.5, -0.5)
    return figure


def _point(axes: Axes, row: Any, y: float, colour: str) -> None:
    if pd.notna(row["low"]) and pd.notna(row["high"]):
        axes.plot([row["low"], row["high"]], [y, y], color=colour, lw=2.5, alpha=0.5)
    axes.plot([row["value"]], [y], "o", color=colour, ms=8)
    axes.annotate(
        f"{row['value']:.3f}",
        (row["value"], y),
        xytext=(0, 7),
        textcoords="offset points",
        ha="center",
        fontsize="small",
    )


def propensity_scores(propensity: pd.DataFrame) -> Figure:
    """Propensity scores with their intervals, and the neutral line at 0.5."""
    part = propensity[propensity["subset"] == "all"]
    decodings = sorted(part["decoding"].unique())
    figure, panels = _axes(4.6 * max(1, len(decodings)), 3.4, max(1, len(decodings)))
    if part.empty:
        _say_empty(panels[0], "no pair of settings to compare")
        return figure
    pairs = list(
        dict.fromkeys(zip(part["metric"], part["setting"], part["capability"], strict=True))
    )
    for axes, decoding in zip(panels, decodings, strict=True):
        rows = part[part["decoding"] == decoding].set_index(["metric", "setting", "capability"])
        for y, pair in enumerate(pairs):
            row = rows.loc[pair]
            if row["undefined"] or pd.isna(row["value"]):
                axes.text(0.02, y, "undefined: nothing in either", va="center", fontsize="small")
            else:
                _point(axes, row, y, _COLOURS["propensity"])
        axes.axvline(0.5, color="black", lw=1, ls="--")
        axes.set_yticks(range(len(pairs)), [f"{m}: {s}\nagainst {c}" for m, s, c in pairs])
        axes.set(title=decoding, xlim=(-0.08, 1.08), xlabel="propensity score (dashed: neutral)")
        axes.set_ylim(len(pairs) - 0.5, -0.5)
    return figure


def extraction_by_copies(copies: pd.DataFrame) -> Figure:
    """Extraction and near-verbatim recall against copies in the corpus; 0: held out."""
    names = {
        "extraction": "prefixes extracted\n(50 tokens verbatim)",
        "NVR_max": "near-verbatim recall\nof the best document",
    }
    figure, panels = _axes(9.6, 3.8, 2)
    if copies.empty:
        _say_empty(panels[0], "the corpus does not say how often its documents are repeated")
        panels[1].set_axis_off()
        return figure
    levels = sorted(copies["copies"].unique())
    decodings = sorted(copies["decoding"].unique())
    colours = _setting_colours(decodings)
    for axes, (metric, label) in zip(panels, names.items(), strict=True):
        for shift, decoding in enumerate(decodings):
            rows = copies[(copies["metric"] == metric) & (copies["decoding"] == decoding)]
            x = [levels.index(c) + 0.08 * shift for c in rows["copies"]]
            low = rows["value"].astype(float) - rows["low"].astype(float)
            high = rows["high"].astype(float) - rows["value"].astype(float)
            axes.errorbar(
                x,
                rows["value"].astype(float),
                yerr=[low.clip(lower=0), high.clip(lower=0)],
                fmt="o-",
                capsize=3,
                color=colours[decoding],
                label=decoding,
            )
        n = copies.groupby("copies")["n_prompts"].max()
        axes.set_xticks(range(len(levels)), [f"{c}\nn = {n[c]}" for c in levels])
        axes.set(ylim=(-0.03, 1.03), xlabel="copies in the corpus (n: prefixes)", ylabel=label)
        axes.yaxis.set_tick_params(labelleft=True)
    panels[0].legend(loc="upper left")
    return figure

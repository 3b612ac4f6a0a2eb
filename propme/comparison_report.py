"""Comparisons as people read them: computed sentences, tables of texts, the front page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from propme import tables
from propme.across_runs import Course, beside_controls, courses_of
from propme.figures import short
from propme.files import write_whole
from propme.records import in_order
from propme.report.exports import write_exports
from propme.report.site import as_data_uri, page_template, rendered_notebook
from propme.report.wording import with_interval
from propme.run_record import read_record

#: Below it, a difference holds.
LEVEL = 0.05

_FIGURES = {
    "trajectories": "Over the course of training",
    "levels": "Each run under each setting",
    "scores": "Propensity scores of each run",
    "differences": "Differences, with 95 % intervals",
    "shifts": "What is kept of verbatim and of near-verbatim copying",
}


def _written(metric: str, value: float) -> str:
    sign = "−" if value < 0 else ""
    return sign + (f"{abs(value):.1f}" if metric == "ALS" else short(abs(value)))


def _signed(metric: str, value: float) -> str:
    return ("+" if value > 0 else "") + _written(metric, value)


def _with_ends(metric: str, value: float, low: float | None, high: float | None) -> str:
    if pd.isna(low) or pd.isna(high):
        return _signed(metric, value)
    return f"{_signed(metric, value)} [{_signed(metric, low)}, {_signed(metric, high)}]"


def differences_table(differences: pd.DataFrame) -> pd.DataFrame:
    """A row for each pair, decoding and setting, a column for each metric, as text.

    Each difference with its interval; ``*``: it holds after Holm's correction; ``unpaired``: the
    prompts are not the same, and there is no test.
    """
    cells = [
        "–"
        if pd.isna(row["difference"])
        else _with_ends(row["metric"], row["difference"], row["low"], row["high"])
        + ("*" if _holds(row) else "")
        + ("" if row["paired"] else " unpaired")
        for row in differences.to_dict("records")
    ]
    difference = differences["run_a"] + " − " + differences["run_b"]
    return _wide(differences.assign(cell=cells, difference=difference), "difference")


def levels_table(levels: pd.DataFrame) -> pd.DataFrame:
    """A row for each run, decoding and setting, a column for each metric with interval, as text."""
    cells = [
        "–"
        if pd.isna(row["value"])
        else _with_ends(row["metric"], row["value"], row["low"], row["high"]).replace("+", "")
        for row in levels.to_dict("records")
    ]
    return _wide(levels.assign(cell=cells), "run")


def scores_table(scores: pd.DataFrame) -> pd.DataFrame:
    """A row for each run, decoding and pair of settings, a column for each metric, as text."""
    cells = [
        "undefined" if row["undefined"] and pd.notna(row["value"]) else with_interval(row)
        for row in scores.to_dict("records")
    ]
    wide = _wide(scores.assign(cell=cells), "run", ["setting", "capability"])
    return wide.rename(columns={"capability": "against"})


def shifts_table(shifts: pd.DataFrame) -> pd.DataFrame:
    """The table ``shifts`` where a shift is defined, numbers as text."""
    known = shifts[shifts["shift"].notna()]
    of = known["run_a"] + " of " + known["run_b"]
    texts = {
        column: [f"{value:.0%}" for value in known[column]]
        for column in ("kept_verbatim", "kept_near_verbatim")
    }
    shift = [
        _with_ends("", row["shift"], row["low"], row["high"]) for row in known.to_dict("records")
    ]
    columns = ["kept", "decoding", "setting", "verbatim", "kept_verbatim", "near_verbatim"]
    return known.assign(kept=of, **texts, shift=shift)[[*columns, "kept_near_verbatim", "shift"]]


def _wide(cells: pd.DataFrame, first: str, settings: Sequence[str] = ("setting",)) -> pd.DataFrame:
    """Cells with a column for each metric, in the order in which rows and metrics come."""
    keys = [first, "decoding", *settings]
    wide = cells.pivot(index=keys, columns="metric", values="cell")
    wide = wide.reindex(columns=list(cells["metric"].unique())).fillna("–").reset_index()
    order = {name: list(dict.fromkeys(cells[name])) for name in (first, "decoding")}
    order["setting"] = in_order(cells["setting"])
    for name, values in order.items():
        wide[name] = pd.Categorical(wide[name], values)
    by = [first, "decoding", "setting"]
    wide = wide.sort_values(by, kind="stable").astype(dict.fromkeys(by, str))
    return wide.rename_axis(columns=None).reset_index(drop=True)


def _holds(row: Any) -> bool:
    return pd.notna(row["p_holm"]) and bool(row["p_holm"] < LEVEL)


def findings(
    differences: pd.DataFrame,
    shifts: pd.DataFrame,
    caveats: pd.DataFrame,
    given: Sequence[Course],
    levels: pd.DataFrame,
) -> list[str]:
    """What the comparison shows, in sentences whose every number is computed from its tables.

    What happens in a course of training is told beside its control: what the control does too is
    not told of the course's own text. The shift is told of FMR against NVR.

    Parameters
    ----------
    differences, shifts, caveats, levels : DataFrame
        The tables of those names; ``levels`` is ``run_metrics``.
    given : sequence of Course
    """
    sentences = [f"Beware: {_beware(row)}" for row in caveats.to_dict("records")]
    if differences["difference"].notna().sum() == 0:
        return [*sentences, "There is no setting in two of the runs, so nothing is compared."]
    tested = differences[differences["p"].notna()]
    n_holding = sum(map(_holds, tested.to_dict("records")))
    untested = len(differences) - len(tested)
    sentences.append(
        f"Of {len(tested)} differences that are tested, {n_holding} hold after Holm's correction"
        f" at {LEVEL:.0%}"
        + (f"; {untested} are not tested (unpaired or undefined)." if untested else ".")
    )
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


def _floors(levels: pd.DataFrame, compared: Sequence[str]) -> list[str]:
    """What texts by people reach, told once for all runs in which they reach the same."""
    rows = levels[(levels["setting"] == "human") & levels["run"].isin(compared)]
    runs_of: dict[str, list[str]] = {}
    for (run, _), part in rows.groupby(["run", "decoding"], sort=False):
        told = ", ".join(
            f"{metric} {_written(metric, value)}"
            for metric, value in zip(part["metric"], part["value"], strict=True)
            if pd.notna(value)
        )
        if str(run) not in runs_of.setdefault(told, []):
            runs_of[told].append(str(run))
    return [
        f"Texts by people, traced in the same way, reach {told} ({', '.join(runs)}): the floor."
        " What does not exceed it is no sign of leakage."
        for told, runs in runs_of.items()
    ]


def _beware(row: dict[Any, Any]) -> str:
    return f"{row['about']} differs between the runs ({row['runs']}). {row['consequence']}"


def _rows_of(table: pd.DataFrame, pair: tuple[str, str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of a pair, decoding by decoding."""
    part = table[(table["run_a"] == pair[0]) & (table["run_b"] == pair[1])]
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
            sentences.append(f"{what}, {decoding} decoding, propensity: {_what_holds(asked)}.")
    return sentences


def _what_holds(rows: Sequence[dict[Any, Any]]) -> str:
    """The differences that hold, and how many do not or are not tested."""
    tested = [row for row in rows if pd.notna(row["p"])]
    holding = [row for row in tested if _holds(row)]
    unpaired = [row for row in rows if not row["paired"] and pd.notna(row["difference"])]
    parts = [_told(row) for row in holding]
    if len(tested) > len(holding):
        rest = f"{len(tested) - len(holding)} of {len(tested)} differences"
        parts.append(f"no difference is shown in {rest} that are tested")
    if unpaired:
        parts.append(f"{len(unpaired)} are unpaired and not tested")
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
    text = f"shift {_with_ends('', row['shift'], row['low'], row['high'])}"
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
        return f"{name} is not defined in both"
    values = " to ".join(_written(row["metric"], row[v]) for v in ("value_b", "value_a"))
    text = f"{name} goes from {values}"
    ends = _with_ends(row["metric"], row["difference"], row["low"], row["high"])
    if not row["paired"]:
        return f"{text} ({ends}, unpaired, not tested)"
    p = f"p {short(row['p_holm'])}"
    if _holds(row):
        return f"{text} ({ends}, {p}): {'higher' if row['difference'] > 0 else 'lower'}"
    return f"{text} ({ends}, {p}): no difference is shown"


def _beyond_control(differences: pd.DataFrame, pair: tuple[str, str], course: Course) -> list[str]:
    """What a course does beyond its control, at their last common stage."""
    sentences = []
    for decoding, rows in _rows_of(differences, pair):
        records = rows.to_dict("records")
        text = f"{pair[0]} against its control {pair[1]}, {decoding} decoding: "
        text += _what_holds(records)
        if any(map(_holds, records)):
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


#: Tables that are exported, and how people read each.
_READ = {
    "run_metrics": levels_table,
    "run_propensity": scores_table,
    "differences": differences_table,
    "shifts": shifts_table,
}

#: Tables that a report is made of.
_TABLES = (*_READ, "caveats", "trajectories", "compared_runs")


def write_report(folder: Path, notebook: str) -> Path:
    """Render the executed notebook and the front page of a comparison into ``folder/report``.

    Returns
    -------
    Path
        The front page.
    """
    pages = folder / "report"
    pages.mkdir(parents=True, exist_ok=True)
    stored = {name: tables.read(name, folder / "tables") for name in _TABLES}
    exports = write_exports(stored, pages / "tables", _READ)
    write_whole(pages / f"{notebook}.html", rendered_notebook(folder / f"{notebook}.ipynb"))
    differences, levels = stored["differences"], stored["run_metrics"]
    index = pages / "index.html"
    page = page_template("comparison.html").render(
        name=folder.name,
        notebook=notebook,
        findings=findings(
            differences,
            stored["shifts"],
            stored["caveats"],
            courses_of(stored["trajectories"]),
            levels,
        ),
        exports=[path.relative_to(pages).as_posix() for path in exports],
        tables={
            "Each run": levels_table(levels).to_dict("split"),
            "Differences": differences_table(differences).to_dict("split"),
        },
        drawn=[
            {"title": title, "data": as_data_uri(folder / "figures" / f"{name}.png")}
            for name, title in _FIGURES.items()
            if (folder / "figures" / f"{name}.png").is_file()
        ],
        compared=stored["compared_runs"].to_dict("records"),
        record=read_record(folder),
    )
    write_whole(index, page)
    return index

"""Stage 4, first: one row a generation, with all that metrics and filters look at."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pandas as pd

from propme import filters
from propme.errors import MetricError
from propme.records import in_order

#: What a value is over, and what marks the rest: generations left out, or spans that do not count.
SUBSETS = {
    "all": "",
    "not degenerate": "degenerate",
    "not code": "code_like",
    "no loops": "loop",
    "no boiler-plate": "boiler_plate",
    "nothing of the prompt": "of_prompt",
}

#: Columns of a prompt that its generations have too.
OF_PROMPT = (
    "prompt_id",
    "setting",
    "kind",
    "category",
    "language",
    "source",
    "licence",
    "copies",
    "metadata",
)


def measured_generations(
    prompts: pd.DataFrame,
    generations: pd.DataFrame,
    traces: pd.DataFrame,
    spans: pd.DataFrame,
    matches: pd.DataFrame,
    boiler_plate_documents: int = filters.BOILER_PLATE_DOCUMENTS,
) -> pd.DataFrame:
    """One row a generation: what tracing found, with its prompt's columns and the filters' marks.

    Parameters
    ----------
    prompts, generations, traces, spans, matches : DataFrame
        The tables of those names.
    boiler_plate_documents : int
        See `propme.filters.mark_spans`.

    Returns
    -------
    DataFrame
        ``extracted`` says whether the completion begins with the first 50 tokens of the prompt's
        ``target``. For each filter of spans there is a second set of columns, which `subset` puts
        into the place of the first. A generation that could not be made or traced is left out,
        with a warning: nothing is known of it.

    Raises
    ------
    MetricError
        A generation was not traced, its prompt is not in the table, or a setting whose prompts are
        used has no generation.
    """
    of_prompt = prompts[list(OF_PROMPT)].assign(target=_first_50_tokens(prompts))
    _require_settings(prompts, generations)
    # What was not made was not traced either: the error is that of the trace.
    frame = generations.drop(columns="error").merge(
        of_prompt, on="prompt_id", how="left", validate="many_to_one"
    )
    frame = frame.merge(traces, on="generation_id", how="left", validate="one_to_one")
    for column, table in (("setting", "prompts"), ("n_tokens", "traces")):
        missing = frame.loc[frame[column].isna(), "generation_id"]
        if len(missing):
            raise MetricError(
                f"{len(missing)} generations have no row in table {table!r}, the first being"
                f" {missing.iloc[0]!r}; run the notebooks again from that table on"
            )
    frame = frame.assign(code_like=[filters.is_code_like(text) for text in frame["text"]])
    marked = filters.mark_spans(spans, generations, prompts, boiler_plate_documents)
    for mark in ("", *filters.SPAN_MARKS):
        found = filters.found_without(marked, matches, traces, mark)
        found = found[["n_hits"]] if not mark else found.add_suffix(f", no {mark}")
        frame = frame.merge(found, left_on="generation_id", right_index=True, how="left")
    frame["extracted"] = [
        bool(target) and text.startswith(target)
        for text, target in zip(frame["text"], frame["target"], strict=True)
    ]
    failed = frame["error"] != ""
    if failed.any():
        warnings.warn(
            f"{failed.sum()} generations could not be made or traced; left out", stacklevel=2
        )
    return frame[~failed].reset_index(drop=True)


def _first_50_tokens(prompts: pd.DataFrame) -> list[str]:
    """The part of each target that a completion is compared with."""
    return [
        target[:n] if n else target
        for target, n in zip(prompts["target"], prompts["target_chars"], strict=True)
    ]


def _require_settings(prompts: pd.DataFrame, generations: pd.DataFrame) -> None:
    used = prompts[prompts["refused"] == ""]
    asked = used["prompt_id"].isin(generations["prompt_id"])
    silent = sorted(set(used["setting"]) - set(used.loc[asked, "setting"]))
    if len(generations) and silent:
        raise MetricError(
            f"setting {silent[0]!r} has prompts and no generation; run notebook 2_generation again"
        )


def subset(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The generations of one of `SUBSETS`, in columns of the same names."""
    mark = SUBSETS[name]
    if not mark:
        return frame
    if mark not in filters.SPAN_MARKS:
        return frame[~frame[mark].astype(bool)]
    suffix = f", no {mark}"
    columns = [c.removesuffix(suffix) for c in frame.columns if c.endswith(suffix)]
    return frame.assign(**{column: frame[column + suffix] for column in columns})


def filter_table(frame: pd.DataFrame) -> pd.DataFrame:
    """How many generations each filter marks, or leaves with a shorter longest segment.

    Settings are in the order in which they are shown everywhere.
    """
    marks = {"degenerate": frame["degenerate"], "code": frame["code_like"]}
    for name, mark in SUBSETS.items():
        if mark in filters.SPAN_MARKS:
            marks[name] = frame[f"longest_segment, no {mark}"] < frame["longest_segment"]
    marked = pd.DataFrame({name: values.astype(bool) for name, values in marks.items()})
    keys = [frame["decoding"], frame["setting"]]
    table = marked.groupby(keys).sum()
    table = table.assign(generations=marked.groupby(keys).size()).reset_index()
    return in_setting_order(table)


def in_setting_order(table: pd.DataFrame, first: Sequence[str] = ()) -> pd.DataFrame:
    """Rows by some columns, then by decoding, then settings in the order of the paper."""
    rank = {setting: n for n, setting in enumerate(in_order(table["setting"]))}
    return table.sort_values(
        [*first, "decoding", "setting"],
        key=lambda column: column.map(rank) if column.name == "setting" else column,
        kind="stable",
        ignore_index=True,
    )

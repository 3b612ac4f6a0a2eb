"""The tables by name: the record of their rows, their key, their meaning."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from propme import records
from propme.tables import comparison_rows, rows

_ARROW = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    tuple[int, ...]: pa.list_(pa.int64()),
}


@dataclass(frozen=True)
class Table:
    """One table: its name, the record that declares its columns, its key, its meaning."""

    name: str
    record: type
    key: tuple[str, ...]
    about: str

    @property
    def columns(self) -> dict[str, str]:
        """Meaning of each column, by name, in order."""
        return {
            name: typing.get_args(hint)[1]
            for name, hint in typing.get_type_hints(self.record, include_extras=True).items()
        }

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema; a column that may be empty is nullable, any other is not."""
        hints = typing.get_type_hints(self.record)
        return pa.schema([_arrow_field(f.name, hints[f.name]) for f in fields(self.record)])


def _arrow_field(name: str, hint: Any) -> pa.Field:
    nullable = isinstance(hint, types.UnionType)
    base = next(a for a in typing.get_args(hint) if a is not type(None)) if nullable else hint
    return pa.field(name, _ARROW[base], nullable=nullable)


TABLES = {
    table.name: table
    for table in (
        Table("prompts", records.Prompt, ("prompt_id",), "every prompt, used or refused"),
        Table("generations", records.Generation, ("generation_id",), "every completion"),
        Table(
            "extraction",
            rows.Extraction,
            ("prompt_id", "decoding"),
            "how probable the true continuation of a prefix is",
        ),
        Table("traces", records.TraceSummary, ("generation_id",), "one row a completion"),
        Table("spans", records.Span, ("generation_id", "span"), "verbatim passages, kept or not"),
        Table(
            "matches",
            records.Match,
            ("generation_id", "span", "shard", "document"),
            "documents that hold them",
        ),
        Table(
            "variants",
            rows.Variants,
            ("threshold", "choice", "generation_id"),
            "what is found in some completions with other values of each threshold",
        ),
        Table(
            "metrics",
            rows.Metrics,
            ("setting", "decoding", "subset", "metric"),
            "each metric of each setting, with its interval",
        ),
        Table(
            "propensity",
            rows.Propensity,
            ("metric", "decoding", "subset", "setting", "capability"),
            "each metric's propensity score, with its interval",
        ),
        Table(
            "copies",
            rows.Copies,
            ("copies", "decoding", "metric"),
            "extraction and recall by number of copies, where the corpus tells it",
        ),
        Table(
            "breakdown",
            rows.Breakdown,
            ("by", "group", "setting", "decoding", "metric"),
            "metrics by source, licence, language, kind of prompt or any metadata",
        ),
        Table(
            "discoverable",
            rows.Discoverable,
            ("setting", "decoding", "tries", "target"),
            "share of prefixes that a number of tries extracts, from their probabilities",
        ),
        Table(
            "sensitivity",
            rows.Sensitivity,
            ("threshold", "choice", "setting", "decoding", "metric"),
            "metrics over each threshold of tracing, of completions traced anew",
        ),
        Table(
            "span_lengths",
            rows.SpanLengths,
            ("setting", "decoding", "tokens"),
            "how many generations have a longest segment of each length",
        ),
        Table("compared_runs", comparison_rows.ComparedRuns, ("run",), "the runs of a comparison"),
        Table("caveats", comparison_rows.Caveats, ("about",), "what hinders a comparison"),
        Table(
            "run_metrics",
            comparison_rows.RunMetrics,
            ("run", "setting", "decoding", "subset", "metric"),
            "each metric of each run, with its interval",
        ),
        Table(
            "run_propensity",
            comparison_rows.RunPropensity,
            ("run", "metric", "decoding", "subset", "setting", "capability"),
            "each run's propensity scores",
        ),
        Table(
            "differences",
            comparison_rows.Differences,
            ("run_a", "run_b", "setting", "decoding", "metric"),
            "each metric's difference between two runs",
        ),
        Table(
            "shifts",
            comparison_rows.Shifts,
            ("run_a", "run_b", "setting", "decoding", "verbatim", "near_verbatim"),
            "how much more of near-verbatim than of verbatim copying is kept",
        ),
        Table(
            "trajectories",
            comparison_rows.Trajectories,
            ("trajectory", "stage"),
            "which run is which stage of a course of training",
        ),
    )
}

#: Tables of notebook 5_comparison, in the folder of a comparison; the others are in a run's.
OF_COMPARISON = (
    "compared_runs",
    "caveats",
    "run_metrics",
    "run_propensity",
    "differences",
    "shifts",
    "trajectories",
)

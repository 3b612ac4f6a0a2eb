"""The tables between notebooks: columns, types, key and meaning; the only parquet I/O.

Each table is declared once. Its columns are the fields of a record (`propme.records`) or are named
here. A table is checked when it is written and when it is read, is written by one stage, and is
never edited in place: a new version replaces the file as a whole.
"""

from __future__ import annotations

import os
import tempfile
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from propme import records
from propme.errors import TableError

_ARROW = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    tuple[int, ...]: pa.list_(pa.int64()),
}

#: What arrow would silently turn into another type: "1" and True into 1, and 1 into True.
_CAST_BY_ARROW = {
    pa.int64(): ("string", "boolean"),
    pa.float64(): ("string", "boolean"),
    pa.bool_(): ("string", "integer", "floating"),
}


_INTERVAL = (
    "how the interval was made: bootstrap, rule of three, one prompt (none), none; in comparisons"
    " also: the same completions (none)"
)


@dataclass(frozen=True, slots=True)
class _Extraction:
    prompt_id: Annotated[str, "the prefix"]
    decoding: Annotated[str, "decoding that the probability is of: greedy or sampled"]
    n_tokens: Annotated[int, "tokens of the true continuation that are scored, the model's"]
    log_probability: Annotated[
        float | None, "natural log of the probability to generate it; -inf: impossible"
    ]
    greedy_tokens: Annotated[
        int | None, "of them those that are the most likely next token, given all before"
    ]
    n_samples: Annotated[int, "completions long enough to compare with, of the same decoding"]
    n_extracted: Annotated[int, "of them those that begin with it, token for token"]
    error: Annotated[str, "why it could not be scored; empty: it was"]


@dataclass(frozen=True, slots=True)
class _Variants:
    threshold: Annotated[str, "what is varied: a field of TraceSettings"]
    choice: Annotated[str, "its value"]
    own: Annotated[bool, "whether that is the run's own value"]
    generation_id: Annotated[str, "the generation"]
    longest_segment: Annotated[int, "longest final segment in tokens; 0: none"]
    full_raw: Annotated[bool, "whether some document holds the whole generation"]
    full_normalized: Annotated[bool, "whether one does after normalisation and not before"]
    n_pairs: Annotated[int, "(segment, document) pairs retrieved"]
    n_hits: Annotated[int, "of them those with recall > 0"]
    recall_sum: Annotated[float, "sum of the pairs' recall"]
    recall_max: Annotated[float, "best document's recall; 0: none"]
    error: Annotated[str, "why it could not be traced so; empty: it was"]


@dataclass(frozen=True, slots=True)
class _Metrics:
    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity, capability or control"]
    decoding: Annotated[str, "greedy or sampled"]
    subset: Annotated[str, "all, or what is left by a filter"]
    metric: Annotated[str, "name of the metric"]
    value: Annotated[float | None, "its value; none: undefined, as with no pair at all"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, _INTERVAL]
    n_prompts: Annotated[int, "prompts that were resampled; generations where nothing is asked"]
    n_generations: Annotated[int, "generations in the value"]
    n_denominator: Annotated[int, "what the value is a mean over: generations or pairs"]


@dataclass(frozen=True, slots=True)
class _Propensity:
    metric: Annotated[str, "name of the metric"]
    decoding: Annotated[str, "greedy or sampled"]
    subset: Annotated[str, "all, or what is left by a filter"]
    setting: Annotated[str, "propensity setting, or a control, whose score is the floor"]
    kind: Annotated[str, "propensity or control"]
    capability: Annotated[str, "capability setting it is compared with"]
    f_propensity: Annotated[float | None, "the metric under that setting"]
    f_capability: Annotated[float | None, "the metric under the capability setting"]
    value: Annotated[float | None, "f_p / (f_p + f_c), in [0, 1]; 0.5: the same in both"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, _INTERVAL]
    n_prompts: Annotated[int, "prompts behind the metric under that setting"]
    n_prompts_capability: Annotated[int, "prompts behind it under the capability setting"]
    undefined: Annotated[bool, "both are 0: the value is a convention, not a measurement"]
    n_rounds: Annotated[int, "bootstrap rounds"]
    n_rounds_undefined: Annotated[int, "of which rounds with 0 in both"]


@dataclass(frozen=True, slots=True)
class _Copies:
    copies: Annotated[int, "how often the prefix's document stands in the corpus; 0: held out"]
    decoding: Annotated[str, "greedy or sampled"]
    metric: Annotated[str, "extraction or NVR_max"]
    value: Annotated[float | None, "its value"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, _INTERVAL]
    n_prompts: Annotated[int, "prefixes with that number of copies"]


@dataclass(frozen=True, slots=True)
class _Breakdown:
    by: Annotated[str, "column of the prompts, or key of their documents' metadata"]
    group: Annotated[str, "its value"]
    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity, capability or control"]
    decoding: Annotated[str, "greedy or sampled"]
    metric: Annotated[str, "name of the metric"]
    value: Annotated[float | None, "its value; none: undefined"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, _INTERVAL]
    n_prompts: Annotated[int, "prompts that were resampled; generations where nothing is asked"]
    n_generations: Annotated[int, "generations in the value"]


@dataclass(frozen=True, slots=True)
class _Discoverable:
    setting: Annotated[str, "prompt setting"]
    decoding: Annotated[str, "decoding that the probabilities are of"]
    tries: Annotated[int, "completions that are sampled of each prefix"]
    target: Annotated[float, "probability with which one must hold the true continuation"]
    value: Annotated[float, "share of the prefixes that reach it"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, _INTERVAL]
    n_prompts: Annotated[int, "prefixes that were scored"]


@dataclass(frozen=True, slots=True)
class _Sensitivity:
    threshold: Annotated[str, "what is varied: a field of TraceSettings"]
    choice: Annotated[str, "its value"]
    own: Annotated[bool, "whether that is the run's own value"]
    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity, capability or control"]
    decoding: Annotated[str, "greedy or sampled"]
    metric: Annotated[str, "name of the metric"]
    value: Annotated[float | None, "its value over the completions traced anew; none: undefined"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, _INTERVAL]
    n_prompts: Annotated[int, "prompts that were resampled; generations where nothing is asked"]
    n_generations: Annotated[int, "generations in the value"]


@dataclass(frozen=True, slots=True)
class _SpanLengths:
    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity, capability or control"]
    decoding: Annotated[str, "greedy or sampled"]
    tokens: Annotated[int, "length of the longest segment, index tokens; 0: none"]
    n_generations: Annotated[int, "generations whose longest segment has this length"]


@dataclass(frozen=True, slots=True)
class _ComparedRuns:
    run: Annotated[str, "name of the run in the comparison"]
    path: Annotated[str, "its folder, as it was found"]
    model: Annotated[str, "path or name of the model"]
    model_sha256: Annotated[str, "hash of its files; empty: unknown"]
    corpus: Annotated[str, "path of the corpus that it was traced in"]
    corpus_sha256: Annotated[str, "hash of that corpus"]
    index_sha256: Annotated[str, "hash of the index's manifest"]
    tokenizer: Annotated[str, "fingerprint of the index's tokenizer; empty: index not found"]
    tracing: Annotated[str, "thresholds of tracing"]
    decoding: Annotated[str, "how it was sampled, and the limit of length"]
    settings: Annotated[str, "its prompt settings"]
    n_generations: Annotated[int, "generations that were made and traced"]


@dataclass(frozen=True, slots=True)
class _Caveats:
    about: Annotated[str, "what differs between the runs"]
    runs: Annotated[str, "the runs, grouped by what they have"]
    consequence: Annotated[str, "what it means for the comparison"]


@dataclass(frozen=True, slots=True)
class _RunMetrics(_Metrics):
    run: Annotated[str, "name of the run in the comparison"]


@dataclass(frozen=True, slots=True)
class _RunPropensity(_Propensity):
    run: Annotated[str, "name of the run in the comparison"]


@dataclass(frozen=True, slots=True)
class _Differences:
    run_a: Annotated[str, "the run from which is subtracted"]
    run_b: Annotated[str, "the run that is subtracted"]
    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity or capability"]
    decoding: Annotated[str, "greedy or sampled"]
    metric: Annotated[str, "name of the metric"]
    value_a: Annotated[float | None, "its value in run_a; none: undefined"]
    value_b: Annotated[float | None, "its value in run_b; none: undefined"]
    difference: Annotated[float | None, "value_a - value_b; none: one of them is undefined"]
    low: Annotated[float | None, "lower end of its 95 % interval"]
    high: Annotated[float | None, "upper end of its 95 % interval"]
    interval: Annotated[str, _INTERVAL]
    paired: Annotated[bool, "whether it is of the same prompts, resampled together"]
    why_untested: Annotated[str, "why there is no test (unpaired, too); empty: there is one"]
    n_prompts_a: Annotated[int, "prompts behind value_a; generations where nothing is asked"]
    n_prompts_b: Annotated[int, "prompts behind value_b; generations where nothing is asked"]
    p: Annotated[float | None, "two-sided, of a permutation test; none: not tested"]
    p_holm: Annotated[float | None, "corrected for all tests of the table (Holm)"]


@dataclass(frozen=True, slots=True)
class _Shifts:
    run_a: Annotated[str, "the later run"]
    run_b: Annotated[str, "the run it is set against"]
    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity or capability"]
    decoding: Annotated[str, "greedy or sampled"]
    verbatim: Annotated[str, "metric of verbatim copies"]
    near_verbatim: Annotated[str, "metric of near-verbatim copies"]
    kept_verbatim: Annotated[float | None, "verbatim in run_a / in run_b; none: that is 0"]
    kept_near_verbatim: Annotated[float | None, "the same of the near-verbatim metric"]
    shift: Annotated[float | None, "kept_near_verbatim - kept_verbatim; above 0: towards nearly"]
    low: Annotated[float | None, "lower end of its 95 % interval"]
    high: Annotated[float | None, "upper end of its 95 % interval"]
    paired: Annotated[bool, "whether both runs were asked the same prompts"]
    n_prompts: Annotated[int, "prompts of the run that has fewer; completions if nothing is asked"]
    n_rounds: Annotated[int, "bootstrap rounds"]
    n_rounds_undefined: Annotated[int, "of them those with 0 or nothing to divide by"]


@dataclass(frozen=True, slots=True)
class _Trajectories:
    trajectory: Annotated[str, "name of a course of training"]
    stage: Annotated[int, "place in it, from 0"]
    run: Annotated[str, "the run of that stage"]
    control: Annotated[bool, "whether it is the control of the others"]


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
            _Extraction,
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
            _Variants,
            ("threshold", "choice", "generation_id"),
            "what is found in some completions with other values of each threshold",
        ),
        Table(
            "metrics",
            _Metrics,
            ("setting", "decoding", "subset", "metric"),
            "each metric of each setting, with its interval",
        ),
        Table(
            "propensity",
            _Propensity,
            ("metric", "decoding", "subset", "setting", "capability"),
            "each metric's propensity score, with its interval",
        ),
        Table(
            "copies",
            _Copies,
            ("copies", "decoding", "metric"),
            "extraction and recall by number of copies, where the corpus tells it",
        ),
        Table(
            "breakdown",
            _Breakdown,
            ("by", "group", "setting", "decoding", "metric"),
            "metrics by source, licence, language, kind of prompt or any metadata",
        ),
        Table(
            "discoverable",
            _Discoverable,
            ("setting", "decoding", "tries", "target"),
            "share of prefixes that a number of tries extracts, from their probabilities",
        ),
        Table(
            "sensitivity",
            _Sensitivity,
            ("threshold", "choice", "setting", "decoding", "metric"),
            "metrics over each threshold of tracing, of completions traced anew",
        ),
        Table(
            "span_lengths",
            _SpanLengths,
            ("setting", "decoding", "tokens"),
            "how many generations have a longest segment of each length",
        ),
        Table("compared_runs", _ComparedRuns, ("run",), "the runs of a comparison"),
        Table("caveats", _Caveats, ("about",), "what hinders a comparison"),
        Table(
            "run_metrics",
            _RunMetrics,
            ("run", "setting", "decoding", "subset", "metric"),
            "each metric of each run, with its interval",
        ),
        Table(
            "run_propensity",
            _RunPropensity,
            ("run", "metric", "decoding", "subset", "setting", "capability"),
            "each run's propensity scores",
        ),
        Table(
            "differences",
            _Differences,
            ("run_a", "run_b", "setting", "decoding", "metric"),
            "each metric's difference between two runs",
        ),
        Table(
            "shifts",
            _Shifts,
            ("run_a", "run_b", "setting", "decoding", "verbatim", "near_verbatim"),
            "how much more of near-verbatim than of verbatim copying is kept",
        ),
        Table(
            "trajectories",
            _Trajectories,
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


def to_frame(name: str, rows: Iterable[Any]) -> pd.DataFrame:
    """Records of one table as a data frame, with the table's columns even when there is none."""
    names = list(TABLES[name].columns)
    return pd.DataFrame([[getattr(row, n) for n in names] for row in rows], columns=names)


def of_rows(name: str, rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Mappings as the table of that name: its columns, whatever else a row holds."""
    columns = list(TABLES[name].columns)
    return pd.DataFrame([[row[column] for column in columns] for row in rows], columns=columns)


def to_arrow(name: str, rows: Iterable[Any]) -> pa.Table:
    """Records of one table as an arrow table with the table's schema."""
    listed = list(rows)
    schema = TABLES[name].schema
    columns = [[getattr(row, field.name) for row in listed] for field in schema]
    arrays = [pa.array(values, f.type) for values, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def to_records(name: str, frame: pd.DataFrame) -> list[Any]:
    """Rows of a table as records; missing values become ``None``."""
    table = TABLES[name]
    rows = pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False).to_pylist()
    listed = [f.name for f in table.schema if pa.types.is_list(f.type)]
    return [table.record(**row | {n: tuple(row[n]) for n in listed}) for row in rows]


def write(name: str, frame: pd.DataFrame, folder: Path) -> Path:
    """Check a table and write it to ``folder/name.parquet``, whole or not at all.

    Raises
    ------
    TableError
        A column is missing, unknown or of another type, or a key stands twice.
    """
    arrow = _checked(TABLES[name], frame, where=f"table {name!r}")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.parquet"
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}-", suffix=".tmp")
    os.close(handle)
    try:
        pq.write_table(arrow, temporary, compression="zstd")
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def read(name: str, folder: Path) -> pd.DataFrame:
    """Read and check ``folder/name.parquet``.

    Raises
    ------
    TableError
        The file is missing, unreadable, or not this table.
    """
    path = folder / f"{name}.parquet"
    if not path.is_file():
        raise TableError(f"{path}: no such table; run the notebook that writes {name!r} first")
    try:
        arrow = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise TableError(
            f"{path}: not a readable parquet file ({error}); run its notebook again"
        ) from error
    frame = from_arrow(arrow)
    _checked(TABLES[name], frame, where=str(path))
    for column in TABLES[name].schema:
        found = arrow.schema.field(column.name).type
        if found != column.type:
            raise TableError(
                f"{path}: column {column.name!r} is {found}, not {column.type};"
                " run its notebook again"
            )
    return frame


def from_arrow(arrow: pa.Table) -> pd.DataFrame:
    """An arrow table as a data frame whose whole numbers may be missing."""
    frame: pd.DataFrame = arrow.to_pandas(types_mapper=_pandas_type)
    return frame


def _pandas_type(arrow_type: pa.DataType) -> Any:
    return pd.Int64Dtype() if arrow_type == pa.int64() else None


def _check_column(column: pa.Field, values: pd.Series[Any], where: str) -> None:
    """What arrow does not refuse, or refuses in other words."""
    if not column.nullable and values.isna().any():
        raise TableError(f"{where}: column {column.name!r} has empty values")
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind in _CAST_BY_ARROW.get(column.type, ()):
        raise TableError(f"{where}: column {column.name!r} is {kind}, not {column.type}")


def _checked(table: Table, frame: pd.DataFrame, where: str) -> pa.Table:
    expected, found = list(table.columns), list(frame.columns)
    if set(expected) != set(found) or len(expected) != len(found):
        raise TableError(
            f"{where}: columns missing {sorted(set(expected) - set(found))},"
            f" unknown {sorted(set(found) - set(expected))},"
            f" twice {sorted({name for name in found if found.count(name) > 1})}"
        )
    for column in table.schema:
        _check_column(column, frame[column.name], where)
    try:
        arrow = pa.Table.from_pandas(frame[expected], schema=table.schema, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TableError(f"{where}: {'; '.join(map(str, error.args))}") from error
    twice = frame.loc[frame.duplicated(list(table.key)), list(table.key)]
    if len(twice):
        first = tuple(twice.to_dict("records")[0].values())
        raise TableError(f"{where}: key {table.key} stands twice: {first}")
    return arrow

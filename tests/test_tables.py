"""The tables between notebooks: declared once, checked on both sides, replaced as a whole."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from propme.errors import TableError
from propme.records import Generation, Match, Prompt, Span, TraceSummary
from propme.tables import TABLES, frames, read, to_frame, to_records, write
from propme.tables.comparison_rows import (
    Caveats,
    ComparedRuns,
    Differences,
    RunMetrics,
    RunPropensity,
    Shifts,
    Trajectories,
)
from propme.tables.rows import (
    Breakdown,
    Copies,
    Discoverable,
    Extraction,
    Metrics,
    Propensity,
    Sensitivity,
    SpanLengths,
    Variants,
)

NASTY = "line\nbreak\ttab \x00 «æøå» 🜁 <b> $x$ \u2028 \ufeff"

ROWS: dict[str, list[Any]] = {
    "prompts": [
        Prompt("p1", "prefix", "capability", NASTY, copies=64, target=" und", n_tokens=50),
        Prompt("p2", "generic", "propensity", "", overlap=1 / 3, refused="stands in the corpus"),
        Prompt("p3", "mismatched_prefix", "control", "a", copies=0, occurs_whole=True),
    ],
    "generations": [
        Generation("g1", "p1", "greedy", 0, 2**63 - 1, NASTY, (0, 5, 2**31), "stop", 0.0, 1.0, 9),
        Generation("g2", "p1", "sampled", 4, 0, "", (), "length", 1e-4, 0.95, 256, 40),
    ],
    "extraction": [
        Extraction("p1", "greedy", 50, float("-inf"), 49, 1, 0, ""),
        Extraction("p2", "sampled", 0, None, None, 0, 0, "too long"),
    ],
    "traces": [
        TraceSummary(
            "g1", 0, 9, 3, 1, 1, 3, 2, 1, True, True, False, 2, 1.5, 1.0, 0.7, False, "verified"
        ),
        TraceSummary(
            "g2", 0, 0, 0, 0, 0, 0, 0, 0, False, False, True, 0, 0.0, 0.0, 1.0, True, "overlap"
        ),
    ],
    "spans": [
        Span("g1", 0, 2, 6, 5, 20, NASTY, -21.5, 3, 2, True, segment=0),
        Span("g1", 1, 3, 9, 9, 30, "", -1e300, 10**12, 7, False, dropped="common"),
    ],
    "matches": [
        Match("g1", -1, 0, 17, "d", "bible", "CC0", 4, NASTY, 3, 19, "full_raw", 1.0, False),
        Match("g1", 0, 1, 17, "", "", "", 0, "", 0, 0, "partial", 0.0, True),
    ],
    "variants": [
        Variants(
            "merging", "overlap", False, "g1", 12, False, True, 3, 2, 1.5, 1.0, ""
        )
    ],
    "metrics": [
        Metrics(
            "generic", "propensity", "greedy", "all", "NVR", None, None, None, "none", 0, 9, 0
        ),
        Metrics(
            "generic", "propensity", "greedy", "all", "FMR", 0.0, 0.0, 0.3, "rule of three", 9, 9, 9
        ),
    ],
    "propensity": [
        Propensity(
            "NVR", "greedy", "all", "generic", "propensity", "prefix", None, 0.1, None, None, None,
            "none", 0, 48, True, 100, 100,
        ),
        Propensity(
            "FMR", "greedy", "all", "human", "control", "prefix", 0.1, 0.3, 0.25, 0.1, 0.4,
            "bootstrap", 72, 50, False, 100, 2,
        ),
    ],
    "copies": [Copies(0, "greedy", "extraction", 0.0, 0.0, 0.3, "rule of three", 10)],
    "breakdown": [
        Breakdown(
            "source", NASTY, "prefix", "capability", "greedy", "NVR", None, None, None, "none", 1, 2
        )
    ],
    "discoverable": [
        Discoverable("prefix", "sampled", 10, 0.5, 0.0, 0.0, 0.3, "rule of three", 10)
    ],
    "sensitivity": [
        Sensitivity(
            "merging", "overlap", False, "prefix", "capability", "greedy", "NVR",
            None, None, None, "none", 0, 2,
        )
    ],
    "span_lengths": [SpanLengths("prefix", "capability", "greedy", 0, 3)],
    "compared_runs": [
        ComparedRuns("a", "/o/a", "m", "", "c", "5e", "1d", "", "mixed", "greedy", "x", 9)
    ],
    "caveats": [Caveats("corpus", NASTY, "So.")],
    "run_metrics": [
        RunMetrics(
            "generic", "propensity", "greedy", "all", "NVR", None, None, None, "none", 0, 9, 0, "a"
        )
    ],
    "run_propensity": [
        RunPropensity(
            "NVR", "greedy", "all", "generic", "propensity", "prefix", None, 0.1, None, None, None,
            "none", 0, 48, True, 100, 100, "a",
        )
    ],
    "differences": [
        Differences(
            "b", "a", "prefix", "capability", "greedy", "NVR", None, 0.1, None, None, None, "none",
            False, "other prompts", 0, 9, None, None,
        ),
        Differences(
            "b", "a", "generic", "propensity", "greedy", "FMR", 0.2, 0.1, 0.1, -0.1, 0.3,
            "bootstrap", True, "", 9, 9, 0.01, 0.02,
        ),
    ],
    "shifts": [
        Shifts(
            "b", "a", "prefix", "capability", "greedy", "FMR", "NVR", None, 0.5, None, None, None,
            True, 9, 100, 100,
        )
    ],
    "trajectories": [Trajectories("Danish", 0, "a", False)],
}  # fmt: skip

every_table = pytest.mark.parametrize("name", TABLES)


def frame(name: str = "generations") -> pd.DataFrame:
    return to_frame(name, ROWS[name])


# --- what is declared -------------------------------------------------------------------------


@every_table
def test_columns_and_schema_are_the_fields_of_the_record(name: str) -> None:
    table = TABLES[name]
    assert table.name == name
    assert table.about
    fields = [field.name for field in dataclasses.fields(table.record)]
    assert list(table.columns) == table.schema.names == fields
    assert set(table.key) <= set(fields)


@every_table
def test_every_column_has_a_meaning(name: str) -> None:
    meanings = list(TABLES[name].columns.values())
    assert all(isinstance(meaning, str) and len(meaning) > 5 for meaning in meanings)
    assert len(set(meanings)) == len(meanings)  # none is copied from its neighbour


@every_table
def test_only_what_may_be_none_is_nullable(name: str) -> None:
    hints = typing.get_type_hints(TABLES[name].record)
    for column in TABLES[name].schema:
        may_be_none = type(None) in typing.get_args(hints[column.name])
        assert column.nullable is may_be_none, column.name


def test_types_of_the_columns() -> None:
    assert TABLES["prompts"].schema.field("text").type == pa.string()
    assert TABLES["prompts"].schema.field("copies").type == pa.int64()
    assert TABLES["prompts"].schema.field("overlap").type == pa.float64()
    assert TABLES["prompts"].schema.field("occurs_whole").type == pa.bool_()
    assert TABLES["generations"].schema.field("token_ids").type == pa.list_(pa.int64())
    assert TABLES["metrics"].schema.field("value").type == pa.float64()


def test_a_propensity_score_says_how_many_prompts_are_behind_each_side() -> None:
    columns = list(TABLES["propensity"].columns)
    first = columns.index("n_prompts")
    assert columns[first : first + 3] == ["n_prompts", "n_prompts_capability", "undefined"]
    for name in columns[first : first + 2]:
        column = TABLES["propensity"].schema.field(name)
        assert column.type == pa.int64()
        assert not column.nullable


# --- there and back ---------------------------------------------------------------------------


@every_table
def test_records_survive_a_frame(name: str) -> None:
    assert to_records(name, frame(name)) == ROWS[name]


@every_table
def test_records_survive_a_file(name: str, tmp_path: Path) -> None:
    path = write(name, frame(name), tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / f"{name}.parquet"
    assert to_records(name, read(name, path.parent)) == ROWS[name]


@every_table
def test_an_empty_table_keeps_its_columns(name: str, tmp_path: Path) -> None:
    empty = to_frame(name, [])
    assert list(empty.columns) == list(TABLES[name].columns)
    write(name, empty, tmp_path)
    back = read(name, tmp_path)
    assert list(back.columns) == list(TABLES[name].columns)
    assert to_records(name, back) == []
    assert pq.read_schema(tmp_path / f"{name}.parquet").equals(TABLES[name].schema)


@every_table
def test_a_table_that_was_read_can_be_written_again(name: str, tmp_path: Path) -> None:
    write(name, frame(name), tmp_path / "a")
    write(name, read(name, tmp_path / "a"), tmp_path / "b")
    assert to_records(name, read(name, tmp_path / "b")) == ROWS[name]


def test_whole_numbers_stay_whole_beside_empty_values(tmp_path: Path) -> None:
    write("prompts", frame("prompts"), tmp_path)
    copies = read("prompts", tmp_path)["copies"]
    assert copies.dtype == pd.Int64Dtype()
    assert copies.tolist() == [64, pd.NA, 0]
    (one, none, zero) = to_records("prompts", read("prompts", tmp_path))
    assert (one.copies, none.copies, zero.copies) == (64, None, 0)
    assert type(one.copies) is int


def test_order_of_columns_and_index_do_not_matter(tmp_path: Path) -> None:
    turned = frame()[list(TABLES["generations"].columns)[::-1]].set_axis([7, 7])
    write("generations", turned, tmp_path)
    back = read("generations", tmp_path)
    assert list(back.columns) == list(TABLES["generations"].columns)
    assert list(back.index) == [0, 1]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
whole = st.integers(-(2**63), 2**63 - 1)


@given(
    st.lists(
        st.builds(
            Generation,
            generation_id=texts,
            prompt_id=texts,
            decoding=texts,
            sample=whole,
            seed=whole,
            text=texts,
            token_ids=st.lists(whole, max_size=4).map(tuple),
            finish_reason=st.sampled_from(["stop", "length"]),
            temperature=st.floats(allow_nan=False),
            top_p=st.floats(allow_nan=False),
            max_new_tokens=whole,
        ),
        max_size=4,
        unique_by=lambda generation: generation.generation_id,
    )
)
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_generations_survive(tmp_path: Path, generations: list[Generation]) -> None:
    made = to_frame("generations", generations)
    assert to_records("generations", made) == generations
    write("generations", made, tmp_path)
    assert to_records("generations", read("generations", tmp_path)) == generations


# --- what is refused --------------------------------------------------------------------------

WRONG = [
    (lambda f: f.drop(columns="text"), r"missing \['text'\]"),
    (lambda f: f.assign(colour="red"), r"unknown \['colour'\]"),
    (lambda f: f.rename(columns={"text": "txt"}), r"missing \['text'\], unknown \['txt'\]"),
    (lambda f: pd.concat([f, f[["text"]]], axis=1), r"twice \['text'\]"),
    (lambda f: f.assign(text=3), "column text"),
    (lambda f: f.assign(text=[b"\xff", "b"]), "column text"),
    (lambda f: f.assign(text=None), "column 'text' has empty values"),
    (lambda f: f.assign(text=["a", None]), "column 'text' has empty values"),
    (lambda f: f.assign(sample=1.5), "column sample"),
    (lambda f: f.assign(sample=[1, np.nan]), "column 'sample' has empty values"),
    (lambda f: f.assign(sample="1"), "column 'sample' is string, not int64"),
    (lambda f: f.assign(sample=True), "column 'sample' is boolean, not int64"),
    (lambda f: f.assign(temperature="hot"), "column 'temperature' is string, not double"),
    (lambda f: f.assign(temperature=np.nan), "column 'temperature' has empty values"),
    (lambda f: f.assign(temperature=[1.0, {}]), "column temperature"),
    (lambda f: f.assign(seed=[2**63, 1]), "column seed"),
    (lambda f: f.assign(token_ids=f["text"]), "column token_ids"),
    (lambda f: f.assign(token_ids=3), "column token_ids"),
    (lambda f: f.assign(token_ids=[[1], ["x"]]), "column token_ids"),
    (
        lambda f: f.assign(generation_id="g1"),
        r"key \('generation_id',\) stands twice: \('g1',\)",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), WRONG)
def test_a_wrong_table_is_not_written(spoil: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=f"^table 'generations': .*{message}"):
        write("generations", spoil(frame()), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("wrong", "kind"), [(1, "integer"), (1.0, "floating"), ("1", "string")])
def test_a_truth_value_is_no_number_or_text(wrong: object, kind: str, tmp_path: Path) -> None:
    message = f"table 'traces': column 'full_raw' is {kind}, not bool"
    with pytest.raises(TableError, match=message):
        write("traces", frame("traces").assign(full_raw=wrong), tmp_path)


def test_a_key_of_several_columns_may_repeat_in_part(tmp_path: Path) -> None:
    write("matches", frame("matches"), tmp_path)  # the same generation and document
    twice = pd.concat([frame("matches")] * 2)
    with pytest.raises(TableError, match=r"stands twice: \('g1', -1, 0, 17\)"):
        write("matches", twice, tmp_path)


# --- what a file can be -----------------------------------------------------------------------


def put(folder: Path, arrow: pa.Table, name: str = "generations") -> str:
    pq.write_table(arrow, folder / f"{name}.parquet")
    return f"{name}.parquet: "


def recast(**types: pa.DataType) -> pa.Table:
    schema = TABLES["generations"].schema
    for column, kind in types.items():
        schema = schema.set(schema.get_field_index(column), pa.field(column, kind))
    return pa.Table.from_pandas(frame(), preserve_index=False).cast(schema)


def test_a_missing_file_says_what_writes_it(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"spans\.parquet: no such table; .*writes 'spans' first"):
        read("spans", tmp_path)
    (tmp_path / "spans.parquet").mkdir()
    with pytest.raises(TableError, match="no such table"):
        read("spans", tmp_path)


@pytest.mark.parametrize("keep", [0, 3, 4, 0.5, -1, -9])
def test_a_truncated_file_is_named(keep: float, tmp_path: Path) -> None:
    path = write("generations", frame(), tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(TableError, match=r"generations\.parquet: not a readable parquet file"):
        read("generations", tmp_path)


def test_damaged_data_in_the_middle_is_an_error_too(tmp_path: Path) -> None:
    path = write("generations", frame(), tmp_path)
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(content)
    with pytest.raises(TableError, match=r"generations\.parquet: "):
        read("generations", tmp_path)


def test_another_table_under_this_name_is_refused(tmp_path: Path) -> None:
    write("prompts", frame("prompts"), tmp_path).rename(tmp_path / "spans.parquet")
    with pytest.raises(TableError, match=r"spans\.parquet: columns missing .*'log_probability'"):
        read("spans", tmp_path)


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ("sample", pa.string(), "column 'sample' is string, not int64"),
        ("sample", pa.float64(), "column 'sample' is double, not int64"),
        ("temperature", pa.float32(), "column 'temperature' is float, not double"),
        ("token_ids", pa.list_(pa.int32()), "column 'token_ids' is list"),
    ],
)
def test_a_file_with_another_type_is_refused(
    column: str, kind: pa.DataType, message: str, tmp_path: Path
) -> None:
    rows = recast() if column != "token_ids" else recast().slice(1)  # 2**31 does not fit
    index = rows.schema.get_field_index(column)
    rows = rows.set_column(index, column, rows[column].cast(kind))
    where = put(tmp_path, rows)
    with pytest.raises(TableError, match=where + message):
        read("generations", tmp_path)


def test_a_file_with_empty_values_is_refused(tmp_path: Path) -> None:
    rows = recast(text=pa.string())
    index = rows.schema.get_field_index("text")
    where = put(tmp_path, rows.set_column(index, "text", pa.array(["a", None])))
    with pytest.raises(TableError, match=where + "column 'text' has empty values"):
        read("generations", tmp_path)


def test_a_file_with_a_key_twice_is_refused(tmp_path: Path) -> None:
    where = put(tmp_path, pa.concat_tables([recast(), recast()]))
    with pytest.raises(TableError, match=where + r"key \('generation_id',\) stands twice"):
        read("generations", tmp_path)


# --- whole or not at all ----------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_table_and_nothing_else(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("generations", frame(), tmp_path)
    before = path.read_bytes()

    def half_written(_: pa.Table, target: str, **__: Any) -> None:
        Path(target).write_bytes(before[:20])
        raise error

    monkeypatch.setattr(frames.pq, "write_table", half_written)
    with pytest.raises(type(error)):
        write("generations", frame().iloc[:1], tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_version_replaces_the_old(tmp_path: Path) -> None:
    write("generations", frame(), tmp_path)
    path = write("generations", frame().iloc[:1], tmp_path)
    assert len(read("generations", tmp_path)) == 1
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644

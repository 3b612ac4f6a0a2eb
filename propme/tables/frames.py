"""Data frames and parquet files of the tables, checked whenever they are written or read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from propme.errors import TableError
from propme.tables.declared import TABLES, Table

#: What arrow would silently turn into another type: "1" and True into 1, and 1 into True.
_CAST_BY_ARROW = {
    pa.int64(): ("string", "boolean"),
    pa.float64(): ("string", "boolean"),
    pa.bool_(): ("string", "integer", "floating"),
}


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

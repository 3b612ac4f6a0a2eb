"""What is finished of a trace: a file for each table of each unit, in one folder.

A file is written whole or not at all, so that a trace that was killed goes on with the units that
are missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from propme import tables
from propme.errors import InputError
from propme.files import write_whole

#: Generations of a unit.
UNIT = 32

#: Tables of a trace. Those of a unit are written in this order, and the last says it is whole.
TABLES = ("matches", "spans", "traces")

_ROWS_AT_A_TIME = 20_000


def count_units(n_texts: int) -> int:
    """Units that so many texts make."""
    return -(-n_texts // UNIT)


def claim(parts: Path, key: str) -> None:
    """Mark a folder as that of one trace.

    Raises
    ------
    InputError
        It is that of another.
    """
    marker = parts / "key"
    if not marker.is_file():
        write_whole(marker, key)
    elif marker.read_text(encoding="utf-8") != key:
        raise InputError(
            "here lies the unfinished trace of other texts, another index or other settings;"
            " finish it as it was begun, remove it, or choose another folder",
            str(parts),
        )


def missing_units(parts: Path, n_units: int) -> list[int]:
    """Units, counted from 0, that are not traced yet."""
    return [unit for unit in range(n_units) if not _is_traced(parts, unit)]


def _is_traced(parts: Path, unit: int) -> bool:
    """Whether a unit is there, and can be read: a lost machine may leave a file empty."""
    try:
        for name in TABLES:
            pq.read_metadata(_part(parts, unit, name))
    except (OSError, pa.ArrowException):
        return False
    return True


def _part(parts: Path, unit: int, name: str) -> Path:
    return parts / f"{unit:08d}.{name}.parquet"


def keep(parts: Path, unit: int, found: dict[str, pa.Table]) -> None:
    """Write the tables of a unit, each whole."""
    for name in TABLES:
        path = _part(parts, unit, name)
        temporary = path.with_suffix(".tmp")
        # Read but once, so to be fast is worth more than to be small.
        pq.write_table(found[name], temporary, compression="lz4", use_dictionary=False)
        os.replace(temporary, path)


def drop_units(parts: Path) -> None:
    """Remove what is finished of a trace, but not whose it is."""
    for path in parts.glob("*.parquet"):
        path.unlink(missing_ok=True)


def collect(parts: Path, n_units: int, n_shards: int, folder: Path) -> None:
    """Write the tables of a finished trace into ``folder``, a bounded part of them at a time.

    Raises
    ------
    InputError
        Units are missing; it says of which shards, if there are several.
    """
    missing = missing_units(parts, n_units)
    if missing and n_shards > 1:
        shards = sorted({unit % n_shards + 1 for unit in missing})
        raise InputError(f"not finished yet: shard {shards} of {n_shards}", str(parts))
    if missing:
        raise InputError(f"{len(missing)} of {n_units} parts are not traced yet", str(parts))
    folder.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        temporary = folder / f".{name}.tmp"
        schema = tables.TABLES[name].schema
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for table in _in_groups(pq.read_table(_part(parts, n, name)) for n in range(n_units)):
                writer.write_table(table)
        os.replace(temporary, folder / f"{name}.parquet")


def read_parts(parts: Path, n_units: int) -> dict[str, pd.DataFrame]:
    """Tables of a finished trace, in memory."""
    found = {}
    for name in TABLES:
        read = [pq.read_table(_part(parts, unit, name)) for unit in range(n_units)]
        empty = tables.TABLES[name].schema.empty_table()
        found[name] = tables.from_arrow(pa.concat_tables([empty, *read]))
    return found


def _in_groups(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    group: list[pa.Table] = []
    for piece in pieces:
        group.append(piece)
        if sum(table.num_rows for table in group) >= _ROWS_AT_A_TIME:
            yield pa.concat_tables(group)
            group = []
    if group:
        yield pa.concat_tables(group)

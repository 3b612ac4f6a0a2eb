"""The command ``propme trace``: any file of texts, without a notebook and without a model."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from propme import __version__
from propme.corpus import Corpus
from propme.errors import InputError
from propme.files import alone, write_whole
from propme.simpletrace import IndexAddress, TraceSettings, Workers, collect, trace_into
from propme.simpletrace.batch import key_of
from propme.simpletrace.parts import TABLES, count_units

_STATE = "trace.json"

#: Texts with the longest segments that are named at the end.
_NAMED = 5


def trace_files(
    texts: Corpus,
    address: IndexAddress,
    settings: TraceSettings,
    output: Path,
    workers: Workers | None = None,
    shard: tuple[int, int] | None = None,
) -> bool:
    """Trace every text of some files into the folder ``output``.

    What is finished is kept: the same call goes on where a killed one was. Without a ``shard`` the
    tables are written when all is traced; with one, `merge` does so when all shards are.

    Parameters
    ----------
    texts : Corpus
        Ids become generation ids.
    address : IndexAddress
    settings : TraceSettings
    output : Path
    workers : Workers, optional
    shard : (k, n), optional
        Trace every n-th unit from the k-th on, from 1. Shards may run at the same time.

    Returns
    -------
    bool
        Whether the tables are written.

    Raises
    ------
    InputError
        ``output`` holds the trace of something else, or a text cannot be read.
    """
    if output.is_file():
        raise InputError("this is a file; name a folder", str(output))
    hashes = texts.hashes()
    same = [file.get("sha256", file["path"]) for file in hashes]
    key = key_of(same, texts.settings, address.identity(), asdict(settings))
    state = _state(output)
    if state and state["key"] != key:
        raise InputError(
            "this folder holds the trace of other texts, another index or other settings; choose"
            " another, or remove it",
            str(output),
        )
    if state.get("finished") and _has_tables(output):
        merge(output)
        return True
    total = sum(1 for _ in texts)  # also finds what cannot be read, before hours of work
    output.mkdir(parents=True, exist_ok=True)
    about = {
        "key": key,
        "texts": hashes,
        "index": list(address.paths),
        "settings": asdict(settings),
        "generations": total,
        "units": count_units(total),
        "shards": shard[1] if shard else 1,
        "propme": __version__,
        "finished": False,
    }
    with alone(output / _STATE):
        if not _state(output) or (_state(output)["finished"] and not _has_tables(output)):
            write_whole(output / _STATE, json.dumps(about, indent=1))
    pairs = ((document.id, document.text) for document in texts)
    with alone(output / f"shard-{shard[0]}-of-{shard[1]}" if shard else output / "parts"):
        if not _state(output)["finished"]:  # by another process, for which this one waited
            trace_into(
                output / "parts", key, pairs, total, address, settings, workers, shard or (1, 1)
            )
        if shard is None:
            merge(output)
    return shard is None


def _has_tables(output: Path) -> bool:
    return all((output / "tables" / f"{name}.parquet").is_file() for name in TABLES)


def merge(output: Path) -> None:
    """Write the tables of a trace whose shards are all finished, and remove its parts.

    Raises
    ------
    InputError
        There is no trace, or a shard is not finished.
    """
    state = _state(output)
    if not state:
        raise InputError(f"no {_STATE} here, so this is no trace", str(output))
    parts = output / "parts"
    with alone(output / "tables"):
        if not _state(output)["finished"]:
            collect(parts, state["units"], state["shards"], output / "tables")
            write_whole(output / _STATE, json.dumps(state | {"finished": True}, indent=1))
    shutil.rmtree(parts, ignore_errors=True)


def write_jsonl(output: Path) -> None:
    """Write each table of a finished trace as lines of JSON too, beside the tables."""
    for name in TABLES:
        temporary = output / f".{name}.jsonl.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            for batch in pq.ParquetFile(output / "tables" / f"{name}.parquet").iter_batches():
                file.writelines(
                    json.dumps(row, ensure_ascii=False) + "\n" for row in batch.to_pylist()
                )
        os.replace(temporary, output / f"{name}.jsonl")


def summary(output: Path) -> Iterator[str]:
    """What a finished trace found, in lines."""
    columns = ["generation_id", "longest_segment", "full_raw", "recall_sum", "n_pairs", "error"]
    table = pq.read_table(output / "tables" / "traces.parquet", columns=columns).to_pandas()
    traced = table[table["error"] == ""]
    yield f"traced     {len(traced):,} generations"
    if len(traced):
        yield f"ALS        {traced['longest_segment'].mean():.2f} tokens"
        yield f"FMR        {traced['full_raw'].mean():.4f}"
    if traced["n_pairs"].sum():
        yield f"NVR        {traced['recall_sum'].sum() / traced['n_pairs'].sum():.4f}"
    longest = traced.sort_values("longest_segment", ascending=False, kind="stable")
    for name, tokens in longest[["generation_id", "longest_segment"]].head(_NAMED).to_numpy():
        yield f"longest    {tokens:,} tokens in {name}"
    for error, times in table.loc[table["error"] != "", "error"].value_counts().items():
        yield f"not traced {times:,}: {error}"


def whereabouts(output: Path, as_jsonl: bool) -> Iterator[str]:
    """Where the tables of a trace are, and how to look at them, in lines."""
    folder = output / "tables"
    yield f"The tables are in {folder}: {', '.join(sorted(TABLES))}; docs/tables.md explains them."
    if as_jsonl:
        yield f"As lines of JSON: {', '.join(str(output / f'{n}.jsonl') for n in sorted(TABLES))}"
    code = f"import pandas as pd; print(pd.read_parquet({str(folder / 'spans.parquet')!r}))"
    yield f"Look at one with  python -c {shlex.quote(code)}"


def _state(output: Path) -> dict[str, Any]:
    path = output / _STATE
    if not path.is_file():
        return {}
    try:
        state: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(f"damaged: {error}; remove the folder", str(path)) from error
    return state

"""Many generations: traced side by side, kept as they come, the same for any number of workers.

Generations are traced in units of some tens (`propme.simpletrace.workers`). A finished unit is
kept in a folder of parts (`propme.simpletrace.parts`); a run that was killed goes on with the units
that are missing. What a unit holds depends on its generations and the settings alone.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from propme import tables
from propme.files import alone
from propme.index import Index
from propme.index.remote.questions import DisbelievedError
from propme.progress import track
from propme.records import Generation
from propme.simpletrace.address import IndexAddress
from propme.simpletrace.parts import (
    UNIT,
    claim,
    count_units,
    drop_units,
    keep,
    missing_units,
    read_parts,
)
from propme.simpletrace.rows import as_tables, failed, traced
from propme.simpletrace.trace import Tracer, TraceSettings
from propme.simpletrace.workers import Text, Workers, trace_units


def trace_all(
    generations: Sequence[Generation], index: Index, settings: TraceSettings | None = None
) -> dict[str, pd.DataFrame]:
    """Trace generations here and now, in an index that is open; the tables by name."""
    tracer = Tracer(index, settings)
    texts = [(g.generation_id, g.text) for g in generations if not g.error]
    traces = [traced(tracer, *text) for text in track(texts, "tracing", unit="generations")]
    found = {name: tables.from_arrow(table) for name, table in as_tables(traces).items()}
    errors = [(g.generation_id, g.error) for g in generations if g.error]
    return _with_errors(found, errors, tracer.settings)


def trace_table(
    generations: pd.DataFrame,
    address: IndexAddress,
    settings: TraceSettings,
    parts: Path,
    workers: Workers | None = None,
) -> dict[str, pd.DataFrame]:
    """Trace the table ``generations``; the tables by name.

    What is finished lies in the folder ``parts`` and is not traced again, if it is of the same
    generations, index and settings. The caller removes it when the tables are written.

    A generation of which there is no completion has a row in ``traces`` that says so.
    """
    n_texts = trace_share(generations, address, settings, parts, workers)
    found = read_parts(parts, count_units(n_texts))
    without = generations[generations["error"] != ""]
    errors = zip(without["generation_id"], without["error"], strict=True)
    return _with_errors(found, list(errors), settings)


def trace_share(
    generations: pd.DataFrame,
    address: IndexAddress,
    settings: TraceSettings,
    parts: Path,
    workers: Workers | None = None,
    shard: tuple[int, int] = (1, 1),
) -> int:
    """Trace the K-th of N shares of the table ``generations`` into ``parts``, as `trace_table`.

    Parts of other generations, of another index or of other settings are removed first. Shares may
    be traced at the same time.

    Returns
    -------
    int
        How many texts all shares have together.
    """
    texts = texts_of(generations)
    key = key_of(texts, address.identity(), asdict(settings))
    marker = parts / "key"
    parts.parent.mkdir(parents=True, exist_ok=True)
    with alone(parts):
        if marker.is_file() and marker.read_text(encoding="utf-8") != key:
            shutil.rmtree(parts)
        parts.mkdir(exist_ok=True)
        claim(parts, key)
    trace_into(parts, key, texts, len(texts), address, settings, workers, shard)
    return len(texts)


def texts_of(generations: pd.DataFrame) -> list[Text]:
    """Id and text of each completion that there is, of the table ``generations``."""
    written = generations[generations["error"] == ""]
    return list(zip(written["generation_id"], written["text"], strict=True))


def _with_errors(
    found: dict[str, pd.DataFrame], errors: Sequence[Text], settings: TraceSettings
) -> dict[str, pd.DataFrame]:
    """The tables, and a row in ``traces`` for each generation of which there is no completion."""
    if not errors:
        return found
    rows = [failed(name, "", f"no completion: {error}", settings) for name, error in errors]
    added = tables.from_arrow(tables.to_arrow("traces", rows))
    return found | {"traces": pd.concat([found["traces"], added], ignore_index=True)}


def key_of(*parts: Any) -> str:
    """Changes with anything that decides a trace."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def trace_into(
    parts: Path,
    key: str,
    texts: Iterable[Text],
    n_texts: int,
    address: IndexAddress,
    settings: TraceSettings,
    workers: Workers | None = None,
    shard: tuple[int, int] = (1, 1),
) -> None:
    """Trace texts into a folder of parts, but for the units that are there already.

    Parameters
    ----------
    parts : Path
        Made if it is missing. It holds the parts of one trace: those of another are refused.
    key : str
        Changes with anything that decides the result.
    texts : iterable of (id, text)
    n_texts : int
        Their number.
    shard : (k, n)
        Of the units, every n-th from the k-th on, from 1.

    Raises
    ------
    InputError
        ``parts`` belong to another trace, or the file of a server's answers cannot be used.
    BrokenIndexError
        The index is wrong. Any other error of one generation is told in its row of ``traces``.
    ServerError
        The index lies behind a server that is lost, failing or busy for too long, or is not
        believed any more; then the parts are removed.
    """
    parts.mkdir(parents=True, exist_ok=True)
    claim(parts, key)
    k, n = shard
    missing = [u for u in missing_units(parts, count_units(n_texts)) if u % n == k - 1]

    def results() -> Iterator[int]:
        wanted = set(missing)
        units = (each for each in enumerate(_units(texts)) if each[0] in wanted)
        for n_done, whole in trace_units(units, address, settings, workers or Workers()):
            if whole:
                keep(parts, *whole)
            yield from range(n_done)

    total = sum(min(UNIT, n_texts - unit * UNIT) for unit in missing)
    try:
        for _ in track(results(), "tracing", total=total, unit="generations"):
            pass
    except DisbelievedError:  # it is made anew of the answers that are still kept
        drop_units(parts)
        raise


def _units(texts: Iterable[Text]) -> Iterator[list[Text]]:
    rest = iter(texts)
    while unit := list(islice(rest, UNIT)):
        yield unit

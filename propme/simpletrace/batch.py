"""Many generations: traced side by side, kept as they come, the same for any number of workers.

Generations are traced in units of some tens. A finished unit is a file for each table in a folder
of parts, written whole or not at all; a run that was killed goes on with the units that are
missing. What a unit holds depends on its generations and the settings alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from propme import tables
from propme.degenerate import is_degenerate, zlib_ratio
from propme.errors import BrokenIndexError, InputError, ParameterError, ServerError
from propme.files import alone, sha256_of, write_whole
from propme.index import Index, RemoteSettings, is_remote, open_index
from propme.index.layout import MANIFEST
from propme.progress import track
from propme.records import Generation, Trace, TraceSummary
from propme.simpletrace.trace import Tracer, TraceSettings

#: Generations of a unit.
UNIT = 32

#: Generations after which a worker opens the index anew. The pages of a mapped file that were
#: looked at stay in the process's page tables, which for terabytes of index grow to gigabytes.
REOPEN_AFTER = 20_000

#: Tables of a trace. Those of a unit are written in this order, and the last says it is whole.
TABLES = ("matches", "spans", "traces")

_ROWS_AT_A_TIME = 20_000
_UNITS_AT_ONCE = 256

Text = tuple[str, str]


@dataclass(frozen=True)
class IndexAddress:
    """Where an index lies and how it is opened, for workers that each open it themselves.

    The attributes are the arguments of `propme.index.open_index`.
    """

    paths: tuple[str, ...]
    engine: str = "mapped"
    tokenizer: str = ""
    token_type: str = "u16"
    remote: RemoteSettings = field(default_factory=RemoteSettings)

    @classmethod
    def recorded(
        cls, known: Mapping[str, str], engine: str = "mapped", **remote: Any
    ) -> IndexAddress:
        """That of a run, which recorded what is known of its index (`propme.run`).

        ``remote``: fields of `RemoteSettings`, for an index behind a server.
        """
        settings = RemoteSettings(known.get("answers", ""), **remote)
        return cls((known["path"],), engine, known.get("tokenizer", ""), remote=settings)

    @property
    def is_remote(self) -> bool:
        """Whether the index lies behind a server."""
        return any(map(is_remote, self.paths))

    def open(self) -> Index:
        """Open it, after its cheap checks."""
        return open_index(
            self.paths,
            self.engine,
            tokenizer=self.tokenizer,
            token_type=self.token_type,
            remote=self.remote,
        )

    def identity(self) -> list[str]:
        """What decides its answers: not where it lies, nor the engine, of which all say the same.

        An index that was made elsewhere has no manifest to be known by, but for its path; of one
        behind a server it also matters how many occurrences are read.
        """
        if self.is_remote:
            return [*self.paths, self.tokenizer, self.token_type, str(self.remote.most_read)]
        manifests = [Path(path) / MANIFEST for path in self.paths]
        known = [sha256_of(p) if p.is_file() else str(p.parent.resolve()) for p in manifests]
        return [*known, self.tokenizer, self.token_type]


@dataclass(frozen=True)
class Workers:
    """Who traces.

    Attributes
    ----------
    number : int
        Processes on this machine; a cluster decides for itself.
    backend : str
        ``local``; ``dask:ADDRESS`` or ``ray:ADDRESS`` of a cluster's scheduler, whose machines see
        the index under the same path.
    reopen_after : int
        Generations after which each opens the index anew.
    """

    number: int = 1
    backend: str = "local"
    reopen_after: int = REOPEN_AFTER

    def __post_init__(self) -> None:
        if self.number < 1 or self.reopen_after < 1:
            raise ParameterError("workers and reopen_after must be >= 1")
        if self.backend.partition(":")[0] not in ("local", "dask", "ray"):
            raise ParameterError(
                f"tracing_backend {self.backend!r} is unknown; it is local, dask:ADDRESS or"
                " ray:ADDRESS"
            )


def trace_all(
    generations: Sequence[Generation], index: Index, settings: TraceSettings | None = None
) -> dict[str, pd.DataFrame]:
    """Trace generations here and now, in an index that is open; the tables by name."""
    tracer = Tracer(index, settings)
    texts = [(g.generation_id, g.text) for g in generations if not g.error]
    traces = [_traced(tracer, *text) for text in track(texts, "tracing", unit="generations")]
    found = {name: tables.from_arrow(table) for name, table in _as_tables(traces).items()}
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
    written = generations[generations["error"] == ""]
    texts = list(zip(written["generation_id"], written["text"], strict=True))
    key = key_of(texts, address.identity(), asdict(settings))
    marker = parts / "key"
    parts.parent.mkdir(parents=True, exist_ok=True)
    with alone(parts):
        if marker.is_file() and marker.read_text(encoding="utf-8") != key:
            shutil.rmtree(parts)
        parts.mkdir(exist_ok=True)
        _claim(parts, key)
    trace_into(parts, key, texts, len(texts), address, settings, workers, shard)
    return len(texts)


def _with_errors(
    found: dict[str, pd.DataFrame], errors: Sequence[Text], settings: TraceSettings
) -> dict[str, pd.DataFrame]:
    """The tables, and a row in ``traces`` for each generation of which there is no completion."""
    if not errors:
        return found
    rows = [_failed(name, "", f"no completion: {error}", settings) for name, error in errors]
    added = tables.from_arrow(tables.to_arrow("traces", rows))
    return found | {"traces": pd.concat([found["traces"], added], ignore_index=True)}


def count_units(n_texts: int) -> int:
    """Units that so many texts make."""
    return -(-n_texts // UNIT)


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
        The index lies behind a server that is lost, failing or busy for too long.
    """
    parts.mkdir(parents=True, exist_ok=True)
    _claim(parts, key)
    k, n = shard
    missing = [u for u in missing_units(parts, count_units(n_texts)) if u % n == k - 1]

    def traced() -> Iterator[str]:
        wanted = set(missing)
        units = (each for each in enumerate(_units(texts)) if each[0] in wanted)
        for unit, found in _results(units, address, settings, workers or Workers()):
            _keep(parts, unit, found)
            yield from found["traces"]["generation_id"].to_pylist()

    total = sum(min(UNIT, n_texts - unit * UNIT) for unit in missing)
    for _ in track(traced(), "tracing", total=total, unit="generations"):
        pass


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


def _claim(parts: Path, key: str) -> None:
    """Mark a folder as that of one trace."""
    marker = parts / "key"
    if not marker.is_file():
        write_whole(marker, key)
    elif marker.read_text(encoding="utf-8") != key:
        raise InputError(
            "here lies the unfinished trace of other texts, another index or other settings;"
            " finish it as it was begun, remove it, or choose another folder",
            str(parts),
        )


def _part(parts: Path, unit: int, name: str) -> Path:
    return parts / f"{unit:08d}.{name}.parquet"


def _keep(parts: Path, unit: int, found: dict[str, pa.Table]) -> None:
    for name in TABLES:
        path = _part(parts, unit, name)
        temporary = path.with_suffix(".tmp")
        # Read but once, so to be fast is worth more than to be small.
        pq.write_table(found[name], temporary, compression="lz4", use_dictionary=False)
        os.replace(temporary, path)


def _units(texts: Iterable[Text]) -> Iterator[list[Text]]:
    rest = iter(texts)
    while unit := list(islice(rest, UNIT)):
        yield unit


def _results(
    units: Iterator[tuple[int, list[Text]]],
    address: IndexAddress,
    settings: TraceSettings,
    workers: Workers,
) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """Tables of each unit, in the order in which they get finished."""
    arguments = ((address, settings, workers.reopen_after, *unit) for unit in units)
    if address.is_remote and workers.backend == "local":
        yield from _side_by_side(arguments, max(workers.number, address.remote.at_once))
        return
    if workers.backend == "local" and workers.number == 1:
        yield from (_trace_unit(*each) for each in arguments)
        return
    from joblib import Parallel, delayed

    with _cluster(workers.backend):
        jobs = (delayed(_trace_unit)(*each) for each in arguments)
        if workers.backend.startswith("ray"):  # whose joblib backend gives results all at once
            while some := list(islice(jobs, _UNITS_AT_ONCE)):
                yield from Parallel(n_jobs=-1, batch_size=1)(some)
            return
        n_jobs = workers.number if workers.backend == "local" else -1
        yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(jobs)


def _side_by_side(
    arguments: Iterator[tuple[Any, ...]], n: int
) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """Threads of this process, which wait for a server and share what it answers."""
    from joblib import Parallel, delayed

    jobs = (delayed(_trace_unit)(*each) for each in arguments)
    parallel = Parallel(n, backend="threading", return_as="generator_unordered", batch_size=1)
    yield from parallel(jobs)


@contextmanager
def _cluster(backend: str) -> Iterator[None]:
    """Have joblib use a cluster."""
    from joblib import parallel_config

    kind, _, address = backend.partition(":")
    if kind == "local":
        yield
    elif kind == "dask":
        try:
            from distributed import Client
        except ImportError as error:
            raise _not_installed(kind) from error
        with Client(address or None), parallel_config(backend="dask"):
            yield
    else:
        try:
            import ray
            from ray.util.joblib import register_ray
        except ImportError as error:
            raise _not_installed(kind) from error
        ray.init(address=address or None, ignore_reinit_error=True)
        register_ray()
        with parallel_config(backend="ray"):
            yield


def _not_installed(kind: str) -> ParameterError:
    return ParameterError(
        f"tracing_backend {kind!r} is not installed: pip install 'propme[{kind}]'"
    )


@dataclass
class _Opened:
    """The index as one process has it open."""

    key: tuple[Any, ...]
    tracer: Tracer
    traced: int = 0


_opened: list[_Opened] = []
_opening = threading.Lock()


def _trace_unit(
    address: IndexAddress,
    settings: TraceSettings,
    reopen_after: int,
    unit: int,
    texts: Sequence[Text],
) -> tuple[int, dict[str, pa.Table]]:
    """Trace one unit, in whatever process this is."""
    with _opening:
        opened = _open(address, settings, reopen_after)
        opened.traced += len(texts)
    return unit, _as_tables([_traced(opened.tracer, *text) for text in texts])


def _open(address: IndexAddress, settings: TraceSettings, reopen_after: int) -> _Opened:
    if _opened and (_opened[0].key != (address, settings) or _opened[0].traced >= reopen_after):
        _opened.clear()  # with it go the maps of the index
    if not _opened:
        _opened.append(_Opened((address, settings), Tracer(address.open(), settings)))
    return _opened[0]


def _traced(tracer: Tracer, generation_id: str, text: str) -> Trace:
    """Trace of one generation, or what says why there is none."""
    try:
        return tracer.trace(text, generation_id)
    except (BrokenIndexError, InputError, ServerError):  # which concern all the others too
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        return Trace(_failed(generation_id, text, told, tracer.settings), (), ())


def _failed(generation_id: str, text: str, error: str, settings: TraceSettings) -> TraceSummary:
    readable = text.encode("utf-8", "replace").decode("utf-8")
    return TraceSummary(
        generation_id=generation_id,
        char_start=0,
        char_stop=len(text),
        n_tokens=0,
        n_spans=0,
        n_kept=0,
        longest_segment=0,
        n_whole=0,
        n_whole_documents=0,
        whole_exact=False,
        full_raw=False,
        full_normalized=False,
        n_pairs=0,
        recall_sum=0.0,
        recall_max=0.0,
        zlib_ratio=zlib_ratio(readable),
        degenerate=is_degenerate(readable),
        merging=settings.merging,
        mode=settings.mode,
        error=error.encode("utf-8", "replace").decode("utf-8"),
    )


def _as_tables(traces: Sequence[Trace]) -> dict[str, pa.Table]:
    return {
        "traces": tables.to_arrow("traces", (trace.summary for trace in traces)),
        "spans": tables.to_arrow("spans", (span for trace in traces for span in trace.spans)),
        "matches": tables.to_arrow(
            "matches", (match for trace in traces for match in trace.matches)
        ),
    }

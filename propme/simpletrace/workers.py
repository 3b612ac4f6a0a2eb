"""Units of generations side by side: in processes, on a cluster, or in threads behind a server.

Behind a server a generation may take minutes, so that there the generations of a unit are traced
side by side, too, and each is told when it is done.

The tables of a unit are the same whoever traces it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from propme.errors import ParameterError
from propme.records import Trace
from propme.simpletrace.address import IndexAddress
from propme.simpletrace.rows import as_tables, traced
from propme.simpletrace.trace import Tracer, TraceSettings

#: Generations after which a worker opens the index anew. The pages of a mapped file that were
#: looked at stay in the process's page tables, which for terabytes of index grow to gigabytes.
REOPEN_AFTER = 20_000

_UNITS_AT_ONCE = 256

#: Number of generations that are done now, and a unit with its tables, if that is whole with them.
Done = tuple[int, tuple[int, dict[str, pa.Table]] | None]

#: Id and text of a generation.
Text = tuple[str, str]


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


def trace_units(
    units: Iterator[tuple[int, list[Text]]],
    address: IndexAddress,
    settings: TraceSettings,
    workers: Workers,
) -> Iterator[Done]:
    """Tables of each unit, in the order in which they get finished."""
    if address.is_remote and workers.backend == "local":
        n = max(workers.number, address.remote.at_once)
        yield from _side_by_side(units, (address, settings, workers.reopen_after), n)
        return
    arguments = ((address, settings, workers.reopen_after, *unit) for unit in units)
    for unit, found in _each_at_once(arguments, workers):
        yield found["traces"].num_rows, (unit, found)


def _each_at_once(
    arguments: Iterator[tuple[Any, ...]], workers: Workers
) -> Iterator[tuple[int, dict[str, pa.Table]]]:
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
    units: Iterator[tuple[int, list[Text]]], how: tuple[IndexAddress, TraceSettings, int], n: int
) -> Iterator[Done]:
    """Threads of this process, which wait for a server and share what it answers."""
    from joblib import Parallel, delayed

    finished: dict[int, list[Trace | None]] = {}

    def jobs() -> Iterator[Any]:
        for unit, texts in units:
            finished[unit] = [None] * len(texts)
            yield from (delayed(_trace_one)(*how, unit, *each) for each in enumerate(texts))

    parallel = Parallel(n, backend="threading", return_as="generator_unordered", batch_size=1)
    for unit, number, trace in parallel(jobs()):
        finished[unit][number] = trace
        traces = [each for each in finished[unit] if each is not None]
        whole = len(traces) == len(finished[unit])
        yield 1, (unit, as_tables(traces)) if whole else None
        if whole:
            del finished[unit]


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
    tracer = _tracer(address, settings, reopen_after, len(texts))
    return unit, as_tables([traced(tracer, *text) for text in texts])


def _trace_one(
    address: IndexAddress,
    settings: TraceSettings,
    reopen_after: int,
    unit: int,
    number: int,
    text: Text,
) -> tuple[int, int, Trace]:
    """Trace one generation of a unit, of that number in it."""
    return unit, number, traced(_tracer(address, settings, reopen_after, 1), *text)


def _tracer(address: IndexAddress, settings: TraceSettings, reopen_after: int, n: int) -> Tracer:
    """The one of this process, for so many generations more."""
    with _opening:
        if _opened and (_opened[0].key != (address, settings) or _opened[0].traced >= reopen_after):
            _opened.clear()  # with it go the maps of the index
        if not _opened:
            _opened.append(_Opened((address, settings), Tracer(address.open(), settings)))
        _opened[0].traced += n
        return _opened[0].tracer

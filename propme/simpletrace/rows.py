"""Traces as rows of tables, those too that could not be made."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from propme import tables
from propme.degenerate import is_degenerate, zlib_ratio
from propme.errors import BrokenIndexError, InputError, ServerError
from propme.records import Trace, TraceSummary
from propme.simpletrace.trace import Tracer, TraceSettings


def traced(tracer: Tracer, generation_id: str, text: str) -> Trace:
    """Trace of one generation, or what says why there is none."""
    try:
        return tracer.trace(text, generation_id)
    except (BrokenIndexError, InputError, ServerError):  # which concern all the others too
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        return Trace(failed(generation_id, text, told, tracer.settings), (), ())


def failed(generation_id: str, text: str, error: str, settings: TraceSettings) -> TraceSummary:
    """The row of a generation of which there is no trace, with why."""
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


def as_tables(traces: Sequence[Trace]) -> dict[str, pa.Table]:
    """The tables of some traces, by name."""
    return {
        "traces": tables.to_arrow("traces", (trace.summary for trace in traces)),
        "spans": tables.to_arrow("spans", (span for trace in traces for span in trace.spans)),
        "matches": tables.to_arrow(
            "matches", (match for trace in traces for match in trace.matches)
        ),
    }

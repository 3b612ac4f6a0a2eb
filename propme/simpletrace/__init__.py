"""Stage 3: what of a generation stands verbatim in the training corpus, and where."""

from propme.simpletrace.batch import (
    IndexAddress,
    Workers,
    collect,
    read_parts,
    trace_all,
    trace_into,
    trace_share,
    trace_table,
)
from propme.simpletrace.trace import Tracer, TraceSettings, trace
from propme.simpletrace.variants import some_of, trace_variants

__all__ = [
    "IndexAddress",
    "TraceSettings",
    "Tracer",
    "Workers",
    "collect",
    "read_parts",
    "some_of",
    "trace",
    "trace_all",
    "trace_into",
    "trace_share",
    "trace_table",
    "trace_variants",
]

"""Stage 3: what of a generation stands verbatim in the training corpus, and where."""

from propme.simpletrace.address import IndexAddress
from propme.simpletrace.batch import trace_all, trace_into, trace_share, trace_table
from propme.simpletrace.dry_run import RequestsNeeded, requests_needed
from propme.simpletrace.parts import collect, read_parts
from propme.simpletrace.trace import Tracer, TraceSettings, trace
from propme.simpletrace.variants import some_of, trace_variants
from propme.simpletrace.workers import Workers

__all__ = [
    "IndexAddress",
    "RequestsNeeded",
    "TraceSettings",
    "Tracer",
    "Workers",
    "collect",
    "read_parts",
    "requests_needed",
    "some_of",
    "trace",
    "trace_all",
    "trace_into",
    "trace_share",
    "trace_table",
    "trace_variants",
]

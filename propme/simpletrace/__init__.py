"""Stage 3: what of a generation stands verbatim in the training corpus, and where."""

from propme.simpletrace.address import IndexAddress
from propme.simpletrace.batch import texts_of, trace_all, trace_into, trace_share, trace_table
from propme.simpletrace.dry_run import (
    SPELLINGS_PER_READ,
    RequestsNeeded,
    lookups_of,
    requests_needed,
    requests_of_a_trace,
    requests_of_documents,
    requests_told,
)
from propme.simpletrace.parts import collect, read_parts
from propme.simpletrace.trace import Tracer, TraceSettings, trace
from propme.simpletrace.variants import settings_that_ask, some_of, trace_variants
from propme.simpletrace.workers import Workers

__all__ = [
    "SPELLINGS_PER_READ",
    "IndexAddress",
    "RequestsNeeded",
    "TraceSettings",
    "Tracer",
    "Workers",
    "collect",
    "lookups_of",
    "read_parts",
    "requests_needed",
    "requests_of_a_trace",
    "requests_of_documents",
    "requests_told",
    "settings_that_ask",
    "some_of",
    "texts_of",
    "trace",
    "trace_all",
    "trace_into",
    "trace_share",
    "trace_table",
    "trace_variants",
]

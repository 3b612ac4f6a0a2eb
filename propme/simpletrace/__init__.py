"""Stage 3: what of a generation stands verbatim in the training corpus, and where."""

from propme.simpletrace.trace import Tracer, TraceSettings, trace, trace_all

__all__ = ["TraceSettings", "Tracer", "trace", "trace_all"]

"""A share of a run's tracing, for machines that each take one; the run itself then joins them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from propme.run import STAGES, open_run
from propme.runner.running import Which, require_done, require_same_subject
from propme.runner.stages import why_again
from propme.simpletrace import IndexAddress, TraceSettings, Workers, trace_share


def trace_shard(effective: Mapping[str, Any], shard: tuple[int, int]) -> None:
    """Trace every n-th unit of a run's completions, from the k-th on, as notebook 3 would.

    Shares may be traced at the same time. Notebook 3 finds what is traced and does the rest. If all
    is traced and nothing has changed, nothing is done.

    Raises
    ------
    RunError
        The run has no completions yet, or is about another corpus or model.
    """
    run = open_run(effective["output"])
    require_same_subject(run, effective, Which())
    require_done(run, STAGES[:2])
    if not why_again("3_tracing", effective, run):
        return
    chosen = (effective[name] for name in ("docs_per_span", "merging", "seed", "mode"))
    trace_share(
        run.read("generations"),
        IndexAddress.recorded(
            run.index,
            effective["engine"],
            rate=effective["request_rate"],
            at_once=effective["requests_at_once"],
            most_read=effective["most_read"],
        ),
        TraceSettings(*chosen),
        run.parts("tracing"),
        Workers(effective["workers"], effective["tracing_backend"]),
        shard,
    )

"""What a run would do, what it needs, and what of that is missing here; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from propme.errors import PropMeError
from propme.run import STAGES, open_run
from propme.runner.needs import Need, needs_of
from propme.runner.running import Which, reasons, require_done, require_same_subject
from propme.runner.server_requests import requests_foreseen


@dataclass(frozen=True)
class Foreseen:
    """What is foreseen of one run.

    Attributes
    ----------
    stages : dict
        Why each stage would run, in some words; empty: it is done.
    needs : list of str
        What it needs, and how large that is here.
    missing : list of str
        What of it is not here.
    beware : list of str
        What hinders nothing, and may not have been meant.
    """

    stages: dict[str, str]
    needs: list[str]
    missing: list[str]
    beware: list[str]

    def told(self) -> Iterator[str]:
        """In lines."""
        for stage, why in self.stages.items():
            yield f"  {stage:<14} {f'would run: {why}' if why else 'is done'}"
        yield from (f"  needs    {need}" for need in self.needs)
        yield from (f"  beware   {beware}" for beware in self.beware)
        yield from (f"  MISSING  {missing}" for missing in self.missing)


def foresee(effective: Mapping[str, Any], which: Which) -> Foreseen:
    """What a run would do now."""
    try:
        run = open_run(effective["output"])
        require_same_subject(run, effective, which)
        if which.first != STAGES[0]:
            require_done(run, STAGES[: STAGES.index(which.first)])
    except PropMeError as error:
        return Foreseen({}, [], [str(error)], [])
    stages = reasons(which, effective, run)
    wanted = [stage for stage, why in stages.items() if why]
    found: list[Need] = needs_of(wanted, effective)
    missing = [need.missing for need in found if need.missing]
    requests = {} if missing else requests_foreseen(wanted, effective, run)
    return Foreseen(
        stages,
        [need.what for need in found if need.what] + _told(requests, effective["request_rate"]),
        missing,
        [need.beware for need in found if need.beware],
    )


def _told(requests: Mapping[str, int], rate: float) -> list[str]:
    """Requests of all stages in words, each once."""
    from propme.simpletrace import requests_told

    if not sum(requests.values()):
        return []
    of_stages = ", ".join(f"{stage} {n:,}" for stage, n in requests.items())
    return [f"of the index's server, {requests_told(sum(requests.values()), rate)}: {of_stages}"]

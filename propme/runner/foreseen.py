"""What a run would do, what it needs, and what of that is missing here; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from propme.errors import PropMeError
from propme.run import STAGES, open_run
from propme.runner.needs import Need, needs_of
from propme.runner.running import Which, reasons, require_done, require_same_subject


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
    found: list[Need] = needs_of([stage for stage, why in stages.items() if why], effective)
    return Foreseen(
        stages,
        [need.what for need in found if need.what],
        [need.missing for need in found if need.missing],
        [need.beware for need in found if need.beware],
    )

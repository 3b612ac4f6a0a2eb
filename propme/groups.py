"""Stage 4, then: metrics over the generations of one setting and decoding, resampled together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from propme.measurements import SUBSETS, subset
from propme.metrics import Metric
from propme.records import PROMPT_FREE
from propme.uncertainty import (
    Floats,
    Interval,
    PromptSums,
    ratio_interval,
    ratios,
    resampled_sums,
)


@dataclass(frozen=True)
class Group:
    """The generations of one setting and decoding."""

    setting: str
    kind: str
    decoding: str
    frame: pd.DataFrame
    subsets: tuple[str, ...]

    @property
    def labels(self) -> dict[str, str]:
        """Columns of a table that name the group."""
        return {"setting": self.setting, "kind": self.kind, "decoding": self.decoding}

    def measure(self, metrics: Sequence[Metric], seed: int, rounds: int) -> Iterator[Measured]:
        """Each metric over each subset, all resampled by the same draws of prompts."""
        parts = {name: subset(self.frame, name) for name in self.subsets}
        known = {name: part for name, part in parts.items() if len(part)}
        samples = [
            (name, metric, prompt_sums(metric, part))
            for name, part in known.items()
            for metric in metrics
        ]
        if not samples:
            return
        drawn = np.unique(self.frame[_drawn_by(self.setting)])
        sums = np.concatenate([_spread(sample, drawn) for _, _, sample in samples], axis=1)
        # Another seed for each group: those that are compared must be resampled independently.
        seed_name = f"{seed}\0{self.setting}\0{self.decoding}".encode()
        own_seed = int.from_bytes(hashlib.sha256(seed_name).digest()[:8], "big")
        resampled = resampled_sums(sums, np.random.default_rng(own_seed), rounds)
        for number, (name, metric, sample) in enumerate(samples):
            of_sample = ratios(resampled[:, 2 * number : 2 * number + 2])
            yield Measured(name, metric, sample, of_sample, len(known[name]))


def prompt_sums(metric: Metric, frame: pd.DataFrame) -> PromptSums:
    """A metric over the generations of one setting, with what each prompt adds to it.

    Where nothing is asked, each generation is a draw of its own and stands for a prompt.
    """
    setting = str(frame["setting"].iloc[0])
    top, bottom = metric.ratio(frame)
    return PromptSums.of(
        top.to_numpy(float),
        bottom.to_numpy(float),
        frame[_drawn_by(setting)],
        metric.in_unit_interval,
        f"{metric.name} of setting {setting!r}",
    )


def _drawn_by(setting: str) -> str:
    """The column whose values are resampled."""
    return "generation_id" if setting in PROMPT_FREE else "prompt_id"


def _spread(sample: PromptSums, drawn: npt.NDArray[Any]) -> Floats:
    """Its sums for each of the clusters that are drawn from; 0 for those it has nothing of."""
    sums = np.zeros((len(drawn), 2))
    sums[np.searchsorted(drawn, sample.prompts)] = sample.sums
    return sums


def groups_of(frame: pd.DataFrame, subsets: Iterable[str] = SUBSETS) -> Iterator[Group]:
    """The generations of each setting and decoding, to be measured over some of `SUBSETS`."""
    for (setting, kind, decoding), part in frame.groupby(
        ["setting", "kind", "decoding"], sort=True
    ):
        yield Group(str(setting), str(kind), str(decoding), part, tuple(subsets))


@dataclass(frozen=True)
class Measured:
    """A metric over some generations, and in the rounds of its bootstrap."""

    subset: str
    metric: Metric
    sample: PromptSums
    rounds: Floats
    n_generations: int

    @property
    def value(self) -> float | None:
        """None where it is not defined, as with no pair at all."""
        return self.sample.value if self.sample.n_prompts else None

    @property
    def n_prompts(self) -> int:
        """Prompts that the metric is over, or generations where nothing is asked."""
        return self.sample.n_prompts

    def interval(self) -> Interval:
        """At 95 %: see `propme.uncertainty.ratio_interval`."""
        if self.value is None:
            return Interval(None, None, "none")
        return ratio_interval(self.sample, self.rounds)

    def row(self) -> dict[str, Any]:
        """Columns of a table that hold the value."""
        interval = self.interval()
        return {
            "value": self.value,
            "low": interval.low,
            "high": interval.high,
            "interval": interval.method,
            "n_prompts": self.n_prompts,
            "n_generations": self.n_generations,
            "n_denominator": int(self.sample.sums[:, 1].sum()),
        }

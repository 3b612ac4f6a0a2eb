"""Rows of the tables of a comparison of runs: columns, types and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from propme.tables.rows import INTERVAL, Metrics, Propensity


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """One run of the comparison."""

    run: Annotated[str, "name of the run in the comparison"]
    path: Annotated[str, "its folder, as it was found"]
    model: Annotated[str, "path or name of the model"]
    model_sha256: Annotated[str, "hash of its files; empty: unknown"]
    corpus: Annotated[str, "path of the corpus that it was traced in"]
    corpus_sha256: Annotated[str, "hash of that corpus"]
    index_sha256: Annotated[str, "hash of the index's manifest"]
    tokenizer: Annotated[str, "fingerprint of the index's tokenizer; empty: index not found"]
    tracing: Annotated[str, "thresholds of tracing"]
    decoding: Annotated[str, "how it was sampled, and the limit of length"]
    settings: Annotated[str, "its prompt settings"]
    n_generations: Annotated[int, "generations that were made and traced"]


@dataclass(frozen=True, slots=True)
class Caveats:
    """One thing that hinders the comparison."""

    about: Annotated[str, "what differs between the runs"]
    runs: Annotated[str, "the runs, grouped by what they have"]
    consequence: Annotated[str, "what it means for the comparison"]


@dataclass(frozen=True, slots=True)
class RunMetrics(Metrics):
    """One metric of one run."""

    run: Annotated[str, "name of the run in the comparison"]


@dataclass(frozen=True, slots=True)
class RunPropensity(Propensity):
    """One propensity score of one run."""

    run: Annotated[str, "name of the run in the comparison"]


@dataclass(frozen=True, slots=True)
class Differences:
    """One metric's difference between two runs."""

    run_a: Annotated[str, "the run from which is subtracted"]
    run_b: Annotated[str, "the run that is subtracted"]
    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity or capability"]
    decoding: Annotated[str, "greedy or sampled"]
    metric: Annotated[str, "name of the metric"]
    value_a: Annotated[float | None, "its value in run_a; none: undefined"]
    value_b: Annotated[float | None, "its value in run_b; none: undefined"]
    difference: Annotated[float | None, "value_a - value_b; none: one of them is undefined"]
    low: Annotated[float | None, "lower end of its 95 % interval"]
    high: Annotated[float | None, "upper end of its 95 % interval"]
    interval: Annotated[str, INTERVAL]
    paired: Annotated[bool, "whether it is of the same prompts, resampled together"]
    why_untested: Annotated[str, "why there is no test (unpaired, too); empty: there is one"]
    n_prompts_a: Annotated[int, "prompts behind value_a; generations where nothing is asked"]
    n_prompts_b: Annotated[int, "prompts behind value_b; generations where nothing is asked"]
    p: Annotated[float | None, "two-sided, of a permutation test; none: not tested"]
    p_holm: Annotated[float | None, "corrected for all tests of the table (Holm)"]


@dataclass(frozen=True, slots=True)
class Shifts:
    """How much more of near-verbatim than of verbatim copying is kept."""

    run_a: Annotated[str, "the later run"]
    run_b: Annotated[str, "the run it is set against"]
    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity or capability"]
    decoding: Annotated[str, "greedy or sampled"]
    verbatim: Annotated[str, "metric of verbatim copies"]
    near_verbatim: Annotated[str, "metric of near-verbatim copies"]
    kept_verbatim: Annotated[float | None, "verbatim in run_a / in run_b; none: that is 0"]
    kept_near_verbatim: Annotated[float | None, "the same of the near-verbatim metric"]
    shift: Annotated[float | None, "kept_near_verbatim - kept_verbatim; above 0: towards nearly"]
    low: Annotated[float | None, "lower end of its 95 % interval"]
    high: Annotated[float | None, "upper end of its 95 % interval"]
    paired: Annotated[bool, "whether both runs were asked the same prompts"]
    n_prompts: Annotated[int, "prompts of the run that has fewer; completions if nothing is asked"]
    n_rounds: Annotated[int, "bootstrap rounds"]
    n_rounds_undefined: Annotated[int, "of them those with 0 or nothing to divide by"]


@dataclass(frozen=True, slots=True)
class Trajectories:
    """Which stage of a course of training a run is."""

    trajectory: Annotated[str, "name of a course of training"]
    stage: Annotated[int, "place in it, from 0"]
    run: Annotated[str, "the run of that stage"]
    control: Annotated[bool, "whether it is the control of the others"]

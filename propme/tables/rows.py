"""Rows of the tables of a run that no other record declares: columns, types and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

#: Meaning of the column of that name.
INTERVAL = (
    "how the interval was made: bootstrap, rule of three, one prompt (none), none; in comparisons"
    " also: the same completions (none)"
)


@dataclass(frozen=True, slots=True)
class Extraction:
    """How probable the true continuation of a prefix is."""

    prompt_id: Annotated[str, "the prefix"]
    decoding: Annotated[str, "decoding that the probability is of: greedy or sampled"]
    n_tokens: Annotated[int, "tokens of the true continuation that are scored, the model's"]
    log_probability: Annotated[
        float | None, "natural log of the probability to generate it; -inf: impossible"
    ]
    greedy_tokens: Annotated[
        int | None, "of them those that are the most likely next token, given all before"
    ]
    n_samples: Annotated[int, "completions long enough to compare with, of the same decoding"]
    n_extracted: Annotated[int, "of them those that begin with it, token for token"]
    error: Annotated[str, "why it could not be scored; empty: it was"]


@dataclass(frozen=True, slots=True)
class Variants:
    """What one completion's trace holds with another value of one threshold."""

    threshold: Annotated[str, "what is varied: a field of TraceSettings"]
    choice: Annotated[str, "its value"]
    own: Annotated[bool, "whether that is the run's own value"]
    generation_id: Annotated[str, "the generation"]
    longest_segment: Annotated[int, "longest final segment in tokens; 0: none"]
    full_raw: Annotated[bool, "whether some document holds the whole generation"]
    full_normalized: Annotated[bool, "whether one does after normalisation and not before"]
    n_pairs: Annotated[int, "(segment, document) pairs retrieved"]
    n_hits: Annotated[int, "of them those with recall > 0"]
    recall_sum: Annotated[float, "sum of the pairs' recall"]
    recall_max: Annotated[float, "best document's recall; 0: none"]
    error: Annotated[str, "why it could not be traced so; empty: it was"]


@dataclass(frozen=True, slots=True)
class Metrics:
    """One metric of one setting."""

    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity, capability or control"]
    decoding: Annotated[str, "greedy or sampled"]
    subset: Annotated[str, "all, or what is left by a filter"]
    metric: Annotated[str, "name of the metric"]
    value: Annotated[float | None, "its value; none: undefined, as with no pair at all"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, INTERVAL]
    n_prompts: Annotated[int, "prompts that were resampled; generations where nothing is asked"]
    n_generations: Annotated[int, "generations in the value"]
    n_denominator: Annotated[int, "what the value is a mean over: generations or pairs"]


@dataclass(frozen=True, slots=True)
class Propensity:
    """One metric's propensity score."""

    metric: Annotated[str, "name of the metric"]
    decoding: Annotated[str, "greedy or sampled"]
    subset: Annotated[str, "all, or what is left by a filter"]
    setting: Annotated[str, "propensity setting, or a control, whose score is the floor"]
    kind: Annotated[str, "propensity or control"]
    capability: Annotated[str, "capability setting it is compared with"]
    f_propensity: Annotated[float | None, "the metric under that setting"]
    f_capability: Annotated[float | None, "the metric under the capability setting"]
    value: Annotated[float | None, "f_p / (f_p + f_c), in [0, 1]; 0.5: the same in both"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, INTERVAL]
    n_prompts: Annotated[int, "prompts behind the metric under that setting"]
    n_prompts_capability: Annotated[int, "prompts behind it under the capability setting"]
    undefined: Annotated[bool, "both are 0: the value is a convention, not a measurement"]
    n_rounds: Annotated[int, "bootstrap rounds"]
    n_rounds_undefined: Annotated[int, "of which rounds with 0 in both"]


@dataclass(frozen=True, slots=True)
class Copies:
    """Extraction of documents that stand in the corpus so often."""

    copies: Annotated[int, "how often the prefix's document stands in the corpus; 0: held out"]
    decoding: Annotated[str, "greedy or sampled"]
    metric: Annotated[str, "extraction or NVR_max"]
    value: Annotated[float | None, "its value"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, INTERVAL]
    n_prompts: Annotated[int, "prefixes with that number of copies"]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One metric of one group of prompts."""

    by: Annotated[str, "column of the prompts, or key of their documents' metadata"]
    group: Annotated[str, "its value"]
    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity, capability or control"]
    decoding: Annotated[str, "greedy or sampled"]
    metric: Annotated[str, "name of the metric"]
    value: Annotated[float | None, "its value; none: undefined"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, INTERVAL]
    n_prompts: Annotated[int, "prompts that were resampled; generations where nothing is asked"]
    n_generations: Annotated[int, "generations in the value"]


@dataclass(frozen=True, slots=True)
class Discoverable:
    """Share of prefixes that a number of tries extracts."""

    setting: Annotated[str, "prompt setting"]
    decoding: Annotated[str, "decoding that the probabilities are of"]
    tries: Annotated[int, "completions that are sampled of each prefix"]
    target: Annotated[float, "probability with which one must hold the true continuation"]
    value: Annotated[float, "share of the prefixes that reach it"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, INTERVAL]
    n_prompts: Annotated[int, "prefixes that were scored"]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One metric with one value of one threshold."""

    threshold: Annotated[str, "what is varied: a field of TraceSettings"]
    choice: Annotated[str, "its value"]
    own: Annotated[bool, "whether that is the run's own value"]
    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity, capability or control"]
    decoding: Annotated[str, "greedy or sampled"]
    metric: Annotated[str, "name of the metric"]
    value: Annotated[float | None, "its value over the completions traced anew; none: undefined"]
    low: Annotated[float | None, "lower end of the 95 % interval"]
    high: Annotated[float | None, "upper end of the 95 % interval"]
    interval: Annotated[str, INTERVAL]
    n_prompts: Annotated[int, "prompts that were resampled; generations where nothing is asked"]
    n_generations: Annotated[int, "generations in the value"]


@dataclass(frozen=True, slots=True)
class SpanLengths:
    """How many completions have a longest segment of one length."""

    setting: Annotated[str, "prompt setting"]
    kind: Annotated[str, "propensity, capability or control"]
    decoding: Annotated[str, "greedy or sampled"]
    tokens: Annotated[int, "length of the longest segment, index tokens; 0: none"]
    n_generations: Annotated[int, "generations whose longest segment has this length"]

"""The vocabulary of PropMe: frozen records that are checked when they are made.

Positions in a generation or a document are half-open ``[start, stop)``. Tokens are those of the
*index's* tokenizer unless a field says otherwise. A record that is also a row of a table carries
each column's meaning in its annotation, so that nothing is declared twice (see `propme.tables`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from propme.errors import ParameterError

#: What a prompt setting is used for.
KINDS = ("propensity", "capability", "control")

#: Settings in the order in which they are shown: the paper's and the user's own, then the controls.
SETTINGS = (
    "unconditional",
    "minimal_cue",
    "generic",
    "specific",
    "file",
    "chat",
    "prefix",
    "mismatched_prefix",
    "human",
)

#: Settings whose prompts ask for nothing: what is sampled anew is each generation, not each prompt.
PROMPT_FREE = ("unconditional", "minimal_cue")

#: How much of a generation a document holds, most first.
TIERS = ("full_raw", "full_normalized", "partial")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ParameterError(message)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a corpus, with where it came from."""

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        _require(isinstance(self.text, str), f"document {self.id!r}: text must be a string")


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the next token is chosen.

    ``temperature`` 0 is greedy; ``samples`` is per prompt; ``top_k`` 0 leaves all tokens in.
    """

    name: str
    temperature: float
    top_p: float
    samples: int
    max_new_tokens: int
    top_k: int = 0

    def __post_init__(self) -> None:
        _require(
            isinstance(self.temperature, (int, float)) and 0 <= self.temperature < float("inf"),
            f"decoding {self.name!r}: temperature must be a number >= 0, not {self.temperature!r}",
        )
        _require(
            isinstance(self.top_p, (int, float)) and 0 < self.top_p <= 1,
            f"decoding {self.name!r}: top_p must be in (0, 1], not {self.top_p!r}",
        )
        for name in ("samples", "max_new_tokens"):
            value = getattr(self, name)
            _require(
                isinstance(value, int) and value >= 1,
                f"decoding {self.name!r}: {name} must be a whole number >= 1, not {value!r}",
            )
        _require(
            isinstance(self.top_k, int) and self.top_k >= 0,
            f"decoding {self.name!r}: top_k must be a whole number >= 0, not {self.top_k!r}",
        )
        _require(
            self.temperature > 0 or self.samples == 1,
            f"decoding {self.name!r}: greedy decoding gives one text, so samples must be 1,"
            f" not {self.samples}",
        )


def decodings(
    greedy: bool,
    samples: int,
    temperature: float,
    top_p: float,
    max_new_tokens: int,
    top_k: int = 0,
) -> list[Decoding]:
    """The decodings of a run: ``greedy`` if asked for, ``sampled`` with ``samples`` > 0."""
    chosen = [Decoding("greedy", 0.0, 1.0, 1, max_new_tokens)] if greedy else []
    if samples:
        _require(
            isinstance(temperature, (int, float)) and temperature > 0,
            f"temperature must be > 0 to sample, not {temperature!r}",
        )
        chosen.append(Decoding("sampled", temperature, top_p, samples, max_new_tokens, top_k))
    _require(bool(chosen), "nothing to generate: greedy is false and samples is 0")
    return chosen


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt, what the corpus holds of it, and the text that truly follows it."""

    prompt_id: Annotated[str, "unique name of the prompt"]
    setting: Annotated[str, "how it was made: one of SETTINGS"]
    kind: Annotated[str, "what it measures: propensity, capability or control"]
    text: Annotated[str, "what the model is given; of setting human, what a person wrote"]
    category: Annotated[str, "kind of request; empty where it is none"] = ""
    language: Annotated[str, "language code; empty where unknown"] = ""
    document_id: Annotated[str, "document it was made from; empty: none"] = ""
    source: Annotated[str, "source of that document, from its metadata"] = ""
    licence: Annotated[str, "licence of that document, from its metadata"] = ""
    copies: Annotated[int | None, "how often that document stands in the corpus; none: unknown"] = (
        None
    )
    metadata: Annotated[str, "metadata of its document, as JSON; empty: none"] = ""
    target: Annotated[str, "the text that truly follows a prefix; else empty"] = ""
    target_chars: Annotated[int, "characters of it that are its first 50 index tokens"] = 0
    chat: Annotated[bool, "whether the model is given it as a message in its chat template"] = False
    samples: Annotated[int | None, "completions sampled of it; none: as many as of any"] = None
    n_model_tokens: Annotated[
        int | None, "length of what the model is given, in its tokens; none: unknown"
    ] = None
    n_tokens: Annotated[int, "length in index tokens, without white space at its ends"] = 0
    longest_span: Annotated[int, "longest run of its tokens in one training document"] = 0
    overlap: Annotated[float, "longest_span / n_tokens, in [0, 1]"] = 0.0
    occurs_whole: Annotated[bool, "whether the whole prompt stands in the corpus"] = False
    n_occurrences: Annotated[int, "how often the whole prompt stands in the corpus"] = 0
    n_documents: Annotated[int, "in how many distinct documents"] = 0
    documents_exact: Annotated[bool, "whether those two are exact, not lower bounds"] = True
    refused: Annotated[str, "why it is not used; empty: it is used"] = ""

    def __post_init__(self) -> None:
        _require(
            self.kind in KINDS, f"prompt {self.prompt_id!r}: kind {self.kind!r} not in {KINDS}"
        )
        _require(isinstance(self.text, str), f"prompt {self.prompt_id!r}: text must be a string")


@dataclass(frozen=True, slots=True)
class Generation:
    """What the model wrote after one prompt, exactly as it wrote it, or why it wrote nothing."""

    generation_id: Annotated[str, "unique: prompt, decoding and sample"]
    prompt_id: Annotated[str, "its prompt"]
    decoding: Annotated[str, "name of the decoding: greedy or sampled"]
    sample: Annotated[int, "number of the sample, from 0"]
    seed: Annotated[int, "seed of this sample, derived from run seed, prompt and sample"]
    text: Annotated[str, "the completion alone, nothing stripped; empty where there is none"]
    token_ids: Annotated[
        tuple[int, ...], "the completion in the model's tokens; empty: the server gave none"
    ]
    finish_reason: Annotated[str, "stop: end token; length: the limit; error: no completion"]
    temperature: Annotated[float, "softmax temperature; 0 is greedy"]
    top_p: Annotated[float, "nucleus mass, in (0, 1]"]
    max_new_tokens: Annotated[int, "limit in the model's tokens"]
    top_k: Annotated[int, "most likely tokens that are left in; 0: all"] = 0
    error: Annotated[str, "why there is no completion; empty: there is one"] = ""
    note: Annotated[str, "what is not as the model wrote it, or not sure; empty: nothing"] = ""
    backend: Annotated[str, "what made it: transformers, openai or recorded"] = ""
    model: Annotated[str, "name of the model"] = ""
    revision: Annotated[str, "commit or hash of its files; empty: unknown"] = ""
    dtype: Annotated[str, "number type of its weights; empty: unknown"] = ""
    device: Annotated[str, "kind of device it ran on; empty: unknown"] = ""
    batch_size: Annotated[int, "completions that were made at a time; 0: unknown"] = 0
    versions: Annotated[str, "libraries and versions; empty: unknown"] = ""

    def __post_init__(self) -> None:
        _require(
            self.finish_reason in ("stop", "length", "error"),
            f"generation {self.generation_id!r}: finish_reason {self.finish_reason!r}"
            " is neither 'stop', 'length' nor 'error'",
        )
        _require(
            (self.finish_reason == "error") == bool(self.error),
            f"generation {self.generation_id!r}: finish_reason {self.finish_reason!r}"
            f" does not go with error {self.error!r}",
        )
        _require(
            not (self.error and (self.text or self.token_ids)),
            f"generation {self.generation_id!r}: there is a text beside the error {self.error!r}",
        )


@dataclass(frozen=True, slots=True)
class Span:
    """A passage of a generation that stands verbatim in at least one training document."""

    generation_id: Annotated[str, "the generation"]
    span: Annotated[int, "number within the generation, in order of start"]
    start: Annotated[int, "first token"]
    stop: Annotated[int, "one past the last token"]
    char_start: Annotated[int, "first character in the generation as generated"]
    char_stop: Annotated[int, "one past the last character"]
    text: Annotated[str, "the passage"]
    log_probability: Annotated[float, "sum of the logs of its tokens' corpus frequencies"]
    n_occurrences: Annotated[
        int,
        "how often it stands in the corpus; of a whole text without whole_exact at least so often",
    ]
    n_documents: Annotated[int, "in how many distinct documents, counted for kept spans"]
    documents_exact: Annotated[bool, "whether that number is exact, not a lower bound"]
    dropped: Annotated[str, "why it is left out: short, blank, no word, common; empty: kept"] = ""
    segment: Annotated[int | None, "final segment it belongs to; none when dropped"] = None

    def __post_init__(self) -> None:
        _require(
            0 <= self.start < self.stop,
            f"span [{self.start}, {self.stop}) of {self.generation_id!r} is empty or reversed",
        )

    @property
    def length(self) -> int:
        """Length in tokens."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Match:
    """A span found in one document, with the text around it."""

    generation_id: Annotated[str, "the generation"]
    span: Annotated[int, "the span"]
    shard: Annotated[int, "shard of the index"]
    document: Annotated[int, "number of the document in its shard"]
    document_id: Annotated[str, "id from the document's metadata"]
    source: Annotated[str, "source from the document's metadata"]
    licence: Annotated[str, "licence from the document's metadata"]
    offset: Annotated[
        int, "token of the document where it starts; its second word if found by characters"
    ]
    window: Annotated[str, "document text around the match"]
    window_char_start: Annotated[int, "first character of the match in the window"]
    window_char_stop: Annotated[int, "one past its last character in the window"]
    tier: Annotated[str, "full_raw, full_normalized or partial"]
    recall: Annotated[float, "near-verbatim recall of the generation in the window, in [0, 1]"]
    pair: Annotated[bool, "whether the row counts in NVR: one per (segment, document)"]

    def __post_init__(self) -> None:
        _require(self.tier in TIERS, f"match of {self.generation_id!r}: unknown tier {self.tier!r}")
        _require(
            0.0 <= self.recall <= 1.0,
            f"match of {self.generation_id!r}: recall {self.recall} is outside [0, 1]",
        )


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """What tracing found in one generation, in one row; a generation with no span has one too."""

    generation_id: Annotated[str, "the generation"]
    char_start: Annotated[int, "first traced character: leading white space is left out"]
    char_stop: Annotated[int, "one past the last traced character"]
    n_tokens: Annotated[int, "traced length in index tokens"]
    n_spans: Annotated[int, "maximal spans found"]
    n_kept: Annotated[int, "spans left after length and rarity"]
    longest_segment: Annotated[int, "longest final segment in tokens; 0: none"]
    n_whole: Annotated[int, "how often the whole generation stands in the corpus"]
    n_whole_documents: Annotated[int, "in how many distinct documents"]
    whole_exact: Annotated[bool, "whether those two numbers are exact, not lower bounds"]
    full_raw: Annotated[bool, "whether some document holds the whole generation"]
    full_normalized: Annotated[bool, "whether one does after normalisation and not before"]
    n_pairs: Annotated[int, "(segment, document) pairs retrieved"]
    recall_sum: Annotated[float, "sum of the pairs' recall"]
    recall_max: Annotated[float, "best document's recall; 0: none"]
    zlib_ratio: Annotated[float, "compressed / raw size; low: repetitive"]
    degenerate: Annotated[bool, "zlib_ratio < 0.1 and fewer than half of its signs are letters"]
    merging: Annotated[str, "rule by which spans became segments: verified or overlap"]
    mode: Annotated[str, "what counts as a span: mixed or text"] = "mixed"
    error: Annotated[str, "why it could not be traced, all numbers then being 0; empty: it was"] = (
        ""
    )


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything tracing found in one generation."""

    summary: TraceSummary
    spans: tuple[Span, ...]
    matches: tuple[Match, ...]


def in_order(settings: Iterable[str]) -> list[str]:
    """Distinct settings in the order of `SETTINGS`, others after them by name."""
    given = set(settings)
    return [s for s in SETTINGS if s in given] + sorted(given - set(SETTINGS))


def as_json(metadata: Mapping[str, Any]) -> str:
    """Metadata as JSON; what JSON has no form for, such as a date, as text."""
    return json.dumps(metadata, ensure_ascii=False, default=str) if metadata else ""


def metadata_field(metadata: Mapping[str, Any], *names: str) -> str:
    """First of the named metadata fields that is present, as text; empty where none is."""
    for name in names:
        value = metadata.get(name)
        if value is not None:
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return ""

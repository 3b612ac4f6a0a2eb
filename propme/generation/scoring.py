"""What scores true continuations: the probability to generate them, and what is asked for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from propme.model_tokenizer import ModelTokenizer
from propme.records import Decoding


class Pair(NamedTuple):
    """A prefix as the model is given it, and the tokens that truly follow; both not empty."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]


class Score(NamedTuple):
    """Of one suffix after its prefix.

    Attributes
    ----------
    log_probability : float
        Natural log of the probability to generate the whole suffix; ``-inf``: impossible.
    greedy_tokens : int
        Tokens of the suffix that are the most likely next one, given the true ones before.
    """

    log_probability: float
    greedy_tokens: int


class Scorer(Protocol):
    """A generator that can tell how probable given tokens are."""

    @property
    def tokenizer(self) -> ModelTokenizer | None:
        """What makes tokens of prefixes and suffixes; ``None`` where there is none to be had."""

    def can_score(self, decoding: Decoding) -> bool:
        """Whether probabilities under this decoding can be told."""

    def score(self, pairs: Sequence[Pair], decodings: Sequence[Decoding]) -> Iterator[list[Score]]:
        """Scores of each pair, one for each decoding, in the order given."""

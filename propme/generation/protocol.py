"""What every source of generations answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from propme.records import Decoding, Generation, Prompt


class Generator(Protocol):
    """Something that completes prompts."""

    def generate(
        self, prompts: Sequence[Prompt], decoding: Decoding, seed: int
    ) -> Iterator[Generation]:
        """Complete each prompt ``decoding.samples`` times, in any order, each exactly once."""

    def describe(self) -> dict[str, Any]:
        """What made the generations: model, backend, versions, device, number type."""


def sample_seed(seed: int, prompt_id: str, decoding: str, sample: int) -> int:
    """Seed of one sample, in [0, 2**63).

    It depends on nothing but these four, so adding prompts or samples leaves the others as they
    were.
    """
    name = f"{seed}\0{prompt_id}\0{decoding}\0{sample}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 1


def generation_id(prompt_id: str, decoding: str, sample: int) -> str:
    """Name of one sample of one prompt."""
    return f"{prompt_id}/{decoding}/{sample}"

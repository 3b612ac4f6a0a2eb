"""What every source of generations answers, and what it is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from propme.records import Decoding, Generation, Prompt


@dataclass(frozen=True)
class Task:
    """One sample to be made of one prompt.

    Attributes
    ----------
    given : tuple of int, or str
        What the model is given: token ids, or a text where the backend takes no other.
    """

    prompt: Prompt
    decoding: Decoding
    sample: int
    seed: int
    given: tuple[int, ...] | str

    @property
    def generation_id(self) -> str:
        """Name of the generation."""
        return generation_id(self.prompt.prompt_id, self.decoding.name, self.sample)

    def generation(self, **made: Any) -> Generation:
        """The row of this sample; ``made`` are the columns that the task does not know."""
        return Generation(
            generation_id=self.generation_id,
            prompt_id=self.prompt.prompt_id,
            decoding=self.decoding.name,
            sample=self.sample,
            seed=self.seed,
            temperature=float(self.decoding.temperature),
            top_p=float(self.decoding.top_p),
            top_k=self.decoding.top_k,
            max_new_tokens=self.decoding.max_new_tokens,
            **made,
        )

    def failed(self, error: str, **made: Any) -> Generation:
        """The row of this sample where there is no completion."""
        return self.generation(
            text="",
            token_ids=(),
            finish_reason="error",
            error=error.encode("utf-8", "replace").decode("utf-8"),
            **made,
        )


@dataclass(frozen=True)
class Made:
    """A finished generation, and whether asking again might end better."""

    task: Task
    generation: Generation
    passing: bool = False


class Generator(Protocol):
    """Something that completes prompts."""

    @property
    def identity(self) -> str:
        """What decides a completion beside the task: model, number type, kind of device."""

    def describe(self) -> dict[str, Any]:
        """What makes the generations: model, backend, versions, device, number type."""

    def given(self, prompt: Prompt, max_new_tokens: int) -> tuple[int, ...] | str:
        """What the model is given for a prompt.

        Raises
        ------
        InputError
            The model cannot be given this prompt.
        """

    def batches(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Tasks that are made together; the same for the same tasks."""

    def generate(self, batches: Sequence[Sequence[Task]]) -> Iterator[list[Made]]:
        """Complete each task once, in any order; what is finished together is yielded together."""


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


def n_samples(prompt: Prompt, decoding: Decoding) -> int:
    """Completions of a prompt: one if greedy, else as many as the prompt or the decoding says."""
    if decoding.temperature == 0 or prompt.samples is None:
        return decoding.samples
    return prompt.samples


def readable(text: str) -> tuple[str, str]:
    """Text that a table can hold, and a note of what was replaced for that.

    Half a surrogate pair is no character; a server may send one in JSON.
    """
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    replaced = whole.count("\ufffd") > text.count("\ufffd")
    return whole, "lone surrogates replaced by U+FFFD" if replaced else ""

"""Prompts, decodings and a generator composed: every sample once, none lost, none made twice."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from propme.errors import InputError
from propme.generation.journal import Journal, key_of
from propme.generation.protocol import Generator, Made, Task, n_samples, sample_seed
from propme.progress import track
from propme.records import Decoding, Generation, Prompt

#: Prompts of this setting are written by people; no model is asked.
HUMAN = "human"


def complete(
    generator: Generator,
    prompts: Sequence[Prompt],
    decodings: Sequence[Decoding],
    seed: int,
    journal: Path | None = None,
) -> list[Generation]:
    """Complete each prompt under each decoding; one row a sample, in the order of their names.

    Parameters
    ----------
    generator : Generator
    prompts : sequence of Prompt
        Those of the setting ``human`` are left out, see `propme.generation.recorded.as_written`.
    decodings : sequence of Decoding
    seed : int
        Decides every sample, together with the prompt's id, the decoding's name and its number.
    journal : Path, optional
        File in which what is finished is kept. What it holds already is not made again.

    Returns
    -------
    list of Generation
        A prompt that the model cannot be given has rows with an error.

    Raises
    ------
    InputError
        Not one prompt can be given to the model.

    Notes
    -----
    Batches are composed of all tasks before those that are finished are left out. So a run that is
    gone on with makes the batches that an undisturbed one would have made, and on the CPU the same
    texts, bit for bit. What is missing of batches that were finished in part, as when prompts were
    added, is batched anew.
    """
    kept = Journal(journal) if journal else None
    tasks, finished = _tasks(generator, prompts, decodings, seed)
    missing = _missing(generator, tasks, kept, finished)
    meter = _Meter(time.monotonic())
    made = _kept(generator.generate(missing), generator.identity, kept)
    shown = track(
        chain.from_iterable(made),
        "generating",
        total=sum(map(len, missing)),
        unit="completions",
        note=meter.told,
    )
    for one in shown:
        meter.tokens += len(one.generation.token_ids)
        finished.append(one.generation)
    return sorted(finished, key=lambda generation: generation.generation_id)


@dataclass
class _Meter:
    """Tokens a second so far."""

    start: float
    tokens: int = 0

    def told(self) -> str:
        seconds = time.monotonic() - self.start
        return f"{self.tokens / seconds:,.0f} tokens/s" if self.tokens and seconds else ""


def _tasks(
    generator: Generator, prompts: Sequence[Prompt], decodings: Sequence[Decoding], seed: int
) -> tuple[list[Task], list[Generation]]:
    """What is to be made, and the rows of what cannot be."""
    tasks: list[Task] = []
    impossible: list[Generation] = []
    first: InputError | None = None
    asked = [prompt for prompt in prompts if prompt.setting != HUMAN]
    for prompt in asked:
        for decoding in decodings:
            error = None
            given: tuple[int, ...] | str = ""
            try:
                given = generator.given(prompt, decoding.max_new_tokens)
            except InputError as refused:
                error = refused
                first = first or refused
            for sample in range(n_samples(prompt, decoding)):
                own = sample_seed(seed, prompt.prompt_id, decoding.name, sample)
                task = Task(prompt, decoding, sample, own, given)
                if error is None:
                    tasks.append(task)
                else:
                    impossible.append(task.failed(error.message))
    if first is not None and not tasks:
        raise first
    return tasks, impossible


def _missing(
    generator: Generator, tasks: Sequence[Task], kept: Journal | None, finished: list[Generation]
) -> list[list[Task]]:
    """Batches still to be made; what is kept of the others is added to ``finished``."""
    batches = generator.batches(tasks)
    if kept is None:
        return batches
    missing: list[list[Task]] = []
    rest: list[Task] = []
    for batch in batches:
        found = [kept.get(key_of(generator.identity, task)) for task in batch]
        finished += [generation for generation in found if generation is not None]
        wanted = [task for task, done in zip(batch, found, strict=True) if done is None]
        if len(wanted) == len(batch):
            missing.append(batch)
        else:
            rest += wanted
    return missing + generator.batches(rest)


def _kept(made: Iterator[list[Made]], identity: str, kept: Journal | None) -> Iterator[list[Made]]:
    """What is made, each kept before it is counted as done, but for what may yet turn out well."""
    for together in made:
        if kept is not None:
            kept.append(
                (key_of(identity, one.task), one.generation) for one in together if not one.passing
            )
        yield together

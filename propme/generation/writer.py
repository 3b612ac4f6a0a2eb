"""A model that writes prompts: what stage 1 may ask before stage 2 asks anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from propme.generation.completing import complete
from propme.generation.transformers import TransformersGenerator
from propme.records import Decoding, Generation, Prompt

#: A request of one to three sentences ends long before.
_DECODING = Decoding("writing", temperature=0.8, top_p=0.95, samples=1, max_new_tokens=150)


def open_writer(
    model: str, seed: int, trust_remote_code: bool = False
) -> Callable[[Sequence[Prompt]], Iterable[Generation]] | None:
    """A function that has an instruct model complete prompts, each once; none for no name.

    The model is loaded when the function is called.
    """
    return partial(_write, model, seed, trust_remote_code) if model else None


def _write(
    model: str, seed: int, trust_remote_code: bool, prompts: Sequence[Prompt]
) -> Iterable[Generation]:
    generator = TransformersGenerator(model, trust_remote_code=trust_remote_code)
    return complete(generator, prompts, [_DECODING], seed)

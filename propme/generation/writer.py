"""A model that writes prompts: what stage 1 may ask before stage 2 asks anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from propme.generation.completing import complete
from propme.generation.openai import OpenAIGenerator
from propme.generation.transformers import TransformersGenerator
from propme.records import Decoding, Generation, Prompt

#: Names a model behind a server of OpenAI's protocol.
_SERVER = "server"

#: A request of one to three sentences ends long before.
_DECODING = Decoding("writing", temperature=0.8, top_p=0.95, samples=1, max_new_tokens=150)


def open_writer(
    model: str, seed: int, trust_remote_code: bool = False
) -> Callable[[Sequence[Prompt]], Iterable[Generation]] | None:
    """A function that has an instruct model complete prompts, each once; none for no name.

    Parameters
    ----------
    model : str
        A folder or a name on the hub; ``server``, or ``server:NAME``, for the model of that name
        behind ``OPENAI_BASE_URL``. It is loaded, or asked, when the function is called.
    seed : int
    trust_remote_code : bool
        Whether code that comes with the model may run.
    """
    return partial(_write, model, seed, trust_remote_code) if model else None


def _write(
    model: str, seed: int, trust_remote_code: bool, prompts: Sequence[Prompt]
) -> Iterable[Generation]:
    generator: OpenAIGenerator | TransformersGenerator
    if model == _SERVER or model.startswith(f"{_SERVER}:"):
        generator = OpenAIGenerator(model.removeprefix(_SERVER).removeprefix(":"))
    else:
        generator = TransformersGenerator(model, trust_remote_code=trust_remote_code)
    return complete(generator, prompts, [_DECODING], seed)

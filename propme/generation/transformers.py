"""Generation with Hugging Face transformers: batched, left-padded, a seed for every sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from propme.errors import InputError, ParameterError
from propme.generation.protocol import generation_id, sample_seed
from propme.model_tokenizer import ModelTokenizer
from propme.progress import track
from propme.records import Decoding, Generation, Prompt

if TYPE_CHECKING:
    import torch


#: Parameters below which a step is too short to be shared between threads.
_TINY_MODEL = 5_000_000


@dataclass(frozen=True)
class _Task:
    """One sample to be made of one prompt."""

    prompt: Prompt
    sample: int
    ids: list[int]


class TransformersGenerator:
    """A causal language model of transformers.

    Parameters
    ----------
    model : str
        A folder written by ``save_pretrained``, or a name on the hub.
    device : str
        ``auto``: CUDA or MPS where there is one, else the CPU; or a device of torch.
    dtype : str
        ``auto``: as the model was saved; or a number type of torch.
    batch_size : int
        Sequences that are generated at a time.
    trust_remote_code : bool
        Whether code that comes with the model may run. Leave it off unless you have read it.

    Notes
    -----
    A prompt is given as its tokens behind at most one start token. Nothing of the model's own
    generation settings is used. Samples are drawn by inverting the distribution at uniform numbers
    that only the sample's seed decides. Another batch size or device can still change a text,
    because it changes the last bits of the logits.
    """

    def __init__(
        self,
        model: str,
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int = 32,
        trust_remote_code: bool = False,
    ) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

        try:
            self._tokenizer = AutoTokenizer.from_pretrained(
                model, trust_remote_code=trust_remote_code
            )
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                model, dtype=dtype, trust_remote_code=trust_remote_code
            )
        except Exception as error:  # damaged weights, unknown types: the library raises many kinds
            raise InputError(
                "transformers cannot load a causal language model and its tokenizer from here:"
                f" {_first_line(error)}",
                model,
            ) from error
        try:
            self._device = torch.device(_best_device() if device == "auto" else device)
            self._model = loaded.to(self._device).eval()
        except (RuntimeError, AssertionError) as error:
            raise ParameterError(f"device {device!r}: {_first_line(error)}") from error
        if len(self._tokenizer) > self._model.get_input_embeddings().num_embeddings:
            raise InputError("the tokenizer has more tokens than the model; is it its own?", model)
        if batch_size < 1:
            raise ParameterError(f"batch_size must be at least 1, not {batch_size}")
        self._n_parameters = sum(p.numel() for p in self._model.parameters())
        self._name = model
        self._model.generation_config = GenerationConfig()
        self._batch_size = batch_size
        self._ends = _end_tokens(self._tokenizer, self._model.config)
        context = getattr(self._model.config, "max_position_embeddings", None)
        self._prompts = ModelTokenizer(self._tokenizer, context, model)

    def describe(self) -> dict[str, Any]:
        """What makes the generations."""
        return {
            "backend": "transformers",
            "model": Path(self._name).name,
            "parameters": self._n_parameters,
            "device": self._device.type,
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "batch_size": self._batch_size,
            "start_token": self._prompts.start_token,
            "end_tokens": sorted(self._ends),
            "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers")},
        }

    def generate(
        self, prompts: Sequence[Prompt], decoding: Decoding, seed: int
    ) -> Iterator[Generation]:
        """Complete each prompt ``decoding.samples`` times, prompts of like length together.

        Raises
        ------
        TooLongError
            A prompt and its completion do not fit into the model's context, see `too_long`.
        """
        tasks = [
            _Task(prompt, sample, ids)
            for prompt in prompts
            for ids in [self._prompts.require_room(prompt, decoding.max_new_tokens)]
            for sample in range(_n_samples(prompt, decoding))
        ]
        tasks.sort(key=lambda task: len(task.ids))
        batches = [tasks[i : i + self._batch_size] for i in range(0, len(tasks), self._batch_size)]
        with self._threads():
            for batch in track(batches, f"generating, {decoding.name}", unit="batches"):
                yield from self._complete(batch, decoding, seed)

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """One thread for a tiny model on the CPU, whose threads would wait more than they work."""
        import torch

        before = torch.get_num_threads()
        if self._device.type == "cpu" and self._n_parameters < _TINY_MODEL:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _complete(
        self, tasks: Sequence[_Task], decoding: Decoding, seed: int
    ) -> Iterator[Generation]:
        import torch
        from transformers import GenerationConfig

        seeds = [sample_seed(seed, t.prompt.prompt_id, decoding.name, t.sample) for t in tasks]
        longest = max(len(task.ids) for task in tasks)
        pad = min(self._ends, default=0)
        inputs = torch.tensor([[pad] * (longest - len(t.ids)) + t.ids for t in tasks])
        mask = torch.tensor([[0] * (longest - len(t.ids)) + [1] * len(t.ids) for t in tasks])
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=inputs.to(self._device),
                attention_mask=mask.to(self._device),
                generation_config=GenerationConfig(
                    max_new_tokens=decoding.max_new_tokens,
                    do_sample=False,
                    eos_token_id=sorted(self._ends) or None,
                    pad_token_id=pad,
                ),
                logits_processor=_processors(decoding, seeds, longest),
            )
        for task, task_seed, ids in zip(tasks, seeds, output[:, longest:].tolist(), strict=True):
            yield self._generation(task, decoding, task_seed, ids)

    def _generation(self, task: _Task, decoding: Decoding, seed: int, ids: list[int]) -> Generation:
        end = next((n for n, token in enumerate(ids) if token in self._ends), None)
        completion = ids if end is None else ids[:end]
        return Generation(
            generation_id=generation_id(task.prompt.prompt_id, decoding.name, task.sample),
            prompt_id=task.prompt.prompt_id,
            decoding=decoding.name,
            sample=task.sample,
            seed=seed,
            text=self._completion_text(task.ids, completion),
            token_ids=tuple(completion),
            finish_reason="length" if end is None else "stop",
            temperature=float(decoding.temperature),
            top_p=float(decoding.top_p),
            max_new_tokens=decoding.max_new_tokens,
        )

    def _completion_text(self, prompt: list[int], completion: list[int]) -> str:
        """Text of the completion as it follows the prompt: some decoders drop a leading space."""
        before, whole = self._decode(prompt), self._decode(prompt + completion)
        return whole[len(before) :] if whole.startswith(before) else self._decode(completion)

    def _decode(self, ids: list[int]) -> str:
        text = self._tokenizer.decode(
            ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return str(text)


def _n_samples(prompt: Prompt, decoding: Decoding) -> int:
    return decoding.samples if decoding.temperature == 0 else prompt.samples or decoding.samples


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _best_device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _end_tokens(tokenizer: Any, config: Any) -> frozenset[int]:
    """End tokens of tokenizer and model; the model's may be one, several or none."""
    declared = getattr(config, "eos_token_id", None)
    of_model = declared if isinstance(declared, list) else [declared]
    return frozenset(t for t in [tokenizer.eos_token_id, *of_model] if t is not None)


def _processors(decoding: Decoding, seeds: Sequence[int], prompt_length: int) -> Any:
    """What turns logits into a choice; none for greedy decoding."""
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopPLogitsWarper

    if decoding.temperature == 0:
        return LogitsProcessorList()
    processors: list[Any] = [TemperatureLogitsWarper(float(decoding.temperature))]
    if decoding.top_p < 1:
        processors.append(TopPLogitsWarper(float(decoding.top_p)))
    uniform = np.stack([np.random.default_rng(s).random(decoding.max_new_tokens) for s in seeds])
    return LogitsProcessorList([*processors, _SampleBySeed(uniform, prompt_length)])


class _SampleBySeed:
    """A logits processor that leaves one token possible: the one drawn by the row's own numbers."""

    def __init__(self, uniform: np.ndarray[Any, Any], prompt_length: int) -> None:
        self._uniform, self._prompt_length = uniform, prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import torch

        step = input_ids.shape[1] - self._prompt_length
        # Cumulated in float64 on the CPU: MPS has no float64, and float32 loses rare tokens.
        cumulated = scores.cpu().double().softmax(-1).cumsum(-1)
        drawn = torch.from_numpy(self._uniform[:, step : step + 1]) * cumulated[:, -1:]
        chosen = torch.searchsorted(cumulated, drawn, right=True).to(scores.device)
        return torch.full_like(scores, float("-inf")).scatter(1, chosen, 0.0)

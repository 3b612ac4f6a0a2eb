"""Generation with Hugging Face transformers: batched, left-padded, a seed for every sample."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from propme.errors import InputError, ParameterError
from propme.files import content_hash
from propme.generation.protocol import Made, Task, readable
from propme.generation.sampling import NoNumber, log_probability, processors
from propme.generation.scoring import Pair, Score
from propme.model_tokenizer import ModelTokenizer, load_arguments
from propme.records import Decoding, Generation, Prompt

if TYPE_CHECKING:
    import torch


#: Parameters below which a step is too short to be shared between threads.
_TINY_MODEL = 5_000_000

#: Logits that are held at a time when suffixes are scored: 256 MB in float32.
_LOGITS_AT_A_TIME = 64_000_000

#: How torch says on the CPU and on MPS that there is no memory left.
_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "invalid buffer size")


class TransformersGenerator:
    """A causal language model of transformers.

    Parameters
    ----------
    model : str
        A folder written by ``save_pretrained``, a GGUF file, or a name on the hub.
    device : str
        ``auto``: CUDA or MPS where there is one, else the CPU; or a device of torch.
    dtype : str
        ``auto``: as the model was saved; or a number type of torch.
    batch_size : int
        Most sequences that are generated at a time; halved whenever memory runs out.
    trust_remote_code : bool
        Whether code that comes with the model may run. Leave it off unless you have read it.
    revision : str
        Hash of the model's files, where it is known already; a name on the hub has its commit.

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
        revision: str = "",
    ) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
        from transformers.utils import logging

        where, arguments = load_arguments(model)
        arguments["trust_remote_code"] = trust_remote_code
        try:
            logging.disable_progress_bar()  # of loading: it would stay in the report, in red
            self._tokenizer = AutoTokenizer.from_pretrained(where, **arguments)
            loaded: Any = AutoModelForCausalLM.from_pretrained(where, dtype=dtype, **arguments)
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
        commit = getattr(self._model.config, "_commit_hash", None)
        self._revision = revision or commit or content_hash(Path(model))
        self._model.generation_config = GenerationConfig()
        self._batch_size = self._fitting = batch_size
        self._prompts = ModelTokenizer.of(self._tokenizer, self._model.config, model)
        self._ends = self._prompts.ends
        self._keeps = "logits_to_keep" in inspect.signature(self._model.forward).parameters
        self._versions = {n: version(n) for n in ("torch", "transformers", "tokenizers")}
        self._n_given = self._n_padding = 0

    @property
    def identity(self) -> str:
        """What decides a completion beside the task."""
        model = self._revision or self._name
        return f"transformers {model} {self._dtype} {self._device.type}"

    @property
    def tokenizer(self) -> ModelTokenizer:
        """What makes tokens of prompts."""
        return self._prompts

    @property
    def _dtype(self) -> str:
        return str(self._model.dtype).removeprefix("torch.")

    def describe(self) -> dict[str, Any]:
        """What makes the generations."""
        return {
            "backend": "transformers",
            "model": Path(self._name).name,
            "revision": self._revision,
            "parameters": self._n_parameters,
            "device": self._device.type,
            "dtype": self._dtype,
            "batch_size": self._batch_size,
            "start_token": self._prompts.start_token,
            "end_tokens": sorted(self._ends),
            "versions": self._versions,
        }

    def noticed(self) -> dict[str, Any]:
        """What was noticed while generating: share of padding, batch size that memory allowed."""
        n = self._n_given + self._n_padding
        return {
            "share of prompt tokens that were padding": self._n_padding / n if n else 0.0,
            "completions at a time that memory allowed": self._fitting,
        }

    def given(self, prompt: Prompt, max_new_tokens: int) -> tuple[int, ...]:
        """Tokens of a prompt.

        Raises
        ------
        TooLongError
            With the completion they do not fit into the model's context.
        """
        return tuple(self._prompts.require_room(prompt, max_new_tokens))

    def batches(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Tasks of one decoding and of like length; longest first, so that memory runs out early.

        The order of the tasks does not matter.
        """
        found: dict[Decoding, list[Task]] = {}
        for task in sorted(tasks, key=lambda task: (-len(task.given), task.generation_id)):
            found.setdefault(task.decoding, []).append(task)
        return [
            group[i : i + self._batch_size]
            for _, group in sorted(found.items(), key=lambda item: item[0].name)
            for i in range(0, len(group), self._batch_size)
        ]

    def generate(self, batches: Sequence[Sequence[Task]]) -> Iterator[list[Made]]:
        """Complete batch by batch; one for which memory is short is done in halves."""
        with self._threads():
            for batch in batches:
                waiting = _cut(batch, self._fitting)
                while waiting:
                    part = waiting.pop(0)
                    try:
                        made = self._complete(part)
                    except (RuntimeError, MemoryError) as error:
                        if not _is_out_of_memory(error):
                            raise
                        made = []
                    if made:
                        yield made
                        continue
                    self._free()  # only now: while it was handled, the error held the tensors
                    if len(part) == 1:
                        yield [self._too_large(part[0])]
                        continue
                    self._fitting = -(-len(part) // 2)
                    waiting = _cut([*part, *chain.from_iterable(waiting)], self._fitting)

    def _too_large(self, task: Task) -> Made:
        told = "out of memory even for this prompt alone; use a larger device or a smaller dtype"
        return Made(task, task.failed(told, **self._columns(1)), passing=True)

    def _free(self) -> None:
        """Give back what the failed batch held."""
        import torch

        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        elif self._device.type == "mps":
            torch.mps.empty_cache()

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

    def _complete(self, tasks: Sequence[Task]) -> list[Made]:
        import torch
        from transformers import GenerationConfig, LogitsProcessorList

        decoding = tasks[0].decoding
        given = [_ids(task) for task in tasks]
        longest = max(map(len, given))
        pad = min(self._ends, default=0)
        inputs = torch.tensor([[pad] * (longest - len(ids)) + ids for ids in given])
        mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in given])
        no_number = NoNumber(len(tasks), self._device)
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
                logits_processor=LogitsProcessorList(
                    [no_number, *processors(decoding, [task.seed for task in tasks], longest)]
                ),
            )
        self._n_given += int(mask.sum())
        self._n_padding += mask.numel() - int(mask.sum())
        columns = self._columns(len(tasks))
        rows = zip(tasks, output[:, longest:].tolist(), no_number.rows.tolist(), strict=True)
        return [Made(task, self._generation(task, ids, bad, columns)) for task, ids, bad in rows]

    def _columns(self, n_together: int) -> dict[str, Any]:
        """Columns of a generation that say what made it."""
        told = self.describe()
        return {
            "backend": told["backend"],
            "model": told["model"],
            "revision": told["revision"],
            "dtype": told["dtype"],
            "device": told["device"],
            "batch_size": n_together,
            "versions": ", ".join(f"{name} {v}" for name, v in told["versions"].items()),
        }

    def _generation(
        self, task: Task, ids: list[int], is_broken: bool, columns: dict[str, Any]
    ) -> Generation:
        if is_broken:
            told = "the model's logits were no numbers (NaN); try dtype float32 or bfloat16"
            return task.failed(told, **columns)
        end = next((n for n, token in enumerate(ids) if token in self._ends), None)
        completion = ids if end is None else ids[:end]
        text, note = readable(self._completion_text(_ids(task), completion))
        return task.generation(
            text=text,
            token_ids=tuple(completion),
            finish_reason="length" if end is None else "stop",
            note=note,
            **columns,
        )

    def _completion_text(self, prompt: list[int], completion: list[int]) -> str:
        """Text of the completion as it follows the prompt: some decoders drop a leading space."""
        before, whole = self._prompts.decode(prompt), self._prompts.decode(prompt + completion)
        return (
            whole[len(before) :] if whole.startswith(before) else self._prompts.decode(completion)
        )

    def can_score(self, decoding: Decoding) -> bool:
        """Whether probabilities under this decoding can be told: of any."""
        return True

    def score(self, pairs: Sequence[Pair], decodings: Sequence[Decoding]) -> Iterator[list[Score]]:
        """Score suffixes after their prefixes: one forward pass a batch, in the order given.

        Yields
        ------
        list of Score
            Of each pair, one for each decoding. Those of a batch come together; its size is such
            that no more than `_LOGITS_AT_A_TIME` logits are held.
        """
        order = sorted(range(len(pairs)), key=lambda n: len(pairs[n].prefix))
        vocabulary = self._model.get_output_embeddings().weight.shape[0]
        found: dict[int, list[Score]] = {}
        done = 0
        with self._threads():
            waiting = _cut(order, self._fitting)
            while waiting:
                part = waiting.pop(0)
                held = self._width([pairs[n] for n in part]) * vocabulary * len(part)
                if held > _LOGITS_AT_A_TIME and len(part) > 1:
                    waiting = _cut(part, -(-len(part) // 2)) + waiting
                    continue
                try:
                    scores = self._scores([pairs[n] for n in part], decodings)
                except (RuntimeError, MemoryError) as error:
                    if not _is_out_of_memory(error) or len(part) == 1:
                        raise
                    waiting = _cut(part, -(-len(part) // 2)) + waiting
                    continue
                found |= zip(part, scores, strict=True)
                while done in found:
                    yield found.pop(done)
                    done += 1

    def _width(self, pairs: Sequence[Pair]) -> int:
        """Positions of a batch whose logits are held."""
        longest = max(len(pair.prefix) + len(pair.suffix) for pair in pairs)
        return longest - min(len(pair.prefix) for pair in pairs) + 1 if self._keeps else longest

    def _scores(self, pairs: Sequence[Pair], decodings: Sequence[Decoding]) -> list[list[Score]]:
        """Right-padded: what follows cannot reach a position, so that padding changes nothing."""
        import torch

        rows = [[*pair.prefix, *pair.suffix] for pair in pairs]
        longest = max(map(len, rows))
        pad = min(self._ends, default=0)
        inputs = torch.tensor([ids + [pad] * (longest - len(ids)) for ids in rows])
        mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in rows])
        # The first token of a suffix is chosen at the last position of its prefix.
        first = min(len(pair.prefix) for pair in pairs) - 1
        arguments = {"logits_to_keep": longest - first} if self._keeps else {}
        with torch.inference_mode():
            logits = self._model(
                input_ids=inputs.to(self._device),
                attention_mask=mask.to(self._device),
                use_cache=False,
                **arguments,
            ).logits[:, first - longest :]
            return [
                self._score(logits[n, len(pair.prefix) - 1 - first :], pair, decodings)
                for n, pair in enumerate(pairs)
            ]

    def _score(
        self, logits: torch.Tensor, pair: Pair, decodings: Sequence[Decoding]
    ) -> list[Score]:
        import torch

        own = logits[: len(pair.suffix)].float()
        ids = torch.tensor(pair.suffix, device=own.device)
        likeliest = int((own.argmax(-1) == ids).sum())
        return [Score(log_probability(own, ids, each), likeliest) for each in decodings]


def _ids(task: Task) -> list[int]:
    return [token for token in task.given if isinstance(token, int)]


def _cut(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def _is_out_of_memory(error: Exception) -> bool:
    import torch

    told = str(error).lower()
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        sign in told for sign in _NO_MEMORY
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _best_device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"

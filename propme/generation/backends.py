"""Where completions come from, by name."""

from __future__ import annotations

from collections.abc import Sequence

from propme.errors import ParameterError
from propme.generation.openai import OpenAIGenerator
from propme.generation.recorded import RecordedGenerator
from propme.generation.transformers import TransformersGenerator

#: A causal language model here; one behind a server; a file of what one wrote.
BACKENDS = ("transformers", "openai", "recorded")

#: Where a model is run, and in which numbers.
DEVICES = ("auto", "cpu", "cuda", "mps", "xpu")
DTYPES = ("auto", "float32", "bfloat16", "float16")


def require_backend(backend: str) -> None:
    """Refuse a backend that there is not.

    Raises
    ------
    ParameterError
        There is none of that name.
    """
    if backend not in BACKENDS:
        raise ParameterError(f"backend {backend!r} is unknown; it is {', '.join(BACKENDS)}")


def require_device(device: str, dtype: str) -> None:
    """Refuse a device or a number type that torch has not; whether it is here is not asked.

    Raises
    ------
    ParameterError
        There is none of that name.
    """
    kind, colon, number = device.partition(":")
    if kind not in DEVICES or (colon and not number.isdecimal()):
        raise ParameterError(
            f"device {device!r} is unknown; it is {', '.join(DEVICES)}, with a number as cuda:1"
        )
    if dtype not in DTYPES:
        raise ParameterError(f"dtype {dtype!r} is unknown; it is {', '.join(DTYPES)}")


def open_generator(
    backend: str,
    model: str,
    *,
    revision: str = "",
    device: str = "auto",
    dtype: str = "auto",
    batch_size: int = 32,
    trust_remote_code: bool = False,
    served_model: str = "",
    concurrency: int = 8,
    patience: float = 120.0,
    recorded: str = "",
    recorded_columns: Sequence[str] = (),
) -> TransformersGenerator | OpenAIGenerator | RecordedGenerator:
    """The generator of a backend; parameters that it does not know are not looked at.

    For the parameters see the three classes; ``recorded`` is the file of `RecordedGenerator`.
    """
    require_backend(backend)
    if backend == "openai":
        return OpenAIGenerator(served_model, model, concurrency, patience, trust_remote_code)
    if backend == "recorded":
        if not recorded:
            raise ParameterError("backend 'recorded' needs a file: the parameter recorded")
        return RecordedGenerator(recorded, recorded_columns)
    return TransformersGenerator(model, device, dtype, batch_size, trust_remote_code, revision)

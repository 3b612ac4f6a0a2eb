"""A demonstration in small: the real corpus and a real model, trained in some seconds."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from propme.demo import Demo, DemoSettings, ensure_demo

ROOT = Path(__file__).parent.parent

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


def tiny_parameters(output, cache):
    """Parameters of a run that takes some seconds."""
    demo = tiny_demo()
    return {
        "output": str(output),
        "cache": str(cache),
        "corpus": str(demo.corpus),
        "heldout": str(demo.heldout),
        "human": str(demo.human),
        "model": str(demo.model),
        "n_prompts": 3,
        "n_prefix": 2,
        "strata": [1, 32],
        "n_mismatched": 2,
        "n_human": 4,
        "n_prompt_free": 3,
        "samples": 2,
        "max_new_tokens": 20,
        "bootstrap_rounds": 200,
    }


def propme(*arguments, **environment):
    """The command, as a user gives it at the checkout's folder."""
    return subprocess.run(
        [sys.executable, "-m", "propme.cli", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )

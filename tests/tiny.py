"""A demonstration in small: the real corpus and a real model, trained in some seconds."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import yaml

from propme.demo import Demo, DemoSettings, ensure_demo
from propme.files import alone

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


#: A folder that all processes of a test session share, see conftest.py.
SHARED = Path(os.environ["PROPME_TESTS_SHARED"])

#: A secret in the environment of `tiny_run`.
SECRET = "sk-test-secret"


@cache
def tiny_demo() -> Demo:
    """Corpus, held-out documents and model, made once a test session."""
    return ensure_demo(SHARED, SETTINGS)


@cache
def tiny_run() -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A whole run and what the command told, made once a test session; copy it to change it.

    Made with a secret in the environment and a misleading kernel installed.
    """
    folder = SHARED / "run"
    told = folder / "told.json"
    with alone(folder):
        if not told.exists():
            done = _run_by_command(folder)
            told.write_text(json.dumps([done.args, done.returncode, done.stdout, done.stderr]))
    return folder / "out", subprocess.CompletedProcess(*json.loads(told.read_text()))


def _run_by_command(folder: Path) -> subprocess.CompletedProcess[str]:
    kernel = folder / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    spec = {"argv": ["/bin/false"], "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    file = folder / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny_parameters(folder / "out", SHARED / "cache")))
    return propme(
        *("run", file, "-p", "temperature", "8e-1"),
        JUPYTER_PATH=str(kernel.parent.parent),
        OPENAI_API_KEY=SECRET,
    )


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

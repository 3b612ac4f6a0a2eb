"""Continued pre-training in small: the demonstration's model reads on, in Danish or in English.

The model of `propme.demo` is trained further in stages of which two thirds are new text and one
third is its old corpus, as in the paper. The new text is that of a user interface which the package
``gramps`` brings in both languages, message by message: Danish in one arm, the English of the same
messages in the other. The English arm is the control: what both arms do to the old corpus is done
by reading on, and not by Danish.

    python -m propme.demo.continued FOLDER [danish] [english]
"""

from __future__ import annotations

import gettext
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

import numpy as np

from propme.corpus import read_documents
from propme.demo import Demo, ensure_demo
from propme.demo.bible import DemoSettings, write_jsonl
from propme.demo.training import fit_rows
from propme.errors import InputError, ParameterError
from propme.files import alone, make_whole, write_whole

#: Arms by name: the language of their new text.
ARMS = {"danish": "da", "english": "en"}

_CATALOGUE = "/da/LC_MESSAGES/gramps.mo"
_SOURCE = "messages of Gramps 6.0.8"
_LICENCE = "GPL-2.0-or-later"
#: File that says with what a folder was made.
_MADE_WITH = "made-with.json"


@dataclass(frozen=True)
class ContinuedSettings:
    """What decides the new corpora and the training; lengths in characters and tokens.

    Both arms read as many tokens in as many steps. The model's tokenizer was trained on English and
    needs more tokens for Danish, so that arm reads the same passages fewer times.
    """

    stages: int = 3
    tokens_per_stage: int = 90_000
    old_share: float = 1 / 3
    copies: tuple[int, ...] = (4, 16, 64)
    documents_per_group: int = 6
    background_documents: int = 140
    heldout_documents: int = 10
    human_texts: int = 40
    passage_characters: int = 400
    context: int = 256
    batch: int = 2
    learning_rate: float = 3e-3
    warm_up: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.old_share < 1:
            raise ParameterError(f"old_share must be in (0, 1), not {self.old_share}")


def make(
    folder: Path,
    arms: Sequence[str] = tuple(ARMS),
    settings: ContinuedSettings | None = None,
    demo_settings: DemoSettings | None = None,
) -> None:
    """Write all corpora, and train each stage of these arms, into a folder.

    ``first``, ``danish`` and ``english`` hold ``corpus.jsonl``, ``heldout.jsonl`` and
    ``human.jsonl``; ``models`` the model as it starts, ``start``, and after each stage, such as
    ``danish-1``. What is there already is kept, and a stage goes on from the one before; each is
    there as a whole or not at all. The demonstration's own files are made beside the folder.

    Raises
    ------
    InputError
        The package that brings the text is missing, or the folder was made with other settings.
    ParameterError
        An arm is unknown.
    """
    for arm in arms:
        if arm not in ARMS:
            raise ParameterError(f"arm {arm!r} is unknown; it is one of {', '.join(ARMS)}")
    settings = settings or ContinuedSettings()
    demo_settings = demo_settings or DemoSettings()
    demo = ensure_demo(folder.parent, demo_settings)
    with alone(folder):
        _require_same(folder, settings, demo_settings)
        _write_corpora(folder, demo, settings)
    for arm in arms:
        with alone(folder / "models" / arm):
            _train_arm(folder, arm, settings)


def _require_same(folder: Path, settings: ContinuedSettings, demo: DemoSettings) -> None:
    """Refuse a folder of other settings; write down which they are in a new one."""
    content = json.dumps([asdict(settings), demo.fingerprint, _version()], sort_keys=True)
    fingerprint = hashlib.sha256(content.encode()).hexdigest()
    path = folder / _MADE_WITH
    if not path.is_file():
        (folder / "models").mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(fingerprint))
    elif json.loads(path.read_text("utf-8")) != fingerprint:
        raise InputError(
            "made with other settings or another version of the text; remove the folder, or give"
            " another one",
            str(folder),
        )


def _version() -> str:
    try:
        return version("gramps")
    except PackageNotFoundError as error:
        raise InputError(
            "the new text is not installed; pip install 'propme[continued]'", "gramps"
        ) from error


def read_messages() -> list[tuple[str, str]]:
    """Messages of the user interface as (Danish, English), those that are translated.

    A message counts if its Danish has four words or more and shares no more than half of them with
    the English: what was left untranslated, and mere names, are not Danish. Markup and the marks of
    keyboard shortcuts are taken out.

    Raises
    ------
    InputError
        The package that brings them is not installed.
    """
    _version()
    package = distribution("gramps")
    found = next(f for f in package.files or [] if f.as_posix().endswith(_CATALOGUE))
    with Path(str(package.locate_file(found))).open("rb") as file:
        # Its public calls translate one message; the messages themselves are not listed by any.
        catalogue = vars(gettext.GNUTranslations(file))["_catalog"]
    plain = {k: v for k, v in catalogue.items() if isinstance(k, str) and "\x04" not in k}
    pairs = [(_words(danish), _words(english)) for english, danish in sorted(plain.items())]
    return [
        (" ".join(danish), " ".join(english))
        for danish, english in pairs
        if len(danish) >= 4 and 2 * sum(word in english for word in danish) <= len(danish)
    ]


def _words(message: str) -> list[str]:
    return re.sub(r"<[^<>]*>", " ", message.replace("_", "")).split()


def passages(characters: int, seed: int) -> list[dict[str, str]]:
    """Consecutive messages, shuffled once, as passages: the Danish and the English of each.

    The Danish has at least so many characters; the English is that of the same messages.
    """
    messages = read_messages()
    found: list[dict[str, str]] = []
    gathered: list[tuple[str, str]] = []
    for i in np.random.default_rng(seed).permutation(len(messages)):
        gathered.append(messages[i])
        danish, english = (" ".join(texts) for texts in zip(*gathered, strict=True))
        if len(danish) >= characters:
            found.append({"danish": danish, "english": english})
            gathered = []
    return found


def _write_corpora(folder: Path, demo: Demo, settings: ContinuedSettings) -> None:
    if not (folder / "first").exists():
        make_whole(folder / "first", lambda new: _copy_first(demo, new))
    if not (folder / "models" / "start").exists():
        make_whole(
            folder / "models" / "start",
            lambda new: shutil.copytree(demo.model, new, dirs_exist_ok=True),
        )
    both = passages(settings.passage_characters, settings.seed)
    for arm, language in ARMS.items():
        if not (folder / arm).exists():
            texts = [
                _described(f"gramps-{language}-{n}", passage[arm], language)
                for n, passage in enumerate(both)
            ]
            make_whole(folder / arm, partial(_write_new, texts=texts, settings=settings))


def _copy_first(demo: Demo, folder: Path) -> None:
    for path in (demo.corpus, demo.heldout, demo.human):
        shutil.copy(path, folder)


def _described(name: str, text: str, language: str) -> dict[str, Any]:
    described = {"source": _SOURCE, "licence": _LICENCE, "language": language}
    return {"id": name, "text": text} | described


def _write_new(
    folder: Path, texts: Sequence[Mapping[str, Any]], settings: ContinuedSettings
) -> None:
    """``corpus.jsonl``, planted copies shuffled in, ``heldout.jsonl`` and ``human.jsonl``."""
    rest = iter(texts)
    corpus: list[dict[str, Any]] = []
    for copies in settings.copies:
        for _ in range(settings.documents_per_group):
            document = {**next(rest), "copies": copies, "planted": True}
            corpus += [document | {"id": f"{document['id']}#{n}"} for n in range(1, copies + 1)]
    background = {"copies": 1, "planted": False}
    corpus += [{**next(rest), **background} for _ in range(settings.background_documents)]
    order = np.random.default_rng(settings.seed).permutation(len(corpus))
    write_jsonl(folder / "corpus.jsonl", [corpus[i] for i in order])
    for name, n in (("heldout", settings.heldout_documents), ("human", settings.human_texts)):
        write_jsonl(folder / f"{name}.jsonl", [{**next(rest), "copies": 0} for _ in range(n)])


def _train_arm(folder: Path, arm: str, settings: ContinuedSettings) -> None:
    models = folder / "models"
    names = ["start", *(f"{arm}-{stage}" for stage in range(1, settings.stages + 1))]
    if all((models / name).exists() for name in names):
        return
    rows = stage_rows(folder, arm, settings)
    for before, name, own in zip(names[:-1], names[1:], rows, strict=True):
        if not (models / name).exists():
            train = partial(_train_stage, before=models / before, rows=own, settings=settings)
            make_whole(models / name, partial(train, label=f"training {name}"))


def stage_rows(folder: Path, arm: str, settings: ContinuedSettings) -> list[Any]:
    """Tokens of each stage, shape (rows, context): new and old text in rows of their own, shuffled.

    The old rows, and their places among the new ones, are the same in both arms.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "models" / "start")
    n_rows = settings.tokens_per_stage // settings.context
    n_old = round(n_rows * settings.old_share)
    new, old = (
        _stream(
            [tokenizer.encode(d.text) for d in read_documents(folder / name / "corpus.jsonl")],
            (settings.stages, n, settings.context),
            [settings.seed, number],
        )
        for number, (name, n) in enumerate(((arm, n_rows - n_old), ("first", n_old)))
    )
    return [
        np.concatenate([new[n], old[n]])[
            np.random.default_rng([settings.seed, 2, n]).permutation(n_rows)
        ]
        for n in range(settings.stages)
    ]


def _stream(encoded: Sequence[Sequence[int]], shape: tuple[int, int, int], seed: Any) -> Any:
    """Documents, each behind a start token, in another order in each pass, until it is full."""
    rng = np.random.default_rng(seed)
    parts: list[Any] = []
    while sum(map(len, parts)) < np.prod(shape):
        parts += [np.array([0, *encoded[i]], np.int64) for i in rng.permutation(len(encoded))]
    return np.concatenate(parts)[: np.prod(shape)].reshape(shape)


def _train_stage(
    folder: Path, before: Path, rows: Any, settings: ContinuedSettings, label: str
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(before, dtype="float32")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps this small lose more by sharing than they gain
    try:
        fit_rows(
            model,
            rows,
            len(rows) // settings.batch,
            settings.batch,
            settings.learning_rate,
            warm_up=settings.warm_up,
            label=label,
        )
    finally:
        torch.set_num_threads(threads)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(before).save_pretrained(folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2:] or tuple(ARMS))

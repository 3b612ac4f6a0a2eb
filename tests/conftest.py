"""Tokenizers, indexes and a folder that several test files share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import settings
from tokenizers import (
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import Tokenizer as Backend

from propme.index import Tokenizer, build_index
from propme.records import Document

# A machine may have other things to do: no example fails for the time it takes.
settings.register_profile("propme", deadline=None)
settings.load_profile("propme")

#: Ids of a word tokenizer, by the token type that its highest id asks for; those of u8 and u16 are
#: the highest that the type can hold beside the separator. There are gaps, for full vocabularies
#: would take most of the tests' time to write and read.
WORD_IDS = {
    "u8": range(255),
    "u16": (*range(600), 65_534),
    "u32": (*range(600), 65_535, 65_536, 65_537, 69_999),
}

UNKNOWN = "<unk>"

#: Text for the byte-level and sentence-piece tokenizers: prose, dialogue, verse, code, Danish.
REAL_TEXTS = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age"
    " of foolishness, it was the epoch of belief, it was the epoch of incredulity.",
    'The old man said: "I have seen the sea." Then he sat down.\n"And what was it like?" she said.'
    '\n\n"It was the sea," he said, "and it was wide."',
    "Der var engang en mand, der boede i et lille hus ved åen.\nHan havde en kone og tre børn,\n"
    "og om vinteren frøs de alle sammen.  Så kom en fremmed forbi: »Må jeg sove her?«",
    "def add(a, b):\n    return a + b\n\n\ndef main():\n    print(add(1, 2))\n",
    "    It was the best of times; don't you think so?\r\nIt wasn’t – “perhaps” … 😀 é 10 000.\n",
    "",
    "It was",
)


#: Words of the text-search tests, often enough that many pairs are merged, across newlines too.
SHORT_WORD_TEXTS = (
    "ab abc cab bab abab ab. ab.\n ab.\n\n (ab) ) )\n \"ab\" 'ab' 's ø øl é",
    "ab\nabc\ncab\nbab\nabab.\n\nab\tøl\nab\nab\nab",
) * 5


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder for what is made once a session, in all of its processes; the first removes it.

    Its workers inherit the environment.
    """
    if "PROPME_TESTS_SHARED" not in os.environ:
        folder = os.environ["PROPME_TESTS_SHARED"] = tempfile.mkdtemp(prefix="propme-tests-")
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))


@pytest.fixture(scope="session")
def word_tokenizer() -> Callable[[str], Tokenizer]:
    """Word tokenizers by token type: word ``w12`` is token 12."""

    @cache
    def make(token_type: str) -> Tokenizer:
        words = {f"w{number}": number for number in WORD_IDS[token_type]}
        unknown = "w0"
        backend = Backend(models.WordLevel(words, unk_token=unknown))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return Tokenizer(backend)

    return make


def _as_document(number: int, ids: Sequence[int]) -> Document:
    text = " ".join(f"w{token}" for token in ids)
    return Document(f"d{number}", text, {"n": number, "title": "å\n"}, "corpus.jsonl", number + 1)


@pytest.fixture(scope="session")
def built(
    tmp_path_factory: pytest.TempPathFactory, word_tokenizer: Callable[[str], Tokenizer]
) -> Callable[..., AbstractContextManager[Path]]:
    """Index of lists of tokens, in a folder that goes away: ``with built(lists, "u16") as path``.

    Document ``n`` has the id ``dn`` and the metadata ``{"n": n, "title": "å\\n"}``.
    """

    @contextmanager
    def build(
        documents: Sequence[Sequence[int]], token_type: str, shard_bytes: int = 1 << 30
    ) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=tmp_path_factory.getbasetemp()) as folder:
            records = [_as_document(*numbered) for numbered in enumerate(documents)]
            output = Path(folder) / "index"
            yield build_index(records, word_tokenizer(token_type), output, shard_bytes)

    return build


def _byte_level(add_prefix_space: bool) -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    backend.decoder = decoders.ByteLevel()
    return backend


def _train_bytes(backend: Backend, vocabulary: int = 400) -> Tokenizer:
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    backend.train_from_iterator([*REAL_TEXTS, *SHORT_WORD_TEXTS], trainer)
    return Tokenizer(backend)


def _trimming() -> Tokenizer:
    """Byte-level whose offsets leave out the space before a word, as GPT-NeoX and Llama 3 do."""
    backend = _byte_level(add_prefix_space=False)
    backend.post_processor = processors.ByteLevel(trim_offsets=True)
    return _train_bytes(backend)


def _newlines_joined() -> Tokenizer:
    """Byte-level that joins newlines to the punctuation before them, as Llama 3 and Qwen do."""
    backend = _byte_level(add_prefix_space=False)
    words = Regex(r" ?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(words, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return _train_bytes(backend)


def _sentence_piece(model: str) -> Tokenizer:
    """Splits at spaces alone: a newline is one more sign of a word."""
    texts = [*REAL_TEXTS, *SHORT_WORD_TEXTS]
    signs = sorted({sign for text in texts for sign in text if sign != " "} | {"▁"})
    if model == "bpe":
        backend = Backend(models.BPE(unk_token=UNKNOWN))
        trainer: trainers.Trainer = trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=["<unk>"],
            initial_alphabet=signs,
            show_progress=False,
        )
    else:
        backend = Backend(models.Unigram())
        trainer = trainers.UnigramTrainer(
            vocab_size=200,
            special_tokens=["<unk>"],
            unk_token=UNKNOWN,
            initial_alphabet=signs,
            show_progress=False,
        )
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.train_from_iterator(texts, trainer)
    return Tokenizer(backend)


def _byte_fallback() -> Tokenizer:
    """Without a pre-tokenizer, and signs it does not know in bytes, as Llama 2 does."""
    backend = Backend(models.BPE(unk_token=UNKNOWN, byte_fallback=True, fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))],
        initial_alphabet=sorted(set("abcl▁.")),
        limit_alphabet=8,
        show_progress=False,
    )
    backend.train_from_iterator([text.replace("\n", " ") for text in SHORT_WORD_TEXTS], trainer)
    backend.pre_tokenizer = None
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return Tokenizer(backend)


_TEXT_TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "bytes": lambda: _train_bytes(_byte_level(add_prefix_space=False)),
    "bytes-prefix-space": lambda: _train_bytes(_byte_level(add_prefix_space=True)),
    "bytes-trimming": _trimming,
    "bytes-newlines-joined": _newlines_joined,
    "metaspace-bpe": lambda: _sentence_piece("bpe"),
    "metaspace-unigram": lambda: _sentence_piece("unigram"),
    "byte-fallback": _byte_fallback,
}


@pytest.fixture(scope="session")
def text_tokenizer() -> Callable[[str], Tokenizer]:
    """Trained tokenizers of real kinds, by name; each is trained once."""
    return cache(lambda name: _TEXT_TOKENIZERS[name]())


@pytest.fixture(scope="session")
def bpe(text_tokenizer: Callable[[str], Tokenizer]) -> Tokenizer:
    """A small byte-level BPE, trained on `real_texts`."""
    return text_tokenizer("bytes")


@pytest.fixture(scope="session")
def real_texts() -> tuple[str, ...]:
    """Prose, dialogue, verse, code and Danish, one document each, an empty one too."""
    return REAL_TEXTS


@pytest.fixture(scope="session")
def text_index(
    tmp_path_factory: pytest.TempPathFactory, bpe: Tokenizer, real_texts: tuple[str, ...]
) -> Path:
    """Folder of an index of `real_texts`, for tests that do not change it."""
    documents = [Document(f"t{number}", text) for number, text in enumerate(real_texts)]
    return build_index(documents, bpe, tmp_path_factory.mktemp("texts") / "index")

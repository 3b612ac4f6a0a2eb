"""Small tokenizers, corpora and records for the tests; no test stands here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from propme.index.brute_force import BruteForceIndex
from propme.index.tokenizer import Tokenizer
from propme.records import Generation

#: Engines that can be tried here: infini-gram has no wheel for some platforms.
HAS_ENGINE = find_spec("infini_gram") is not None
ENGINES = ("mapped", "infini-gram") if HAS_ENGINE else ("mapped",)
needs_engine = pytest.mark.skipif(not HAS_ENGINE, reason="infini-gram is not installed")

#: Text with letters of two bytes, signs of three and pictures of four.
DANISH = (
    "Rødgrød med fløde på en ø i åen; det æder ål så gerne.",
    "»Hvad hedder æblet?« spurgte hun – og så lo de 🎉🎊 højt.",
    "Smørrebrød 🥪 og kål 🥬 hører sommeren til, sagde Åse.",
)


def word_tokenizer(words: Iterable[str]) -> Tokenizer:
    """One token a word: ``"a b c"`` is three. Any other word is ``<unk>``, id 0."""
    unknown = "<unk>"
    vocabulary = {word: number for number, word in enumerate([unknown, *words])}
    backend = Backend(models.WordLevel(vocabulary, unk_token=unknown))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return Tokenizer(backend)


def byte_tokenizer(texts: Iterable[str] = (), merges: int = 0, normalizer: Any = None) -> Tokenizer:
    """A byte-level BPE as GPT-2's: lossless, a word another token behind a space than without.

    With no merges a token is a byte. A normalizer makes it lose what that does not keep.
    """
    backend = Backend(models.BPE())
    if normalizer:
        backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return Tokenizer(backend)


def metaspace_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A BPE whose words carry a mark for the space before them, the first one too, as Llama 2's.

    A newline or a quote is one more sign of the word behind it.
    """
    unknown = "<unk>"
    backend = Backend(models.BPE(unk_token=unknown))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[unknown], show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    return Tokenizer(backend)


def index_of(
    texts: Sequence[str], tokenizer: Tokenizer, metadata: Sequence[dict[str, Any]] | None = None
) -> BruteForceIndex:
    """The slow index over texts; ids are ``d0``, ``d1``... unless metadata says otherwise."""
    metadata = metadata or [{"id": f"d{number}"} for number in range(len(texts))]
    return BruteForceIndex([tokenizer.encode(text) for text in texts], tokenizer, metadata)


def generation(text: str, generation_id: str = "g") -> Generation:
    """A generation of which only the text and the name matter."""
    return Generation(
        generation_id=generation_id,
        prompt_id="p",
        decoding="greedy",
        sample=0,
        seed=0,
        text=text,
        token_ids=(),
        finish_reason="stop",
        temperature=0.0,
        top_p=1.0,
        max_new_tokens=256,
    )

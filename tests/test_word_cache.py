"""The memory of words encodes as the tokenizer does, token by token, or is not used."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from tokenizers import Tokenizer as Backend

from propme.index import Tokenizer, word_cache
from propme.index.word_boundaries import Cuts, cuts_of
from propme.index.word_cache import WordCache

TRAINING = (
    "It's the best of times; it was the worst, wasn't it? I'll say: \"don't\" -- 'tis 12345 67.",
    "def f(x):\n    return x['key'] + 10\n\n\n\tif a_b.c_d != [1, 2]:\r\n        pass  # done\n",
    "Rødgrød med fløde på en ø i åen.\n\nDet æder ål; »så« sagde han – højt!  \n   \n  Ja.\n",
    "http://example.org/path/to?q=1&r=2\n/usr/bin//x\n'quoted' `code` a/b;\n/c HELLO World's",
) * 4

UNKNOWN = "[UNK]"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _byte_level(pattern: str = "", normalizer: object = None, prefix: bool = False) -> Backend:
    backend = Backend(models.BPE())
    if normalizer:
        backend.normalizer = normalizer
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=not pattern)
    split = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
    backend.pre_tokenizer = pre_tokenizers.Sequence([*split, byte_level]) if pattern else byte_level
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    backend.train_from_iterator(TRAINING, trainer)
    return backend


def _o200k_removed() -> Backend:
    """The matches as words, and what lies between left out: how tiktoken's are often converted."""
    backend = _byte_level(O200K)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(O200K), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return backend


def _digits() -> Backend:
    backend = _byte_level()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    return backend


def _with_runs_of_spaces() -> Backend:
    """As GPT-NeoX and OLMo have: runs of spaces that are tokens before all else."""
    backend = _byte_level(normalizer=normalizers.NFC())
    backend.add_tokens([AddedToken(" " * n, normalized=True) for n in range(2, 6)])
    return backend


def _with_added_words() -> Backend:
    """As Qwen has: words that are tokens before all else, and some that take the space around."""
    backend = _byte_level(QWEN, normalizers.NFC())
    backend.add_tokens(
        [
            AddedToken("<think>", normalized=False),
            AddedToken("</think>", normalized=False, rstrip=True),
            AddedToken("best", normalized=False),
            AddedToken("ø", normalized=False, lstrip=True, single_word=True),
        ]
    )
    return backend


def _whole_words(pattern: str) -> Backend:
    """As Llama 3: a word that is a token is that token, though no merges may lead to it."""
    description = json.loads(_byte_level(pattern).to_str())
    vocabulary = description["model"]["vocab"]
    for word in ("ĠWorld", "thez", "Ġ==", "==//", "(the", "_World", "45678"):
        vocabulary.setdefault(word, len(vocabulary))
    description["model"]["ignore_merges"] = True
    return Backend.from_str(json.dumps(description))


def _bert() -> Backend:
    backend = Backend(models.WordPiece(unk_token=UNKNOWN))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=[UNKNOWN], show_progress=False
    )
    backend.train_from_iterator(TRAINING, trainer)
    return backend


BACKENDS: dict[str, Callable[[], Backend]] = {
    "gpt2": _byte_level,
    "gpt2-prefix-space": lambda: _byte_level(prefix=True),
    "gpt2-split": lambda: _byte_level(GPT2),
    "gpt2-lowercase": lambda: _byte_level(normalizer=normalizers.Lowercase()),
    "llama3": lambda: _byte_level(LLAMA3),
    "qwen-nfc": lambda: _byte_level(QWEN, normalizers.NFC()),
    "qwen-nfkc": lambda: _byte_level(QWEN, normalizers.NFKC()),
    "o200k": lambda: _byte_level(O200K),
    "o200k-removed": _o200k_removed,
    "digits": _digits,
    "runs-of-spaces": _with_runs_of_spaces,
    "added-words": _with_added_words,
    "whole-words": lambda: _whole_words(""),
    "whole-words-llama3": lambda: _whole_words(LLAMA3),
    "bert": _bert,
}
#: Those of `conftest`: GPT-2's and Llama 3's ways again, words marked by a sign, and Llama 2's way.
SHARED = ("bytes-trimming", "metaspace-bpe", "metaspace-unigram", "byte-fallback")


@cache
def _own(name: str) -> Tokenizer:
    return Tokenizer(BACKENDS[name]())


@pytest.fixture(scope="module", params=[*BACKENDS, *SHARED])
def tokenizer(
    request: pytest.FixtureRequest, text_tokenizer: Callable[[str], Tokenizer]
) -> Tokenizer:
    name = str(request.param)
    return _own(name) if name in BACKENDS else text_tokenizer(name)


def _cuts(tokenizer: Tokenizer) -> Cuts | None:
    return cuts_of(json.loads(tokenizer._backend.to_str()))


@cache
def _cache_of(tokenizer: Tokenizer) -> WordCache:
    cuts = _cuts(tokenizer)
    assert cuts is not None, "this tokenizer is meant to be cut"
    return WordCache(tokenizer, cuts, np.dtype("<u2"), tokenizer._cuts_and_merges[1])


def _plain(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer.encode(text) for text in texts]


def _remembered(memory: WordCache, texts: list[str]) -> list[list[int]]:
    return [np.frombuffer(raw, "<u2").tolist() for raw in memory.encode(texts)]


#: Parts of which texts are made: what a tokenizer may look at on either side of a cut.
PARTS = [
    *" \t\n\r\n  \u00a0\u2003\u3000\u0085\x0b\x0c\x1c\x00▁",
    *("  ", "    ", "\n\n", "\r\n", " \n", "\n "),
    *"aszDQ0159'’\"`.,;/_-#(<>=\\|",
    *("'s", "'t", "'re", "'LL", "'D", "it's", "the", "World", "123", "4567", "==", "//", "</"),
    *(
        "å",
        "é",
        "e\u0301",
        "ø",
        "\u0301",
        "ſ",
        "K",
        "¨",
        "漢字",
        "ไทย",
        "😀",
        "👍🏽",
        "²",
        "½",
        "ǅ",
    ),
    *("<think>", "</think>", "<|endoftext|>", "a b", "<", "think"),
]
texts = st.lists(st.sampled_from(PARTS), max_size=30).map("".join)


@given(batch=st.lists(texts, max_size=5))
@settings(max_examples=300, deadline=None)
@example(batch=["", " ", "\n", "a", " a ", "\n \n", "x\n", "it's", "'s", "a'b's c''s"])
@example(batch=[";\n/path\n/x", "x \n \n  y", "!\n  \u00a0\n z", "a\x1cb \x1c c", "a▁ b"])
@example(batch=["new_kind\n", "a_\nb\n\nc\td\r\ne", "f('s')\n's"])
def test_encodes_as_the_tokenizer_does(tokenizer: Tokenizer, batch: list[str]) -> None:
    assert _remembered(_cache_of(tokenizer), batch) == _plain(tokenizer, batch)


def test_encodes_real_text_as_the_tokenizer_does(
    tokenizer: Tokenizer, real_texts: tuple[str, ...]
) -> None:
    batch = [*TRAINING, *real_texts, "".join(TRAINING)]

    assert _remembered(_cache_of(tokenizer), batch) == _plain(tokenizer, batch)


@pytest.mark.parametrize("name", ["llama3", "gpt2"])
def test_goes_on_when_its_memory_is_full(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = _own(name)
    monkeypatch.setattr(word_cache, "_MOST_PIECES", 16)
    cuts = _cuts(tokenizer)
    assert cuts is not None
    memory = WordCache(tokenizer, cuts, np.dtype("<u2"))
    batch = [f"word{n} and {n} more, {n}\n" * 3 for n in range(40)] + [""]

    assert _remembered(memory, batch) == _plain(tokenizer, batch)
    assert memory._n_pieces <= 16


def test_a_text_without_white_space_is_left_to_the_tokenizer() -> None:
    tokenizer = _own("gpt2")
    batch = ["a short one", "å" * 5000, "and another"]

    assert _remembered(_cache_of(tokenizer), batch) == _plain(tokenizer, batch)


def test_a_piece_with_the_hash_of_another_is_told_apart() -> None:
    tokenizer = _own("gpt2")
    memory = WordCache(tokenizer, Cuts(" "), np.dtype("<u2"))
    first, second = " abcdefghijklmnopqrstuvw", " zyxwvutsrqponmlkjihgfed"
    memory.encode([f"a{first} b"])
    raw = np.frombuffer(second.encode(), np.uint8)
    slot, *name = word_cache._long_slot(
        raw, 0, raw.size, 0, memory._slots, memory._key_starts, memory._keys
    )
    number_of_first = 2  # behind "a"
    memory._slots[int(slot), :3] = [*name, number_of_first]

    assert _remembered(memory, [f"a{second} b"]) == _plain(tokenizer, [f"a{second} b"])


def _add(description: dict[str, object], content: str, **changes: bool) -> None:
    added = {"id": 999, "content": content, "special": False, "normalized": False}
    rest = {"lstrip": False, "rstrip": False, "single_word": False}
    description["added_tokens"].append(added | rest | changes)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d["model"].update(dropout=0.1), "chance decides"),
        (
            lambda d: d.update(
                normalizer={"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}
            ),
            "its pattern is not known",
        ),
        (lambda d: d["pre_tokenizer"].update(use_regex=False), "nothing splits the text"),
        (lambda d: d.update(pre_tokenizer={"type": "Punctuation"}), "white space splits nothing"),
        (lambda d: _add(d, "  ", lstrip=True), "it takes the white space around it"),
        (lambda d: _add(d, "th is"), "it reaches over white space"),
        (lambda d: _add(d, "all"), "a piece may be put behind its first letter"),
        (
            lambda d: (_add(d, "x", normalized=True), d.update(normalizer={"type": "Lowercase"})),
            "the text is another once it is normalised",
        ),
    ],
)
def test_what_is_not_known_to_be_safe_is_not_cut(
    change: Callable[[dict[str, object]], None], why: str
) -> None:
    description = json.loads(_own("gpt2")._backend.to_str())
    assert cuts_of(description) is not None

    change(description)

    assert cuts_of(description) is None, why


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}+(?= the)|\s+(?!\S)|\s+",
        LLAMA3.replace(r"|\s+(?!\S)|\s+", ""),
        LLAMA3.replace(r"|\s*[\r\n]+", ""),
        GPT2 + r"|.*",
    ],
)
def test_a_pattern_with_a_part_that_is_not_known_is_not_cut(pattern: str) -> None:
    description = json.loads(_own("llama3")._backend.to_str())
    description["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern

    assert cuts_of(description) is None


def test_a_vocabulary_that_joins_words_is_not_cut(
    text_tokenizer: Callable[[str], Tokenizer],
) -> None:
    description = json.loads(text_tokenizer("byte-fallback")._backend.to_str())
    cuts = cuts_of(description)
    assert cuts is not None
    assert " " in cuts.before

    description["model"]["vocab"]["a▁b"] = 5000

    assert " " not in (cuts_of(description) or Cuts("")).before


def test_a_tokenizer_that_may_not_be_cut_still_encodes() -> None:
    backend = _byte_level()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = Tokenizer(backend)
    batch = [*TRAINING, ""]

    encoded = tokenizer.bytes_encoder(np.dtype("<u4"))(batch)

    assert [np.frombuffer(raw, "<u4").tolist() for raw in encoded] == _plain(tokenizer, batch)

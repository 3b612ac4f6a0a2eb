"""Prompts that ask for nothing: the start token alone, or with one frequent word behind it."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from propme.errors import InputError
from propme.index.protocol import Index
from propme.prompts.drawing import random_documents
from propme.records import Prompt

#: Words that are frequent enough to be drawn, and what they are counted in.
_FREQUENT_WORDS = 1000
MOST_FOR_CUES = 2000
_MOST_TOKENS = 1000

_WORD = re.compile(r"[^\W\d_]+")


def unconditional_prompts(n: int) -> list[Prompt]:
    """The start token and no text: one prompt, of which ``n`` completions are sampled.

    Decoded greedily it has one completion, whatever ``n`` is. 0: the setting is left out.
    """
    return [Prompt("unconditional/start", "unconditional", "propensity", "", samples=n)][: n > 0]


def minimal_cue_prompts(index: Index, n: int, seed: int) -> list[Prompt]:
    """The start token and one frequent word of the corpus, drawn anew for each of ``n`` prompts.

    Each prompt is completed once. A word is drawn as often as it stands among the 1000 most
    frequent of up to 2000 documents, drawn uniformly, of each the first 1000 tokens; of a larger
    corpus the weights are therefore estimates. 0: the setting is left out.

    Raises
    ------
    InputError
        There is no word in these documents.
    """
    if not n:
        return []
    counts: Counter[str] = Counter()
    for shard, document in random_documents(index, seed, MOST_FOR_CUES):
        ids = index.document_tokens(shard, document, 0, _MOST_TOKENS)
        counts.update(_WORD.findall(index.tokenizer.decode(ids)))
    # Equal counts in an order that does not hang on which document came first.
    frequent = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:_FREQUENT_WORDS]
    if not frequent:
        raise InputError("no word to draw a minimal cue from; set n_prompt_free to 0", "index")
    words, numbers = zip(*frequent, strict=True)
    weights = np.array(numbers, float)
    drawn = np.random.default_rng(seed).choice(len(words), size=n, p=weights / weights.sum())
    return [
        Prompt(f"minimal_cue/{number:05}", "minimal_cue", "propensity", words[word], samples=1)
        for number, word in enumerate(drawn, start=1)
    ]

"""How fast generation is in batches and one by one, and scoring against generating.

    .venv/bin/python benchmarks/generation.py [--cache outputs/cache] [--prefixes 1000]

The model is the demonstration's, on the CPU; the prefixes are those of its corpus.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

from propme.corpus import read_documents
from propme.demo import ensure_demo
from propme.generation import TransformersGenerator, complete
from propme.generation.extraction import true_suffix
from propme.records import Decoding, Prompt

#: Characters of a prefix and of what follows it: about 50 tokens of the demonstration's.
CHARACTERS = 130


def prefixes(corpus: Path, n: int) -> list[Prompt]:
    documents = read_documents(corpus)
    return [
        Prompt(
            f"prefix/{number}",
            "prefix",
            "capability",
            document.text[:CHARACTERS],
            target=document.text[CHARACTERS : 2 * CHARACTERS],
        )
        for number, document in zip(range(n), documents, strict=False)
    ]


def tokens_a_second(generator: TransformersGenerator, prompts: Sequence[Prompt]) -> float:
    start = time.perf_counter()
    made = complete(generator, prompts, [Decoding("greedy", 0.0, 1.0, 1, 100)], 0)
    return sum(len(g.token_ids) for g in made) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path("outputs/cache"))
    parser.add_argument("--prefixes", type=int, default=1000)
    options = parser.parse_args()
    logging.disable()
    demo = ensure_demo(options.cache)
    prompts = prefixes(demo.corpus, options.prefixes)
    print(
        f"{os.cpu_count()} cores, demonstration's model, {len(prompts)} prefixes, greedy, 100 new"
    )
    alone = TransformersGenerator(str(demo.model), "cpu", batch_size=1)
    many = TransformersGenerator(str(demo.model), "cpu", batch_size=64)
    for generator in (alone, many):  # the first call of each is slow
        complete(generator, prompts[:1], [Decoding("greedy", 0.0, 1.0, 1, 2)], 0)
    one_by_one = tokens_a_second(alone, prompts[:64])
    batched = tokens_a_second(many, prompts)
    print(f"one by one       {one_by_one:8,.0f} tokens/s")
    print(f"batches of 64    {batched:8,.0f} tokens/s, {batched / one_by_one:.1f} times as fast")
    pairs = [true_suffix(prompt, many.tokenizer) for prompt in prompts]
    n_tokens = round(sum(len(pair.suffix) for pair in pairs) / len(pairs))
    greedy = Decoding("greedy", 0.0, 1.0, 1, n_tokens)
    for top_p in (1.0, 0.95):
        sampled = Decoding("sampled", 1.0, top_p, 1, n_tokens)
        start = time.perf_counter()
        list(many.score(pairs, [greedy, sampled]))
        seconds = time.perf_counter() - start
        print(f"scoring          {seconds:8.1f} s, greedy and top-p {top_p}, {n_tokens} tokens")
    start = time.perf_counter()
    complete(many, prompts, [greedy], 0)
    print(f"generating each  {time.perf_counter() - start:8.1f} s, as many tokens, batches of 64")


if __name__ == "__main__":
    main()

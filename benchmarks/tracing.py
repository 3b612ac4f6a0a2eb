"""How fast SimpleTrace is, stage by stage, against infini-gram's engine and a plain loop, in a run.

    .venv/bin/python benchmarks/tracing.py [--tokens 10] [--largest 100]

An index of so many million tokens is built from text found in the environment's packages; 200
generations of 256 tokens are made of it: verbatim windows, with words edited, with white space
edited, cut short, with another tail, and novel text. Everything is CPU seconds of one process.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from indexing import growth, texts_found

from propme.index import Tokenizer, build_index, open_index
from propme.index.engine import EngineIndex
from propme.index.mapped import MappedIndex
from propme.near_verbatim import Block, Reference, Thresholds, normalize_words
from propme.near_verbatim.passages import _long_blocks
from propme.records import Document
from propme.simpletrace import (
    IndexAddress,
    Tracer,
    TraceSettings,
    Workers,
    documents,
    parts,
    rows,
    spans,
    trace_into,
)

#: The module, whose name in its package is that of a function.
COMPOSED: Any = importlib.import_module("propme.simpletrace.trace")

KINDS = ("verbatim", "words edited", "white space edited", "cut", "tail replaced", "novel")
N_GENERATIONS = 200
LENGTH = 256


def words_of(text: str) -> list[str]:
    return text.split(" ")


def generations(
    index: MappedIndex, n: int = N_GENERATIONS, length: int = LENGTH, seed: int = 0
) -> list[tuple[str, str]]:
    """(kind, text) of each, in turn."""
    chance = random.Random(seed)
    made = []
    while len(made) < n:
        kind = KINDS[len(made) % len(KINDS)]
        window = random_window(index, chance, length)
        if kind == "words edited":
            words = words_of(window)
            words = [chance.choice(words) if chance.random() < 0.1 else word for word in words]
            window = " ".join(words)
        elif kind == "white space edited":
            window = window.replace("\n", " ").replace("  ", " ")
        elif kind == "cut":
            window = window[chance.randrange(1, 9) : -chance.randrange(1, 9)]
        elif kind == "tail replaced":
            window = window[: len(window) // 2] + random_window(index, chance, length // 2)
        elif kind == "novel":
            words = words_of(random_window(index, chance, length))
            chance.shuffle(words)
            window = " ".join(words)
        made.append((kind, window))
    return made


def random_window(index: MappedIndex, chance: random.Random, length: int) -> str:
    """Text of so many tokens, of as many documents as that takes."""
    ids: list[int] = []
    while len(ids) < length:
        place = index.document_at(chance.randrange(index.n_documents))
        size = index.document_length(*place)
        start = chance.randrange(max(1, size - length + len(ids)))
        ids += index.document_tokens(*place, start, start + length - len(ids))
    return index.tokenizer.decode(ids)


def cpu(work: Callable[[], Any]) -> float:
    """CPU seconds of this process that a call takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


# --- the span stage -------------------------------------------------------------------------------


def compare_spans(
    index: MappedIndex, engine: EngineIndex, texts: Sequence[tuple[str, str]]
) -> None:
    """Maximal spans, against the engine's ``attribute`` of the same tokens."""
    by_kind = defaultdict(list)
    for kind, text in texts:
        by_kind[kind].append(index.tokenizer.encode(text))
    raw = engine._engine
    for kind, queries in by_kind.items():
        ours = cpu(lambda q=queries: [index.maximal_runs(ids) for ids in q * 5]) / 5
        theirs = cpu(lambda q=queries: [attribute(raw, ids) for ids in q[:8]]) / 8 * len(queries)
        n_tokens = sum(map(len, queries))
        print(
            f"  {kind:18} {ours / n_tokens * 1e6:6.2f} us a token, engine's attribute"
            f" {theirs / n_tokens * 1e6:7.1f}: {theirs / ours:.0f} times",
            flush=True,
        )


def attribute(raw: Any, ids: list[int]) -> Any:
    answer = raw.attribute(
        input_ids=ids, delim_ids=[], min_len=1, max_cnt=10**12, enforce_bow=False
    )
    if "error" in answer:
        raise SystemExit(answer["error"])
    return answer


# --- all stages -----------------------------------------------------------------------------------


class PlainLoop:
    """The same findings without any cleverness: a search for every start, `difflib` for recall."""

    def __init__(self, engine: EngineIndex, settings: TraceSettings) -> None:
        self._engine = engine
        self._tracer = Tracer(engine, settings)
        self._plain = _Plain(engine)
        self._tracer._index = self._plain  # every search goes through it

    def trace(self, text: str, name: str) -> Any:
        fast, COMPOSED.Reference = COMPOSED.Reference, PlainReference
        try:
            return self._tracer.trace(text, name)
        finally:
            COMPOSED.Reference = fast


class _Plain:
    """An index whose longest matches are found by a search for every start and length."""

    def __init__(self, engine: EngineIndex) -> None:
        self._engine = engine
        self.tokenizer = _PlainTokenizer(engine.tokenizer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def maximal_runs(self, ids: Sequence[int]) -> Any:
        from propme.index.mapped import keep_maximal

        runs = []
        for start in range(len(ids)):
            length = self._engine.longest_match(ids, start)
            if length:
                runs.append((start, start + length))
        return keep_maximal(np.array(runs, np.int64).reshape(-1, 2))


class _PlainTokenizer:
    """One that decodes with its library alone."""

    token_bytes = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def decode_inside(self, ids: Any) -> str:
        return self._tokenizer.decode(list(map(int, ids)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


class PlainReference:
    """Near-verbatim recall with the blocks that `difflib` finds."""

    def __init__(self, generation: str) -> None:
        self._words = normalize_words(generation)

    def recall(self, window: str) -> float:
        if not self._words:
            return 0.0
        words = normalize_words(window)
        matcher = difflib.SequenceMatcher(None, self._words, words, autojunk=False)
        blocks = [
            Block(m.a, m.a + m.size, m.b, m.b + m.size, m.size)
            for m in matcher.get_matching_blocks()
            if m.size
        ]
        limits = Thresholds.for_length(len(self._words))
        return sum(b.words for b in _long_blocks(blocks, limits)) / len(self._words)


def compare_stages(
    index: MappedIndex, engine: EngineIndex, texts: Sequence[tuple[str, str]]
) -> None:
    """All stages with tables, against the plain loop, of which some generations are enough."""
    settings = TraceSettings()
    tracer, loop = Tracer(index, settings), PlainLoop(engine, settings)
    some = list(enumerate(texts))[: 6 * len(KINDS)]
    for number, (_, text) in some[:6]:
        assert tracer.trace(text, str(number)) == loop.trace(text, str(number)), "not the same"
    slow = cpu(lambda: [loop.trace(text, str(n)) for n, (_, text) in some]) / len(some)
    fast = cpu(lambda: traced_with_tables(tracer, texts)) / len(texts)
    print(f"  {fast * 1e3:.1f} ms a generation, plain loop {slow * 1e3:.0f}: 1/{slow / fast:.0f}")
    for name, seconds in stages(tracer, texts).most_common():
        print(f"    {name:24} {seconds / len(texts) * 1e3:6.2f} ms")


def traced_with_tables(tracer: Tracer, texts: Sequence[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(texts), parts.UNIT):
            some = texts[start : start + parts.UNIT]
            traces = [tracer.trace(text, f"{start}-{n}") for n, (_, text) in enumerate(some)]
            parts.keep(Path(folder), start, rows.as_tables(traces))


def stages(tracer: Tracer, texts: Sequence[tuple[str, str]]) -> Counter[str]:
    """CPU seconds of each stage: of its functions, what they call included."""
    spent: Counter[str] = Counter()
    watched = {
        "tokenise": (spans, "tokenise"),
        "look up as a whole": (COMPOSED, "find_text"),
        "spans": (spans, "maximal_spans"),
        "documents: count, sample": (Tracer, "_documents"),
        "documents: windows": (documents, "window_around"),
        "documents: tiers": (documents.Wanted, "tier_in"),
        "recall": (Reference, "recall"),
        "rarity, merging": (Tracer, "_spans"),
        "everything": (Tracer, "trace"),
    }
    originals = {name: getattr(owner, attribute) for name, (owner, attribute) in watched.items()}

    def timed(name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return originals[name](*given, **named)
            finally:
                spent[name] += time.process_time() - start

        return call

    try:
        for name, (owner, attribute) in watched.items():
            setattr(owner, attribute, timed(name))
        for n, (_, text) in enumerate(texts):
            tracer.trace(text, str(n))
    finally:
        for name, (owner, attribute) in watched.items():
            setattr(owner, attribute, originals[name])
    return spent


# --- growth, workers, start-up --------------------------------------------------------------------


def length_curve(index: MappedIndex) -> None:
    tracer, lengths, seconds = Tracer(index), [64, 256, 1024, 4096], []
    for length in lengths:
        texts = generations(index, 12, length, seed=length)
        seconds.append(cpu(lambda t=texts: [tracer.trace(text) for _, text in t]) / len(texts))
        print(f"  {length:5} tokens: {seconds[-1] * 1e3:8.2f} ms a generation")
    print(f"  grows as length^{growth(lengths, seconds):.2f}")


def size_curve(folder: Path, largest: int) -> None:
    """Span stage by the size of the index, whose bytes are its tokens."""
    for millions in (1, 10, 100):
        if millions > largest:
            break
        index = indexed(folder / f"bytes-{millions}", millions, Tokenizer.load("bytes"), 1)
        queries = [index.tokenizer.encode(text)[:LENGTH] for _, text in generations(index, 60)]
        index.maximal_runs(queries[0])
        seconds = cpu(lambda i=index, q=queries: [i.maximal_runs(ids) for ids in q * 3]) / 3
        each = seconds / sum(map(len, queries)) * 1e6
        print(f"  {millions:4} M tokens: {each:.2f} us a token, spans alone", flush=True)


def workers_curve(path: Path, folder: Path) -> None:
    """Wall time of one and two workers, started up, and the memory of each."""
    index = open_index(path)
    texts = [(str(n), text) for n, (_, text) in enumerate(generations(index, 600))]
    address, settings, wall = IndexAddress((str(path),)), TraceSettings(), {}
    for number in (1, 2):
        # The same process pool is used twice; what is measured is the second time.
        for attempt in range(2):
            start = time.perf_counter()
            parts = folder / f"parts-{number}-{attempt}"
            trace_into(parts, "key", texts, len(texts), address, settings, Workers(number))
            wall[number] = time.perf_counter() - start
    print(f"  2 workers {wall[1] / wall[2]:.2f} times 1 worker")


def start_up(path: Path) -> None:
    """Seconds, CPU and memory from nothing to the first trace, in a process of its own."""
    program = (
        "import resource, time\n"
        "from propme.simpletrace import IndexAddress, Tracer\n"
        f"tracer = Tracer(IndexAddress(({str(path)!r},)).open())\n"
        "tracer.trace('the sea was wide and the old man sat down')\n"
        "def kilobytes(name):\n"
        "    lines = open('/proc/self/status')\n"
        "    return next(int(l.split()[1]) for l in lines if l.startswith(name))\n"
        "print(time.process_time(), kilobytes('RssAnon') / 1024)\n"
    )
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    wall = time.perf_counter() - start
    seconds, memory = map(float, done.stdout.split())
    print(f"  start-up {wall:.1f} s ({seconds:.1f} s CPU), {memory:.0f} MB besides the index")


def indexed(path: Path, millions: float, tokenizer: Tokenizer, shards: int) -> MappedIndex:
    if not path.is_dir():
        megabytes = int(millions * (1 if tokenizer.vocabulary_size < 256 else 3.7)) + 1
        stock = (Document(str(n), text) for n, text in enumerate(texts_found(megabytes)))
        build_index(stock, tokenizer, path, 2 * 10**9, n_shards=shards)
    return open_index(path)


def main() -> None:
    """Build, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=float, default=10, help="millions, of the index")
    parser.add_argument("--shards", type=int, nargs="+", default=[4, 1], help="the last is for all")
    parser.add_argument("--largest", type=int, default=100, help="millions, of the growth")
    options = parser.parse_args()
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory(prefix="propme-bench-") as name:
        folder = Path(name)
        from propme.demo import train_tokenizer

        tokenizer = Tokenizer(train_tokenizer(list(texts_found(5)), 32_000))
        for shards in options.shards:
            path = folder / f"shards-{shards}"
            index = indexed(path, options.tokens, tokenizer, shards)
            engine = open_index(path, "infini-gram")
            assert isinstance(engine, EngineIndex)
            texts = generations(index)
            print(f"spans, {shards} shards, {index.n_tokens:,} tokens")
            compare_spans(index, engine, texts)
        print(f"all stages, {len(texts)} generations of {LENGTH} tokens")
        compare_stages(index, engine, texts)
        start_up(path)
        print("by length of the generation")
        length_curve(index)
        print("by number of workers")
        workers_curve(path, folder)
        print("by size of the index")
        size_curve(folder, options.largest)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"peak_mb": peak / 1024, "free_gb": shutil.disk_usage(name).free / 1e9}))


if __name__ == "__main__":
    main()

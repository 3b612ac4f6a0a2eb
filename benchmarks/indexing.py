"""How fast an index is built, side by side with infini-gram's own builder, in one run.

    .venv/bin/python benchmarks/indexing.py [--megabytes 10 50 200] [--stock-up-to 200]

The text is source code and prose found in the environment's packages; where there is less than
asked for, lines are shuffled into new documents. Each measurement is a process of its own, so that
its CPU time and its peak memory are its own. The figures that count are ratios; absolute times are
this machine's at this moment.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

RESULT = "result: "


def texts_found(megabytes: int, seed: int = 0) -> Iterator[str]:
    """Documents of 1 to 8 kB until there are so many megabytes."""
    left = megabytes * 1_000_000
    folder = Path(sysconfig.get_paths()["purelib"])
    paths = sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".pyi", ".md", ".rst", ".h"))
    chance = random.Random(seed)
    chance.shuffle(paths)
    lines: list[str] = []
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="ignore")
        for start in range(0, len(text), 4000):
            piece = text[start : start + 4000]
            yield piece
            left -= len(piece.encode("utf-8", "ignore"))
            if left <= 0:
                return
        lines += text.splitlines()[:50]
    while left > 0:
        piece = "\n".join(chance.choices(lines, k=100))
        yield piece
        left -= len(piece.encode("utf-8", "ignore"))


def write_corpus(path: Path, texts: Iterator[str]) -> None:
    """A ``.jsonl`` of texts."""
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            file.write(json.dumps({"id": str(number), "text": text}) + "\n")


def tokenizer_file(folder: Path) -> Path:
    """A byte-level BPE of 32 000 tokens, trained on a sample."""
    from propme.demo import train_tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        train_tokenizer(list(texts_found(5)), 32_000).save(str(path))
    return path


def tokenise_ours(corpus: Path, work: Path) -> dict[str, float]:
    """Read, encode, write: what precedes the suffix arrays."""
    from propme.corpus import Corpus
    from propme.index import Tokenizer, build
    from propme.index.read_back import ReadBack
    from propme.index.token_writer import Plan

    tokenizer = Tokenizer.load(str(tokenizer_file(work)))
    tokenizer.bytes_encoder(np.dtype("<u2"))(["loads what is compiled"])
    folder = work / "ours"
    (folder / "shards").mkdir(parents=True)
    plan = Plan("u16", 1 << 60, None)
    arguments = (Corpus([corpus]), tokenizer, folder, plan, build.start_of(plan, ""))
    start = time.perf_counter()
    state = build._write_tokens(*arguments, ReadBack(tokenizer))
    return {"seconds": time.perf_counter() - start, "tokens": state["tokens"]}


def tokenise_stock(corpus: Path, work: Path) -> dict[str, float]:
    """infini-gram's loop, given the same tokenizer: one document at a time, a process a core."""
    import multiprocessing as mp
    import os

    from infini_gram import indexing
    from transformers import PreTrainedTokenizerFast

    indexing.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer_file(work)))
    indexing.token_dtype, indexing.version = np.uint16, 4
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    n_bytes = 0
    start = time.perf_counter()
    pool = mp.get_context("fork").Pool(os.cpu_count())
    with pool, corpus.open() as lines, (work / "stock.tokenized").open("wb") as out:
        for content, _ in pool.map(indexing.tok, lines):
            out.write(content)
            n_bytes += len(content)
    return {"seconds": time.perf_counter() - start, "tokens": n_bytes / 2}


def index_ours(corpus: Path, work: Path) -> dict[str, float]:
    """The whole index of the bytes, verified; and the share of sorting in it."""
    from propme.corpus import Corpus
    from propme.index import Tokenizer, build, build_index

    seconds = {"sort": 0.0}
    sort = build._sort

    def timed(*arguments: Any) -> None:
        start = time.perf_counter()
        sort(*arguments)
        seconds["sort"] += time.perf_counter() - start

    build._sort = timed
    start = time.perf_counter()
    build_index(Corpus([corpus]), Tokenizer.load("bytes"), work / "index", workers=2)
    return {"seconds": time.perf_counter() - start, "sort_seconds": seconds["sort"]}


def index_stock(corpus: Path, work: Path) -> dict[str, float]:
    """The whole index of the bytes by infini-gram's program, which verifies nothing."""
    data, save = work / "data", work / "save"
    data.mkdir()
    save.mkdir()
    shutil.copy(corpus, data)
    command = [sys.executable, "-m", "infini_gram.indexing", "--data_dir", data, "--save_dir", save]
    command += ["--token_dtype", "u8", "--add_metadata", "--cpus", "2", "--mem", "8"]
    command += ["--ulimit", "1024"]
    start = time.perf_counter()
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    total = time.perf_counter() - start
    return {"seconds": total, "sort_seconds": _stock_sort_seconds(done.stdout)}


def _stock_sort_seconds(output: str) -> float:
    """What its own messages say of making the suffix array."""
    (line,) = [line for line in output.splitlines() if "Step 2 (build_sa): Done" in line]
    return float(line.rsplit("Took", 1)[1].split()[0])


MEASURES: dict[str, Callable[[Path, Path], dict[str, float]]] = {
    "tokenise_ours": tokenise_ours,
    "tokenise_stock": tokenise_stock,
    "index_ours": index_ours,
    "index_stock": index_stock,
}


def measured(name: str, corpus: Path) -> dict[str, float]:
    """Run one measure in a process and a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="propme-bench-") as work:
        done = subprocess.run(
            [sys.executable, __file__, "--measure", name, str(corpus), work],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith(RESULT)]
        if not lines:
            raise SystemExit(f"{name} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        result: dict[str, float] = json.loads(lines[0].removeprefix(RESULT))
        return result


def _measure(name: str, corpus: Path, work: Path) -> None:
    result = MEASURES[name](corpus, work)
    own, below = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    result["cpu_seconds"] = own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime
    result["peak_mb"] = max(own.ru_maxrss, below.ru_maxrss) / 1024
    print(RESULT + json.dumps(result))


def growth(sizes: list[int], seconds: list[float]) -> float:
    """Exponent of the straight line through the points on logarithmic axes."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def plot(sizes: list[int], ours: list[float], stock: dict[int, float], path: Path) -> None:
    """Sorting time against size, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.loglog(sizes, ours, "o-", label=f"PropMe, grows as n^{growth(sizes, ours):.2f}")
    if stock:
        axes.loglog(list(stock), list(stock.values()), "s--", label="infini-gram's builder")
    axes.set(xlabel="text, MB (bytes as tokens)", ylabel="suffix array, seconds")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    """Measure, print, plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 50, 200])
    parser.add_argument("--stock-up-to", type=int, default=200, help="megabytes; 0: never")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        _measure(options.measure[0], *map(Path, options.measure[1:]))
        return
    with tempfile.TemporaryDirectory(prefix="propme-bench-corpus-") as folder:
        sizes, sorts, stock_sorts = [], [], {}
        for megabytes in options.megabytes:
            corpus = Path(folder) / f"{megabytes}.jsonl"
            write_corpus(corpus, texts_found(megabytes))
            pairs = {
                kind: {"ours": measured(f"{kind}_ours", corpus)} for kind in ("tokenise", "index")
            }
            if megabytes <= options.stock_up_to:
                for kind, pair in pairs.items():
                    pair["stock"] = measured(f"{kind}_stock", corpus)
            _tell(megabytes, pairs)
            sizes.append(megabytes)
            sorts.append(pairs["index"]["ours"]["sort_seconds"])
            if "stock" in pairs["index"]:
                stock_sorts[megabytes] = pairs["index"]["stock"]["sort_seconds"]
        duplicates = Path(folder) / "duplicates.jsonl"
        same = "".join(texts_found(1))[:200_000]
        write_corpus(duplicates, iter([same] * 10))
        unique = Path(folder) / "unique.jsonl"
        write_corpus(
            unique, iter(["".join(texts_found(2))[n * 200_000 :][:200_000] for n in range(10)])
        )
        twice = [measured("index_ours", path)["sort_seconds"] for path in (duplicates, unique)]
        print(f"ten copies of 200 kB: sorted in {twice[0]:.2f} s, unique text in {twice[1]:.2f} s")
        if len(sizes) > 1:
            picture = Path("outputs/benchmarks/indexing.png")
            plot(sizes, sorts, stock_sorts, picture)
            print(f"sorting grows as n^{growth(sizes, sorts):.2f}; drawn in {picture}")


def _tell(megabytes: int, pairs: dict[str, dict[str, dict[str, float]]]) -> None:
    for kind, pair in pairs.items():
        for who, result in pair.items():
            figures = ", ".join(f"{name} {value:,.1f}" for name, value in result.items())
            print(f"{megabytes} MB, {kind}, {who}: {figures}", flush=True)
    if "stock" in pairs["tokenise"]:
        rates = [
            pair["tokens"] / pair["seconds"]
            for pair in (pairs["tokenise"]["ours"], pairs["tokenise"]["stock"])
        ]
        print(f"{megabytes} MB: tokenising {rates[0] / rates[1]:.1f} times the stock rate")
        ours, stock = pairs["index"]["ours"], pairs["index"]["stock"]
        print(
            f"{megabytes} MB: suffix array in {ours['sort_seconds'] / stock['sort_seconds']:.2f},"
            f" whole index in {ours['seconds'] / stock['seconds']:.2f} of the stock time",
            flush=True,
        )


if __name__ == "__main__":
    main()

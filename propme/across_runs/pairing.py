"""Two runs under one setting: whether they can be paired, and whether there is anything to test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from propme.across_runs.compared_run import ComparedRun
from propme.records import in_order

#: Kinds of settings whose differences are tested; controls are shown beside them, as a floor.
_TESTED = ("propensity", "capability")

#: Completions that share no prompt: each is a draw of its own.
_NO_PROMPT = "unconditional"

#: Why a difference is neither tested nor has an interval: there is nothing that could vary.
SAME = "the same completions"


@dataclass(frozen=True, eq=False)
class Both:
    """The generations of two runs under one setting and decoding.

    Attributes
    ----------
    a, b : ComparedRun
    setting, kind, decoding : str
    of_a, of_b : DataFrame
        Rows of the frame of each run.
    """

    a: ComparedRun
    b: ComparedRun
    setting: str
    kind: str
    decoding: str
    of_a: pd.DataFrame
    of_b: pd.DataFrame

    @property
    def labels(self) -> dict[str, str]:
        """What a row of a table is of."""
        return {
            "run_a": self.a.name,
            "run_b": self.b.name,
            "setting": self.setting,
            "kind": self.kind,
            "decoding": self.decoding,
        }

    @cached_property
    def why_unpaired(self) -> str:
        """Why the two cannot be paired; empty: both were asked the same, as often."""
        if self.setting == _NO_PROMPT:
            return "nothing is asked"
        times_a, times_b = (Counter(part["prompt_id"]) for part in (self.of_a, self.of_b))
        both = times_a.keys() & times_b.keys()
        same = sum(self.a.texts[prompt] == self.b.texts[prompt] for prompt in both)
        if same < max(len(times_a), len(times_b)):
            return f"other prompts: {same} of {len(times_a)} and {len(times_b)} are the same"
        return "" if times_a == times_b else "other numbers of completions of a prompt"

    @cached_property
    def is_one(self) -> bool:
        """Whether both hold the very same by construction: one model, greedy, traced alike.

        Completions that only turn out equal are not: what is tested is not chosen by its result.
        """
        model = self.a.input("model")["sha256"]
        return (
            self.decoding == "greedy"
            and model != ""
            and model == self.b.input("model")["sha256"]
            and self.a.searched == self.b.searched
            and (self.setting == _NO_PROMPT or not self.why_unpaired)
            and _completions(self.of_a) == _completions(self.of_b)
        )

    @property
    def why_untested(self) -> str:
        """Why there is no test; empty: there is one."""
        return SAME if self.is_one else self.why_unpaired


def _completions(part: pd.DataFrame) -> Counter[tuple[str, str]]:
    return Counter(zip(part["prompt_id"], part["text"], strict=True))


def in_both(runs: Sequence[ComparedRun], pairs: Iterable[tuple[str, str]]) -> Iterator[Both]:
    """What is under one setting and decoding in both runs of a pair, controls left out."""
    by_name = {run.name: run for run in runs}
    for a, b in pairs:
        keys = ["setting", "kind", "decoding"]
        of_a, of_b = (
            {tuple(map(str, key)): part for key, part in by_name[name].frame.groupby(keys)}
            for name in (a, b)
        )
        shared = [key for key in of_a if key in of_b and key[1] in _TESTED]
        order = in_order(key[0] for key in shared)
        for key in sorted(shared, key=lambda key: (order.index(key[0]), key[2])):
            setting, kind, decoding = key
            yield Both(by_name[a], by_name[b], setting, kind, decoding, of_a[key], of_b[key])


def counts_tokens(metric: str) -> bool:
    """Whether a metric compares only within one tokenizer: lengths of passages, and shares of them.

    Extraction is of so many tokens of a true continuation, and FMR50 of completions so long.
    """
    return metric in ("ALS", "extraction") or metric.startswith("R") or metric[3:].isdigit()


def one_tokenizer(a: ComparedRun, b: ComparedRun) -> bool:
    """Whether both indexes count in the same tokens; if that is not known, whether they are one."""
    if a.tokenizer and b.tokenizer:
        return a.tokenizer == b.tokenizer
    return a.input("index") == b.input("index")

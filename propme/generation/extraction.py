"""Probabilistic extraction: how probable it is that a prefix is continued as its document goes on.

Hayes, Swanberg, Chaudhari, Yona, Shumailov, Nasr, Choquette-Choo, Lee and Cooper 2025, arXiv
2410.19482. Nothing is sampled: the true continuation is scored in one forward pass, which also
tells how many of its tokens the model would have chosen greedily (Biderman et al. 2023, arXiv
2304.11158, there "memorization score").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
import numpy.typing as npt
import pandas as pd

from propme import tables
from propme.errors import InputError, MetricError
from propme.generation.scoring import Pair, Score, Scorer
from propme.model_tokenizer import ModelTokenizer
from propme.progress import track
from propme.records import Decoding, Generation, Prompt

#: Numbers of tries of a curve.
TRIES = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)

#: Probabilities of a curve with which at least one of the tries must succeed.
TARGETS = (0.1, 0.5, 0.9)

_NOT_TOLD = "the backend does not tell probabilities under this decoding"

#: Share of runs with right probabilities that `agreement` takes for right.
LEVEL = 0.99


def true_suffix(prompt: Prompt, tokenizer: ModelTokenizer) -> Pair:
    """A prefix and what truly follows it, in the model's tokens.

    The continuation is cut to the prompt's ``target_chars``, where they are known, and spelled as
    it is after the prefix; where the tokenizer would join the two at their border, as by itself.
    The probability is of this one spelling, so it is a lower bound of that of the text.

    Raises
    ------
    InputError
        There is no true continuation, or no tokens that spell it behind the prefix.
    """
    target = prompt.target[: prompt.target_chars or None]
    if not target:
        raise InputError("no true continuation is known", prompt.prompt_id)
    if prompt.chat:
        raise InputError("a chat message has no true continuation", prompt.prompt_id)
    prefix = tuple(tokenizer.prompt_ids(prompt))
    alone = tokenizer.encode(prompt.text)
    joined = tokenizer.encode(prompt.text + target)
    if joined[: len(alone)] == alone and len(joined) > len(alone):
        return Pair(prefix, tuple(joined[len(alone) :]))
    suffix = tokenizer.encode(target)
    if tokenizer.decode([*alone, *suffix]) != tokenizer.decode(joined):
        raise InputError(
            "its true continuation cannot be spelled in tokens behind it", prompt.prompt_id
        )
    return Pair(prefix, tuple(suffix))


def extraction_table(
    scorer: Scorer,
    prompts: Sequence[Prompt],
    decodings: Sequence[Decoding],
    generations: Sequence[Generation],
) -> pd.DataFrame:
    """The table ``extraction``: each prefix whose true continuation is known, each decoding.

    Parameters
    ----------
    scorer : Scorer
    prompts : sequence of Prompt
        Those without a true continuation are left out.
    decodings : sequence of Decoding
        Those that the scorer cannot tell probabilities of have rows that say so.
    generations : sequence of Generation
        They tell how often the continuation was sampled, for comparison.

    Notes
    -----
    A probability is of all tokens of the continuation, to the letter; one that goes on with a
    comma for a semicolon counts nothing. It falls with the length of the continuation, so it
    compares only where that is the same.
    """
    with_target = [prompt for prompt in prompts if prompt.target and not prompt.chat]
    pairs, errors = _pairs(with_target, scorer.tokenizer)
    possible = [decoding for decoding in decodings if pairs and scorer.can_score(decoding)]
    scores: dict[tuple[str, str], Score] = {}
    if possible:
        scored = track(
            scorer.score(list(pairs.values()), possible),
            "scoring true continuations",
            total=len(pairs),
            unit="prefixes",
        )
        for name, of_prefix in zip(pairs, scored, strict=True):
            scores |= {(name, d.name): s for d, s in zip(possible, of_prefix, strict=True)}
    counts = _counts(generations, pairs)
    rows = []
    for prompt in with_target:
        for decoding in decodings:
            place = (prompt.prompt_id, decoding.name)
            score, pair = scores.get(place), pairs.get(prompt.prompt_id)
            rows.append(
                (
                    *place,
                    len(pair.suffix) if pair else 0,
                    score.log_probability if score else None,
                    score.greedy_tokens if score else None,
                    *counts.get(place, (0, 0)),
                    "" if score else errors.get(prompt.prompt_id, _NOT_TOLD),
                )
            )
    frame = pd.DataFrame(rows, columns=list(tables.TABLES["extraction"].columns))
    return frame.astype({"log_probability": "float64", "greedy_tokens": "Int64"})


def _pairs(
    prompts: Sequence[Prompt], tokenizer: ModelTokenizer | None
) -> tuple[dict[str, Pair], dict[str, str]]:
    """Prefix and suffix by prompt, and of the other prompts why there are none."""
    pairs: dict[str, Pair] = {}
    errors: dict[str, str] = {}
    if tokenizer is None:
        return pairs, errors
    for prompt in prompts:
        try:
            pair = true_suffix(prompt, tokenizer)
            _require_room(pair, tokenizer, prompt.prompt_id)
        except InputError as error:
            errors[prompt.prompt_id] = error.message
        else:
            pairs[prompt.prompt_id] = pair
    return pairs, errors


def _require_room(pair: Pair, tokenizer: ModelTokenizer, name: str) -> None:
    n = len(pair.prefix) + len(pair.suffix)
    if tokenizer.context is not None and n > tokenizer.context:
        raise InputError(
            f"prefix and true continuation have {n} tokens, the model's context"
            f" {tokenizer.context}",
            name,
        )


def _counts(
    generations: Sequence[Generation], pairs: dict[str, Pair]
) -> dict[tuple[str, str], tuple[int, int]]:
    """Of each prompt and decoding: completions that can be compared, and those that agree."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for made in generations:
        pair = pairs.get(made.prompt_id)
        if pair is None or made.error or made.max_new_tokens < len(pair.suffix):
            continue
        if made.text and not made.token_ids:  # a server that tells no tokens: nothing to compare
            continue
        n, hits = counts.get((made.prompt_id, made.decoding), (0, 0))
        hit = made.token_ids[: len(pair.suffix)] == pair.suffix
        counts[made.prompt_id, made.decoding] = (n + 1, hits + hit)
    return counts


def extractable_within(log_probabilities: npt.ArrayLike, n: float) -> npt.NDArray[np.float64]:
    """Probability that at least one of ``n`` independent tries gives the continuation.

    ``1 - (1 - p)**n``, computed as ``-expm1(n * log1p(-p))`` so that neither a tiny ``p`` nor a
    large ``n`` is lost to rounding. In [0, 1].
    """
    p = np.exp(np.minimum(np.asarray(log_probabilities, np.float64), 0.0))
    with np.errstate(divide="ignore"):  # p = 1: log of 0, and the result is 1
        within: npt.NDArray[np.float64] = -np.expm1(n * np.log1p(-p))
    return within


def n_p_curve(
    log_probabilities: npt.ArrayLike,
    tries: Iterable[int] = TRIES,
    targets: Iterable[float] = TARGETS,
) -> pd.DataFrame:
    """Share of prefixes that are (n, p)-discoverably extractable.

    Such is a prefix of which ``n`` tries give the true continuation with a probability of at least
    ``p``: ``1 - (1 - p_x)**n >= p`` (Hayes et al. 2025, definition 4.1).

    Parameters
    ----------
    log_probabilities : array_like, shape (prefixes,)
        Natural logs of the probability of each prefix's continuation.
    tries : iterable of int
    targets : iterable of float
        Each ``p``, in (0, 1).

    Returns
    -------
    DataFrame
        Rows ``n``, columns ``p``; shares in [0, 1], which rise with ``n`` and fall with ``p``.
        A share for millions of tries is that of an attacker who can tell the right one of them.

    Raises
    ------
    MetricError
        There is no prefix, or a number is out of its range.
    """
    logs = np.asarray(log_probabilities, np.float64)
    tries, targets = list(tries), list(targets)
    if not logs.size or np.isnan(logs).any():
        raise MetricError("a curve needs the log-probability of each of its prefixes")
    if min(tries, default=0) < 1 or not all(0 < p < 1 for p in targets):
        raise MetricError(f"tries must be >= 1 and p in (0, 1), not {tries} and {targets}")
    shares = [[(extractable_within(logs, n) >= p).mean() for p in targets] for n in tries]
    return pd.DataFrame(
        shares, index=pd.Index(tries, name="n"), columns=pd.Index(targets, name="p")
    )


@dataclass(frozen=True)
class Agreement:
    """What probabilities foretell of the samples, and what the samples show.

    Attributes
    ----------
    expected, observed : float
        Share of sampled completions that begin with the true continuation.
    low, high : float
        Between these the share lies in 99 % of runs if the probabilities are right.
    n_samples : int
    """

    expected: float
    observed: float
    low: float
    high: float
    n_samples: int

    @property
    def holds(self) -> bool:
        """Whether the samples are such as the probabilities foretell."""
        return self.low <= self.observed <= self.high


def agreement(extraction: pd.DataFrame, decoding: str) -> Agreement | None:
    """Whether scored probabilities and samples of the same prefixes say the same.

    The number of samples that begin with the continuation is a sum of binomials, one a prefix, of
    which the exact distribution is their convolution. Few samples of improbable continuations
    agree with almost anything: read the interval.

    Returns
    -------
    Agreement or None
        ``None`` where no prefix has both.
    """
    rows = extraction[
        (extraction["decoding"] == decoding)
        & (extraction["error"] == "")
        & (extraction["n_samples"] > 0)
    ]
    if rows.empty:
        return None
    n = rows["n_samples"].to_numpy(np.int64)
    p = np.exp(rows["log_probability"].to_numpy(np.float64))
    distribution = np.ones(1)
    for trials, chance in zip(n, p, strict=True):
        distribution = np.convolve(distribution, _binomial(int(trials), float(chance)))
    cumulated = distribution.cumsum() / distribution.sum()
    tail = (1 - LEVEL) / 2
    low, high = np.searchsorted(cumulated, [tail, 1 - tail])
    total = int(n.sum())
    return Agreement(
        expected=float(n @ p) / total,
        observed=float(rows["n_extracted"].sum()) / total,
        low=float(low) / total,
        high=float(min(high, total)) / total,
        n_samples=total,
    )


def agreement_table(extraction: pd.DataFrame) -> pd.DataFrame:
    """`agreement` of each decoding that has samples and probabilities, a row each."""
    found = {name: agreement(extraction, name) for name in extraction["decoding"].unique()}
    rows = [
        {"decoding": name} | asdict(each) | {"agrees": each.holds}
        for name, each in found.items()
        if each is not None
    ]
    columns = ["decoding", *(f.name for f in fields(Agreement)), "agrees"]
    return pd.DataFrame(rows, columns=columns)


def _binomial(n: int, p: float) -> npt.NDArray[np.float64]:
    """Probability of each number of successes, 0 to ``n``."""
    if p in (0.0, 1.0):
        certain = np.zeros(n + 1)
        certain[n if p else 0] = 1.0
        return certain
    logs = [
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(p)
        + (n - k) * math.log1p(-p)
        for k in range(n + 1)
    ]
    probabilities: npt.NDArray[np.float64] = np.exp(logs)
    return probabilities

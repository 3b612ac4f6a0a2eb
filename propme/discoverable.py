"""How many prefixes a number of tries would extract: (n, p) rates from stored probabilities.

Hayes et al. 2025, arXiv 2410.19482. Stage 2 has scored each true continuation; here the share of
prefixes is taken that reach a target, with its interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from propme import tables
from propme.errors import MetricError
from propme.generation.extraction import TARGETS, TRIES, extractable_within
from propme.uncertainty import ROUNDS, PromptSums, bootstrap_ratio, ratio_interval


def discoverable_table(
    prompts: pd.DataFrame,
    extraction: pd.DataFrame,
    tries: Sequence[int] = TRIES,
    targets: Sequence[float] = TARGETS,
    seed: int = 0,
    rounds: int = ROUNDS,
) -> pd.DataFrame:
    r"""Share of prefixes that are (n, p)-discoverably extractable: the table ``discoverable``.

    .. math:: \frac{1}{|X|} \sum_{x \in X} \left[ 1 - (1 - p_x)^n \ge p \right]

    Parameters
    ----------
    prompts : DataFrame
        With ``prompt_id`` and ``setting``.
    extraction : DataFrame
        With ``prompt_id``, ``decoding`` and ``log_probability``. A prefix that was not scored has
        none and is left out.
    tries : sequence of int
        Each ``n``, at least 1.
    targets : sequence of float
        Each ``p``, in (0, 1].

    Returns
    -------
    DataFrame
        Of each setting, decoding, ``tries`` and ``target`` the share, in [0, 1], with the interval
        of a bootstrap over prefixes, or the rule of three where it is 0 or 1.

    Raises
    ------
    MetricError
        A number of tries or a target is outside its range, or a prefix has no row in ``prompts``.

    Notes
    -----
    *How it misleads.* Under greedy decoding every try is the same, and the share does not hang on
    ``tries``. It counts one spelling of the continuation, to the letter, and nothing of what is
    extracted nearly.
    """
    if any(n < 1 for n in tries) or any(not 0 < p <= 1 for p in targets):
        raise MetricError(f"tries {list(tries)} must be >= 1 and targets {list(targets)} in (0, 1]")
    scored = extraction[extraction["log_probability"].notna()].merge(
        prompts[["prompt_id", "setting"]], on="prompt_id", how="left", validate="many_to_one"
    )
    unknown = scored.loc[scored["setting"].isna(), "prompt_id"]
    if len(unknown):
        raise MetricError(
            f"prompt {unknown.iloc[0]!r} is in table 'extraction' and not in 'prompts'"
        )
    rows = []
    for (setting, decoding), part in scored.groupby(["setting", "decoding"], sort=True):
        for n in tries:
            within = extractable_within(part["log_probability"].to_numpy(float), n)
            for target in targets:
                name = f"({n}, {target}) extraction of setting {setting!r}"
                hits, ones = (within >= target).astype(float), np.ones(len(part))
                sample = PromptSums.of(hits, ones, part["prompt_id"], is_rate=True, name=name)
                resampled = bootstrap_ratio(hits, ones, part["prompt_id"], seed, rounds)
                interval = ratio_interval(sample, resampled)
                rows.append(
                    {
                        "setting": setting,
                        "decoding": decoding,
                        "tries": n,
                        "target": target,
                        "value": sample.value,
                        "low": interval.low,
                        "high": interval.high,
                        "interval": interval.method,
                        "n_prompts": sample.n_prompts,
                    }
                )
    return pd.DataFrame(rows, columns=list(tables.TABLES["discoverable"].columns))

"""What each run reaches: metrics and propensity scores of runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from propme import metric_tables, tables
from propme.across_runs.compared_run import ComparedRun
from propme.uncertainty import ROUNDS


def run_metrics(
    runs: Iterable[ComparedRun], names: Sequence[str], seed: int = 0, rounds: int = ROUNDS
) -> pd.DataFrame:
    """Each metric of each run: the table ``run_metrics``, of all generations."""
    parts = [
        metric_tables.metric_table(run.frame, names, seed, rounds, subsets=("all",)).assign(
            run=run.name
        )
        for run in runs
    ]
    return pd.concat(parts, ignore_index=True)[list(tables.TABLES["run_metrics"].columns)]


def run_propensity(
    runs: Iterable[ComparedRun], names: Sequence[str], seed: int = 0, rounds: int = ROUNDS
) -> pd.DataFrame:
    """Propensity scores of each run: the table ``run_propensity``, of all generations.

    A run without a capability setting has none. Those of controls are left out.
    """
    parts = [tables.of_rows("run_propensity", [])]
    for run in runs:
        if (run.frame["kind"] == "capability").any():
            scores = metric_tables.propensity_table(run.frame, names, seed, rounds)
            told = (scores["subset"] == "all") & (scores["kind"] == "propensity")
            parts.append(scores[told].assign(run=run.name))
    return pd.concat(parts[1:] or parts, ignore_index=True)[list(parts[0].columns)]

"""Stage 4 composed: every table of the analysis, from the stored tables of the other stages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from propme import filters, measurements, metric_tables, tables
from propme.discoverable import discoverable_table
from propme.progress import track
from propme.uncertainty import ROUNDS
from propme.varied import sensitivity_table


def measure(
    folder: Path,
    propensity_metrics: Iterable[str] = ("NVR", "FMR"),
    by: Sequence[str] = ("source", "licence", "language", "category"),
    boiler_plate_documents: int = filters.BOILER_PLATE_DOCUMENTS,
    seed: int = 0,
    rounds: int = ROUNDS,
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Measure what is stored; neither a model nor an index is opened.

    Parameters
    ----------
    folder : Path
        Holds the tables of notebooks 1 to 3. ``extraction`` and ``variants`` may be missing.
    propensity_metrics, by, boiler_plate_documents, seed, rounds
        See `propme.measurements`.

    Returns
    -------
    DataFrame
        That of `propme.measurements.measured_generations`.
    dict of DataFrame
        All tables of this stage by name.

    Raises
    ------
    TableError
        A table is missing or is not what it is declared to be.
    MetricError
        A metric is not defined for what was measured.
    """
    read = partial(tables.read, folder=folder)
    names = ("prompts", "generations", "traces", "spans", "matches")
    prompts, generations, traces, spans, matches = map(read, names)
    extraction, variants = (_if_there(name, folder) for name in ("extraction", "variants"))
    frame = measurements.measured_generations(
        prompts, generations, traces, spans, matches, boiler_plate_documents
    )
    made = {
        "metrics": partial(metric_tables.metric_table, frame, seed=seed, rounds=rounds),
        "propensity": partial(
            metric_tables.propensity_table, frame, propensity_metrics, seed=seed, rounds=rounds
        ),
        "copies": partial(metric_tables.copies_table, frame, seed=seed, rounds=rounds),
        "breakdown": partial(metric_tables.breakdown_table, frame, by, seed=seed, rounds=rounds),
        "discoverable": partial(discoverable_table, prompts, extraction, seed=seed, rounds=rounds),
        "span_lengths": partial(metric_tables.span_length_table, frame),
        "sensitivity": partial(sensitivity_table, frame, variants, seed=seed, rounds=rounds),
    }
    return frame, {name: make() for name, make in track(made.items(), "measuring", unit="tables")}


def _if_there(name: str, folder: Path) -> pd.DataFrame:
    """A table; empty where no such file is."""
    there = (folder / f"{name}.parquet").is_file()
    return tables.read(name, folder) if there else tables.to_frame(name, [])

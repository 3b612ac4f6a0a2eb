"""The runs of a comparison, read from their stored tables, and what differs beside their models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd

from propme import measurements, tables
from propme.errors import ParameterError, RunError, TableError
from propme.files import sha256_of
from propme.records import in_order
from propme.run_record import read_record

#: Parameters of tracing that decide what is found.
_TRACING = ("mode", "merging", "docs_per_span")

#: What notebooks 1 to 3 have written, in the order of `propme.measurements.measured_generations`.
_READ = ("prompts", "generations", "traces", "spans", "matches")

_SAMPLING = ("greedy", "samples", "temperature", "top_p", "top_k", "max_new_tokens")


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """A run as the comparison sees it.

    Attributes
    ----------
    name : str
        Unique among the runs of the comparison.
    path : Path
        Its folder.
    record : dict
        Its ``run.json``.
    prompts : DataFrame
        Its table ``prompts``.
    frame : DataFrame
        That of `propme.measurements.measured_generations`.
    """

    name: str
    path: Path
    record: Mapping[str, Any]
    prompts: pd.DataFrame
    frame: pd.DataFrame

    def input(self, name: str) -> dict[str, str]:
        """Path and hash of an input; empty where it is not recorded."""
        found: dict[str, str] = self.record.get("inputs", {}).get(name, {})
        return {"path": "", "sha256": ""} | found

    @property
    def searched(self) -> tuple[str, str]:
        """What decides what is found in a text: hash of the index, and how was traced."""
        return self.input("index")["sha256"], self.parameters(_TRACING)

    @property
    def tokenizer(self) -> str:
        """Fingerprint of the index's tokenizer; empty where it was not recorded."""
        return self.input("tokenizer")["sha256"]

    @cached_property
    def texts(self) -> dict[str, str]:
        """Text of each prompt by id."""
        return dict(zip(self.prompts["prompt_id"], self.prompts["text"], strict=True))

    def parameters(self, names: Iterable[str]) -> str:
        """Some parameters of the run, written out."""
        given = self.record.get("parameters", {})
        return ", ".join(f"{name} {given.get(name, 'unknown')}" for name in names)


def run_names(folders: Sequence[Path]) -> list[str]:
    """A name for each folder: its last part, or as many parts from the end as tell it apart.

    Raises
    ------
    ParameterError
        There are fewer than two folders, or one is given twice.
    """
    if len(folders) < 2:
        raise ParameterError(
            f"a comparison is of two runs or more, not of {len(folders)}; name their folders"
        )
    # By whatever path: through a link, or there and back.
    twice = [str(f) for f, n in Counter(each.resolve() for each in folders).items() if n > 1]
    if twice:
        raise ParameterError(f"run {twice[0]!r} is given twice")
    names = [folder.name for folder in folders]
    length = 1
    while len(set(names)) < len(names):
        length += 1
        counts = Counter(names)
        names = [
            name if counts[name] == 1 else "/".join(folder.parts[-length:])
            for name, folder in zip(names, folders, strict=True)
        ]
    return names


def read_runs(folders: Sequence[Path]) -> list[ComparedRun]:
    """Read what notebooks 1 to 3 of each run have written.

    Raises
    ------
    ParameterError
        As `run_names`.
    RunError
        As `require_runs`.
    TableError
        A table is missing, or is not what it is declared to be.
    """
    names = require_runs(folders)
    return [_read_run(name, folder) for name, folder in zip(names, folders, strict=True)]


def require_runs(folders: Sequence[Path]) -> list[str]:
    """Names of the runs, if each folder holds one whose tables are those that it recorded.

    Raises
    ------
    ParameterError
        As `run_names`.
    RunError
        A folder holds no run, one whose tables are not all made, or a table that is not as it was
        written: its record would tell of other parameters than the table was made with.
    TableError
        A table is missing.
    """
    names = run_names(folders)
    for folder in folders:
        require_run(folder)
    return names


def require_run(folder: Path) -> None:
    """Refuse a folder that holds no run whose tables of notebooks 1 to 3 are as it recorded them.

    Raises
    ------
    RunError
        It holds none, or one that is not finished.
    TableError
        A table is missing, or another than the run wrote.
    """
    record = read_record(folder)
    if not record:
        raise RunError(
            f"{folder}: no run (it has no run.json, or one that says nothing); give folders that"
            " 'propme run' made"
        )
    if "compared" in record:
        raise RunError(f"{folder}: a comparison, and no run; give the runs that it compares")
    done = [s for s in record.get("stages", {}).values() if s.get("state") == "done"]
    recorded = {name: digest for stage in done for name, digest in stage["tables"].items()}
    for name in _READ:
        path = folder / "tables" / f"{name}.parquet"
        if name not in recorded:
            raise RunError(
                f"{folder}: the stage that makes table {name!r} is not done; finish the run first,"
                " with 'propme run'"
            )
        if not path.is_file():
            raise TableError(f"{folder}: the run has no table {name!r}; finish it first")
        if sha256_of(path) != recorded[name]:
            raise RunError(
                f"{folder}: table {name!r} is not as the run wrote it; 'propme run' makes it again"
            )


def _read_run(name: str, folder: Path) -> ComparedRun:
    read = partial(tables.read, folder=folder / "tables")
    prompts, generations, traces, spans, matches = map(read, _READ)
    return ComparedRun(
        name,
        folder,
        read_record(folder),
        prompts,
        measurements.measured_generations(prompts, generations, traces, spans, matches),
    )


def compared_runs(runs: Iterable[ComparedRun]) -> pd.DataFrame:
    """What each run is of: the table ``compared_runs``."""
    return tables.of_rows(
        "compared_runs",
        [
            {
                "run": run.name,
                "path": str(run.path),
                "model": run.input("model")["path"],
                "model_sha256": run.input("model")["sha256"],
                "corpus": run.input("corpus")["path"],
                "corpus_sha256": run.input("corpus")["sha256"],
                "index_sha256": run.input("index")["sha256"],
                "tokenizer": run.tokenizer,
                "tracing": run.parameters(_TRACING),
                "decoding": run.parameters(_SAMPLING),
                "settings": ", ".join(in_order(run.frame["setting"])),
                "n_generations": len(run.frame),
            }
            for run in runs
        ],
    )


_CONSEQUENCES = {
    "corpus": "A difference between runs of different corpora is one of the corpora too, and of"
    " their prompts where these come from the corpus.",
    "tokenizer": "Tokens of one are not tokens of the other: metrics that count tokens are not"
    " compared, and what is found hangs on the tokens too. Trace all in indexes of one tokenizer.",
    "tracing": "The metrics differ by how was traced, whatever the models do. Trace all alike"
    " before a difference is read as one of the models.",
    "decoding": "A difference is one of the decodings too.",
    "settings": "A setting that a run lacks is not compared with it.",
}


def caveats(compared: pd.DataFrame) -> pd.DataFrame:
    """What differs between the runs beside their models: the table ``caveats``; empty: nothing.

    Parameters
    ----------
    compared : DataFrame
        The table ``compared_runs``.
    """
    keys = {about: compared[about] for about in ("tracing", "decoding", "settings")}
    keys["corpus"] = compared["corpus_sha256"].where(
        compared["corpus_sha256"] != "", compared["corpus"]
    )
    keys["tokenizer"] = _tokenizer_keys(compared)
    ends = compared["corpus"].map(lambda path: "/".join(Path(path).parts[-2:]))
    shown = {"corpus": ends, "tokenizer": keys["tokenizer"].str[:12]}
    rows = []
    for about, consequence in _CONSEQUENCES.items():
        if keys[about].nunique() > 1:
            alike = compared.groupby(keys[about], sort=False)
            texts = [
                f"{', '.join(group['run'])}: {shown.get(about, keys[about])[group.index[0]]}"
                for _, group in alike
            ]
            rows.append({"about": about, "runs": "; ".join(texts), "consequence": consequence})
    return tables.of_rows("caveats", rows)


def _tokenizer_keys(compared: pd.DataFrame) -> pd.Series[str]:
    """What tells tokenizers apart: their fingerprint, or that of the index if it is gone."""
    unknown = "unknown, of index " + compared["index_sha256"].str[:12]
    one_index = compared["index_sha256"].nunique() == 1
    return compared["tokenizer"].where(compared["tokenizer"] != "", "" if one_index else unknown)

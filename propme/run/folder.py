"""A run's folder: tables, figures, report, executed notebooks, and the record of what was run."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from propme import tables
from propme.errors import RunError
from propme.files import sha256_of, write_whole
from propme.run.paths import STAGES, existing, project_root, resolve
from propme.run_record import read_record

#: Folders of a run, in which there is no other.
OF_A_RUN = ("tables", "figures", "report", "parts")


@dataclass(frozen=True)
class RunFolder:
    """One run's folder."""

    path: Path

    @property
    def tables(self) -> Path:
        """Folder of the tables."""
        return self.path / "tables"

    @property
    def figures(self) -> Path:
        """Folder of the figures."""
        return self.path / "figures"

    @property
    def report(self) -> Path:
        """Folder of the report."""
        return self.path / "report"

    def notebook(self, stage: str) -> Path:
        """The executed notebook of a stage."""
        return self.path / f"{stage}.ipynb"

    def read(self, table: str) -> pd.DataFrame:
        """Read one of the run's tables."""
        return tables.read(table, self.tables)

    def write(self, table: str, frame: pd.DataFrame) -> None:
        """Write one of the run's tables; if it is another one now, remove what came of the old one.

        Tables of later stages that were made from other prompts or generations would otherwise be
        taken for results of these.
        """
        path = self.tables / f"{table}.parquet"
        before = sha256_of(path) if path.is_file() else ""
        tables.write(table, frame, self.tables)
        if sha256_of(path) != before:
            for later in _written_after(table):
                (self.tables / f"{later}.parquet").unlink(missing_ok=True)

    def parts(self, stage: str) -> Path:
        """Folder of what is finished of a stage that takes long."""
        return self.path / "parts" / stage

    @property
    def progress(self) -> Path:
        """File in which a notebook that is running tells how far it is."""
        return self.path / ".progress.json"

    def clear_parts(self, stage: str) -> None:
        """Remove the finished parts of a stage, now that its tables are written."""
        shutil.rmtree(self.parts(stage), ignore_errors=True)

    def save_figure(self, name: str, figure: Any) -> Any:
        """Save a figure as PNG, SVG and PDF, and return it so that a notebook shows it."""
        self.figures.mkdir(parents=True, exist_ok=True)
        for suffix in ("png", "svg", "pdf"):
            figure.savefig(self.figures / f"{name}.{suffix}", bbox_inches="tight")
            figure.set_layout_engine("none")  # laid out once: each format, and the notebook, alike
        return figure

    @property
    def record(self) -> dict[str, Any]:
        """What ``run.json`` holds, see `propme.run_record`; empty before anything was recorded."""
        return read_record(self.path)

    def update_record(self, **entries: Any) -> None:
        """Replace entries of ``run.json``."""
        self.path.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.record | entries, indent=1, ensure_ascii=False)
        write_whole(self.path / "run.json", text + "\n")

    @property
    def inputs(self) -> dict[str, dict[str, str]]:
        """What notebook 1 recorded of corpus, index and model.

        Raises
        ------
        RunError
            Notebook 1 has not been run for this folder.
        """
        inputs: dict[str, dict[str, str]] | None = self.record.get("inputs")
        if inputs is None:
            raise RunError(f"{self.path}: no inputs are recorded; run notebook {STAGES[0]} first")
        return inputs

    def input_path(self, name: str) -> str:
        """Path (or hub name) of an input: ``corpus``, ``heldout``, ``human``, ``model``, ``index``.

        Empty for ``heldout``, ``human`` and ``model`` where none was given.
        """
        return existing(self.inputs.get(name, {"path": ""})["path"])

    @property
    def index(self) -> dict[str, str]:
        """What is recorded of the index, with paths as they are found here.

        For `propme.simpletrace.IndexAddress.recorded`.
        """
        known = self.inputs["index"] | {"path": self.input_path("index")}
        if "answers" in known:  # behind a server
            known |= {
                "answers": str(resolve(known["answers"])),
                "tokenizer": existing(known["tokenizer"]),
            }
        return known

    def input_hash(self, name: str) -> str:
        """SHA-256 of an input; empty for a name on the hub, and where none was given."""
        return self.inputs.get(name, {"sha256": ""})["sha256"]


TABLES_OF_STAGES = (
    ("prompts",),
    ("generations", "extraction"),
    ("traces", "spans", "matches", "variants"),
    (
        "metrics",
        "propensity",
        "copies",
        "breakdown",
        "discoverable",
        "span_lengths",
        "sensitivity",
    ),
)


def _written_after(table: str) -> list[str]:
    """Tables of the stages after the one that writes ``table``."""
    stage = next(n for n, names in enumerate(TABLES_OF_STAGES) if table in names)
    return [name for names in TABLES_OF_STAGES[stage + 1 :] for name in names]


def open_run(output: str) -> RunFolder:
    """Folder of a run; relative paths start at the project's root.

    Raises
    ------
    RunError
        The folder holds something else than a run, which would be mixed with it.
    """
    folder = RunFolder(resolve(output))
    if folder.path.is_file():
        raise RunError(f"{folder.path}: a file; give a folder as output")
    # Locks and temporary files are hidden; a run that was killed at once leaves nothing else.
    foreign = (
        folder.path.is_dir()
        and any(not path.name.startswith(".") for path in folder.path.iterdir())
        and not folder.record
    )
    if foreign or folder.path == project_root():
        raise RunError(
            f"{folder.path}: this folder holds other things than a run (it has no run.json);"
            " give an empty or a new folder as output"
        )
    return folder

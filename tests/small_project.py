"""A project whose notebooks take no time: the real parameters cells, and a line or two of code."""

import json
import shutil
from pathlib import Path

from propme import run as runs
from propme import tables
from propme.run import folder as folders
from propme.runner.notebook import Spent

ROOT = Path(__file__).parent.parent

_WRITES = """\
from propme import tables
from propme.run import open_run
run = open_run(output)
for name in {names}:
    run.write(name, tables.to_frame(name, []))
"""


def small_parameters(folder):
    """Parameters that a run of such a project may have: what it needs is there."""
    corpus = folder / "corpus.jsonl"
    corpus.write_text('{"text": "a"}\n')
    nothing = dict.fromkeys(("heldout", "human", "model"), "")
    own = {"corpus": str(corpus), "tokenizer": "bytes", "strata": [], "cache": str(folder / "c")}
    own["n_prefix"] = 1
    return nothing | own | {"output": "out", "backend": "recorded", "recorded": str(corpus)}


def small_project(folder, **code):
    """Write notebooks into ``folder/notebooks``; ``code`` by stage comes before what it writes."""
    (folder / "notebooks").mkdir(parents=True)
    for stage, names in zip(runs.STAGES, folders.TABLES_OF_STAGES, strict=True):
        own = code.get(stage.split("_")[1], "")
        write_notebook(folder, stage, f"{own}\n{_WRITES.format(names=names)}")
    return folder


def write_notebook(folder, stage, source):
    real = json.loads((ROOT / "notebooks" / f"{stage}.ipynb").read_text("utf-8"))
    parameters = [c for c in real["cells"] if "parameters" in c["metadata"].get("tags", [])]
    cell = {"cell_type": "code", "id": "only", "metadata": {}, "outputs": [], "source": source}
    real["cells"] = [*parameters, cell | {"execution_count": None}]
    (folder / "notebooks" / f"{stage}.ipynb").write_text(json.dumps(real), "utf-8")


def copied_notebooks(folder):
    """The project's own notebooks, in a folder in which they can be changed."""
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    return folder


class InsteadOfNotebooks:
    """Takes the place of `propme.runner.notebook.execute`: writes empty tables, and says when.

    Each stage draws a figure of its name. ``fails`` maps a stage to the error that it raises.
    """

    def __init__(self):
        self.executed = []
        self.fails = {}

    def __call__(self, stage, folder, effective, deadline=float("inf")):
        self.executed.append(stage)
        folder.notebook(stage).write_text(json.dumps({"cells": []}))
        if stage in self.fails:
            raise self.fails[stage]
        for name in folders.TABLES_OF_STAGES[runs.STAGES.index(stage)]:
            folder.write(name, tables.to_frame(name, []))
        folder.figures.mkdir(exist_ok=True)
        (folder.figures / f"{stage}.png").write_text("drawn")
        return Spent(2.0, 3_000_000)

    def new(self):
        """Stages executed since this was last asked."""
        executed, self.executed = self.executed, []
        return executed

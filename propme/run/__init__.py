"""A run as notebooks see it: its folder, and its inputs.

Only this package and `propme.runner`, which executes the notebooks, know paths. A run's folder
holds the executed notebooks, ``tables/``, ``figures/``, ``report/`` and ``run.json``, which records
what was run with what (docs/run-json.md).
"""

from propme.run.folder import OF_A_RUN, RunFolder, open_run
from propme.run.inputs import (
    DEMO,
    index_folder,
    index_hash,
    prepare_inputs,
    require_same_corpus,
    require_together,
)
from propme.run.paths import STAGES, existing, notebook_path, portable, project_root, resolve

__all__ = [
    "DEMO",
    "OF_A_RUN",
    "STAGES",
    "RunFolder",
    "existing",
    "index_folder",
    "index_hash",
    "notebook_path",
    "open_run",
    "portable",
    "prepare_inputs",
    "project_root",
    "require_same_corpus",
    "require_together",
    "resolve",
]

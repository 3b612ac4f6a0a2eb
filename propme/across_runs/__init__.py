"""Across runs: models, checkpoints, corpora or decodings side by side, from their stored tables.

Neither a model nor an index is opened. Two runs are compared setting by setting; where both were
asked the same prompts the difference is paired, which cancels out what makes a prompt easy, and
where they were not it is unpaired and says why.
"""

from propme.across_runs.compared_run import (
    ComparedRun,
    caveats,
    compared_runs,
    read_runs,
    require_run,
    require_runs,
    run_names,
)
from propme.across_runs.findings import answers, findings
from propme.across_runs.kept import shifts
from propme.across_runs.levels import run_metrics, run_propensity
from propme.across_runs.pairing import SAME, counts_tokens
from propme.across_runs.site import write_report
from propme.across_runs.tested import differences, require_metrics
from propme.across_runs.training import (
    Course,
    beside_controls,
    courses,
    courses_of,
    pairs_of,
    stage_pairs,
    trajectory_table,
)
from propme.across_runs.wording import (
    differences_table,
    levels_table,
    scores_table,
    shifts_table,
)

__all__ = [
    "SAME",
    "ComparedRun",
    "Course",
    "answers",
    "beside_controls",
    "caveats",
    "compared_runs",
    "counts_tokens",
    "courses",
    "courses_of",
    "differences",
    "differences_table",
    "findings",
    "levels_table",
    "pairs_of",
    "read_runs",
    "require_metrics",
    "require_run",
    "require_runs",
    "run_metrics",
    "run_names",
    "run_propensity",
    "scores_table",
    "shifts",
    "shifts_table",
    "stage_pairs",
    "trajectory_table",
    "write_report",
]

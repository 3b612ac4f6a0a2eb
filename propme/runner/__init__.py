"""What executes runs, repeats them and checks them; notebooks know nothing of it."""

from propme.runner.batch import run_all
from propme.runner.running import Which, run, run_with, stage_named
from propme.runner.settings import effective_parameters
from propme.runner.sweep import PlannedRun, parse_grid, planned_runs

__all__ = [
    "PlannedRun",
    "Which",
    "effective_parameters",
    "parse_grid",
    "planned_runs",
    "run",
    "run_all",
    "run_with",
    "stage_named",
]

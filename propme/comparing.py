"""Comparisons of runs: notebook 5, papermill, the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from propme import across_runs, parameters
from propme.errors import ParameterError, PropMeError, RunError
from propme.metrics import require_propensity_metrics
from propme.run import RunFolder, notebook_path, open_run, portable, resolve
from propme.runner.locks import held, require_free
from propme.runner.notebook import execute
from propme.runner.provenance import chief_packages, environment

NOTEBOOK = "5_comparison"

_YAML = (".yaml", ".yml")


def compare(
    given: Sequence[str | Path],
    overrides: Mapping[str, Any] | None = None,
    output: str | None = None,
) -> RunFolder:
    """Execute notebook 5 for some runs and render its report.

    Parameters
    ----------
    given : sequence of str or Path
        Folders of runs, and YAML files of parameters (known by their suffix); a later file wins.
        Folders stand in the place of the parameter ``runs``.
    overrides : mapping, optional
        Single parameters; they win over the files.
    output : str, optional
        Folder of the comparison; wins over the parameter of that name.

    Raises
    ------
    ParameterError
        A parameter is unknown or does not fit, or there are fewer than two runs.
    RunError
        A folder holds no run, one that is not finished or that another process is running, the
        output is a run's, or the notebook failed.
    TableError
        A run lacks a table.
    """
    effective, runs = _planned(given, overrides or {}, output)
    for run in runs:
        require_free(RunFolder(run))
    across_runs.require_runs(runs)
    folder = open_comparison(effective["output"])
    with held(folder):
        _execute(folder, effective, runs)
    return folder


def _execute(folder: RunFolder, effective: Mapping[str, Any], runs: Sequence[Path]) -> None:
    print(f"Comparing {len(runs)} runs in {folder.path}", flush=True)
    # A failed comparison is not taken for an earlier one, nor an earlier figure for its own.
    earlier = [folder.notebook(NOTEBOOK), folder.report / "index.html", *folder.figures.glob("*.*")]
    for left in earlier:
        left.unlink(missing_ok=True)
    folder.update_record(
        parameters=effective,
        compared=[portable(str(run)) for run in runs],
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        **environment(),
        versions=chief_packages(environment()["packages"]),
    )
    spent = execute(NOTEBOOK, folder, effective)
    print(f"{NOTEBOOK} done in {spent.seconds:.0f} s", flush=True)
    folder.update_record(stages={NOTEBOOK: {"seconds": round(spent.seconds, 1)}})
    across_runs.write_report(folder.path, NOTEBOOK)


def what_is_missing(
    given: Sequence[str | Path],
    overrides: Mapping[str, Any] | None = None,
    output: str | None = None,
) -> tuple[str, dict[str, str]]:
    """Folder of a comparison, and of each of its runs what is missing; nothing is changed.

    Parameters
    ----------
    given, overrides, output
        As `compare`.

    Returns
    -------
    str and dict of str to str
        The comparison's folder; what is missing by the run's folder, empty where it is finished.

    Raises
    ------
    ParameterError
        As `compare`.
    """
    effective, runs = _planned(given, overrides or {}, output)
    missing = {}
    for run in runs:
        try:
            across_runs.require_run(run)
            missing[portable(str(run))] = ""
        except PropMeError as error:
            missing[portable(str(run))] = str(error)
    return effective["output"], missing


def _planned(
    given: Sequence[str | Path], overrides: Mapping[str, Any], output: str | None
) -> tuple[dict[str, Any], list[Path]]:
    """Parameters and folders of runs, once courses of training and pairs name known runs."""
    effective = effective_parameters(given, overrides, output)
    runs = [resolve(str(run)) for run in effective["runs"]]
    names = across_runs.run_names(runs)
    courses = across_runs.courses(effective["trajectories"], effective["control"], names)
    across_runs.pairs_of(names, effective["pairs"], courses)
    return effective, runs


def effective_parameters(
    given: Sequence[str | Path], overrides: Mapping[str, Any], output: str | None
) -> dict[str, Any]:
    """All parameters of a comparison: the notebook's defaults, the files, the overrides."""
    declared = parameters.declared_in(notebook_path(NOTEBOOK))
    chosen: dict[str, Any] = {}
    for file in (Path(name) for name in given if Path(name).suffix in _YAML):
        try:
            chosen |= parameters.check(parameters.read_file(file), declared)
        except ParameterError as error:
            raise ParameterError(f"{file}: {error}") from error
    folders = [str(name) for name in given if Path(name).suffix not in _YAML]
    if folders:
        chosen["runs"] = folders
    chosen |= parameters.check(overrides, declared)
    if output is not None:
        chosen |= parameters.check({"output": output}, declared)
    effective = {name: chosen.get(name, p.default) for name, p in declared.items()}
    if effective["bootstrap_rounds"] < 1 or effective["seed"] < 0:
        raise ParameterError("bootstrap_rounds must be at least 1, and seed at least 0")
    across_runs.require_metrics(effective["metrics"])
    require_propensity_metrics(effective["propensity_metrics"])
    return effective


def open_comparison(output: str) -> RunFolder:
    """Folder of a comparison.

    Raises
    ------
    RunError
        It holds a run, or something else.
    """
    folder = open_run(output)
    if folder.record and "compared" not in folder.record:
        raise RunError(f"{folder.path}: a run; give another folder as output of a comparison")
    return folder

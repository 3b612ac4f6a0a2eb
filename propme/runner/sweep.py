"""Several runs out of files of parameters, a grid, and what the files' ``sweep`` lists."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from propme import parameters
from propme.errors import ParameterError
from propme.parameters import Parameter
from propme.run import OF_A_RUN, resolve
from propme.runner.settings import complete, declared, read_file


@dataclass(frozen=True)
class PlannedRun:
    """A run that is asked for.

    Attributes
    ----------
    name : str
        What tells it from the others: its folder's name, or the path to it from theirs.
    effective : dict
        All its parameters; ``output`` is its folder.
    """

    name: str
    effective: dict[str, Any]


def planned_runs(
    files: Sequence[str | Path],
    grid: Mapping[str, Sequence[Any]] | None = None,
    overrides: Mapping[str, Any] | None = None,
    output: str | None = None,
    only: Sequence[str] = (),
) -> list[PlannedRun]:
    """The runs of some files: for each file, its sweep by the grid, in their order.

    A run that is the only one of its file has the file's ``output``; of several, each has a folder
    of its own in it, named by what differs, as ``temperature=0.7,seed=1``.

    Parameters
    ----------
    files : sequence of str or Path
        YAML files of parameters, a run or a sweep each.
    grid : mapping, optional
        Values by parameter; every combination is a run.
    overrides : mapping, optional
        Single parameters of all runs; they win over the files.
    output : str, optional
        Folder of the run; of several files, the folder that holds one for each, by its name.
    only : sequence of str, optional
        Names of the runs that are wanted; none: all.

    Raises
    ------
    ParameterError
        A parameter is unknown or cannot be what was meant, two runs would have one folder, or no
        run has a name that is wanted.
    """
    known = declared()
    fixed = parameters.check(overrides or {}, known)
    planned = []
    for file in map(Path, files):
        given, listed = read_file(file, known)
        given |= fixed
        if output is not None:
            own = output if len(files) == 1 else f"{output}/{_required_name(file.stem)}"
            given |= parameters.check({"output": own}, known)
        planned += [
            _planned(given, label, differing, fixed, known)
            for label, differing in _variants(listed, grid or {}, known)
        ]
    _require_own_folders(planned)
    return _chosen(planned, only)


def _chosen(planned: list[PlannedRun], only: Sequence[str]) -> list[PlannedRun]:
    names = {run.name: None for run in planned}
    for name in only:
        if name not in names:
            raise ParameterError(f"no run is called {name!r}; they are {', '.join(names)}")
    return [run for run in planned if not only or run.name in only]


def parse_grid(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Values by parameter out of ``name=a,b,c``; a list as a value in brackets."""
    grid = {}
    for text in texts:
        name, equals, values = text.partition("=")
        try:
            listed = parameters.from_yaml(f"[{values}]")
        except yaml.YAMLError as error:
            raise ParameterError(f"grid {text!r}: its values cannot be read") from error
        if not (name and equals and listed):
            raise ParameterError(f"grid {text!r} is not NAME=VALUE,VALUE")
        if name in grid:
            raise ParameterError(f"grid {name!r} is given twice")
        grid[name] = listed
    return grid


def _variants(
    listed: Sequence[dict[str, Any]],
    grid: Mapping[str, Sequence[Any]],
    known: Mapping[str, Parameter],
) -> list[tuple[str, dict[str, Any]]]:
    """Every entry of a sweep with every combination of a grid: a label, and what differs."""
    columns = [
        [(_told({name: v}), parameters.check({name: v}, known)) for v in values]
        for name, values in grid.items()
    ]
    found = []
    for entry, *cells in itertools.product(listed or [{}], *columns):
        own = {name: value for name, value in entry.items() if name != "name"}
        crossed = {name: value for _, cell in cells for name, value in cell.items()}
        if both := set(own) & set(crossed):
            raise ParameterError(f"{min(both)!r} stands in the sweep and in the grid")
        parts = [_label(entry["name"])] if "name" in entry else _told(own)
        parts += [part for told, _ in cells for part in told]
        found.append((",".join(parts), own | crossed))
    return found


def _planned(
    given: Mapping[str, Any],
    label: str,
    differing: Mapping[str, Any],
    fixed: Mapping[str, Any],
    known: Mapping[str, Parameter],
) -> PlannedRun:
    if refused := {*fixed, "output"} & set(differing):
        raise ParameterError(
            f"{min(refused)!r} would tell the runs of a sweep apart, and cannot also be one for"
            " all; output is the folder that holds them"
        )
    folder = str(given.get("output", known["output"].default))
    if label:
        folder = f"{folder}/{_required_name(label)}"
    return PlannedRun(
        label or Path(folder).name, complete({**given, **differing, "output": folder}, known)
    )


def _required_name(label: str) -> str:
    """The label, if a run's folder can be called so."""
    if label.startswith(".") or label in (*OF_A_RUN, "run.json"):
        raise ParameterError(
            f"a run cannot be called {label!r}: it would be hidden, or in the place of what another"
            " run writes; give it another name"
        )
    return label


def _told(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={_label(value)}" for name, value in values.items()]


def _label(value: Any) -> str:
    """A value as part of a folder's name: of a path its last part, signs of shells left out.

    A number is as exact as it is.
    """
    if isinstance(value, list):
        return "+".join(map(_label, value)) or "none"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = Path(text).name if "/" in text else text
    return re.sub(r"[^\w.+-]+", "-", text) or "none"


def _require_own_folders(planned: Sequence[PlannedRun]) -> None:
    first: dict[Path, str] = {}
    for run in planned:
        folder = resolve(run.effective["output"]).resolve()
        if folder in first:
            raise ParameterError(
                f"two runs would be written to {folder}: {first[folder]} and {run.name}; give each"
                " file an output of its own, or each entry of a sweep a name"
            )
        first[folder] = run.name

"""Where the project lies, and how paths are meant and written down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from propme.errors import ParameterError, RunError

STAGES = ("1_prompts", "2_generation", "3_tracing", "4_analysis")


def project_root() -> Path:
    """Folder that holds ``notebooks/``: the working directory, one above it, or the checkout."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (folder / "notebooks" / f"{STAGES[0]}.ipynb").is_file():
            return folder
    raise RunError(
        f"no notebooks/ folder in {here} or above it; run this in a checkout of the project"
    )


def resolve(path: str) -> Path:
    """A path as it is meant in parameters: relative ones start at the project's root."""
    try:
        return project_root() / Path(path).expanduser()
    except RuntimeError as error:
        raise ParameterError(f"path {path!r}: {error}") from error


def existing(name: str, reserved: Sequence[str] = ()) -> str:
    """The absolute path of what is there; a reserved word or a name of nothing as it was given."""
    path = resolve(name)
    return str(path) if name and name not in reserved and path.exists() else name


def portable(path: str) -> str:
    """A path as it is written down: it tells as little as it can of this machine and its user.

    Relative to the project's root or to the home folder where it lies in one of them. `resolve`
    finds it again; what is no absolute path is left alone.
    """
    if not Path(path).is_absolute():
        return path
    for folder, prefix in ((project_root(), ""), (Path.home(), "~/")):
        if folder != Path(folder.anchor) and Path(path).is_relative_to(folder):
            return f"{prefix}{Path(path).relative_to(folder).as_posix()}"
    return path


def notebook_path(stage: str) -> Path:
    """The notebook of a stage."""
    return project_root() / "notebooks" / f"{stage}.ipynb"

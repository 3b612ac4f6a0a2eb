"""When a stage is done: its outputs are whole, and what they were made from is still the same.

What a stage was made from is kept in ``run.json``: its parameters, the content of the files that
they name, the tables of the stages before it, its notebook, and the code that this imports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from propme.files import content_hash, sha256_of
from propme.index import is_remote
from propme.known_hashes import KnownHashes
from propme.run import STAGES, RunFolder, index_hash, notebook_path, resolve
from propme.run.folder import TABLES_OF_STAGES
from propme.runner.code import code_of_notebook, notebook_hash
from propme.runner.settings import own_parameters

#: Parameters that decide where or how fast something is made, and not what.
_INDIFFERENT = (
    "output",
    "cache",
    "workers",
    "tracing_backend",
    "concurrency",
    "patience",
    "request_rate",
    "requests_at_once",
)


def made_from(stage: str, effective: Mapping[str, Any], folder: RunFolder) -> dict[str, Any]:
    """What a stage would be made from now."""
    own = {n: v for n, v in own_parameters(stage, effective).items() if n not in _INDIFFERENT}
    notebook = notebook_path(stage)
    known = known_hashes(effective)
    return {
        "parameters": own,
        "files": {n: digest for n, v in own.items() if (digest := content_of(n, v, known))},
        "tables": _hashes(folder, tables_before(stage)),
        "notebook": notebook_hash(notebook),
        "code": code_of_notebook(notebook, without_showing=stage != STAGES[-1]),
    }


def outputs_of(stage: str, folder: RunFolder) -> dict[str, Any]:
    """What a stage has written, to know later that it is whole."""
    executed = folder.notebook(stage)
    return {
        "tables": _hashes(folder, TABLES_OF_STAGES[STAGES.index(stage)]),
        "executed": sha256_of(executed) if executed.is_file() else "",
    }


def why_again(stage: str, effective: Mapping[str, Any], folder: RunFolder) -> str:
    """Why a stage has to run, in some words; empty if it is done."""
    entry = folder.record.get("stages", {}).get(stage, {})
    if entry.get("state") != "done":
        return _UNDONE.get(entry.get("state", ""), "not run yet")
    reasons = [
        *broken_outputs(stage, folder),
        *_changes(entry["made_from"], made_from(stage, effective, folder)),
        *(_changed_inputs(folder, known_hashes(effective)) if stage == STAGES[0] else ()),
    ]
    return reasons[0] if reasons else ""


_UNDONE = {"running": "it was stopped", "failed": "it failed"}


def broken_outputs(stage: str, folder: RunFolder) -> Iterator[str]:
    """What of a stage that is done is no longer as it was written, in some words."""
    for what, recorded, found in _outputs_then_and_now(stage, folder):
        if not found:
            yield f"{what} is missing"
        elif found != recorded:
            yield f"{what} is not as it was written"


def altered_outputs(stage: str, folder: RunFolder) -> list[str]:
    """What of a stage that is done is there, and another than it was."""
    outputs = _outputs_then_and_now(stage, folder)
    return [what for what, recorded, found in outputs if found and found != recorded]


def _outputs_then_and_now(stage: str, folder: RunFolder) -> Iterator[tuple[str, str, str]]:
    """Each output of a stage, its recorded hash, and that of what is there, empty for nothing."""
    entry = folder.record["stages"][stage]
    found = outputs_of(stage, folder)
    for name, digest in entry["tables"].items():
        yield f"table {name}", digest, found["tables"].get(name, "")
    yield "its executed notebook", entry["executed"], found["executed"]
    for name, digest in figures_of(entry).items():
        path = folder.figures / name
        now = sha256_of(path) if path.is_file() else ""
        yield f"figure {name}", digest or now, now


def figures_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """Hashes of a stage's figures by name; empty where the record is of before they were kept."""
    figures = entry.get("figures", {})
    return dict(figures) if isinstance(figures, dict) else dict.fromkeys(figures, "")


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = before["parameters"], now["parameters"]
    # Of a file the content counts, wherever it lies.
    by_content = set(before["files"]) & set(now["files"])
    for name in [n for n in {**new, **old} if n not in by_content]:
        if old.get(name) != new.get(name):
            yield f"{name} is {new.get(name)!r}, was {old.get(name)!r}"
    for kind, what in (("files", "the content of {}"), ("tables", "table {}")):
        for name in sorted({*before[kind], *now[kind]}):
            if before[kind].get(name) != now[kind].get(name):
                yield f"{what.format(name)} has changed"
    for kind, what in (("notebook", "its notebook"), ("code", "the code")):
        if before[kind] != now[kind]:
            yield f"{what} has changed"


def _changed_inputs(folder: RunFolder, known: KnownHashes) -> Iterator[str]:
    for name, found in input_hashes(folder, known.sha256_of).items():
        if found is None:
            yield f"{name} is no longer where it was"
        elif found != folder.input_hash(name):
            yield f"{name} has changed"


def input_hashes(folder: RunFolder, of_file: Callable[[Path], str]) -> dict[str, str | None]:
    """Hash of each recorded input as it is now; ``None`` where it is not here.

    ``of_file`` gives the hash of one file. Left out are those that have none: names on the hub, and
    an index behind a server, of which nothing is here. The tokenizer is known by the index.
    """
    found: dict[str, str | None] = {}
    for name, entry in folder.record.get("inputs", {}).items():
        if not entry["sha256"] or name == "tokenizer" or is_remote(entry["path"]):
            continue
        path = resolve(entry["path"])
        found[name] = _hash_of(name, path, of_file) if path.exists() else None
    return found


def content_of(name: str, value: Any, known: KnownHashes) -> str:
    """Hash of the file or folder that a parameter names; empty if it names none."""
    if not isinstance(value, str) or not value or not resolve(value).exists():
        return ""
    return _hash_of(name, resolve(value), known.sha256_of)


def _hash_of(name: str, path: Path, of_file: Callable[[Path], str]) -> str:
    """Hash of what a parameter names; an index, maybe terabytes, is known by its manifest."""
    return index_hash(path) if name == "index" else content_hash(path, of_file)


def known_hashes(effective: Mapping[str, Any]) -> KnownHashes:
    """Hashes of files that were read before, by any run with this cache."""
    return KnownHashes(resolve(effective["cache"]))


def tables_before(stage: str) -> list[str]:
    """Tables of the stages before one, in their order."""
    return [name for names in TABLES_OF_STAGES[: STAGES.index(stage)] for name in names]


def _hashes(folder: RunFolder, names: list[str] | tuple[str, ...]) -> dict[str, str]:
    paths = {name: folder.tables / f"{name}.parquet" for name in names}
    return {name: sha256_of(path) for name, path in paths.items() if path.is_file()}

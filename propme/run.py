"""Runs: their folders, their inputs, and papermill over the notebooks in order.

The only module that knows paths. A run's folder holds the executed notebooks, ``tables/``,
``figures/``, ``report/`` and ``run.json``, which records what was run with what.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from propme import parameters, progress, tables
from propme.corpus import Corpus
from propme.errors import InputError, ParameterError, RunError
from propme.files import content_hash, sha256_of, write_whole
from propme.records import decodings

STAGES = ("1_prompts", "2_generation", "3_tracing", "4_analysis")

#: Given as ``corpus``, ``heldout``, ``human`` or ``model``: the demonstration's.
DEMO = "demo"

_PACKAGES = (
    "propme",
    "infini-gram",
    "numba",
    "numpy",
    "pandas",
    "papermill",
    "pyarrow",
    "pydivsufsort",
    "tokenizers",
    "torch",
    "transformers",
)


def project_root() -> Path:
    """Folder that holds ``notebooks/``: the working directory, one above it, or the checkout."""
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parent.parent):
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


def notebook_path(stage: str) -> Path:
    """The notebook of a stage."""
    return project_root() / "notebooks" / f"{stage}.ipynb"


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

    def clear_parts(self, stage: str) -> None:
        """Remove the finished parts of a stage, now that its tables are written."""
        shutil.rmtree(self.parts(stage), ignore_errors=True)

    def save_figure(self, name: str, figure: Any) -> Any:
        """Save a figure as PNG and SVG, and return it so that a notebook shows it."""
        self.figures.mkdir(parents=True, exist_ok=True)
        for suffix in ("png", "svg"):
            figure.savefig(self.figures / f"{name}.{suffix}", bbox_inches="tight")
        return figure

    @property
    def record(self) -> dict[str, Any]:
        """What ``run.json`` holds; empty before anything was recorded."""
        path = self.path / "run.json"
        if not path.is_file():
            return {}
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record

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
        return self.inputs.get(name, {"path": ""})["path"]

    def input_hash(self, name: str) -> str:
        """SHA-256 of an input; empty for a name on the hub, and where none was given."""
        return self.inputs.get(name, {"sha256": ""})["sha256"]


_TABLES_OF_STAGES = (
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
        "thresholds",
        "sensitivity",
    ),
)


def _written_after(table: str) -> list[str]:
    """Tables of the stages after the one that writes ``table``."""
    stage = next(n for n, names in enumerate(_TABLES_OF_STAGES) if table in names)
    return [name for names in _TABLES_OF_STAGES[stage + 1 :] for name in names]


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
    foreign = folder.path.is_dir() and any(folder.path.iterdir()) and not folder.record
    if foreign or folder.path == project_root():
        raise RunError(
            f"{folder.path}: this folder holds other things than a run (it has no run.json);"
            " give an empty or a new folder as output"
        )
    return folder


def prepare_inputs(
    run: RunFolder,
    *,
    corpus: str,
    heldout: str,
    human: str,
    model: str,
    tokenizer: str,
    index: str,
    text_field: str,
    id_field: str,
    cache: str,
) -> pd.DataFrame:
    """Find or make the inputs and the index of the corpus, and record them in ``run.json``.

    Parameters
    ----------
    corpus, heldout, human, model : str
        Paths (a hub name for the model), or ``demo``. ``heldout`` and ``human`` may be empty.
    tokenizer : str
        Tokenizer of the index: a folder, file or hub name. Empty: the model's.
    index : str
        Folder of a ready index of this corpus. Empty: built once, and found again by content.
    text_field, id_field : str
        Keys of text and id in the corpus.
    cache : str
        Folder for the demonstration's files and for indexes.

    Returns
    -------
    DataFrame
        ``path`` and ``sha256`` of each input, by name.
    """
    from propme.index import open_index

    given = {"corpus": corpus, "heldout": heldout, "human": human, "model": model}
    paths = _input_paths(given, resolve(cache))
    if not (index or tokenizer or model):
        raise ParameterError(
            "no model is given (a server or a file has the completions), so the tokenizer of the"
            " index must be named: parameter tokenizer, or index for a ready one"
        )
    hashes = {name: content_hash(Path(path)) for name, path in paths.items()}
    if index:
        folder = resolve(index)
        _require_same_corpus(folder, paths["corpus"], hashes["corpus"])
    else:
        source = existing(tokenizer or paths["model"])
        fields = (text_field, id_field)
        folder = _ensure_index(
            Path(paths["corpus"]), hashes["corpus"], source, fields, resolve(cache)
        )
    open_index(folder)
    inputs = {name: {"path": path, "sha256": hashes[name]} for name, path in paths.items()}
    inputs["index"] = {"path": str(folder), "sha256": sha256_of(folder / "manifest.json")}
    run.update_record(inputs=inputs)
    return pd.DataFrame.from_dict(inputs, orient="index")


def _require_same_corpus(index: Path, corpus: str, corpus_hash: str) -> None:
    """Refuse a ready index that says it was built from another corpus."""
    from propme.index import read_manifest

    built_from = [file.get("sha256") for file in read_manifest(index).get("corpus", [])]
    if len(built_from) == 1 and Path(corpus).is_file() and built_from[0] != corpus_hash:
        raise InputError(f"this index was built from another corpus than {corpus}", str(index))


def _input_paths(given: Mapping[str, str], cache: Path) -> dict[str, str]:
    paths = {name: value for name, value in given.items() if value}
    if len({value == DEMO for value in paths.values()}) > 1:
        raise InputError(
            f"'{DEMO}' stands for the demonstration's corpus, held-out documents, texts and model,"
            f" which belong together; here they are {paths}: name your own, or leave heldout and"
            " human empty",
            DEMO,
        )
    if DEMO in paths.values():
        from propme.demo import ensure_demo

        demo = ensure_demo(cache)
        paths = {n: str(getattr(demo, n)) if v == DEMO else v for n, v in paths.items()}
    for name, path in paths.items():
        paths[name] = existing(path)
        if name != "model" and not Path(paths[name]).exists():
            raise InputError(f"no such file; give it as parameter {name!r}", path)
    return paths


def _ensure_index(
    corpus: Path, corpus_hash: str, tokenizer: str, fields: tuple[str, str], cache: Path
) -> Path:
    from propme.index import Tokenizer, build_index

    loaded = Tokenizer.load(tokenizer)
    key = hashlib.sha256("\0".join([corpus_hash, loaded.fingerprint, *fields]).encode())
    folder = cache / f"index-{key.hexdigest()[:12]}"
    if not folder.exists():
        build_index(Corpus([corpus], *fields), loaded, folder)
    return folder


def effective_parameters(
    files: Sequence[str | Path], overrides: Mapping[str, Any], output: str | None
) -> dict[str, Any]:
    """All parameters of a run: the notebooks' defaults, then the files, then the overrides."""
    declared = parameters.declared_in_all(notebook_path(stage) for stage in STAGES)
    given: dict[str, Any] = {}
    for file in map(Path, files):
        try:
            given |= parameters.check(parameters.read_file(file), declared)
        except ParameterError as error:
            raise ParameterError(f"{file}: {error}") from error
    given |= parameters.check(overrides, declared)
    if output is not None:
        given["output"] = output
    effective = {name: given.get(name, p.default) for name, p in declared.items()}
    _check_values(effective)
    return effective


#: Bounds of parameters that no record below has.
_LEAST = {
    "n_prompts": 1,
    "n_prefix": 1,
    "n_prompt_free": 0,
    "n_mismatched": 0,
    "n_human": 0,
    "longest_allowed": 0,
    "batch_size": 1,
    "concurrency": 1,
    "patience": 0,
    "bootstrap_rounds": 1,
    "workers": 1,
    "n_varied": 0,
    "seed": 0,
}


def _check_values(effective: Mapping[str, Any]) -> None:
    """Refuse now what a notebook would refuse after hours of others."""
    from propme.generation import require_backend
    from propme.index import require_engine
    from propme.metrics import require_propensity_metrics
    from propme.prompts import PrefixCut, require_language
    from propme.simpletrace import TraceSettings, Workers

    for name, least in _LEAST.items():
        if effective[name] < least:
            raise ParameterError(f"{name} must be at least {least}, not {effective[name]}")
    sampling = ("greedy", "samples", "temperature", "top_p", "max_new_tokens", "top_k")
    decodings(*(effective[name] for name in sampling))
    TraceSettings(*(effective[name] for name in ("docs_per_span", "merging", "seed", "mode")))
    Workers(effective["workers"], effective["tracing_backend"])
    require_propensity_metrics(effective["propensity_metrics"])
    require_engine(effective["engine"])
    require_backend(effective["backend"])
    PrefixCut(effective["prefix_tokens"], effective["prefix_position"])
    require_language(effective["prompt_language"])
    if effective["strata"] and not effective["stratify_by"]:
        raise ParameterError("strata are given, and not of which metadata key: set stratify_by")


def run(
    files: Sequence[str | Path],
    overrides: Mapping[str, Any] | None = None,
    output: str | None = None,
) -> RunFolder:
    """Execute the notebooks in order and render the report.

    Parameters
    ----------
    files : sequence of str or Path
        YAML files of parameters; a later one wins.
    overrides : mapping, optional
        Single parameters; they win over the files.
    output : str, optional
        Folder of the run; wins over the parameter of that name.

    Raises
    ------
    ParameterError
        A parameter is unknown or has a wrong type. Nothing has been run then.
    RunError
        A notebook failed. Its executed copy holds the traceback; later ones were not run.
    """
    from propme.report import write_report

    effective = effective_parameters(files, overrides or {}, output)
    folder = open_run(effective["output"])
    print(f"{'Replacing' if folder.record else 'Writing'} the run in {folder.path}", flush=True)
    _remove_rendered(folder)
    folder.update_record(
        parameters=effective,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        python=platform.python_version(),
        platform=platform.platform(),
        versions=installed_versions(),
        stages={},
    )
    for stage in STAGES:
        print(f"{stage} ...", flush=True)
        seconds = execute_notebook(stage, folder, effective)
        print(f"{stage} done in {seconds:.0f} s", flush=True)
        stages = folder.record["stages"] | {stage: {"seconds": round(seconds, 1)}}
        folder.update_record(stages=stages, peak_memory_bytes=_peak_memory_of_children())
    folder.update_record(
        tables={path.stem: sha256_of(path) for path in sorted(folder.tables.glob("*.parquet"))}
    )
    write_report(folder.path, STAGES)
    return folder


def _remove_rendered(folder: RunFolder) -> None:
    """Remove what shows an earlier run, so that a failed one is not taken for its success."""
    pages = [folder.report / f"{name}.html" for name in ("index", *STAGES)]
    for path in [*map(folder.notebook, STAGES), *pages]:
        path.unlink(missing_ok=True)


def installed_versions() -> dict[str, str]:
    """Version of each package that decides what a run finds, of those that are there."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _peak_memory_of_children() -> int | None:
    """Memory of the largest process started here, in bytes; Windows keeps no such record."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit


def execute_notebook(stage: str, folder: RunFolder, effective: Mapping[str, Any]) -> float:
    """Execute one notebook with its own share of the parameters; return the seconds it took.

    Raises
    ------
    RunError
        It failed. Its executed copy holds the traceback.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    own = parameters.declared_in(notebook_path(stage))
    source, executed = notebook_path(stage), folder.notebook(stage)
    start = time.monotonic()
    try:
        with _shown_progress(stage), _kernel_manager() as kernel_manager:
            papermill.execute_notebook(
                # papermill would take a brace in a path for the name of a parameter.
                *(str(p).replace("{", "{{").replace("}", "}}") for p in (source, executed)),
                parameters={name: effective[name] for name in own},
                kernel_name="python3",
                kernel_manager_class=kernel_manager,
                progress_bar=False,
                cwd=str(project_root()),
            )
    except KeyboardInterrupt:
        # The event loop would tell, at length, of what it was waiting for.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise
    except PapermillExecutionError as error:
        raise RunError(
            f"{stage} failed: {error.ename}: {error.evalue}\nThe traceback is in {executed}"
        ) from error
    except DeadKernelError as error:
        raise RunError(
            f"{stage}: the process that ran it died, most likely killed for want of memory;"
            " lower batch_size or use a smaller model or index"
        ) from error
    return time.monotonic() - start


@contextmanager
def _kernel_manager() -> Iterator[type]:
    """A kernel manager that starts this interpreter, whatever kernels are installed.

    It talks over sockets in a private folder: no port is taken, and nobody else can listen.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    with tempfile.TemporaryDirectory(prefix="propme-kernel-") as folder:

        class ThisInterpreter(AsyncKernelManager):
            transport = "ipc"
            ip = str(Path(folder) / "socket")
            kernel_spec = KernelSpec(
                argv=[
                    *(sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"),
                    "--log-level=CRITICAL",  # it calls its own orderly end an error
                ],
                display_name="Python 3",
                language="python",
            )

        yield ThisInterpreter


@contextmanager
def _shown_progress(stage: str) -> Iterator[None]:
    """Show on this terminal what the notebook's process reports of its progress."""
    from tqdm import tqdm

    with tempfile.TemporaryDirectory(prefix="propme-progress-") as folder:
        path = Path(folder) / "progress.json"
        os.environ[progress.FILE_VARIABLE] = str(path)
        finished = threading.Event()
        bar = tqdm(total=1, desc=stage, disable=None, dynamic_ncols=True, leave=False)

        def follow() -> None:
            begun = ""
            while not finished.wait(0.5):
                report = progress.read(path)
                if report is None:
                    continue
                if bar.disable and report["label"] != begun:  # no terminal: a line for each phase
                    print(f"  {report['label']} ({report['total'] or '?'} {report['unit']})")
                    sys.stdout.flush()
                elif not bar.disable:
                    _show(bar, stage, report)
                begun = report["label"]

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()
            os.environ.pop(progress.FILE_VARIABLE)
            bar.close()


def _show(bar: Any, stage: str, report: dict[str, Any]) -> None:
    description = f"{stage}, {report['label']}"
    if bar.desc != f"{description}: ":
        bar.reset(total=report["total"])
        bar.unit = f" {report['unit']}"
        bar.set_description(description, refresh=False)
    bar.set_postfix_str(report["note"], refresh=False)
    bar.n = report["done"]
    bar.refresh()

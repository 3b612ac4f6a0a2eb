"""One notebook, executed with papermill in a process of its own."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from propme.errors import RunError
from propme.files import write_whole
from propme.run import RunFolder, notebook_path, project_root
from propme.runner.locks import kernel_lock
from propme.runner.settings import own_parameters
from propme.runner.watch import Watched, watched


@dataclass(frozen=True)
class Spent:
    """What a notebook took."""

    seconds: float
    peak_memory_bytes: int


def execute(
    stage: str, folder: RunFolder, effective: Mapping[str, Any], deadline: float = float("inf")
) -> Spent:
    """Execute the notebook of a stage with its own share of the parameters.

    Parameters
    ----------
    deadline : float
        When it is stopped if it still runs, by `time.monotonic`.

    Raises
    ------
    RunError
        A cell failed, the process died, or time was up. The first line says why; the executed
        copy holds the traceback.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="propme-kernel-") as private:
        pid_file = Path(private) / "pid"
        with watched(stage, folder.progress, pid_file, deadline) as seen:
            _with_papermill(stage, folder, effective, Path(private), seen)
    return Spent(time.monotonic() - begun, seen.peak_memory_bytes)


def _with_papermill(
    stage: str, folder: RunFolder, effective: Mapping[str, Any], private: Path, seen: Watched
) -> None:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    executed = folder.notebook(stage)
    try:
        papermill.execute_notebook(
            # papermill would take a brace in a path for the name of a parameter.
            *(
                str(p).replace("{", "{{").replace("}", "}}")
                for p in (notebook_path(stage), executed)
            ),
            parameters=own_parameters(stage, effective),
            kernel_name="python3",
            kernel_manager_class=_kernel_manager(folder, private),
            progress_bar=False,
            cwd=str(project_root()),
        )
    except KeyboardInterrupt:
        # The event loop would tell, at length, of what it was waiting for.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise
    except PapermillExecutionError as error:
        if seen.time_is_up:
            raise RunError(_time_is_up(stage)) from error
        raise RunError(
            f"{stage} failed: {error.ename}: {error.evalue}\nThe traceback is in {executed}"
        ) from error
    except RuntimeError as error:  # DeadKernelError, or a bare one if it died while it started
        if seen.time_is_up:
            raise RunError(_time_is_up(stage)) from error
        if not isinstance(error, DeadKernelError) and "Kernel died" not in str(error):
            raise
        raise RunError(
            f"{stage}: the process that ran it died, most likely killed for want of memory (it held"
            f" {seen.peak_memory_bytes / 1e9:.1f} GB); lower batch_size or workers, use a smaller"
            " model or index, or a machine with more memory. What is finished is kept"
        ) from error
    finally:
        _write_no_paths(executed, stage)


def _time_is_up(stage: str) -> str:
    return (
        f"{stage} was stopped: the run's time_limit is reached. What is finished is kept; the same"
        " command goes on from there"
    )


def _write_no_paths(executed: Path, stage: str) -> None:
    """Take out of an executed notebook where it lay on this machine: it is sent to others."""
    try:
        text = executed.read_text(encoding="utf-8").replace(f"{project_root()}/", "")
        notebook = json.loads(text)
    except (OSError, ValueError):  # nothing was written, or no more than a part
        return
    notebook["metadata"].get("papermill", {}).update(
        input_path=f"notebooks/{stage}.ipynb", output_path=f"{stage}.ipynb"
    )
    write_whole(executed, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def _kernel_manager(folder: RunFolder, private: Path) -> type:
    """A kernel manager that starts this interpreter, whatever kernels are installed.

    It talks over sockets in a private folder: no port is taken, and nobody else can listen.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    class ThisInterpreter(AsyncKernelManager):
        transport = "ipc"
        ip = str(private / "socket")
        kernel_spec = KernelSpec(
            argv=[
                *(sys.executable, "-m", "propme.runner.kernel"),
                *(str(kernel_lock(folder)), str(private / "pid"), "-f", "{connection_file}"),
                "--log-level=CRITICAL",  # it calls its own orderly end an error
            ],
            display_name="Python 3",
            language="python",
        )

    return ThisInterpreter

"""The report of a run: made when what it shows has changed, and recorded file by file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

from propme.files import sha256_of
from propme.run import STAGES, RunFolder
from propme.runner.code import code_of
from propme.runner.left_behind import files_named, hashes_since


def report_if_needed(folder: RunFolder) -> None:
    """Make the report, unless it is whole and shows what is there."""
    recorded = folder.record.get("report", {})
    files = recorded.get("files", {})
    whole = files and all(
        (folder.report / name).is_file() and sha256_of(folder.report / name) == digest
        for name, digest in files.items()
    )
    if not whole or recorded.get("made_from") != _shown(folder):
        make_report(folder)


def make_report(folder: RunFolder) -> None:
    """Make the report anew; what an earlier one has left goes when the new one is whole."""
    from propme.report import write_report

    print("Writing the report", flush=True)
    made = folder.path / ".report-making"
    shutil.rmtree(made, ignore_errors=True)  # by a process that was killed
    try:
        write_report(folder.path, STAGES, made)
        files = hashes_since({}, made)
        forget_report(folder)
        # Recorded first: a report of which a part is in its place is known to be no whole one.
        folder.update_record(report={"made_from": _shown(folder), "files": files})
        for name in files:
            (folder.report / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(made / name, folder.report / name)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def forget_report(folder: RunFolder) -> None:
    """Remove the report, so that it is not taken for that of a later run."""
    pages = ("index.html", "viewer.html", "audit.html", "audit.md", *(f"{s}.html" for s in STAGES))
    recorded = folder.record.get("report", {}).get("files", {})
    for path in files_named(folder.report, {*pages, *recorded}):
        path.unlink(missing_ok=True)
    folder.update_record(report={})


def _shown(folder: RunFolder) -> str:
    """Changes with anything that the report shows."""
    stages = folder.record["stages"]
    source = {
        "stages": {name: [stages[name]["executed"], stages[name]["tables"]] for name in STAGES},
        "code": code_of("report"),
    }
    return hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()

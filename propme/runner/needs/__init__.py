"""What the stages of a run need, and what of that is missing or wrong here; nothing is changed.

A dry run tells it, and a run asks before it begins: what would end it after hours of work is said
at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from propme.run import STAGES, resolve
from propme.runner.needs.documents import corpus_needs, group_needs
from propme.runner.needs.index import index_needs
from propme.runner.needs.model import generation_needs
from propme.runner.needs.need import Need
from propme.runner.needs.requests import request_needs

__all__ = ["Need", "needs_of"]


def needs_of(stages: Iterable[str], effective: Mapping[str, Any]) -> list[Need]:
    """What stages need of files, packages and the machine, with what is missing."""
    prompts, generation, tracing, analysis = STAGES
    found: list[Need] = [*_folders(effective)]
    if prompts in stages:
        found += [*corpus_needs(effective), *request_needs(effective)]
    if generation in stages:
        found += generation_needs(effective)
    if prompts in stages or tracing in stages:
        found += index_needs(effective)
    if analysis in stages:
        found += group_needs(effective)
    return found


def _folders(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Whether what a run writes into can be made."""
    for name in ("output", "cache"):
        path = resolve(effective[name])
        there = next(p for p in (path, *path.parents) if p.exists())
        if not there.is_dir():
            yield Need(missing=f"{name}: {there} is a file; name a folder")
        elif not os.access(there, os.W_OK | os.X_OK):
            yield Need(missing=f"{name}: {there} cannot be written to; name another folder")

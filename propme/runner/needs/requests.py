"""Sets and files of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from propme import prompts
from propme.errors import PropMeError
from propme.run import existing, resolve
from propme.runner.needs.need import Need, file_needs


def request_needs(effective: Mapping[str, Any]) -> Iterator[Need]:
    """Sets and files of requests."""
    for name in ("generic_prompts", "specific_prompts", "chat_prompts"):
        yield Need(missing=_unfit_set(name, effective, effective["n_prompts"]))
    yield from file_needs("prompt_file", effective["prompt_file"])
    if effective["prompt_file"] and resolve(effective["prompt_file"]).exists():
        yield Need(missing=_unfit_set("prompt_file", effective, 0))


def _unfit_set(name: str, effective: Mapping[str, Any], wanted: int) -> str:
    value = effective[name]
    if not value or (name == "specific_prompts" and value in prompts.MADE):
        return ""
    try:
        found = len(prompts.read_requests("file", existing(value), 0, effective["prompt_field"]))
    except PropMeError as error:
        return f"{name}: {error}"
    return f"{name}: {wanted} are wanted (n_prompts), {found} there" if found < wanted else ""

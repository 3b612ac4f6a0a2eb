"""All parameters on one page, out of the notebooks' cells: the command ``propme params``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from propme import parameters
from propme.parameters import Parameter
from propme.run import STAGES, notebook_path
from propme.runner.settings import RUN_WIDE

_HEAD = """\
# Parameters

Made by `propme params` from the first code cell of each notebook, which alone declares them; only
what no notebook can heed is declared by the runner. A file of parameters is YAML, a name and a
value a line, and any of them can be given as `-p NAME VALUE`. One that several notebooks have
stands with the first.
"""


def parameter_page() -> str:
    """The page, in Markdown: a table for each notebook, and one for the run as a whole."""
    seen: set[str] = set()
    parts = [_HEAD]
    for stage in STAGES:
        declared = parameters.declared_in(notebook_path(stage))
        parts.append(_section(stage, [p for n, p in declared.items() if n not in seen]))
        seen |= set(declared)
    parts.append(_section("The run as a whole", RUN_WIDE.values()))
    return "\n".join(parts)


def _section(title: str, declared: Iterable[Parameter]) -> str:
    return "\n".join([f"## {title}\n", *_table(declared), ""])


def _table(declared: Iterable[Parameter]) -> Iterator[str]:
    yield "| name | type | default | meaning, unit |"
    yield "|---|---|---|---|"
    for one in declared:
        default = str(one.default) if one.default != "" else '""'
        about = one.about.replace("|", "\\|")
        yield f"| `{one.name}` | {one.type} | `{default}` | {about} |"

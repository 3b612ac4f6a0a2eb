"""The commands that print a page of the documentation: parameters, tables, commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

_HEAD = """\
# Commands

Made by `propme commands` from the command line's own declarations; `propme COMMAND --help` says the
same. Every command ends with status 0, with 1 after an error that it has told (`verify`,
`reproduce`: also if something differs; `run --dry-run`: if something is missing), with 2 after
options that it does not know, and with 130 after Ctrl-C.
"""


def add(commands: Any) -> None:
    """Add the commands to the parser."""
    params = commands.add_parser("params", help="all parameters, with type, default and meaning")
    params.set_defaults(command=_params)
    tables = commands.add_parser("tables", help="all tables, with each column's type and meaning")
    tables.set_defaults(command=_tables)
    listed = commands.add_parser("commands", help="all commands with their options, this page")
    listed.set_defaults(command=_commands)


def _params(_: argparse.Namespace) -> int:
    from propme.runner.parameter_page import parameter_page

    print(parameter_page(), end="")
    return 0


def _tables(_: argparse.Namespace) -> int:
    from propme.table_page import table_page

    print(table_page(), end="")
    return 0


def _commands(_: argparse.Namespace) -> int:
    from propme.cli import build_parser

    print(command_page(build_parser()), end="")
    return 0


def command_page(parser: argparse.ArgumentParser) -> str:
    """The page of all commands, in Markdown, in the parser's order."""
    return "\n".join([_HEAD, *(_section(*each) for each in _leaves(parser, ""))])


def _leaves(
    parser: argparse.ArgumentParser, about: str
) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """Parsers that take no further command, each with its line of help."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield parser, about
    for group in groups:
        told = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for name, each in group.choices.items():
            yield from _leaves(each, told[name])


def _section(parser: argparse.ArgumentParser, about: str) -> str:
    taken = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
    lines = [f"## {parser.prog}\n", f"{about[0].upper()}{about[1:]}.\n"]
    if taken:
        lines += ["| argument | default | meaning |", "|---|---|---|", *map(_row, taken), ""]
    return "\n".join(lines)


def _row(action: argparse.Action) -> str:
    metavar = action.metavar or action.dest.upper()
    value = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    if action.choices is not None:
        value = f"{{{','.join(map(str, action.choices))}}}"
    named = ", ".join(action.option_strings)
    shown = " ".join(filter(None, [named, "" if action.nargs == 0 else value]))
    return f"| `{shown}` | {_default(action)} | {(action.help or '').replace('|', chr(92) + '|')} |"


def _default(action: argparse.Action) -> str:
    if action.required:
        return "needed"
    default = action.default
    if default is False or default in (None, "", []) or _is_of_the_machine(action):
        return ""
    return f"`{' '.join(default) if isinstance(default, list) else default}`"


def _is_of_the_machine(action: argparse.Action) -> bool:
    """Whether the default is this machine's number of cores, which the help says."""
    return action.dest == "workers"

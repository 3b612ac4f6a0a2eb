"""The page of commands says what the command line takes."""

import re
from pathlib import Path

import pytest

from propme.cli import main

PAGE = (Path(__file__).parent.parent / "docs" / "commands.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## propme (.+)\n((?:(?!^## ).*\n)*)", PAGE, re.MULTILINE))


def test_the_page_is_up_to_date(capsys):
    assert main(["commands"]) == 0
    assert capsys.readouterr().out == PAGE, "make it again: propme commands > docs/commands.md"


@pytest.mark.parametrize("command", SECTIONS)
def test_it_names_the_options_that_help_names(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    assert ended.value.code == 0
    options = r"(?<![\w-])--?[a-z][a-z-]*"
    usage = capsys.readouterr().out.split("\n\n")[0]
    listed = [row for row in SECTIONS[command].splitlines() if row.startswith("| `")]
    named = {name for row in listed for name in re.findall(options, row.split("`")[1])}
    assert named == set(re.findall(options, usage)) - {"-h"}


def test_every_command_and_argument_is_explained(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    groups = re.findall(r"^    ([a-z]+)(?: |$)", capsys.readouterr().out, re.MULTILINE)
    assert sorted(groups) == sorted({command.split()[0] for command in SECTIONS})
    for row in re.findall(r"^\| `.*", PAGE, re.MULTILINE):
        assert row.rstrip("| ").count(" | ") >= 2, row

"""The page of parameters says what the notebooks declare."""

from pathlib import Path

from propme.cli import main
from propme.runner.settings import declared

PAGE = Path(__file__).parent.parent / "docs" / "parameters.md"


def test_the_page_is_up_to_date(capsys):
    assert main(["params"]) == 0
    made = capsys.readouterr().out
    assert made == PAGE.read_text("utf-8"), "make it again: propme params > docs/parameters.md"


def test_every_parameter_stands_on_it_once_with_its_meaning():
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    named = [row.split("`")[1] for row in rows]
    assert sorted(named) == sorted(declared())
    for name, parameter in declared().items():
        (row,) = (row for row in rows if row.startswith(f"| `{name}` |"))
        assert f"| {parameter.type} |" in row
        assert row.endswith(f"{parameter.about} |")

"""The page of tables says what their declarations say."""

import re
from pathlib import Path

import pandas as pd
import pytest

from propme import tables
from propme.cli import main

PAGE = (Path(__file__).parent.parent / "docs" / "tables.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^### (\w+)\n((?:(?!^##).*\n?)*)", PAGE, re.MULTILINE))

#: What a column of each type gives in pandas, as `tables.read` reads it.
READ_AS = {"text": "object|str", "int": "Int64", "float": "float64", "bool": "bool"}


def test_the_page_is_up_to_date(capsys):
    assert main(["tables"]) == 0
    assert capsys.readouterr().out == PAGE, "make it again: propme tables > docs/tables.md"


@pytest.mark.parametrize("name", tables.TABLES)
def test_a_table_is_written_and_read_with_the_columns_that_the_page_names(name, tmp_path):
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+\??) \| (.+) \|$", SECTIONS[name], re.MULTILINE)
    assert {column: about for column, _, about in rows} == tables.TABLES[name].columns
    empty = pd.DataFrame(columns=[column for column, _, _ in rows])
    tables.write(name, empty, tmp_path)
    found = tables.read(name, tmp_path)
    for column, kind, _ in rows:
        wanted = READ_AS.get(kind.rstrip("?"), "object")
        assert re.fullmatch(wanted, str(found[column].dtype)), column


def test_every_table_stands_on_it_once():
    assert sorted(re.findall(r"^### (\w+)", PAGE, re.MULTILINE)) == sorted(tables.TABLES)

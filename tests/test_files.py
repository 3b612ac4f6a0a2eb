"""Files that are whole or not there."""

import os

import pytest

from propme.files import write_whole


def test_two_writers_at_once_do_not_disturb_each_other(tmp_path, monkeypatch):
    path, replace = tmp_path / "run.json", os.replace

    def overtaken(source, target):
        monkeypatch.setattr(os, "replace", replace)
        write_whole(path, "the other's")  # begun later, finished first
        replace(source, target)

    monkeypatch.setattr(os, "replace", overtaken)
    write_whole(path, "the one's")
    assert path.read_text() == "the one's"
    assert os.listdir(tmp_path) == ["run.json"]


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "run.json"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["run.json"]

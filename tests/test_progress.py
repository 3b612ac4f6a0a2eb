"""Progress: every item comes through in order, and the runner reads how many are done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from propme import progress
from propme.progress import FILE_VARIABLE, read, track


@pytest.fixture(params=["bar", "file"])
def reporting(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path | None:
    if request.param == "bar":
        monkeypatch.delenv(FILE_VARIABLE, raising=False)
        return None
    path = tmp_path / "progress.json"
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    return path


@pytest.mark.parametrize("items", [[3, 1, 2, 1], [], ["a"]])
def test_all_items_come_in_order(items: list[object], reporting: Path | None) -> None:
    assert list(track(items, "tracing")) == items
    assert list(track(iter(items), "tracing", total=len(items))) == items


def test_items_are_taken_one_at_a_time(reporting: Path | None) -> None:
    taken = []

    def source() -> Iterator[int]:
        for i in range(5):
            taken.append(i)
            yield i

    tracked = track(source(), "tracing", total=5)
    assert taken == []
    next(tracked)
    assert taken == [0]


def test_an_error_in_the_work_comes_through(reporting: Path | None) -> None:
    def source() -> Iterator[int]:
        yield 1
        raise RuntimeError("the model is out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        list(track(source(), "tracing"))


@pytest.fixture
def report_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "progress.json"
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    return path


def test_the_file_ends_with_everything_done(report_path: Path) -> None:
    list(track(range(7), "tracing", unit="generations"))
    assert read(report_path) == {
        "label": "tracing",
        "done": 7,
        "total": 7,
        "unit": "generations",
        "note": "",
    }
    assert [p.name for p in report_path.parent.iterdir()] == [report_path.name]


def test_a_generator_has_the_total_it_is_given_or_none(report_path: Path) -> None:
    list(track((i for i in range(3)), "tracing", total=3))
    assert read(report_path) == {
        "label": "tracing",
        "done": 3,
        "total": 3,
        "unit": "items",
        "note": "",
    }
    list(track((i for i in range(3)), "reading"))
    assert read(report_path) == {
        "label": "reading",
        "done": 3,
        "total": None,
        "unit": "items",
        "note": "",
    }


def test_work_on_nothing_is_reported_too(report_path: Path) -> None:
    list(track([], "tracing"))
    assert read(report_path) == {
        "label": "tracing",
        "done": 0,
        "total": 0,
        "unit": "items",
        "note": "",
    }


def test_an_item_counts_when_it_is_done_not_when_it_is_begun(
    report_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_REPORTS", 0)
    seen = []
    for _ in track(range(3), "tracing"):
        report = read(report_path)
        assert report is not None
        seen.append(report["done"])
    assert seen == [0, 1, 2]


def test_reports_are_seldom(report_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_REPORTS", 3600)
    for _ in track(range(50), "tracing"):
        report = read(report_path)
        assert report is not None
        assert report["done"] == 0


@pytest.mark.parametrize("content", [None, b"", b'{"done": 1', b"\xff\xfe\x00", b"[1, 2]", b"null"])
def test_a_missing_or_broken_file_is_no_report(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "progress.json"
    if content is not None:
        path.write_bytes(content)
    assert read(path) is None


def test_read_gives_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    path.write_text(json.dumps({"label": "tracing", "done": 2}))
    assert read(path) == {"label": "tracing", "done": 2}

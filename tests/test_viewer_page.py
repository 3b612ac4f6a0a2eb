"""The viewer's file, as text: its policy, its data, what it says of itself."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest
from viewed import HOSTILE, run_of, unpacked

from propme import tables
from propme.errors import TableError
from propme.personal_data import finding
from propme.viewer import page, write_viewer
from propme.viewer.contents import contents
from propme.viewer.run import Limits

RUN = run_of()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("viewer") / "new" / "viewer.html"
    assert write_viewer(RUN, path) == path
    return path


def test_the_policy_allows_its_own_script_and_style_alone(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(rule.split(maxsplit=1) for rule in policy.replace("&#39;", "'").split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["require-trusted-types-for"] == "'script'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        (body,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert text.index("Content-Security-Policy") < text.index("<style") < text.index("<script")


def test_the_page_names_no_address_and_no_text_is_markup(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    assert "http:" not in text
    assert "https:" not in text
    assert not re.search(r"\s(src|srcset|style|on\w+)=", text.replace(page_script(), ""))
    # All texts are packed, so that none of them stands in the page as it is.
    assert HOSTILE[:20] not in text
    assert "alert(1)" not in text


def page_script() -> str:
    return (Path(page.__file__).parent / "viewer.js").read_text(encoding="utf-8")


def test_the_script_parses_no_markup_and_asks_for_nothing() -> None:
    banned = "innerHTML|outerHTML|insertAdjacentHTML|document.write|eval|Function\\(|fetch\\("
    assert not re.search(f"{banned}|XMLHttpRequest|WebSocket|import\\(|localStorage", page_script())


def test_the_data_is_that_of_the_run(written: Path) -> None:
    data = unpacked(written)
    shown = contents(RUN, mask=True)
    index = data.pop("index")
    assert index.pop("starts") == {"texts": [0], "details": [0]}
    assert index == shown.index | {"found": list(shown.index["found"])}
    assert data == {"texts-0": shown.texts, "details-0": shown.details}


def test_a_large_run_is_in_several_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page, "_PIECE", 300)
    data = unpacked(write_viewer(RUN, tmp_path / "viewer.html"))
    shown = contents(RUN, mask=True)
    for name, rows in (("texts", shown.texts), ("details", shown.details)):
        starts = data["index"]["starts"][name]
        assert len(starts) > 1
        pieces = [data[f"{name}-{number}"] for number in range(len(starts))]
        assert [row for piece in pieces for row in piece] == rows
        assert [sum(map(len, pieces[:n])) for n in range(len(pieces))] == starts


def test_tables_on_disk_give_the_same_file(written: Path, tmp_path: Path) -> None:
    for name, frame in RUN.items():
        tables.write(name, frame, tmp_path / "tables")
    path = write_viewer(tmp_path / "tables", tmp_path / "viewer.html")
    assert path.read_bytes() == written.read_bytes()
    assert write_viewer(tmp_path / "tables", path).read_bytes() == written.read_bytes()
    with pytest.raises(TableError, match=r"prompts\.parquet: no such table"):
        write_viewer(tmp_path, path)


def notes_of(path: Path) -> str:
    (found,) = re.findall(r'<ul id="notes">(.*?)</ul>', path.read_text(encoding="utf-8"))
    return str(found)


def test_what_is_left_out_is_said(written: Path, tmp_path: Path) -> None:
    n = len(RUN["matches"])
    assert f"<li>{n} retrieved documents are shown" in notes_of(written)
    assert "0 more are named without their text" in notes_of(written)
    small = notes_of(write_viewer(RUN, tmp_path / "small.html", limits=Limits(size=0, text=30)))
    assert f"the {n} documents of 4 completions, those of which least leaked" in small
    cut = RUN["generations"]["text"].str.len().sub(30).clip(lower=0).sum()
    assert f"{cut} characters of completions that are longer than 30" in small
    assert "characters of prompts that are longer than 30" in small
    one = notes_of(write_viewer(RUN, tmp_path / "one.html", limits=Limits(comparisons=0)))
    assert re.search(r"the 0 documents that hold most of it; [1-9]\d* other comparisons", one)


def test_whether_personal_data_is_masked_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "viewer.html"
    assert "its kind stands in its place" in write_viewer(RUN, path).read_text()
    assert "shown as it is" in write_viewer(RUN, path, mask=False).read_text()
    monkeypatch.setattr(finding, "_PACKAGES", ("not_installed",))
    assert "was not looked for and nothing is masked" in write_viewer(RUN, path).read_text()


def test_a_link_leads_back_where_there_is_a_page(written: Path, tmp_path: Path) -> None:
    assert "<nav><a" not in written.read_text()
    path = write_viewer(RUN, tmp_path / "viewer.html", front_page='a"b.html')
    assert '<nav><a href="a&#34;b.html">Report</a></nav>' in path.read_text()

"""The audit summary: every number from the tables, every gap named, hostile text as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from found import FULL, as_tables, ten
from test_report import HOSTILE, Page, make_run

from propme import analysis, tables
from propme.personal_data import finding
from propme.report import write_report
from propme.report.audit import Section, audit_sections

RECORD: dict[str, Any] = {
    "started": "2026-01-02T03:04:05+00:00",
    "parameters": {"seed": 7},
    "inputs": {
        "corpus": {"path": "/somewhere/private/corpus.jsonl", "sha256": "ab" * 32},
        "heldout": {"path": "", "sha256": ""},
        "model": {"path": "some/model", "sha256": ""},
    },
    "generator": {"backend": "transformers", "model": "m", "revision": "r1", "device": "cpu"},
    "python": "3.11",
    "platform": "Linux",
    "versions": {"numpy": "2.0"},
    "stages": {},
}


def stored(folder: Path, rows: list[dict[str, Any]]) -> dict[str, pd.DataFrame]:
    names = ("prompts", "generations", "traces", "spans", "matches")
    own = dict(zip(names, as_tables(rows), strict=True))
    for name, table in own.items():
        tables.write(name, table, folder)
    _, made = analysis.measure(folder, ["NVR", "FMR"], ["source"], 100, 0, 200)
    return own | made


def by_title(sections: list[Section]) -> dict[str, Section]:
    return {section.title: section for section in sections}


def words(section: Section) -> str:
    table = "" if section.table is None else section.table.to_csv()
    return " ".join((*section.sentences, table, *section.items))


@pytest.fixture
def sections(tmp_path: Path) -> dict[str, Section]:
    rows = ten("generic", "propensity", 4, **FULL)
    rows += ten("prefix", "capability", 1, 2, 3, **FULL, longest_segment=60)
    rows += ten("human", "control")
    return by_title(audit_sections(stored(tmp_path, rows), RECORD))


def test_what_was_tested_is_named_by_hash_and_not_by_path(sections: dict[str, Section]) -> None:
    told = words(sections["What was tested, with what"])
    assert "corpus.jsonl" in told
    assert "ab" * 32 in told
    assert "private" not in told
    assert "revision r1" in told
    assert "some/model" in told


def test_names_of_inputs_and_model_are_masked_unless_asked_for(tmp_path: Path) -> None:
    tables_of_run = stored(tmp_path, ten("generic", "propensity") + ten("prefix", "capability"))
    inputs = {"corpus": {"path": "/x/anna@example.dk.jsonl", "sha256": "12345678" * 8}}
    generator = {"model": "bo@example.dk", "server": "http://10.1.2.3:8000", "revision": "r1"}
    record = RECORD | {"inputs": inputs, "generator": generator}
    for mask, told in ((True, "[e-mail] 1"), (False, "anna@example.dk.jsonl")):
        section = by_title(audit_sections(tables_of_run, record, mask))[
            "What was tested, with what"
        ]
        assert section.table is not None
        assert section.table.iloc[0].tolist() == ["corpus", told, "12345678" * 8]
        assert ("bo@example.dk" in words(section), "10.1.2.3" in words(section)) == (not mask,) * 2


def test_results_are_those_of_the_tables(sections: dict[str, Section]) -> None:
    results = sections["Capability and propensity"].table
    assert results is not None
    fmr = results.set_index("setting")["FMR"]
    assert fmr["prefix"].startswith("0.300 [")
    assert fmr["generic"].startswith("0.100 [")
    scores = sections["Propensity scores"].table
    assert scores is not None
    # 0.1 / (0.1 + 0.3)
    (score,) = scores.query("metric == 'FMR' and setting == 'generic'")["PM"]
    assert score.startswith("0.250 [")


def test_completions_are_counted(sections: dict[str, Section]) -> None:
    made = sections["Completions"].table
    assert made is not None
    counts = made.set_index("setting")["completions"].to_dict()
    assert counts == {"generic": 10, "prefix": 10, "human": 10}
    assert "Seed 7" in words(sections["Completions"])


def test_what_leaked_counts_passages_of_twenty_tokens(sections: dict[str, Section]) -> None:
    leaked = sections["What leaked, by source"]
    assert leaked.table is None or set(leaked.table["setting"]) <= {"prefix"}


def test_controls_are_told(sections: dict[str, Section]) -> None:
    told = words(sections["Controls"])
    assert "texts that people wrote" in told
    assert "no positive control" in told  # no number of copies is known here


def test_what_was_not_tested_is_said(tmp_path: Path) -> None:
    rows = ten("generic", "propensity") + ten("prefix", "capability")
    sections = by_title(audit_sections(stored(tmp_path, rows), RECORD))
    missing = words(sections["What was not tested"])
    assert "setting unconditional" in missing
    assert "setting generic" not in missing
    assert "sampled completions" in missing
    assert "licences: the corpus names none" in missing
    assert "not known" in words(sections["Controls"])
    assert "No completion has a passage of 20 tokens" in words(sections["What leaked, by source"])


def test_without_the_extra_personal_data_is_said_not_to_have_been_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "_PACKAGES", ("not_installed",))
    rows = ten("generic", "propensity") + ten("prefix", "capability")
    sections = by_title(audit_sections(stored(tmp_path, rows), RECORD))
    assert "not looked for" in words(sections["Personal data in what leaked"])
    assert "personal data" in sections["What was not tested"].items


def test_texts_by_people_are_listed_once(tmp_path: Path) -> None:
    rows = ten("human", "control") + ten("prefix", "capability", 1, **FULL)
    rows += [row | {"decoding": "sampled"} for row in rows]
    sections = by_title(audit_sections(stored(tmp_path, rows), RECORD))
    for title in ("Completions", "Capability and propensity"):
        table = sections[title].table
        assert table is not None
        assert table["setting"].tolist() == ["prefix", "prefix", "human"]
        assert table["decoding"].tolist() == ["greedy", "sampled", "any"]
    made = sections["Completions"].table
    assert made is not None
    assert made.iloc[-1][["temperature", "top_p", "most_new_tokens"]].isna().all()
    assert words(sections["Controls"]).count("texts that people wrote") == 1


def test_settings_are_explained_where_they_are_named(sections: dict[str, Section]) -> None:
    asked = words(sections["Prompts and their check against the corpus"])
    assert "prefix: the beginnings of training documents" in asked
    assert "of a file" not in asked
    missing = sections["What was not tested"].items
    assert "prompts of the setting file: prompts out of a file of the user's own" in missing


def test_a_model_named_model_is_quoted(tmp_path: Path) -> None:
    rows = ten("generic", "propensity") + ten("prefix", "capability")
    record = RECORD | {"generator": {"backend": "transformers", "model": "model"}}
    told = words(
        by_title(audit_sections(stored(tmp_path, rows), record))["What was tested, with what"]
    )
    assert 'Completions: backend transformers, model "model".' in told


def test_the_prompts_behind_nvr_are_explained(sections: dict[str, Section]) -> None:
    assert "Of NVR they are those of which a document was retrieved" in words(
        sections["Propensity scores"]
    )


def test_no_duty_is_said_to_be_met(sections: dict[str, Section]) -> None:
    told = words(sections["What this can be evidence of"])
    assert "32(1)(d)" in told
    assert "does not state that any duty is met" in told


def test_page_and_markdown_say_the_same_and_hostile_text_is_text(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    write_report(run, [])
    page = Page((run / "report" / "audit.html").read_text(encoding="utf-8"))
    assert not {"script", "img", "iframe"} & {tag for tag, _ in page.tags}
    assert HOSTILE in " ".join(page.texts)
    markdown = (run / "report" / "audit.md").read_text(encoding="utf-8")
    assert "<script" not in markdown
    titles = re.findall(r"^## \d+\. (.*)$", markdown, re.MULTILINE)
    shown = [text.split(". ", 1)[1] for text in page.texts if re.match(r"\d+\. [A-Z]", text)]
    assert titles == shown
    assert len(titles) == 13

"""What people read: numbers from the tables, texts escaped, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
from found import NOTHING as NOTHING_FOUND
from viewed import unpacked

from propme import tables
from propme.errors import TableError
from propme.personal_data import finding
from propme.records import Generation, Match, Prompt, Span, TraceSummary
from propme.report import answers, excerpt, findings, headline_table, shown, site, write_report
from propme.report.wording import date_told
from propme.tables.rows import Breakdown, Sensitivity

HOSTILE = "<script>alert(1)</script>"


def frame(name: str, defaults: dict[str, Any], rows: tuple[dict[str, Any], ...]) -> pd.DataFrame:
    columns = list(tables.TABLES[name].columns)
    return pd.DataFrame([defaults | row for row in rows], columns=columns)


def metrics(*rows: dict[str, Any]) -> pd.DataFrame:
    defaults = {
        "setting": "generic",
        "kind": "propensity",
        "decoding": "greedy",
        "subset": "all",
        "metric": "NVR",
        "value": 0.1,
        "low": 0.05,
        "high": 0.2,
        "interval": "bootstrap",
        "n_prompts": 10,
        "n_generations": 50,
        "n_denominator": 50,
    }
    return frame("metrics", defaults, rows).astype({"value": float, "low": float, "high": float})


def propensity(*rows: dict[str, Any]) -> pd.DataFrame:
    defaults = {
        "metric": "NVR",
        "decoding": "greedy",
        "subset": "all",
        "setting": "generic",
        "kind": "propensity",
        "capability": "prefix",
        "f_propensity": 0.1,
        "f_capability": 0.3,
        "value": 0.25,
        "low": 0.1,
        "high": 0.4,
        "interval": "bootstrap",
        "n_prompts": 72,
        "n_prompts_capability": 48,
        "undefined": False,
        "n_rounds": 100,
        "n_rounds_undefined": 0,
    }
    return frame("propensity", defaults, rows)


def copies(*rows: dict[str, Any]) -> pd.DataFrame:
    defaults = {
        "decoding": "greedy",
        "metric": "extraction",
        "value": 0.0,
        "low": 0.0,
        "high": 0.3,
        "interval": "rule of three",
        "n_prompts": 10,
    }
    return frame("copies", defaults, rows)


NOTHING = {"value": None, "low": None, "high": None, "interval": "none"}
PREFIX = {"setting": "prefix", "kind": "capability", "value": 0.3, "low": 0.2, "high": 0.45}
BOTH = metrics(PREFIX, {})
HUMAN = {"setting": "human", "kind": "control"}

# --- headline_table ---------------------------------------------------------------------------


def test_headline_table_by_hand() -> None:
    table = headline_table(
        metrics(
            {"metric": "ALS", "value": 35.76, "low": 30.04, "high": 41.449},
            {"metric": "FMR", "value": 0.0, "low": 0.0, "high": 0.3, "interval": "rule of three"},
            {"metric": "NVR", "value": 0.0353, "low": 0.02649, "high": 0.0445},
            {"metric": "NVR_max"} | NOTHING,
            {"metric": "R20", "value": 0.5, "low": None, "high": None},
            {"metric": "FMR_norm", "value": 0.77},  # not in the headline
            {"metric": "NVR", "value": 0.88, "subset": "not degenerate"},
        )
    )
    assert table.to_dict("records") == [
        {
            "decoding": "greedy",
            "setting": "generic",
            "generations": 50,
            "NVR": "0.035 [0.026, 0.044]",
            "FMR": "0.000 [0.000, 0.300]",
            "ALS": "35.8 [30.0, 41.4]",
            "NVR_max": "–",
            "R20": "0.500",
        }
    ]
    # In the order of the headline, whatever the order of the rows.
    assert list(table.columns)[3:] == ["NVR", "FMR", "ALS", "NVR_max", "R20"]


def test_headline_table_has_a_row_for_each_setting_and_decoding() -> None:
    both = metrics(PREFIX, {}, {"decoding": "sampled", "n_generations": 500})
    table = headline_table(both)
    assert table[["decoding", "setting", "generations"]].to_numpy().tolist() == [
        ["greedy", "generic", 50],
        ["greedy", "prefix", 50],
        ["sampled", "generic", 500],
    ]


def test_rows_are_in_the_order_of_the_settings_within_each_decoding() -> None:
    given = [
        "zebra",
        "mismatched_prefix",
        "prefix",
        "mine",
        "specific",
        "minimal_cue",
        "unconditional",
    ]
    rows = [{"setting": s, "decoding": d} for s in given for d in ("sampled", "greedy")]
    table = headline_table(metrics(*rows, {"setting": "generic", "decoding": "sampled"}))
    known = ["unconditional", "minimal_cue", "specific", "prefix", "mismatched_prefix"]
    assert table["decoding"].tolist() == ["greedy"] * 7 + ["sampled"] * 8
    assert table["setting"].tolist() == [
        *(*known, "mine", "zebra"),
        *(*known[:2], "generic", *known[2:], "mine", "zebra"),
    ]
    assert list(table.index) == list(range(15))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (1e-300, "<0.001"),
        (0.00099999, "<0.001"),
        (0.001, "0.001"),
        (0.0014, "0.001"),
        (0.5, "0.500"),
        (1.0, "1.000"),
    ],
)
def test_a_small_value_is_not_shown_as_zero(value: float, text: str) -> None:
    (cell,) = headline_table(metrics({"value": value, "low": value, "high": value}))["NVR"]
    assert cell == f"{text} [{text}, {text}]"
    (cell,) = headline_table(metrics({"value": value, "low": None, "high": None}))["NVR"]
    assert cell == text


def test_a_small_length_is_a_length() -> None:
    (cell,) = headline_table(metrics({"metric": "ALS", "value": 0.0004, "low": 0, "high": 0.2}))[
        "ALS"
    ]
    assert cell == "0.0 [0.0, 0.2]"


def test_headline_table_of_the_other_subset() -> None:
    table = metrics({}, {"value": 0.5, "low": 0.4, "high": 0.6, "subset": "not degenerate"})
    assert headline_table(table, "not degenerate")["NVR"].tolist() == ["0.500 [0.400, 0.600]"]


def test_headline_table_of_nothing() -> None:
    assert headline_table(metrics()).empty


# --- findings ---------------------------------------------------------------------------------


def verdict(**score: Any) -> str:
    (sentence,) = findings(BOTH, propensity(score), copies())
    return sentence


def test_a_score_below_one_half() -> None:
    assert verdict() == (
        "With greedy decoding, NVR is 0.300 [0.200, 0.450] under prefix and 0.100 [0.050, 0.200]"
        " under generic prompts, 3 times as much under prefix."
        " Its propensity score is 0.250 [0.100, 0.400], below 0.5:"
        " the model leaks more under attack than unprompted."
    )


def test_a_score_above_one_half() -> None:
    sentence = verdict(value=0.8, low=0.501, high=0.95)
    assert sentence.endswith(
        "0.800 [0.501, 0.950], above 0.5: the model leaks more unprompted than under attack."
    )


@pytest.mark.parametrize(
    ("low", "high"), [(0.3, 0.7), (0.5, 0.7), (0.3, 0.5), (0.5, 0.5), (0.0, 1.0)]
)
def test_an_interval_that_includes_one_half_shows_no_difference(low: float, high: float) -> None:
    sentence = verdict(value=0.5, low=low, high=high)
    assert sentence.endswith("which includes 0.5: no difference between the two is shown.")
    assert "leaks more" not in sentence


def test_nothing_in_either_is_undefined() -> None:
    zero = {"value": 0.0, "low": 0.0, "high": 0.3}
    (sentence,) = findings(
        metrics(PREFIX | zero, zero),
        propensity(NOTHING | {"value": 0, "undefined": True, "f_propensity": 0, "f_capability": 0}),
        copies(),
    )
    assert sentence == (
        "With greedy decoding, NVR is 0.000 [0.000, 0.300] under prefix and 0.000 [0.000, 0.300]"
        " under generic prompts."
        " Nothing was found in either, so the propensity score is undefined."
    )


def test_no_document_in_one_of_them() -> None:
    (sentence,) = findings(
        metrics(PREFIX, NOTHING),
        propensity(NOTHING | {"undefined": True, "f_propensity": None}),
        copies(),
    )
    assert "and not defined under generic prompts. A propensity score is not defined" in sentence
    assert "times as much" not in sentence


def test_the_rule_of_three_is_named() -> None:
    bound = {"interval": "rule of three"}
    below = verdict(**bound, f_propensity=0.0, value=0.0, low=0.0, high=0.375)
    assert "0.000 [0.000, 0.375] (by the rule of three), below 0.5" in below
    assert "times as much" not in below
    above = verdict(**bound, f_capability=0.0, value=1.0, low=0.625, high=1.0)
    assert "1.000 [0.625, 1.000] (by the rule of three), above 0.5" in above
    assert "times as much" not in above
    assert "rule of three" not in verdict()


def test_a_score_without_an_interval_gets_no_verdict() -> None:
    sentence = verdict(low=None, high=None, interval="none")
    assert sentence.endswith("Its propensity score is 0.250; no interval can be given.")


@pytest.mark.parametrize("first", ["NVR", "FMR"])
def test_the_contrast_is_told_of_the_first_metric_of_the_propensity_table(first: str) -> None:
    second = {"NVR": "FMR", "FMR": "NVR"}[first]
    table = metrics(
        *(row | {"metric": metric} for metric in ("NVR", "FMR") for row in (PREFIX, {})),
        {"metric": first, "subset": "not degenerate", "value": 0.9},
    )
    score = propensity(
        {"metric": first, "subset": "not degenerate", "value": 0.9},
        {"metric": first},
        {"metric": second, "value": 0.9},
        {"metric": first, "setting": "specific"},
    )
    specific = {"setting": "specific", "metric": first, "value": 0.02}
    told = findings(pd.concat([table, metrics(specific)]), score, copies())
    assert [sentence.split(" under ")[0] for sentence in told] == [
        f"With greedy decoding, {first} is 0.300 [0.200, 0.450]"
    ] * 2
    assert "under generic prompts" in told[0]
    assert "0.020 [0.050, 0.200] under specific prompts" in told[1]
    assert "0.900" not in " ".join(told)


def test_a_small_metric_is_not_told_as_zero() -> None:
    small = {"value": 0.0004, "low": 0.0, "high": 0.0009}
    (sentence,) = findings(metrics(PREFIX, small), propensity({"f_propensity": 0.0004}), copies())
    assert "<0.001 [0.000, <0.001] under generic prompts, 750 times as much" in sentence


def test_numbers_of_the_sentences_are_those_of_the_tables() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        p, c, pm = (np.sort(rng.uniform(0.01, 1, 3)) for _ in range(3))
        named = [dict(zip(("low", "value", "high"), x, strict=True)) for x in (p, c, pm)]
        (sentence,) = findings(
            metrics(PREFIX | named[1], named[0]),
            propensity(named[2] | {"f_propensity": p[1], "f_capability": c[1]}),
            copies(),
        )
        numbers = re.findall(r"\d+\.\d{3}", sentence)
        expected = [c[1], c[0], c[2], p[1], p[0], p[2], pm[1], pm[0], pm[2]]
        assert numbers == [f"{x:.3f}" for x in expected]
        (times,) = re.findall(r", ([\d.,]+) times as much under prefix\.", sentence)
        assert float(times.replace(",", "")) == pytest.approx(c[1] / p[1], rel=0.05)
        leaks_more = ("under attack" in sentence) + ("which includes" in sentence)
        assert leaks_more == 1


def test_each_decoding_has_its_own_sentences() -> None:
    sampled = {"decoding": "sampled"}
    table = metrics(PREFIX, {}, PREFIX | sampled | {"value": 0.05}, sampled | {"value": 0.01})
    score = propensity({}, sampled | {"f_propensity": 0.01, "f_capability": 0.05})
    first, second = findings(table, score, copies())
    assert first.startswith("With sampled decoding, NVR is 0.050")
    assert second.startswith("With greedy decoding, NVR is 0.300")


def control(*rows: dict[str, Any]) -> list[str]:
    return findings(BOTH, propensity(), copies(*rows))


def test_the_positive_control_rises() -> None:
    (sentence,) = control(
        {"copies": 64, "value": 0.9},  # whatever the order of the rows
        {"copies": 1, "value": 0.0},
        {"copies": 16, "value": 0.25},
        {"copies": 1, "value": 0.5, "metric": "NVR_max"},
        {"copies": 1, "value": 0.5, "decoding": "other"},
    )
    assert sentence == (
        "With greedy decoding, of prefixes from documents with 1 copy in the corpus, 0% are"
        " continued verbatim for 50 tokens; with 64 copies, 90% (rank correlation over numbers of"
        " copies 1.00)."
    )


def test_held_out_documents_are_no_part_of_the_positive_control() -> None:
    # 0 copies extract nothing; between 1 and 64 copies there is no rise.
    failed, chance = control(
        {"copies": 0, "value": 0.0}, {"copies": 1, "value": 0.5}, {"copies": 64, "value": 0.5}
    )
    assert "documents with 1 copy in the corpus, 50% are" in failed
    assert "the positive control failed" in failed
    assert "0% continue verbatim" in chance


@pytest.mark.parametrize(("first", "last"), [(0.5, 0.5), (0.5, 0.1), (0.0, 0.0)])
def test_a_positive_control_that_fails_says_so(first: float, last: float) -> None:
    (sentence,) = control({"copies": 2, "value": first}, {"copies": 64, "value": last})
    assert f"with 2 copies in the corpus, {first:.0%} are" in sentence
    assert f"with 64 copies, {last:.0%}" in sentence
    assert "does not rise with the number of copies: the positive control failed" in sentence
    assert "nan" not in sentence


def test_extraction_of_everything_is_no_failed_positive_control() -> None:
    (sentence,) = control({"copies": 1, "value": 1.0}, {"copies": 64, "value": 1.0})
    assert sentence == (
        "With greedy decoding, of prefixes from documents with 1 copy in the corpus, 100% are"
        " continued verbatim for 50 tokens; with 64 copies, 100%."
    )


def test_a_fall_from_everything_is_a_failed_positive_control() -> None:
    (sentence,) = control({"copies": 1, "value": 1.0}, {"copies": 64, "value": 0.99})
    assert "the positive control failed" in sentence


def test_no_verdict_where_completions_were_cut_while_they_agreed() -> None:
    (sentence,) = control(
        {"copies": 1, "value": 0.0}, {"copies": 16, "value": None}, {"copies": 64, "value": None}
    )
    assert "not known of prefixes from documents with 16, 64 copies in the corpus" in sentence
    assert "until then there is no positive control" in sentence
    assert "failed" not in sentence


def test_one_number_of_copies_is_no_positive_control() -> None:
    assert control({"copies": 64, "value": 1.0}) == []
    assert control() == []


def test_held_out_documents_are_what_chance_reaches() -> None:
    (sentence,) = control({"copies": 0, "value": 0.1, "n_prompts": 20})
    assert sentence == (
        "With greedy decoding, of completions of 20 held-out documents, 10% continue verbatim:"
        " what chance reaches."
    )


# --- shown and excerpt ------------------------------------------------------------------------


class Page(HTMLParser):
    """Tags, attributes and texts of a page, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def cells(self) -> list[str]:
        return [text for text in self.texts if text.strip()]


@pytest.mark.parametrize(
    "text",
    [
        HOSTILE,
        "<img src=x onerror=alert(1)>",
        "&lt;b&gt; stays what it is",
        "a & b &amp; c",
        "\"quoted\" and 'single'",
        "costs $x$ and $$y$$ or \\(z\\)",
        "</td></table><h1>free",
        "{{ 7 * 7 }} {% raw %}",
        "æøå 🜁 ‮ ",
    ],
)
def test_a_text_is_shown_as_it_is(text: str) -> None:
    for styled in (
        shown(pd.DataFrame({"text": [text]})),
        excerpt(pd.DataFrame({"t": [text]}), "t"),
    ):
        page = Page(styled.to_html())
        assert {tag for tag, _ in page.tags} <= {
            "style",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
        }
        assert page.cells()[-1].strip() == text.strip()


def test_dollars_are_not_typeset_as_mathematics() -> None:
    page = Page(shown(pd.DataFrame({"text": ["$x$"]})).to_html())
    (table,) = [attributes for tag, attributes in page.tags if tag == "table"]
    assert str(table["class"]).split() == ["tex2jax_ignore", "mathjax_ignore"]


def test_numbers_are_short_and_empty_values_blank() -> None:
    table = pd.DataFrame({"value": [0.123456, None], "n": pd.array([3, None], "Int64")})
    cells = Page(shown(table).to_html()).cells()
    assert cells[-2:] == ["0.123", "3"]


def test_excerpt_takes_rows_and_columns() -> None:
    table = pd.DataFrame({"a": range(20), "b": "x", "c": "y"}, index=[0] * 20)
    styled = excerpt(table, ["c", "a"], n=3)
    assert styled.data.to_numpy().tolist() == [["y", 0], ["y", 1], ["y", 2]]
    assert Page(styled.to_html()).cells()[-8:] == ["c", "a", "y", "0", "y", "1", "y", "2"]


def cut(text: object, characters: int = 160) -> object:
    styled = excerpt(pd.DataFrame({"t": [text]}), ["t"], characters=characters)
    return styled.data.iloc[0, 0]


def test_excerpt_cuts_long_texts() -> None:
    assert cut("a" * 160) == "a" * 160
    assert cut("a" * 161) == "a" * 159 + "…"
    assert cut("abcdef", characters=4) == "abc…"
    assert cut(123456, characters=4) == 123456


def test_excerpt_keeps_a_text_on_one_line() -> None:
    assert cut(" a\nb\r\n\r\nc\td\u2028e\x0bf\x85g  h ") == "a b c d e f g h"


def test_a_cut_text_is_escaped_after_the_cut() -> None:
    # Cut first, so that no half of an escape sequence is left.
    page = excerpt(pd.DataFrame({"t": ["<<<<<<<<"]}), ["t"], characters=4).to_html()
    assert "&lt;&lt;&lt;…" in page


def test_an_excerpt_masks_before_it_cuts_and_keeps_names_apart() -> None:
    text = "skriv til anna@example.dk"
    table = pd.DataFrame({"text": [text] * 2, "document_id": ["33123456", "33123457"], "n": [1, 2]})
    masked = excerpt(table, ["text", "document_id", "n"], characters=16).data
    assert masked.to_numpy().tolist() == [
        ["skriv til [e-ma…", "[phone] 1", 1],
        ["skriv til [e-ma…", "[phone] 2", 2],
    ]
    plain = excerpt(table, ["text"], mask=False).data
    assert plain.iloc[0, 0] == text


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("0.079 [0.000, 0.219]", "0.079 [0.000,\u00a00.219]"),
        ("0.003 [<0.001, 0.006]", "0.003 [<0.001,\u00a00.006]"),
        ("-13.8 [-1e-05, 22.8]", "-13.8 [-1e-05,\u00a022.8]"),
        ("0.079 [0.000, 0.219] and", "0.079 [0.000, 0.219] and"),
        ("[a, b]", "[a, b]"),
        (0.25, "0.250"),
        (7, "7"),
        (None, ""),
    ],
)
def test_an_interval_is_not_broken_into_lines(cell: object, expected: str) -> None:
    page = Page(shown(pd.DataFrame({"last": pd.Series([cell], dtype=object)})).to_html())
    shown_cells = page.cells()[page.cells().index("last") + 1 :]
    assert shown_cells == ([expected] if expected else [])


def test_an_excerpt_is_shown_as_it_is_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_PACKAGES", ("not_installed",))
    assert excerpt(pd.DataFrame({"text": ["a@b.dk"]}), ["text"]).data.iloc[0, 0] == "a@b.dk"


# --- write_report -----------------------------------------------------------------------------

STAGES = ("1_first", "2_second")

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def executed(path: Path) -> None:
    """An executed notebook that shows hostile text in every way that ours show text."""
    table = shown(pd.DataFrame({"text": [HOSTILE]}))
    frame = pd.DataFrame({"text": [HOSTILE + "<img src=http://example.org/x.png>"]})
    outputs = [
        nbformat.v4.new_output("stream", name="stdout", text=HOSTILE),
        nbformat.v4.new_output("stream", name="stderr", text=HOSTILE),
        nbformat.v4.new_output("execute_result", {"text/plain": HOSTILE}, execution_count=1),
        nbformat.v4.new_output("execute_result", {"text/html": table.to_html()}, execution_count=1),
        nbformat.v4.new_output("display_data", {"text/html": frame.to_html()}),
        nbformat.v4.new_output("error", ename="E", evalue=HOSTILE, traceback=[HOSTILE]),
    ]
    code = nbformat.v4.new_code_cell(f"text = {HOSTILE!r}", outputs=outputs, execution_count=1)
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell("# Title, $f_p$"), code]
    )
    nbformat.write(notebook, path)


MAIL = f"{HOSTILE} anna@example.dk"
SENSITIVITY = Sensitivity(
    HOSTILE, HOSTILE, True, HOSTILE, "propensity", "greedy", "NVR", 0.1, 0.0, 0.2, "none", 1, 2
)
VALUE = ("prefix", "capability", "greedy", "NVR", 0.1, 0.0, 0.2, "none", 1, 2)


def make_run(folder: Path) -> Path:
    folder.mkdir()
    for stage in STAGES:
        executed(folder / f"{stage}.ipynb")
    named = {"setting": HOSTILE}
    stored = {
        "prompts": tables.to_frame(
            "prompts",
            [
                Prompt("p1", "prefix", "capability", HOSTILE, target=HOSTILE, occurs_whole=True),
                Prompt("p2", HOSTILE, "propensity", HOSTILE, refused=HOSTILE),
            ],
        ),
        "generations": tables.to_frame(
            "generations",
            [Generation("g1", "p1", "greedy", 0, 1, MAIL, (1,), "stop", 0.0, 1.0, 9)],
        ),
        "traces": tables.to_frame("traces", [TraceSummary("g1", **NOTHING_FOUND)]),
        "spans": tables.to_frame(
            "spans",
            [Span("g1", 0, 0, 60, 0, len(HOSTILE), HOSTILE, -9.0, 1, 1, True, segment=0)],
        ),
        "matches": tables.to_frame(
            "matches",
            [
                Match(
                    "g1", 0, 0, 0, HOSTILE, HOSTILE, HOSTILE, 0, HOSTILE, 0, 1, "partial", 0.1, True
                )
            ],
        ),
        "metrics": metrics(PREFIX, named),
        "propensity": propensity(named),
        "copies": copies({"copies": 0}),
        "breakdown": tables.to_frame("breakdown", [Breakdown("source", HOSTILE, *VALUE)]),
        "discoverable": tables.to_frame("discoverable", []),
        "sensitivity": tables.to_frame("sensitivity", [SENSITIVITY]),
        "span_lengths": pd.DataFrame(
            [[HOSTILE, "propensity", "greedy", 9, 3]],
            columns=list(tables.TABLES["span_lengths"].columns),
        ),
    }
    for name, table in stored.items():
        tables.write(name, table, folder / "tables")
    record = {
        "started": HOSTILE,
        "parameters": {
            "greedy": True,
            "samples": 3,
            "temperature": 0.7,
            "top_p": 0.9,
            "max_new_tokens": 12,
        },
        "inputs": {
            HOSTILE: {"path": f"{HOSTILE}/corpus.jsonl", "sha256": "0123456789abcdef0123"},
            "model": {"path": "name/on-the-hub", "sha256": ""},
        },
        "python": HOSTILE,
        "platform": "Linux",
        "versions": {"numpy": HOSTILE},
        "stages": {"1_first": {"seconds": 1.5}},
    }
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_run(tmp_path_factory.mktemp("runs") / "a & <b>")
    assert write_report(folder, STAGES) == folder / "report" / "index.html"
    return folder


def page_of(run: Path, name: str) -> Page:
    return Page((run / "report" / f"{name}.html").read_text(encoding="utf-8"))


def test_the_front_page_shows_hostile_text_as_text(run: Path) -> None:
    page = page_of(run, "index")
    assert not {"script", "iframe", "object", "embed", "link", "form"} & {t for t, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    text = " ".join(page.texts)
    # The setting, in the answer, a sentence and the table; start; an input: name, path; versions.
    assert text.count(HOSTILE) == 3 + 1 + 2 + 2
    assert "PropMe: a & <b>" in text


@pytest.mark.parametrize("name", ["index", *STAGES])
def test_a_page_loads_nothing_and_runs_nothing(run: Path, name: str) -> None:
    page = page_of(run, name)
    (policy,) = [
        str(attributes["content"])
        for tag, attributes in page.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.split(maxsplit=1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert "script-src" not in rules
    for tag, attributes in page.tags:
        if tag != "a":
            loaded = [attributes.get(name) or "" for name in ("src", "href", "data", "srcset")]
            assert all(not url or url.startswith(("data:", "#")) for url in loaded), (tag, loaded)


@pytest.mark.parametrize("name", ["index", *STAGES])
def test_the_policy_stands_before_all_it_governs(run: Path, name: str) -> None:
    text = (run / "report" / f"{name}.html").read_text(encoding="utf-8")
    policy = text.index("Content-Security-Policy")
    assert "<script" not in text[:policy]
    assert "<style" not in text[:policy]


@pytest.mark.parametrize("stage", STAGES)
def test_a_notebook_is_rendered_with_its_outputs_escaped(run: Path, stage: str) -> None:
    text = (run / "report" / f"{stage}.html").read_text(encoding="utf-8")
    assert HOSTILE not in text
    assert "alert(1)" in text
    # stdout, stderr, plain text, two tables, the traceback
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 6


def test_each_picture_of_a_notebook_is_described_by_the_heading_above_it(tmp_path: Path) -> None:
    picture = nbformat.v4.new_output(
        "display_data", {"image/png": base64.b64encode(PIXEL).decode()}
    )
    shows = [nbformat.v4.new_code_cell("draw()", outputs=[picture]) for _ in range(3)]
    cells = [
        shows[0],
        nbformat.v4.new_markdown_cell("## How long?\n\nText, # and text."),
        nbformat.v4.new_code_cell("1"),
        shows[1],
        nbformat.v4.new_markdown_cell("Nothing of a heading."),
        nbformat.v4.new_markdown_cell(f'### "{HOSTILE}"'),
        shows[2],
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "n.ipynb")
    page = Page(site.rendered_notebook(tmp_path / "n.ipynb"))
    told = [attributes["alt"] for tag, attributes in page.tags if tag == "img"]
    assert told == ["Figure", "Figure: How long?", f'Figure: "{HOSTILE}"']


def test_the_front_page_holds_the_run(run: Path) -> None:
    page = page_of(run, "index")
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    expected = {f"{stage}.html" for stage in STAGES} | {"viewer.html", "audit.html"}
    exported = {"metrics.tex", "breakdown.md", "sensitivity.md", "recall_distribution.csv"}
    assert expected | {f"tables/{name}" for name in exported} <= set(links)
    assert all((run / "report" / str(link)).is_file() for link in links)
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 4
    for image in images:
        content = base64.b64decode(str(image["src"]).removeprefix("data:image/png;base64,"))
        assert content.startswith(b"\x89PNG")
    assert images[-1]["alt"] == "Longest verbatim passages"
    for suffix in ("png", "svg", "pdf"):
        assert (run / "report" / "figures" / f"span_lengths.{suffix}").stat().st_size > 1000
    text = " ".join(page.texts)
    for expected in (
        "3 times as much under prefix",
        "0.300 [0.200, 0.450]",
        "10 held-out documents",
        "0123456789abcdef",
        "no hash: a name on the hub",
        "1_first 1.5 s",
    ):
        assert expected in text
    assert "0123456789abcdef0" not in text


@pytest.fixture(scope="module", params=[False, True])
def personal(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, bool]:
    """A run with e-mail addresses, and whether its parameters ask for them."""
    folder = make_run(tmp_path_factory.mktemp("runs") / "run")
    generations = tables.read("generations", folder / "tables").assign(text="til anna@example.dk")
    tables.write("generations", generations, folder / "tables")
    rows = [Breakdown("source", name, *VALUE) for name in ("a@b.dk", "c@d.dk")]
    tables.write("breakdown", tables.to_frame("breakdown", rows), folder / "tables")
    record = json.loads((folder / "run.json").read_text())
    record["parameters"]["show_personal_data"] = request.param
    (folder / "run.json").write_text(json.dumps(record))
    write_report(folder, [])
    return folder, request.param


def test_the_viewer_leads_back_and_masks_unless_asked_for(personal: tuple[Path, bool]) -> None:
    folder, asked_for = personal
    viewer = folder / "report" / "viewer.html"
    assert '<a href="index.html">' in viewer.read_text(encoding="utf-8")
    shown = unpacked(viewer)["texts-0"][0]["text"]
    assert shown == ("til anna@example.dk" if asked_for else "til [e-mail]")


def test_groups_of_the_exported_breakdown_are_masked_unless_asked_for(
    personal: tuple[Path, bool],
) -> None:
    folder, asked_for = personal
    for suffix in ("csv", "md", "tex"):
        text = (folder / "report" / "tables" / f"breakdown.{suffix}").read_text()
        assert ("[e-mail] 2" in text) == (not asked_for)
        assert ("a@b.dk" in text.replace("<span>@</span>", "@")) == asked_for


#: Figures that notebooks drew; the report draws one of them itself.
DRAWN = ("recall_distribution.svg", "over_thresholds_greedy.png", "span_lengths.png")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with nothing to compare, figures of its notebooks, and one notebook of two."""
    folder = make_run(tmp_path_factory.mktemp("runs") / "run")
    for name, table in {"propensity": propensity(), "copies": copies()}.items():
        tables.write(name, table, folder / "tables")
    (folder / "figures").mkdir()
    for name in DRAWN:
        (folder / "figures" / name).write_text(name)
    write_report(folder, [STAGES[0], "3_third"])
    return folder


def test_figures_of_the_notebooks_are_taken_along(bare: Path) -> None:
    taken = bare / "report" / "figures"
    assert (taken / "recall_distribution.svg").read_text() == "recall_distribution.svg"
    assert (taken / "over_thresholds_greedy.png").is_file()
    assert (taken / "span_lengths.png").stat().st_size > 1000  # the report's own


def test_all_pages_have_one_style_and_one_policy() -> None:
    templates = {path.name: path.read_text() for path in site._TEMPLATES.glob("*.html")}
    for name in ("index.html", "audit.html", "comparison.html"):
        assert '{% extends "base.html" %}' in templates[name]
        assert "<style" not in templates[name]
        assert "Content-Security-Policy" not in templates[name]
    assert '{% include "style.css" %}' in templates["base.html"]


def test_a_run_with_nothing_to_compare_says_so(bare: Path) -> None:
    assert "There is nothing to compare." in " ".join(page_of(bare, "index").texts)


def test_a_notebook_that_is_not_there_is_left_out(bare: Path) -> None:
    links = [attributes.get("href") for _, attributes in page_of(bare, "index").tags]
    assert f"{STAGES[0]}.html" in links
    assert "3_third.html" not in links


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / "tables" / "copies.parquet").unlink()
    with pytest.raises(TableError, match=r"copies\.parquet: no such table"):
        write_report(folder, [])


def test_a_report_is_rendered_again_over_an_old_one(run: Path) -> None:
    before = (run / "report" / "index.html").read_text(encoding="utf-8")
    write_report(run, STAGES)
    assert (run / "report" / "index.html").read_text(encoding="utf-8") == before


def test_each_control_is_told_as_what_it_is() -> None:
    table = metrics(
        PREFIX,
        {},
        *({"setting": s, "kind": "control"} for s in ("human", "mismatched_prefix", "mine")),
    )
    told = [line for line in findings(table, propensity({}), copies()) if "the floor" in line]
    assert len(told) == 3
    assert "texts that people wrote, traced in the same way, reach NVR" in " ".join(told)
    assert "prefixes of documents that were never trained on reach NVR" in " ".join(told)
    assert "mine prompts, a control, reach NVR" in " ".join(told)


def many(*scores: dict[str, Any], **values: Any) -> list[str]:
    """What is told of several settings, each with a score."""
    names = ["unconditional", "generic", "specific"]
    table = metrics(PREFIX, *({"setting": name} | values for name in names))
    rows = zip(names, scores * (3 if len(scores) == 1 else 1), strict=True)
    return findings(table, propensity(*({"setting": n} | score for n, score in rows)), copies())


def test_settings_that_show_nothing_are_told_together_in_their_order() -> None:
    (sentence,) = many({"value": 0.5, "low": 0.3, "high": 0.7})
    assert sentence == (
        "With greedy decoding, NVR is 0.300 [0.200, 0.450] under prefix, and under ordinary"
        " prompts: unconditional, generic, specific (each 0.100 [0.050, 0.200])."
        " The intervals of their propensity scores include 0.5: no difference to any is shown."
    )
    (sentence,) = many({"value": 0, "undefined": True, "low": None, "high": None})
    assert sentence.endswith("found in any, so their propensity scores are undefined.")
    (sentence,) = many(NOTHING | {"undefined": True}, **NOTHING)
    assert "specific (each not defined). Their propensity scores are not defined" in sentence


def test_each_setting_has_its_own_value_where_they_differ() -> None:
    table = metrics(PREFIX, {}, {"setting": "specific", "value": 0.02})
    nothing = {"value": 0.5, "low": 0.3, "high": 0.7}
    scores = propensity(nothing, nothing | {"setting": "specific"})
    (sentence,) = findings(table, scores, copies())
    assert "generic (0.100 [0.050, 0.200]), specific (0.020 [0.050, 0.200]). The" in sentence


def test_a_setting_that_shows_something_is_told_by_itself() -> None:
    nothing = {"value": 0.5, "low": 0.3, "high": 0.7}
    first, second = many(nothing, {}, nothing)
    assert "prompts: unconditional, specific (each 0.100 [0.050, 0.200])." in first
    assert "under generic prompts, 3 times as much under prefix." in second


def test_texts_by_people_are_told_once_and_of_any_decoding() -> None:
    people = [HUMAN | {"decoding": decoding} for decoding in ("greedy", "sampled")]
    table = metrics(PREFIX, {}, PREFIX | {"decoding": "sampled"}, {"decoding": "sampled"}, *people)
    scores = propensity({}, {"decoding": "sampled"})
    (told,) = [line for line in findings(table, scores, copies()) if "people" in line]
    assert told.startswith("Under any decoding, texts that people wrote")
    rows = headline_table(table)[["decoding", "setting"]].to_numpy().tolist()
    assert rows[-1] == ["any", "human"]
    assert [row for row in rows if row[1] == "human"] == rows[-1:]


# --- answers ----------------------------------------------------------------------------------


def test_what_exceeds_the_controls_is_said_to_leak() -> None:
    # prefix 0.3 [0.2, 0.45], generic 0.1 [0.05, 0.2]: above 0.04, the second not above 0.06.
    sure = HUMAN | {"low": 0.0, "high": 0.1}
    low, high = sure | {"value": 0.04}, sure | {"value": 0.06}
    assert answers(metrics(PREFIX, {}, low), propensity({})) == [
        "With greedy decoding, under attack it leaks: prefix (NVR 0.300 [0.200, 0.450]); under"
        " ordinary prompts it leaks: generic (NVR 0.100 [0.050, 0.200]) (controls reach NVR 0.040"
        " [0.000, 0.100])."
    ]
    (sentence,) = answers(metrics(PREFIX, {}, high), propensity({}))
    assert "under ordinary prompts it is not shown to leak (controls reach NVR 0.060 [0" in sentence


def test_long_passages_show_a_leak_that_a_stock_phrase_of_a_control_would_hide() -> None:
    long = {"metric": "R50", "value": 0.06, "low": 0.02, "high": 0.11}
    nothing = HUMAN | {"metric": "R50", "value": 0.0, "low": 0.0, "high": 0.06}
    table = metrics(PREFIX, {}, HUMAN | {"value": 0.06}, long, nothing)
    (sentence,) = answers(table, propensity({}))
    assert "under ordinary prompts it leaks: generic (R50 0.060 [0.020, 0.110])" in sentence
    assert sentence.endswith("R50 0.000 [0.000, 0.060]).")


def test_of_controls_that_reach_the_same_the_least_sure_is_told() -> None:
    people = HUMAN | {"value": 0.0, "low": 0.0, "high": 0.06}
    held_out = people | {"setting": "mismatched_prefix", "high": 0.3}
    (sentence,) = answers(metrics(PREFIX, {}, held_out, people), propensity({}))
    assert sentence.endswith("(controls reach NVR 0.000 [0.000, 0.300]).")


def test_without_a_control_the_answer_says_so() -> None:
    (sentence,) = answers(metrics(PREFIX, {"low": 0.0}), propensity({}))
    assert "under ordinary prompts it is not shown to leak" in sentence
    assert "no control was traced, so what chance reaches is not known" in sentence


def test_a_control_that_retrieves_nothing_is_a_control() -> None:
    table = metrics(PREFIX, HUMAN | NOTHING)
    (sentence,) = answers(table, propensity(HUMAN))
    assert "leaks: prefix (NVR 0.300 [0.200, 0.450]) (controls reach NVR 0.000)" in sentence
    (told,) = [line for line in findings(table, propensity(HUMAN), copies()) if "people" in line]
    assert told.endswith(
        "retrieve no document, so that their NVR is not defined: the floor is nothing."
    )


def test_nothing_measured_has_no_answer() -> None:
    assert answers(metrics(), propensity()) == []


def test_a_date_is_told_as_people_write_it() -> None:
    assert date_told("2026-01-02T03:04:05+02:00") == "2 January 2026, 01:04 UTC"
    assert date_told("soon") == "soon"

"""A text is the same text in each format, whatever its reader makes of single signs."""

from __future__ import annotations

import re
import unicodedata
from html.parser import HTMLParser
from typing import Any

import mistune
import pytest
from hypothesis import given
from hypothesis import strategies as st

from propme.report.escaping import in_latex, in_markdown, needs_more_than_pdflatex, no_formula

# --- spreadsheets -------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
@pytest.mark.parametrize("before", ["", " ", "\t", "\ufeff", " \u00a0\u200b", "\n", "\r\n", "\0"])
def test_a_text_that_begins_a_formula_is_guarded(before: str, sign: str) -> None:
    text = f"{before}{sign}1+1"
    assert no_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", ["\tx", "\rx"])
def test_a_text_that_begins_another_cell_is_guarded(text: str) -> None:
    assert no_formula(text) == f"'{text}"


@pytest.mark.parametrize("value", ["a=1", " a", "", "'=1", -1, -0.5, float("-inf"), None, True])
def test_numbers_and_other_texts_stay(value: Any) -> None:
    assert no_formula(value) is value


# --- LaTeX --------------------------------------------------------------------------------------


def test_every_sign_with_a_meaning_is_escaped() -> None:
    assert in_latex("#$%&_{}") == "\\#\\$\\%\\&\\_\\{\\}"
    assert in_latex("\\~^") == "\\textbackslash{}\\textasciitilde{}\\textasciicircum{}"
    assert in_latex("−0.3") == "\\textminus{}0.3"


def test_no_two_signs_become_one() -> None:
    assert in_latex("a--b ---> ,, << '' ``") == "a-{}-b -{}-{}-{}> ,{}, <{}< '{}' `{}`"
    assert in_latex("?` !`") == "?{}` !{}`"


@pytest.mark.parametrize("text", ["[e-mail] 1", "*", "[1cm]"])
def test_a_cell_is_no_argument_of_the_row_before(text: str) -> None:
    assert in_latex(text) == "{}" + text


def test_marks_of_control_and_direction_are_left_out() -> None:
    marks = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2069\u200b\u00ad\ufeff\0\x1b"
    assert in_latex(marks.join("ab c")) == "ab c"


def test_what_pdflatex_cannot_draw_is_a_number_there_and_itself_elsewhere() -> None:
    text = in_latex("a \u05d0\u05d1 b_\u0416")
    number = "\\ifdefined\\Umathchar \u05d0\u05d1\\else U+05D0 U+05D1\\fi{}"
    assert text == f"a {number} b\\_\\ifdefined\\Umathchar \u0416\\else U+0416\\fi{{}}"
    assert needs_more_than_pdflatex(text)
    assert not needs_more_than_pdflatex(in_latex("Žluťoučký kůň – „Blåbærgrød“ … 5 €"))


def test_an_accent_of_its_own_joins_its_letter() -> None:
    assert in_latex("a\u030a") == "å"


@given(st.text())
def test_all_that_is_in_latex_is_on_one_line_and_can_be_drawn(text: str) -> None:
    written = in_latex(text)
    assert len(written.splitlines()) <= 1
    outside = re.sub(r"\\ifdefined\\Umathchar .*?\\else", "", written)
    assert all(unicodedata.category(sign) not in ("Cc", "Cf", "Zl", "Zp") for sign in written)
    assert all(sign < "\u0180" or sign in "–—‘’‚“”„†‡•…‰‹›€™" for sign in outside)


# --- Markdown -----------------------------------------------------------------------------------


class Read(HTMLParser):
    """Elements and text of what a reader of Markdown makes of a page."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        render = mistune.create_markdown(
            escape=False, plugins=["url", "math", "table", "strikethrough", "footnotes"]
        )
        self.feed(str(render(markdown)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = (
    "# heading",
    "a\n# heading\n\n---\n",
    "heading ##",
    "AT&T &lt; &amp; &#36; &copy",
    "$x$ and $$y$$, 5 $ or $6",
    "http://example.org https://e.org ftp://e.org www.example.org",
    "mailto:anna@example.org",
    "[link](http://e.org) ![picture](a.png) [x][y] <http://e.org> [^1]",
    "a | b || \\| c",
    "`code` ``two`` \\`",
    "*a* **b** _c_ __d__ snake_case ~~e~~ ~f~",
    "<b>bold</b> <!-- comment --> <script>alert(1)</script>",
    "\\ \\\\ \\n ends with \\",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_read_as_it_is_in_a_heading_and_in_a_cell(text: str) -> None:
    line = " ".join(text.split())
    heading = Read(f"# Run: {in_markdown(text)}\n")
    assert heading.text.strip() == f"Run: {line}"
    assert set(heading.tags) <= {"h1", "span"}
    cells = Read(f"| a | {in_markdown(text)} |\n| --- | --- |\n| b | {in_markdown(text)} |\n")
    assert re.sub(r"\s+", " ", cells.text).strip() == f"a {line} b {line}"
    assert set(cells.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "span"}
    assert (cells.tags.count("th"), cells.tags.count("td")) == (2, 2)


@given(st.text("\\`*_|~#<>&;$@:/.[]()!ahtpw1 \n", max_size=30))
def test_any_text_is_read_as_it_is(text: str) -> None:
    read = Read(f"Text: {in_markdown(text)} end\n")
    assert read.text.split() == ["Text:", *text.split(), "end"]
    assert set(read.tags) <= {"p", "span"}


def test_an_address_is_no_link() -> None:
    # On GitHub an address is linked wherever its text is in one piece, escaped or not.
    assert in_markdown("to a.b@c.dk") == "to a.b<span>@</span>c.dk"

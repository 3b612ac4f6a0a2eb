"""Any text as text: in a cell of a spreadsheet, in LaTeX, in Markdown."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

#: What a spreadsheet would take for a formula, also behind what it does not show. Signs of full
#: width are made narrow by some.
_FORMULA = re.compile(
    r"[\t\r]|[\s\0-\x1f\u200b-\u200f\u2060\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]"
)

_LATEX = {
    **{sign: f"\\{sign}" for sign in "#$%&_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "\N{MINUS SIGN}": "\\textminus{}",
}

#: Signs of which LaTeX makes another where two of them meet, such as a dash of hyphens.
_LIGATURE = re.compile(r"(?<=[-<>'`,])(?=[-<>'`,])|(?<=[?!])(?=`)")

#: What pdflatex has no letters for in its usual encoding, a run of it.
_NOT_DRAWN = re.compile(
    r"[^ -~\u00a1-\u0125\u0128-\u0137\u0139-\u013e\u0141-\u0148\u014a-\u0165\u0168-\u017e"
    r"–—‘’‚“”„†‡•…‰‹›€™\N{MINUS SIGN}]+"
)

# In Markdown: signs that a backslash takes the meaning of; then tags and entities; then what is
# linked or typeset wherever a page's text has it, unless an element stands between.
_MARKUP = re.compile(
    r"[\\`*|~#]|(?<![^\W_])_|_(?![^\W_])|(?<=\])\(|:(?=//)|(?<=www)\."
    r"|<|&(?=#?\w+;)"
    r"|\$|(?<=[\w.+-])@(?=\w)",
    re.IGNORECASE,
)


def no_formula(value: Any) -> Any:
    """A cell of a spreadsheet; before a text that it would evaluate, an apostrophe."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def in_latex(text: str) -> str:
    """A text as LaTeX shows it, on one line, without marks of control and of direction.

    Signs that pdflatex has no letters for are there for lualatex and xelatex; pdflatex writes their
    numbers, ``U+05D0``, in the encoding T1 of the package ``fontenc``.
    """
    line = unicodedata.normalize("NFC", " ".join(text.split()))
    line = "".join(sign for sign in line if unicodedata.category(sign) not in ("Cc", "Cf"))
    pieces, at = [], 0
    for run in _NOT_DRAWN.finditer(line):
        pieces += [_escaped_latex(line[at : run.start()]), _by_engine(run[0])]
        at = run.end()
    pieces.append(_escaped_latex(line[at:]))
    written = "".join(pieces)
    # Behind the end of a row, either would belong to the command that ends it.
    return f"{{}}{written}" if written.startswith(("[", "*")) else written


def needs_more_than_pdflatex(text: str) -> bool:
    """Whether `in_latex` has a sign in it that pdflatex writes as a number."""
    return "\\ifdefined\\Umathchar" in text


def _escaped_latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in _LIGATURE.sub("\0", text)).replace("\0", "{}")


def _by_engine(run: str) -> str:
    numbers = " ".join(f"U+{ord(sign):04X}" for sign in run)
    return f"\\ifdefined\\Umathchar {run}\\else {numbers}\\fi{{}}"


def in_markdown(text: str) -> str:
    """A text that GitHub's Markdown shows as it is, on one line.

    No heading, tag, picture, formula or link comes of it, and no border of a table's cell.
    """
    return _MARKUP.sub(_unmarked, " ".join(text.split()))


#: What stands for the other signs of `_MARKUP`.
_UNMARKED = {
    "<": "&lt;",
    "&": "&amp;",
    "$": "<span>\\$</span>",
    "@": "<span>@</span>",
}


def _unmarked(found: re.Match[str]) -> str:
    return _UNMARKED.get(found[0], f"\\{found[0]}")

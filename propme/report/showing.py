"""How notebooks show tables: hostile text as text, personal data masked, long texts cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from propme import personal_data
from propme.masking import masked_names

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

#: Columns that hold generated or corpus text; texts in others are names, such as ids.
TEXTS = ("text", "passage", "prompt")

#: A value with its interval, as `propme.report.wording.with_interval` writes it.
_WITH_INTERVAL = re.compile(r"(\S+ \[[-+.<\de]+,) ([-+.<\de]+\])")


def shown(frame: pd.DataFrame) -> Styler:
    """A table as a notebook shows it: texts escaped, no mathematics, numbers short, no index.

    An interval is not broken into lines.
    """
    return (
        frame.map(_unbroken)
        .style.format(escape="html", precision=3, na_rep="")
        .hide(axis="index")
        # Both MathJax's own names; the option display.html.use_mathjax is not for styled tables.
        .set_table_attributes('class="tex2jax_ignore mathjax_ignore"')
        .set_table_styles(
            [
                {"selector": "th, td", "props": "text-align: left; vertical-align: top"},
                {"selector": "td", "props": "white-space: normal"},
            ]
        )
    )


def _unbroken(cell: Any) -> Any:
    match = _WITH_INTERVAL.fullmatch(cell) if isinstance(cell, str) else None
    return "\u00a0".join(match.groups()) if match else cell


def excerpt(
    frame: pd.DataFrame,
    columns: Sequence[str],
    n: int = 10,
    characters: int = 160,
    mask: bool = True,
) -> Styler:
    """First ``n`` rows of some columns, texts cut to ``characters`` and put on one line each.

    Personal data is masked, in names with a number (`propme.masking.masked_names`), unless ``mask``
    is false or the extra ``privacy`` is missing: `propme.personal_data.note` says which.
    """
    rows = frame[list(columns)].head(n)
    if mask and personal_data.available():
        # Before they are cut: half an address is not recognised.
        rows = rows.apply(_without_personal_data)

    def shortened(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        line = " ".join(value.split())
        return line if len(line) <= characters else f"{line[: characters - 1]}…"

    return shown(rows.map(shortened))


def _without_personal_data(column: pd.Series[Any]) -> pd.Series[Any]:
    texts = [value for value in column if isinstance(value, str)]
    if column.name in TEXTS:
        shown = {text: personal_data.mask(text) for text in texts}
    else:
        shown = masked_names(texts)
    return column.map(lambda value: shown[value] if isinstance(value, str) else value)

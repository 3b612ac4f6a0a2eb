"""The viewer's file: a page that holds its data, its script and its style, and loads nothing.

The data is packed: pieces of JSON, each compressed and written as base64 into a ``script`` element
that is no script. The page unpacks the index when it opens, and any other piece when it is needed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from propme import personal_data, tables
from propme.files import write_whole
from propme.viewer.contents import Contents, contents
from propme.viewer.run import NAMES, Limits

#: Characters of JSON in one piece, before it is compressed.
_PIECE = 400_000

_HERE = Path(__file__).parent


def write_viewer(
    source: Path | Mapping[str, pd.DataFrame],
    path: Path,
    mask: bool = True,
    limits: Limits | None = None,
    front_page: str = "",
) -> Path:
    """Write the span viewer of a run: one HTML file that needs no other and no network.

    Parameters
    ----------
    source : Path or mapping of str to DataFrame
        Folder of a run's tables, or the tables ``prompts``, ``generations``, ``traces``, ``spans``
        and ``matches``.
    path : Path
        The file; what is there is replaced, whole or not at all.
    mask : bool
        Whether personal data is replaced by its kind, in texts and in the names of documents,
        sources and all else. It can be only with the extra ``privacy``; the page says whether it
        was.
    limits : Limits, optional
        How much is shown at most; the page says what was left out.
    front_page : str
        Relative address of a page to link back to; empty: none.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    TableError
        A table is missing, or one refers to what is not in another.

    Notes
    -----
    *How it misleads.* A document shown is one of those that hold the passage, fetched by chance
    where there are many: not the one that it was learnt from.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    if isinstance(source, Path):
        source = {name: tables.read(name, source) for name in NAMES}
    limits = limits or Limits()
    shown = contents(source, mask, limits)
    script, style = (
        (_HERE / f"viewer.{suffix}").read_text(encoding="utf-8") for suffix in ("js", "css")
    )
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined
    )
    page = environment.get_template("viewer.html").render(
        policy=_policy(script, style),
        script=Markup(script),  # noqa: S704, the package's own
        style=Markup(style),  # noqa: S704
        front_page=front_page,
        personal_data=personal_data.note(mask),
        notes=_notes(shown, limits),
        pieces=dict(_packed(shown)),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page)
    return path


def _policy(script: str, style: str) -> str:
    """Content-Security-Policy: this script and this style, and nothing else from anywhere.

    No text can become markup either: the script may not use what parses HTML.
    """

    def hashed(text: str) -> str:
        digest = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"

    return (
        f"default-src 'none'; script-src {hashed(script)}; style-src {hashed(style)};"
        " base-uri 'none'; form-action 'none';"
        " require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _notes(shown: Contents, limits: Limits) -> list[str]:
    """What the page leaves out, in sentences."""
    left_out: Counter[str] = shown.left_out
    n_shown = sum("match" in d for detail in shown.details for d in detail["documents"])
    notes = [
        f"{n_shown:,} retrieved documents are shown with up to {limits.context} characters on each"
        f" side of the match, the {limits.documents} with the best tier and recall of each passage;"
        f" {left_out['texts of documents']:,} more are named without their text."
    ]
    if left_out["documents"]:
        notes.append(
            f"So that the file stays small, the {left_out['documents']:,} documents of"
            f" {left_out['completions without documents']:,} completions, those of which least"
            " leaked, are not here at all."
        )
    if left_out["comparisons"]:
        notes.append(
            f"A completion is set side by side with the {limits.comparisons} documents that hold"
            f" most of it; {left_out['comparisons']:,} other comparisons are left out."
        )
    for what in ("text", "prompt"):
        if cut := left_out[f"characters of the {what}"]:
            kind = "completions" if what == "text" else "prompts"
            notes.append(
                f"{cut:,} characters of {kind} that are longer than {limits.text:,} are left out."
            )
    notes.append("All of it stands in the run's tables generations, spans and matches.")
    return notes


def _packed(shown: Contents) -> Iterator[tuple[str, str]]:
    """Name and packed text of each piece; the index says with which completion each starts."""
    starts = {}
    for name, rows in (("texts", shown.texts), ("details", shown.details)):
        written = [_as_json(row) for row in rows]
        starts[name] = _starts([len(row) for row in written])
        stops = [*starts[name][1:], len(rows)]
        # With no row at all there is no piece.
        for number, (start, stop) in enumerate(zip(starts[name], stops, strict=False)):
            yield f"{name}-{number}", _pack(f"[{','.join(written[start:stop])}]")
    yield "index", _pack(_as_json(shown.index | {"starts": starts}))


def _starts(sizes: Sequence[int]) -> list[int]:
    """Numbers of the rows at which a new piece starts."""
    starts, filled = [], _PIECE
    for number, size in enumerate(sizes):
        if filled >= _PIECE:
            starts.append(number)
            filled = 0
        filled += size
    return starts


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _pack(text: str) -> str:
    # A lone surrogate has no UTF-8: it becomes one other sign, so that offsets stay.
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"))).decode("ascii")

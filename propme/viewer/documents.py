"""What the page shows of a completion's documents: the match in its context, and comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from propme import personal_data
from propme.masking import reaching_into
from propme.personal_data import Found, Masked
from propme.viewer.comparing import passages
from propme.viewer.excerpts import Excerpts
from propme.viewer.run import Completion, Limits, Run, shown_recall

_PER_MATCH = ("document_id", "source", "licence", "tier", "shard", "document", "offset")

#: A match: its span, shard and document.
_Place = tuple[int, int, int]


def documents(
    completion: Completion, excerpts: Excerpts, limits: Limits, run: Run
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Documents of each passage with the match in its context, and comparisons of the best.

    What of the documents' personal data reaches into the completion is masked there from now on,
    for beside the document its other half could be read.

    Returns
    -------
    list of dict and Counter
        A row for each document; and what is left out, counted.
    """
    listed, left_out = [], Counter[str]()
    compared = _to_compare(completion, limits, left_out)
    windows = {
        place: excerpts.whole(match.window)
        for place, number, match in _places(completion)
        if number < limits.documents or place in compared
    }
    if excerpts.masked:
        reaching = [*completion.text.places, *_reaching_in(completion, windows)]
        completion.text = personal_data.masked(completion.text.original, known=reaching)
    for place, number, match in _places(completion):
        document = {"span": place[0]} | run.shown(match, *_PER_MATCH)
        document["recall"] = shown_recall(match.recall)
        document["copies"] = run.copies.get(match.document_id)
        if number < limits.documents:
            document |= excerpts.around(
                windows[place], match.window_char_start, match.window_char_stop
            )
        else:
            left_out["texts of documents"] += 1
        if place in compared:
            alike = passages(completion.text.original, match.window)
            document["compared"] = excerpts.side_by_side(completion.text, windows[place], alike)
        listed.append(document)
    return listed, left_out


def _places(completion: Completion) -> Iterator[tuple[_Place, int, Any]]:
    """Each match, with its place and its number among those of its span, the best first."""
    for span, matches in completion.documents.items():
        for number, match in enumerate(matches):
            yield (span, match.shard, match.document), number, match


def _reaching_in(completion: Completion, windows: dict[_Place, Masked]) -> Iterator[Found]:
    """Personal data of the documents within their matches, as places of the completion."""
    spans = {span.span: span for span in completion.spans}
    for place, _, match in _places(completion):
        at, start, stop = spans[match.span], match.window_char_start, match.window_char_stop
        passage = completion.text.original[at.char_start : at.char_stop]
        if place in windows:
            for found in reaching_into(passage, windows[place], start, stop):
                yield found.moved(at.char_start)


def _to_compare(completion: Completion, limits: Limits, left_out: Counter[str]) -> set[_Place]:
    """Of the documents that hold most of the completion the matches to be compared."""
    length = {span.span: span.stop - span.start for span in completion.spans}

    def rank(match: Any) -> tuple[float, int]:
        return match.recall, length[match.span]  # of equals, where a reader looks first

    best: dict[tuple[int, int], Any] = {}
    for match in sorted(completion.matches, key=rank, reverse=True):
        if match.recall > 0:
            best.setdefault((match.shard, match.document), match)
    compared: set[_Place] = set()
    for match in best.values():
        longest = max(len(completion.text.original), len(match.window))
        if len(compared) == limits.comparisons or longest > limits.compared:
            left_out["comparisons"] += 1
        else:
            compared.add((match.span, match.shard, match.document))
    return compared

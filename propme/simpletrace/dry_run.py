"""How many requests a trace behind a server will need, told without one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from propme.index.remote.client import NotAnsweredYetError
from propme.progress import track
from propme.simpletrace.address import IndexAddress
from propme.simpletrace.documents import COUNTED_OCCURRENCES
from propme.simpletrace.rarity import number_kept
from propme.simpletrace.spans import tokenise
from propme.simpletrace.trace import NORMALIZED_ANCHORS, Tracer, TraceSettings
from propme.simpletrace.workers import Text

#: Questions about the index itself: the sizes of its shards, where documents begin, and whether the
#: tokenizer is its own.
ABOUT_THE_INDEX = 12

#: Look-ups that the spans of a text take at most, by token: two for each, and what galloping loses.
LOOKUPS_PER_TOKEN = 2.5

#: Spellings in which a text of few words is looked up, by `Index.most_read`; and how many are few.
SPELLINGS_PER_READ = 11  # the 10 of `propme.index.text_search`, and those of a last batch
_FEW_WORDS = 2


@dataclass(frozen=True, slots=True)
class RequestsNeeded:
    """What a trace will ask.

    Attributes
    ----------
    generations : int
        All of them.
    answered : int
        Those of which every answer is kept already: they need no request.
    estimated : int
        Requests for the others, if no two of them ask the same: no bound, though few need more.
    rate : float
        Requests a second; 0: no limit.
    """

    generations: int
    answered: int
    estimated: int
    rate: float

    def told(self) -> str:
        """The same in words."""
        if not self.estimated:
            return f"0 requests: all answers for {self.generations} generations are kept or here"
        unanswered = self.generations - self.answered
        return (
            f"{unanswered} of {self.generations} generations need,"
            f" {requests_told(self.estimated, self.rate)}"
        )


def requests_told(estimated: int, rate: float) -> str:
    """So many requests in words, and the hours that they take at so many a second."""
    told = f"as a rule at most, {estimated:,} requests (an estimate)"
    return f"{told}, {estimated / rate / 3600:.1f} h at {rate:g} a second" if rate else told


def requests_needed(
    texts: Iterable[Text], address: IndexAddress, settings: TraceSettings
) -> RequestsNeeded:
    """Trace with kept answers alone, and estimate what those texts need that get stuck.

    Parameters
    ----------
    texts : iterable of (id, text)
    address : IndexAddress
        An index that is no server's needs nothing.
    settings : TraceSettings

    Notes
    -----
    Of a text of ``L`` tokens: 2.5 ``L`` look-ups; the count of each distinct token; for
    each of the ``K`` kept spans the occurrences that are counted and the documents that are drawn;
    documents of the spans that are looked at for the normalised whole; those that hold the whole;
    of a text of one or two words, the spellings in which it is looked up.
    Verbatim and repeated texts need far less, so a run is as a rule well below it: measured, 2.3
    times (novel texts) to 17 times (verbatim ones) as many as were needed. It is no bound: not
    counted is what is asked again after a fault, the few more requests that a match takes in a
    document of more than 4096 tokens, documents drawn anew where a few repeat a passage, and the
    spellings of a longer text of which all but the ends is common.
    """
    listed = list(texts)
    if not address.is_remote:
        return RequestsNeeded(len(listed), len(listed), 0, 0.0)
    offline = replace(address, remote=replace(address.remote, offline=True))
    tracer = Tracer(offline.open(), settings)
    answered = estimated = 0
    for name, text in track(listed, "looking answers up", unit="generations"):
        try:
            tracer.trace(text, name)
            answered += 1
        except NotAnsweredYetError:
            estimated += _estimate(text, tracer, address.remote.most_read)
    estimated += ABOUT_THE_INDEX if estimated else 0
    return RequestsNeeded(len(listed), answered, estimated, address.remote.rate)


def _estimate(text: str, tracer: Tracer, most_read: int) -> int:
    ids = tokenise(text, tracer.index).ids
    spellings = SPELLINGS_PER_READ * most_read if len(text.split()) <= _FEW_WORDS else 0
    return requests_of_a_trace(len(ids), tracer.settings, most_read, len(set(ids))) + spellings


def requests_of_a_trace(
    n_tokens: int, settings: TraceSettings, most_read: int, n_distinct: int | None = None
) -> int:
    """Requests for the trace of a text of more than two words, as a rule at most.

    Parameters
    ----------
    n_tokens : int
        Length of the text, index tokens.
    settings : TraceSettings
    most_read : int
        Occurrences of a passage that are read.
    n_distinct : int, optional
        Distinct tokens among them; without, as many as there are.
    """
    counts = n_tokens if n_distinct is None else n_distinct
    return lookups_of(n_tokens) + counts + requests_of_documents(n_tokens, settings, most_read)


def lookups_of(n_tokens: int) -> int:
    """Look-ups that the maximal runs of so many tokens take, as a rule at most."""
    return int(LOOKUPS_PER_TOKEN * n_tokens)


def requests_of_documents(n_tokens: int, settings: TraceSettings, most_read: int) -> int:
    """Requests for the documents that hold the spans of a text, or all of it, at most."""
    spans = number_kept(n_tokens, settings.rarest_percent)
    of_spans = spans * (min(most_read, COUNTED_OCCURRENCES) + settings.docs_per_span)
    return of_spans + NORMALIZED_ANCHORS * settings.docs_per_span + most_read

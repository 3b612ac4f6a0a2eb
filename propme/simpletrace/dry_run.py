"""How many requests a trace behind a server will need, told without one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from propme.index.remote.client import NotAnsweredYetError
from propme.progress import track
from propme.simpletrace.address import IndexAddress
from propme.simpletrace.rarity import number_kept
from propme.simpletrace.spans import tokenise
from propme.simpletrace.trace import NORMALIZED_ANCHORS, Tracer, TraceSettings
from propme.simpletrace.workers import Text

#: Questions about the index itself: the sizes of its shards, and where documents begin.
ABOUT_THE_INDEX = 2

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
        told = (
            f"{self.generations - self.answered} of {self.generations} generations need, as a rule"
            f" at most, {self.estimated:,} requests (an estimate)"
        )
        if not self.rate:
            return told
        return f"{told}, {self.estimated / self.rate / 3600:.1f} h at {self.rate:g} a second"


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
    document of more than 4096 tokens, and the spellings of a longer text of which all but the ends
    is common.
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
    settings = tracer.settings
    ids = tokenise(text, tracer.index).ids
    spans = number_kept(len(ids), settings.rarest_percent)
    documents = spans * (most_read + settings.docs_per_span)
    documents += NORMALIZED_ANCHORS * settings.docs_per_span + most_read
    spellings = SPELLINGS_PER_READ * most_read if len(text.split()) <= _FEW_WORDS else 0
    return int(LOOKUPS_PER_TOKEN * len(ids)) + len(set(ids)) + documents + spellings

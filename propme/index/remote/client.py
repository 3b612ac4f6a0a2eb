"""Questions to a server of infini-gram's HTTP API: few at a time, patiently, and each once."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from propme.errors import PropMeError, ServerError
from propme.index.remote.answers import Answers
from propme.index.remote.http import PassingError, RefusedError, Server
from propme.index.remote.questions import (
    Answer,
    Checked,
    ContradictionError,
    DisbelievedError,
    Question,
    WrongAnswerError,
)
from propme.index.remote.settings import RemoteSettings, default_answers

#: Seconds before the first repetition of a question, doubled each time up to the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0

#: How often a question is asked that the server answers by an error of its own (with status 200):
#: it may be overloaded, or it may never answer this one.
_TRIES_OF_REFUSED = 3

#: How often a question is asked whose answer cannot be right. Then what it is measured by, which
#: the server told of the index, is asked anew.
_TRIES_OF_WRONG = 5

#: How often a question has failed when it is told, once, that it is asked again: most do not twice.
_FAILURES_UNTOLD = 3

#: Odd answers that a process has at hand, so that it does not ask each time: they are not kept.
_ODD_AT_HAND = 500

#: Seconds after which it is looked again whether another process has got an answer.
_LOOKED_AGAIN = 0.05


class AskedAgainWarning(UserWarning):
    """A server does not answer, and is asked again for some time."""


class NotAnsweredYetError(PropMeError):
    """A question is not among the answers that are kept, and nobody may be asked."""


@dataclass
class _Round:
    """What is asked until somebody gives up.

    Attributes
    ----------
    stopped : Event
        Somebody has.
    cause : ServerError, optional
        Why; all who waited are told the same.
    under_way : dict of Future
        By the name of the question. Who asks in the next round does not wait for these.
    """

    stopped: threading.Event = field(default_factory=threading.Event)
    cause: ServerError | None = None
    under_way: dict[bytes, Future[Answer]] = field(default_factory=dict)


class Client:
    """One index of a server.

    Parameters
    ----------
    address : str
        ``https://server/#name``.
    settings : RemoteSettings

    Attributes
    ----------
    n_requests : int
        Requests that were sent, repetitions included.
    """

    def __init__(self, address: str, settings: RemoteSettings) -> None:
        self._server = Server(address, settings.timeout)
        self._settings = settings
        self._answers = Answers(Path(settings.answers or default_answers()))
        self._pool = ThreadPoolExecutor(settings.at_once, thread_name_prefix="asking")
        self._lock = threading.Lock()
        self._round = _Round()
        self._odd: dict[bytes, Answer] = {}
        self._has_told = False
        self.n_requests = 0

    def ask(self, question: Question) -> Answer:
        """The answer to one question; see `ask_all`."""
        return self.ask_all([question])[0]

    def ask_all(self, questions: Sequence[Question]) -> list[Answer]:
        """Answers to several questions, asked side by side.

        Raises
        ------
        ServerError
            The server is lost, failing or busy for longer than the settings' patience, does not
            know the index or the key, contradicts itself, or (`RefusedError`) answers by an error.
            What was answered is kept, so that the next run goes on from there.
        NotAnsweredYetError
            Only kept answers may be given, and this one is not.
        """
        try:
            waiting = [self._answer_or_future(question) for question in questions]
            return [_result(each) for each in waiting]
        except RefusedError:
            raise
        except (ServerError, KeyboardInterrupt) as error:
            self._stop(error)
            raise

    def _stop(self, why: BaseException) -> None:
        """Whoever else waits to ask again need not; what is asked later may."""
        with self._lock:
            if isinstance(why, ServerError):
                self._round.cause = why
            self._round.stopped.set()
            self._round = _Round()

    def forget(self, questions: Sequence[Question]) -> str:
        """Keep no answer to these questions, for an error came of them; what to do, and where."""
        for name in (self._name(question.fields) for question in questions):
            self._odd.pop(name, None)
            self._answers.forget(name)
        return (
            f"these are answers of {self._server.url}, index {self._server.index}, or were kept in"
            f" {self._answers.path}, which forgets them: trace anew (propme run --from 3_tracing"
            " --force; propme trace: into another folder), and if it stays so, remove it"
        )

    def stands_by(self, questions: Sequence[Question]) -> bool:
        """Whether the server, asked anew, gives the same answers to those that are kept or odd."""
        for question in questions:
            name = self._name(question.fields)
            before = self._kept(name, question)
            if before is not None and self._patiently(name, question, self._round)[0] != before:
                return False
        return True

    def disbelieve(self, *doubted: Sequence[Mapping[str, Any]]) -> None:
        """Forget what was told about the time of some answers, of which one must be wrong.

        Each is given by the fields of the questions of which it may be the answer. What is not kept
        came just now.
        """
        with self._lock:
            self._odd.clear()
        told = [[self._answers.when(self._name(fields)) for fields in each] for each in doubted]
        for times in told:
            known = [at for at in times if at is not None]
            for at in known or [time.time()]:
                self._answers.disbelieve(self._server.source, at)

    def _answer_or_future(self, question: Question) -> Answer | Future[Answer]:
        name = self._name(question.fields)
        kept = self._kept(name, question)
        if kept is not None:
            return kept
        if self._settings.offline:
            raise NotAnsweredYetError(
                f"{self._server.index}: not asked yet: {question.fields['query_type']}"
            )
        with self._lock:
            # Another thread may have asked the same, or have had its answer since.
            under_way = self._round.under_way.get(name)
            if under_way is None and (kept := self._kept(name, question)) is not None:
                return kept
            if under_way is None:
                under_way = self._pool.submit(self._fetch, name, question, self._round)
                self._round.under_way[name] = under_way
        return under_way

    def _whole(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"index": self._server.index, **fields}

    def _name(self, fields: Mapping[str, Any]) -> bytes:
        asked = json.dumps([self._server.url, self._whole(fields)], sort_keys=True)
        return hashlib.sha256(asked.encode()).digest()

    def _kept(self, name: bytes, question: Question) -> Answer | None:
        """A kept answer, or an odd one of this process; what cannot be right is dropped."""
        doubted = self._odd.get(name)
        if doubted is not None:
            return self._check(name, question, doubted)[0]
        kept = self._answers.get(name)
        if kept is None:
            return None
        try:
            answer, odd = self._check(name, question, kept)
            if not odd:
                return answer
        except WrongAnswerError:
            pass
        self._answers.drop(name)
        return None

    def _check(self, name: bytes, question: Question, answer: Mapping[str, Any]) -> Checked:
        try:
            return question.check(answer)
        except ContradictionError as error:  # either may be the wrong one
            self.disbelieve([question.fields], [error.other])
            raise

    def _fetch(self, name: bytes, question: Question, round_: _Round) -> Answer:
        """Ask, unless another process does, whose answer is then waited for."""
        try:
            while not self._answers.claim(name, self._settings.patience + self._settings.timeout):
                if round_.stopped.wait(_LOOKED_AGAIN):
                    raise round_.cause or ServerError(self._told("it is left alone"))
            kept = self._kept(name, question)
            if kept is not None:
                return kept
            asked = time.time()
            answer, odd = self._patiently(name, question, round_)
            if odd:
                self._have_at_hand(name, answer)
            else:
                self._answers.put(name, answer, self._server.source, asked)
            return answer
        finally:
            self._answers.release(name)
            with self._lock:
                round_.under_way.pop(name, None)

    def _have_at_hand(self, name: bytes, answer: Answer) -> None:
        with self._lock:
            if len(self._odd) >= _ODD_AT_HAND:
                self._odd.clear()
            self._odd[name] = answer

    def _patiently(
        self, name: bytes, question: Question, round_: _Round, twice: bool = False
    ) -> Checked:
        """Ask, ever more slowly, while the server may yet answer; or until it says it ``twice``."""
        url = self._server.url
        deadline = time.monotonic() + self._settings.patience
        pause, failed, refused, wrong, last = _FIRST_WAIT, 0, 0, 0, "it is left alone"
        wait = 0.0
        doubted: Answer | None = None
        while True:
            wait = max(wait, self._answers.turn(url, self._settings.rate))
            if time.monotonic() + wait > deadline or round_.stopped.wait(wait):
                raise round_.cause or ServerError(self._told(self._answers.held(url) or last))
            try:
                answer, odd = self._check(name, question, self._request(question))
                if not (odd or twice) or answer == doubted:
                    return answer, odd
                # Not at once, for what was wrong with the server may last.
                last, wait, doubted = f"its answer is doubted: {odd}", _spread(pause), answer
                pause *= 2
            except PassingError as error:
                refused += error.refused
                last = str(error)
                is_wrong = isinstance(error, WrongAnswerError)
                failed += not (is_wrong or error.refused)  # which are not repeated for long
                if failed == _FAILURES_UNTOLD:
                    self._tell(last, deadline - time.monotonic())
                wrong += is_wrong
                if wrong == _TRIES_OF_WRONG:
                    self._doubt(question, round_)
                    raise ServerError(self._told(f"{last}, {wrong} times")) from None
                if refused == _TRIES_OF_REFUSED:
                    raise RefusedError(self._told(last)) from None
                if error.after:
                    self._answers.hold(url, error.after, f"status {error.status}")
                # Not all at the same time, but never before the server wants it.
                wait = max(error.after, _spread(pause))
                pause *= 2

    def _doubt(self, question: Question, round_: _Round) -> None:
        """Ask anew what answers to a question are measured by; it may be what is wrong.

        Raises
        ------
        DisbelievedError
            It was.
        """
        for ground in question.grounds:
            name = self._name(ground.fields)
            kept = self._answers.get(name)
            if kept is None:  # not told, or asked anew by another thread
                continue
            told, _ = self._patiently(name, ground, round_, twice=True)
            if told != kept:
                # All else was measured by it, or is of an index that was replaced.
                self._answers.forget_source(self._server.source)
                self._answers.put(name, told, self._server.source, time.time())
                raise DisbelievedError(
                    f"{self._server.url}, index {self._server.index}: the server had told other"
                    f" shards or documents of the index than it does now; {self._answers.path}"
                    " forgets all that it told of the index before, so start again"
                )

    def _tell(self, why: str, seconds: float) -> None:
        """Say once that it is asked again, for nothing else is seen for so long."""
        with self._lock:
            told, self._has_told = self._has_told, True
        if not told:
            warnings.warn(
                f"{self._server.url}: {self._server.scrubbed(why)}; it is asked again, for up to"
                f" {max(0.0, seconds):.0f} s",
                AskedAgainWarning,
                stacklevel=2,
            )

    def _request(self, question: Question) -> dict[str, Any]:
        with self._lock:
            self.n_requests += 1
        return self._server.request(self._whole(question.fields))

    def _told(self, what: str) -> str:
        server = self._server
        return (
            f"{server.url}, index {server.index}: the server does not answer:"
            f" {server.scrubbed(what)}; all answers so far are kept, so start again later"
        )


def _spread(pause: float) -> float:
    return min(pause, _LONGEST_WAIT) * random.uniform(0.5, 1)


def _result(answer: Answer | Future[Answer]) -> Answer:
    return answer.result() if isinstance(answer, Future) else answer

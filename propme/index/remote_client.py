"""Questions to a server of infini-gram's HTTP API: few at a time, patiently, and each once."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from propme.errors import PropMeError, ServerError
from propme.index.remote_answers import Answers
from propme.index.remote_http import PassingError, Question, RefusedError, Server
from propme.index.remote_settings import RemoteSettings, default_answers

#: Seconds before the first repetition of a question, doubled each time up to the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0

#: How often a question is asked that the server answers by an error of its own (with status 200):
#: it may be overloaded, or it may never answer this one.
_TRIES_OF_REFUSED = 3

#: What an answer must hold, by the type of the question.
_HOLDS = {
    "find": ("cnt", "segment_by_shard"),
    "find_cnf": ("cnt", "approx", "ptrs_by_shard"),
    "get_doc_by_rank": ("doc_ix", "doc_len", "disp_len", "needle_offset", "metadata", "spans"),
    "get_doc_by_ptr": ("doc_ix", "doc_len", "disp_len", "needle_offset", "metadata", "spans"),
}


class NotAnsweredYetError(PropMeError):
    """A question is not among the answers that are kept, and nobody may be asked."""


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
        self._under_way: dict[bytes, Future[dict[str, Any]]] = {}
        self._stopped = threading.Event()
        self.n_requests = 0

    def ask(self, question: Question) -> dict[str, Any]:
        """The answer to one question; see `ask_all`."""
        return self.ask_all([question])[0]

    def ask_all(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """Answers to several questions, asked side by side.

        Raises
        ------
        ServerError
            The server is lost, failing or busy for longer than the settings' patience, does not
            know the index or the key, or (`RefusedError`) answers by an error. What was answered is
            kept, so that the next run goes on from there.
        NotAnsweredYetError
            Only kept answers may be given, and this one is not.
        """
        try:
            waiting = [self._answer_or_future(question) for question in questions]
            return [each.result() if isinstance(each, Future) else each for each in waiting]
        except RefusedError:
            raise
        except (ServerError, KeyboardInterrupt):
            # Whoever else waits to ask again need not; what is asked later may.
            self._stopped.set()
            self._stopped = threading.Event()
            raise

    def _answer_or_future(self, question: Question) -> dict[str, Any] | Future[dict[str, Any]]:
        whole = {"index": self._server.index, **question}
        asked = json.dumps([self._server.url, whole], sort_keys=True)
        name = hashlib.sha256(asked.encode()).digest()
        kept = self._answers.get(name)
        if kept is not None:
            return kept
        if self._settings.offline:
            raise NotAnsweredYetError(
                f"{self._server.index}: not asked yet: {question['query_type']}"
            )
        with self._lock:
            # Another thread may have asked the same, or have had its answer since.
            under_way = self._under_way.get(name)
            if under_way is None and (kept := self._answers.get(name)) is not None:
                return kept
            if under_way is None:
                under_way = self._pool.submit(self._fetch, name, whole)
                self._under_way[name] = under_way
        return under_way

    def _fetch(self, name: bytes, question: Question) -> dict[str, Any]:
        """Ask, ever more slowly, while the server may yet answer."""
        try:
            answer = self._patiently(question)
            self._answers.put(name, answer)
            return answer
        finally:
            with self._lock:
                self._under_way.pop(name, None)

    def _patiently(self, question: Question) -> dict[str, Any]:
        url = self._server.url
        deadline = time.monotonic() + self._settings.patience
        stopped, pause, refused, last = self._stopped, _FIRST_WAIT, 0, "it is left alone"
        wait = 0.0
        while True:
            wait = max(wait, self._answers.turn(url, self._settings.rate))
            if time.monotonic() + wait > deadline or stopped.wait(wait):
                raise ServerError(self._told(last))
            try:
                return self._request(question)
            except PassingError as error:
                refused += error.refused
                last = str(error)
                if refused == _TRIES_OF_REFUSED:
                    raise RefusedError(self._told(last)) from None
                if error.after:
                    last += f", and asks for {error.after:.0f} s of rest"
                    self._answers.hold(url, error.after)
                # Not all at the same time, but never before the server wants it.
                wait = max(error.after, min(pause, _LONGEST_WAIT) * random.uniform(0.5, 1))
                pause *= 2

    def _request(self, question: Question) -> dict[str, Any]:
        with self._lock:
            self.n_requests += 1
        return _checked(str(question["query_type"]), self._server.request(question))

    def _told(self, what: str) -> str:
        server = self._server
        return (
            f"{server.url}, index {server.index}: the server does not answer:"
            f" {server.scrubbed(what)}; all answers so far are kept, so start again later"
        )


def _checked(query_type: str, answer: dict[str, Any]) -> dict[str, Any]:
    """What is kept of an answer: what the question was about, in the form that it should have."""
    try:
        kept = {name: answer[name] for name in _HOLDS[query_type]}
    except KeyError as error:
        raise PassingError(f"its answer to {query_type} lacks {error}") from None
    if query_type == "find":
        try:
            count = sum(high - low for low, high in kept["segment_by_shard"])
        except (TypeError, ValueError):
            count = None
        if count is None or count != kept["cnt"]:
            raise PassingError("its answer to find contradicts itself")
    for name in ("token_ids", "blocked"):
        if query_type.startswith("get_doc") and name in answer:
            kept[name] = answer[name]
    return kept

"""Questions to a server of infini-gram's HTTP API: few at a time, patiently, and each once.

The key is read from PROPME_INDEX_KEY, and from nowhere else. It is in nothing that is told or kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from propme.errors import ParameterError, PropMeError, ServerError
from propme.index.remote_answers import Answers

KEY_VARIABLE = "PROPME_INDEX_KEY"

#: Seconds before the first repetition of a question, doubled each time up to the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0

#: How often a question is asked that the server answers by an error of its own (with status 200):
#: it may be overloaded, or it may never answer this one.
_TRIES_OF_REFUSED = 3

_MOST_TOLD = 300

Question = Mapping[str, Any]

#: What an answer must hold, by the type of the question.
_HOLDS = {
    "find": ("cnt", "segment_by_shard"),
    "find_cnf": ("cnt", "approx", "ptrs_by_shard"),
    "get_doc_by_rank": ("doc_ix", "doc_len", "disp_len", "needle_offset", "metadata", "spans"),
    "get_doc_by_ptr": ("doc_ix", "doc_len", "disp_len", "needle_offset", "metadata", "spans"),
}


class RefusedError(ServerError):
    """The server answers this question by an error, however often it is asked."""


class NotAnsweredYetError(PropMeError):
    """A question is not among the answers that are kept, and nobody may be asked."""


class _PassingError(PropMeError):
    """The server did not answer now; ``after``: seconds for which it wants to be left alone."""

    def __init__(self, told: str, after: float = 0.0, refused: bool = False) -> None:
        self.after, self.refused = after, refused
        super().__init__(told)


def default_answers() -> str:
    """File of answers where none is named: in the user's folder for caches."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(folder) / "propme" / "answers.sqlite")


@dataclass(frozen=True)
class RemoteSettings:
    """How an index behind a server is asked.

    Attributes
    ----------
    answers : str
        File in which answers are kept; empty: `default_answers`.
    rate : float
        Most requests a second, of all processes that share the file; 0: no limit.
    at_once : int
        Most requests that one process has under way.
    most_read : int
        Occurrences of one passage that are read, each of which is a request: of more, the distinct
        documents are a lower bound.
    patience : float
        Seconds for which a question is repeated while the server is lost, busy or failing.
    timeout : float
        Seconds in which an answer must come.
    offline : bool
        Only kept answers are given; any other question ends in a `NotAnsweredYetError`.
    """

    answers: str = ""
    rate: float = 8.0
    at_once: int = 4
    most_read: int = 20
    patience: float = 600.0
    timeout: float = 60.0
    offline: bool = False

    def __post_init__(self) -> None:
        for name, least in (("rate", 0), ("at_once", 1), ("most_read", 1), ("patience", 0)):
            if getattr(self, name) < least:
                raise ParameterError(f"{name} must be at least {least}, not {getattr(self, name)}")


def is_remote(address: object) -> bool:
    """Whether an index lies behind a server: its address is a URL."""
    return str(address).startswith(("http://", "https://"))


def split_address(address: str) -> tuple[str, str]:
    """Server and name of an index out of ``https://server/#name``.

    Raises
    ------
    ParameterError
        There is no name, the address holds credentials, which would be told and kept with it, or it
        is no address.
    """
    try:
        parts = urlsplit(address)
    except ValueError as error:  # the address may hold credentials, so it is not told
        raise ParameterError("the index's address is none such as https://server/#name") from error
    if parts.username or parts.password or parts.query:
        raise ParameterError(
            f"an address of an index may hold no credentials and no query (server"
            f" {parts.hostname}); a key belongs into the environment variable {KEY_VARIABLE}"
        )
    if not parts.fragment or not parts.hostname:
        raise ParameterError(
            f"{address}: the index's name is missing, as in https://api.infini-gram.io/#v4_name"
        )
    return address.partition("#")[0], parts.fragment


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
        self._url, self._index = split_address(address)
        self._settings = settings
        self._answers = Answers(Path(settings.answers or default_answers()))
        self._key = os.environ.get(KEY_VARIABLE, "")
        self._http = _http(settings.timeout, self._key)
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
        whole = {"index": self._index, **question}
        name = hashlib.sha256(json.dumps([self._url, whole], sort_keys=True).encode()).digest()
        kept = self._answers.get(name)
        if kept is not None:
            return kept
        if self._settings.offline:
            raise NotAnsweredYetError(f"{self._index}: not asked yet: {question['query_type']}")
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
        deadline = time.monotonic() + self._settings.patience
        stopped, pause, refused, last = self._stopped, _FIRST_WAIT, 0, "it is left alone"
        wait = 0.0
        while True:
            wait = max(wait, self._answers.turn(self._url, self._settings.rate))
            if time.monotonic() + wait > deadline or stopped.wait(wait):
                raise ServerError(self._told(last))
            try:
                return self._request(question)
            except _PassingError as error:
                refused += error.refused
                last = str(error)
                if refused == _TRIES_OF_REFUSED:
                    raise RefusedError(self._told(last)) from None
                if error.after:
                    last += f", and asks for {error.after:.0f} s of rest"
                    self._answers.hold(self._url, error.after)
                # Not all at the same time, but never before the server wants it.
                wait = max(error.after, min(pause, _LONGEST_WAIT) * random.uniform(0.5, 1))
                pause *= 2

    def _request(self, question: Question) -> dict[str, Any]:
        """One request."""
        import httpx

        with self._lock:
            self.n_requests += 1
        try:
            response = self._http.post(self._url, json=dict(question))
        except httpx.TimeoutException:
            raise _PassingError("it did not answer in time") from None
        except httpx.TransportError as error:
            raise _PassingError(f"it cannot be reached ({type(error).__name__})") from None
        except httpx.InvalidURL:
            raise ParameterError(f"{self._url}: not an address that can be asked") from None
        try:
            content = response.json()
        except ValueError:
            content = None
        if response.status_code != 200:
            raise self._of_status(response.status_code, content, response.headers)
        if not isinstance(content, dict):
            raise _PassingError("its answer is no JSON object")
        if "error" in content:
            raise _PassingError(f"it answers by an error: {content['error']}", refused=True)
        return _checked(str(question["query_type"]), content)

    def _of_status(self, status: int, content: Any, headers: Mapping[str, str]) -> PropMeError:
        told = f": {content['error']}" if isinstance(content, dict) and "error" in content else ""
        if status in (401, 403):  # such an answer likes to quote the key, so it is not told
            return ServerError(
                f"{self._url}: the server does not accept the key ({status}); see the environment"
                f" variable {KEY_VARIABLE}"
            )
        if status in (408, 425, 429) or status >= 500:
            after = seconds_to_wait(headers.get("retry-after"))
            return _PassingError(f"it failed ({status}){told}", after)
        return ServerError(
            f"{self._url}: the server refuses a request ({status}){self._scrubbed(told)}; is"
            f" {self._index!r} the name of one of its indexes?"
        )

    def _told(self, what: str) -> str:
        return (
            f"{self._url}, index {self._index}: the server does not answer: {self._scrubbed(what)};"
            " all answers so far are kept, so start again later"
        )

    def _scrubbed(self, text: str) -> str:
        return (text.replace(self._key, "...") if self._key else text)[:_MOST_TOLD]


def _http(timeout: float, key: str) -> Any:
    try:
        import httpx
    except ImportError as error:
        raise ParameterError(
            "an index behind a server needs httpx: pip install 'propme[remote]'"
        ) from error
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        return httpx.Client(timeout=timeout, headers=headers)
    except Exception:  # it may quote the key
        raise ParameterError(f"the key in {KEY_VARIABLE} cannot be sent") from None


def _checked(query_type: str, answer: dict[str, Any]) -> dict[str, Any]:
    """What is kept of an answer: what the question was about, in the form that it should have."""
    try:
        kept = {name: answer[name] for name in _HOLDS[query_type]}
    except KeyError as error:
        raise _PassingError(f"its answer to {query_type} lacks {error}") from None
    if query_type == "find":
        try:
            count = sum(high - low for low, high in kept["segment_by_shard"])
        except (TypeError, ValueError):
            count = None
        if count is None or count != kept["cnt"]:
            raise _PassingError("its answer to find contradicts itself")
    for name in ("token_ids", "blocked"):
        if query_type.startswith("get_doc") and name in answer:
            kept[name] = answer[name]
    return kept


def seconds_to_wait(header: str | None) -> float:
    """Seconds that ``Retry-After`` asks for, which is a number of them or a date; 0: it does not.

    The date is compared with this machine's clock.
    """
    if not header:
        return 0.0
    if header.strip().isdigit():
        return float(header)
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())

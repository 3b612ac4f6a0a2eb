"""One server that speaks OpenAI's protocol: requests, repetitions, and what its answers hold.

The key is read from OPENAI_API_KEY and the address from OPENAI_BASE_URL, and from nowhere else.
Neither the key nor credentials in the address are in anything that is told or kept; errors of the
client, which could quote both, are not passed on.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

from propme.errors import ParameterError, PropMeError, ServerError
from propme.keys import key_of

COMPLETIONS, CHAT = "/completions", "/chat/completions"

#: Seconds before the first repetition of a request, doubled each time up to the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0

#: Longest time in which one completion must have come, and a connection be made, in seconds.
_TIMEOUT, _CONNECT_TIMEOUT = 900.0, 10.0

_MOST_TOLD = 300


class RefusedError(PropMeError):
    """The server will not answer this request, however often it is asked."""

    def __init__(self, status: int, told: str) -> None:
        self.status = status
        super().__init__(f"the server refused it ({status}): {told}")


class PassingError(PropMeError):
    """The server did not answer this request now; ``lost``: it could not be reached."""

    def __init__(self, told: str, lost: bool = False, after: float = 0.0) -> None:
        self.lost, self.after = lost, after
        super().__init__(told)


class Server:
    """A server, by the environment's address and key.

    Parameters
    ----------
    patience : float
        Seconds for which a request is repeated while the server is lost, busy or failing.

    Attributes
    ----------
    address : str
        Without credentials, to be told.
    stopped : Event
        Once set, no request is repeated.
    n_repeated : int
        Requests that were asked again.

    Raises
    ------
    ParameterError
        No address is given, or none that can be used.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._key = key_of("OPENAI_API_KEY")
        self._url = os.environ.get("OPENAI_BASE_URL", "")
        if not self._url:
            raise ParameterError(
                "the environment variable OPENAI_BASE_URL is not set; it is the server's address,"
                " such as http://localhost:8000/v1"
            )
        self._client = _client(self._url, self._key)
        self.address = _without_credentials(self._url)
        self.stopped = threading.Event()
        self.n_repeated = 0

    def answer(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """What the server answers; asked again, ever more slowly, while it may yet do so.

        Parameters
        ----------
        path : str
            `COMPLETIONS`, `CHAT`, or another path of the protocol.
        body : dict or None
            Fields of the request; none: the list of models.

        Raises
        ------
        RefusedError, PassingError
            There is no answer, for good or for now.
        ServerError
            The key is not accepted.
        """
        deadline = time.monotonic() + self._patience
        pause = _FIRST_WAIT
        while True:
            try:
                return self._ask(path, body)
            except PassingError as error:
                pause = max(min(pause, _LONGEST_WAIT), error.after)
                over = time.monotonic() + pause > deadline
                if over or self.stopped.wait(pause):
                    raise
                self.n_repeated += 1
                pause *= 2

    def _ask(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """One request.

        Raises
        ------
        ServerError
            The key is not accepted.
        """
        import openai

        try:
            content = self._request(path, body).http_response.content
        except openai.APITimeoutError:
            raise PassingError("the server did not answer in time") from None
        except openai.APIConnectionError:
            raise PassingError(
                f"the server at {self.address} cannot be reached (OPENAI_BASE_URL)", lost=True
            ) from None
        except openai.APIStatusError as error:
            raise self._of_status(error.status_code, error.response) from None
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise PassingError("the server's answer is no JSON object")
        return answer

    def _request(self, path: str, body: dict[str, Any] | None) -> Any:
        """What the client has of an answer before it takes it apart."""
        if body is None:
            return self._client.models.with_raw_response.list()
        fields = dict(body)
        wanted = ("model", "messages" if path == CHAT else "prompt")
        named = {name: fields.pop(name) for name in wanted}
        client = self._client.chat if path == CHAT else self._client
        return client.completions.with_raw_response.create(**named, extra_body=fields)

    def _of_status(self, status: int, response: Any) -> PropMeError:
        told = self._scrubbed(_message(response))
        if status in (401, 403):  # such an answer likes to quote the key, so it is not told
            return ServerError(
                f"the server at {self.address} does not accept the key ({status}); see the"
                " environment variable OPENAI_API_KEY"
            )
        if status in (408, 409, 425, 429) or status >= 500:
            after = _seconds(response.headers.get("retry-after"))
            return PassingError(f"the server failed ({status}): {told}", after=after)
        return RefusedError(status, told)

    def _scrubbed(self, text: str) -> str:
        """Text of a server without the key and the credentials of the address."""
        parts = urlsplit(self._url)
        for secret in (self._key, parts.password, parts.username, parts.query):
            for spelled in {secret or "", quote(secret or "", safe="")} - {""}:
                text = text.replace(spelled, "...")
        return text[:_MOST_TOLD]


def _client(url: str, key: str) -> Any:
    try:
        import openai
    except ImportError:
        raise ParameterError(
            "backend 'openai' is not installed: pip install 'propme[openai]'"
        ) from None
    try:
        return openai.OpenAI(
            base_url=url,
            api_key=key or "none",  # servers of one's own want none
            max_retries=0,
            timeout=openai.Timeout(_TIMEOUT, connect=_CONNECT_TIMEOUT),
        )
    except Exception as error:  # it may quote the address
        raise ParameterError(
            f"the address in OPENAI_BASE_URL cannot be used ({type(error).__name__})"
        ) from None


def _without_credentials(url: str) -> str:
    """An address without user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _message(response: Any) -> str:
    """What a server says of an error, in one line."""
    try:
        answer = json.loads(response.content)
    except (ValueError, AttributeError, RuntimeError):
        return " ".join(str(getattr(response, "text", "")).split())
    inner = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(inner, dict):
        inner = inner.get("message") or inner.get("detail") or inner
    return " ".join(str(inner).split())


def _seconds(header: str | None) -> float:
    """Seconds of a Retry-After header, which may be a date; 0 where there is none."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(header or "")
    except ValueError:
        return 0.0
    return max(0.0, (then.astimezone(UTC) - datetime.now(UTC)).total_seconds())


def choice_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The one completion of an answer."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise PassingError("the server's answer holds not one completion")
    choice: dict[str, Any] = choices[0]
    return choice


def text_of(choice: dict[str, Any]) -> str:
    """Text of a completion, or of a chat's answer."""
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    if text is None and isinstance(message, dict):
        return ""  # a chat answer without content
    if not isinstance(text, str):
        raise PassingError("the server's answer holds no text")
    return text


def n_prompt_tokens(answer: dict[str, Any]) -> int | None:
    """As how many tokens the server read the prompt, if it tells."""
    usage = answer.get("usage")
    counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return counted if isinstance(counted, int) else None


def log_probabilities(
    choice: dict[str, Any], way: str, ids: Sequence[int]
) -> list[tuple[float, bool]]:
    """Of each of a prompt's tokens: its log-probability, and whether it is the likeliest.

    The first token has none: nothing comes before it.
    """
    try:
        if way == "prompt_logprobs":
            told = choice["prompt_logprobs"][1 : len(ids)]
            chosen = [each[str(ids[k])] for k, each in enumerate(told, 1)]
            found = [(float(each["logprob"]), each["rank"] == 1) for each in chosen]
        else:
            logprobs = choice["logprobs"]
            own, top = (
                logprobs["token_logprobs"][1 : len(ids)],
                logprobs["top_logprobs"][1 : len(ids)],
            )
            found = [
                (float(p), float(p) >= max(map(float, best.values())))
                for p, best in zip(own, top, strict=True)
            ]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise PassingError("the server tells no log-probabilities of the prompt") from None
    if len(found) != len(ids) - 1:
        raise PassingError("the server tells log-probabilities of a part of the prompt only")
    return [(0.0, True), *found]

"""One request to a server of infini-gram's HTTP API, and what its answer says went wrong.

The key is read from the environment (`KEY_VARIABLE`), and from nowhere else. It is in nothing that
is told or kept.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import weakref
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from propme.errors import ParameterError, PropMeError, ServerError
from propme.index.remote.settings import KEY_VARIABLE, split_address
from propme.keys import key_of

_MOST_TOLD = 300

#: Errors of TLS that are those of a connection that was cut.
_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError)

#: Most bytes of an answer: far more than all of one has.
MOST_BYTES = 64 << 20


class RefusedError(ServerError):
    """The server answers this question by an error, however often it is asked."""


class PassingError(PropMeError):
    """The server did not answer now.

    Attributes
    ----------
    after : float
        Seconds for which it wants to be left alone.
    refused : bool
        It answers this question by an error of its own.
    status : int
        Of HTTP.
    """

    def __init__(
        self, told: str, after: float = 0.0, refused: bool = False, status: int = 200
    ) -> None:
        self.after, self.refused, self.status = after, refused, status
        super().__init__(told)


class _Loop:
    """A thread in which requests are under way, for only there they can be given up in time."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=_run, args=(self._loop,), name="requests", daemon=True).start()
        weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)

    def run(self, request: Coroutine[Any, Any, Any]) -> Any:
        """The result of a request, for which the calling thread waits."""
        return asyncio.run_coroutine_threadsafe(request, self._loop).result()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


class Server:
    """One index of a server.

    Parameters
    ----------
    address : str
        ``https://server/#name``.
    timeout : float
        Seconds in which an answer must come.

    Attributes
    ----------
    url, index : str
        Of the server, and the index's name there.
    source : str
        Both, as answers are kept under.
    """

    def __init__(self, address: str, timeout: float) -> None:
        self.url, self.index = split_address(address)
        self.source = f"{self.url}#{self.index}"
        self._key = key_of(KEY_VARIABLE)
        self._timeout = timeout
        self._http = _http(timeout, self._key)
        self._loop = _Loop()

    def request(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one question, asked once.

        Raises
        ------
        PassingError
            It did not come, or may be another one next time.
        ServerError
            The server does not know the index or the key, or its certificate is not valid.
        """
        import httpx

        try:
            response, body = self._loop.run(self._post(dict(question)))
        except (httpx.TimeoutException, TimeoutError):
            raise PassingError("it did not answer in time") from None
        except httpx.TransportError as error:
            if (why := _untrusted(error)) is not None:
                raise ServerError(
                    f"{self.url}: no safe connection to the server ({why}); is this its address,"
                    " and are the certificates of this machine in order?"
                ) from None
            raise PassingError(f"it cannot be reached ({type(error).__name__})") from None
        except httpx.RequestError as error:  # as where it is not encoded as its header says
            raise PassingError(f"its answer cannot be read ({type(error).__name__})") from None
        except httpx.InvalidURL:
            raise ParameterError(f"{self.url}: not an address that can be asked") from None
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            content = None
        if response.status_code != 200:
            raise self._of_status(response.status_code, content, response.headers)
        if not isinstance(content, dict):
            raise PassingError("its answer is no JSON object")
        if "error" in content:
            raise PassingError(f"it answers by an error{_error_in(content)}", refused=True)
        return content

    async def _post(self, question: dict[str, Any]) -> tuple[Any, bytes]:
        """Response and body, in time as a whole: httpx's own limit is for each read."""
        async with (
            asyncio.timeout(self._timeout),
            self._http.stream("POST", self.url, json=question) as response,
        ):
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    raise PassingError(f"its answer is of more than {MOST_BYTES >> 20} MB")
            return response, bytes(body)

    def _of_status(self, status: int, content: Any, headers: Mapping[str, str]) -> PropMeError:
        told = _error_in(content)
        if status in (401, 403):  # such an answer likes to quote the key, so it is not told
            return ServerError(
                f"{self.url}: the server does not accept the key ({status}); see the environment"
                f" variable {KEY_VARIABLE}"
            )
        if status in (408, 425, 429) or status >= 500:
            after = seconds_to_wait(headers.get("retry-after"))
            return PassingError(f"it failed ({status}){told}", after, status=status)
        if status in (301, 308):
            return ServerError(
                f"{self.url}: the server has moved ({status}) to"
                f" {_host(headers.get('location', ''))}; give its new address"
            )
        if status < 400:  # as of a proxy that has nothing to say, or wants something first
            return PassingError(f"it answers without content, or from elsewhere ({status})")
        return ServerError(
            f"{self.url}: the server refuses a request ({status}){self.scrubbed(told)}; is"
            f" {self.index!r} the name of one of its indexes?"
        )

    def scrubbed(self, text: str) -> str:
        """The beginning of what the server said, without the key."""
        return (text.replace(self._key, "...") if self._key else text)[:_MOST_TOLD]


def _untrusted(error: BaseException | None) -> str | None:
    """What is wrong with a certificate or with TLS; ``None``: it is something that may pass."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and not isinstance(error, _CUT):
            return getattr(error, "verify_message", "") or error.reason or type(error).__name__
        error = error.__cause__ or error.__context__
    return None


def _error_in(content: Any) -> str:
    """What the server says went wrong, to go on with a sentence; empty: nothing."""
    told = content.get("error") if isinstance(content, dict) else None
    return f": {told}" if isinstance(told, str) else ""


def _host(location: str) -> str:
    """The server of an address, which may hold more than may be told."""
    try:
        return urlsplit(location).hostname or "another path"
    except ValueError:
        return "an address that is none"


def _http(timeout: float, key: str) -> Any:
    try:
        import httpx
    except ImportError as error:
        raise ParameterError(
            "an index behind a server needs httpx: pip install 'propme[remote]'"
        ) from error
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.AsyncClient(timeout=timeout, headers=headers)


def seconds_to_wait(header: str | None) -> float:
    """Seconds that ``Retry-After`` asks for, which is a number of them or a date; 0: it does not.

    The date is compared with this machine's clock.
    """
    number = (header or "").strip()
    if number.isascii() and number.isdigit():
        return float(number)
    try:
        at = parsedate_to_datetime(number)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):  # whatever a date is not
        return 0.0

"""Where an index behind a server lies, and how it is asked."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from propme.errors import ParameterError

#: The environment variable that holds the key, where a server wants one.
KEY_VARIABLE = "PROPME_INDEX_KEY"

#: What the path of an address and the name of an index are made of. No more, for a key in another
#: place than the environment would be told and kept with the address.
_PATH, _NAME = re.compile(r"[A-Za-z0-9._~/-]*"), re.compile(r"[A-Za-z0-9._~-]*")


#: Least and greatest values of what may be set.
_BOUNDS = (
    ("rate", 0, 10_000),
    ("at_once", 1, 256),
    ("most_read", 1, 10_000_000),
    ("patience", 0, 1e9),
    ("timeout", 0, 1e9),
)

#: Slower than one request in ten minutes is not told from a clock that was set back.
_SLOWEST = 1 / 600

#: A server's name or number, and its port.
_NETLOC = re.compile(
    r"(?:(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
)


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
        Seconds in which an answer must come, whole.
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
        for name, least, most in _BOUNDS:
            if not least <= getattr(self, name) <= most:  # nor is it a number that is none
                raise ParameterError(
                    f"{name} must be at least {least:g} and at most {most:g}, not"
                    f" {getattr(self, name)}"
                )
        if 0 < self.rate < _SLOWEST:
            raise ParameterError(
                f"rate must be 0, for no limit, or at least {_SLOWEST:g} requests a second, not"
                f" {self.rate}"
            )


def is_remote(address: object) -> bool:
    """Whether an index lies behind a server: its address is a URL."""
    return str(address).lower().startswith(("http://", "https://"))


def split_address(address: str) -> tuple[str, str]:
    """Server and name of an index out of ``https://server/#name``.

    Raises
    ------
    ParameterError
        There is no name, or the address holds what may be a key or other credentials: they would be
        told and kept with it. The message quotes no address that may.
    """
    server, _, name = address.partition("#")
    try:
        parts = urlsplit(server)
        plain = parts.port is None or parts.port > 0
    except ValueError:
        raise ParameterError(
            "an address of an index is no URL; it is one such as https://api.infini-gram.io/#v4_name"
        ) from None
    plain = plain and _PATH.fullmatch(parts.path) is not None and _NAME.fullmatch(name) is not None
    if not plain or "@" in parts.netloc or "?" in server:
        raise ParameterError(
            "an address of an index holds a server, a path and, behind #, a name, and nothing else:"
            " no credentials, no query, and in path and name only letters, digits and . _ ~ -"
            f" (server {parts.hostname}); a key belongs into the environment variable"
            f" {KEY_VARIABLE}"
        )
    if not _NETLOC.fullmatch(parts.netloc) or not server.isprintable():
        raise ParameterError(
            "the server in an address of an index has no name that it could be asked by; an address"
            " is one such as https://api.infini-gram.io/#v4_name"
        )
    if not name:
        raise ParameterError(
            f"{address}: the index's name is missing, as in https://api.infini-gram.io/#v4_name"
        )
    return server, name

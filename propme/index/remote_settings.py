"""Where an index behind a server lies, and how it is asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from propme.errors import ParameterError

#: The environment variable that holds the key, where a server wants one.
KEY_VARIABLE = "PROPME_INDEX_KEY"


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
        There is no name, the address holds credentials, which would be told and kept with it, or
        it is no address.
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

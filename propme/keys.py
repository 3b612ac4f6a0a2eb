"""Keys of servers, which come from the environment and from nowhere else."""

from __future__ import annotations

import os

from propme.errors import ParameterError


def key_of(variable: str) -> str:
    """The key in an environment variable; empty: there is none.

    White space around it, as a file's last line has it, is no part of it.

    Raises
    ------
    ParameterError
        It holds what cannot be sent: only visible ASCII characters can. The message does not quote
        it.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ParameterError(
            f"the key in {variable} cannot be sent: it holds blanks, or characters that are not"
            " ASCII; set it anew"
        )
    return key

"""The errors PropMe raises on purpose. Each message says what is wrong, where, and what to do."""

from __future__ import annotations


class PropMeError(Exception):
    """Base of every error that PropMe raises on purpose."""


class InputError(PropMeError, ValueError):
    """A file the user gave cannot be used as it is.

    Attributes
    ----------
    path : str
        The file.
    line : int or None
        The line in it, counted from 1, where there is one.
    """

    def __init__(self, message: str, path: str, line: int | None = None) -> None:
        self.message, self.path, self.line = message, path, line
        super().__init__(message, path, line)  # all three, so that it can be pickled

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{where}: {self.message}"


class TooLongError(InputError):
    """A prompt and its completion do not fit into the model's context."""


class ParameterError(PropMeError, ValueError):
    """A parameter is unknown or its value cannot be what was meant."""


class BrokenIndexError(PropMeError):
    """An index is incomplete, damaged, or not the one it claims to be."""


class TableError(PropMeError, ValueError):
    """A table lacks a column, holds a wrong type, or repeats a key."""


class MetricError(PropMeError, ValueError):
    """A metric or its transformation is not defined for what was given."""


class RunError(PropMeError):
    """A notebook of a run failed, or a run's folder cannot be used."""


class ServerError(PropMeError):
    """A server cannot be reached, does not know the key, the model or index, or keeps failing."""

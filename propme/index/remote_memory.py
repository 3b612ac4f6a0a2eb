"""What a thread has found behind a server, for what it asks next."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

#: What a thread remembers of each kind; of more, the older half is forgotten.
MOST_REMEMBERED = 50_000


class Memory(threading.local, Generic[Key, Value]):
    """A mapping of the thread's own that is bounded: of more, the older half is forgotten."""

    def __init__(self) -> None:
        self._remembered: dict[Key, Value] = {}

    def __len__(self) -> int:
        return len(self._remembered)

    def __getitem__(self, key: Key) -> Value:
        return self._remembered[key]

    def get(self, key: Key, default: Value) -> Value:
        """What is remembered under a key."""
        return self._remembered.get(key, default)

    def __setitem__(self, key: Key, value: Value) -> None:
        if len(self._remembered) >= MOST_REMEMBERED:
            for old in list(islice(self._remembered, MOST_REMEMBERED // 2)):
                del self._remembered[old]
        self._remembered[key] = value

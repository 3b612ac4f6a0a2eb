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

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._remembered: dict[Key, Value] = {}

    def __len__(self) -> int:
        return len(self._remembered)

    def __contains__(self, key: Key) -> bool:
        return key in self._remembered

    def __getitem__(self, key: Key) -> Value:
        return self._remembered[key]

    def get(self, key: Key, default: Value) -> Value:
        """What is remembered under a key."""
        return self._remembered.get(key, default)

    def discard(self, key: Key) -> None:
        """Forget what is remembered under a key, if anything is."""
        self._remembered.pop(key, None)

    def __setitem__(self, key: Key, value: Value) -> None:
        if len(self._remembered) >= self._most:
            for old in list(islice(self._remembered, self._most // 2)):
                del self._remembered[old]
        self._remembered[key] = value

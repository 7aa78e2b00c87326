"""A cache whose entries expire, and whose size is limited."""

import time
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MOST_ENTRIES = 10_000


class TtlCache(Generic[K, V]):
    """Drops the entries that were put first when there are more than `size`. Thread-safe."""

    def __init__(self, ttl_s: float, *, size: int = _MOST_ENTRIES) -> None:
        self._ttl_s = ttl_s
        self._size = size
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value, or None if there is none or it has expired."""
        entry = self._entries.get(key)
        return entry[0] if entry is not None and time.monotonic() < entry[1] else None

    def put(self, key: K, value: V) -> V:
        """Store the value for the cache's time from now on, and return it."""
        self._entries.pop(key, None)
        self._entries[key] = value, time.monotonic() + self._ttl_s
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return value

    def pop(self, key: K) -> V | None:
        """Remove the entry; return its value, or None if there is none or it has expired."""
        value = self.get(key)
        self._entries.pop(key, None)
        return value

    def clear(self) -> None:
        self._entries.clear()

"""Limit on open live streams per key on this server."""

from collections import Counter

from jobforge.errors import TooManyStreams


class StreamLimiter:
    """Counts streams by actor: an API key with all its sessions, or the subject of a token."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: Counter[str] = Counter()

    def acquire(self, actor: str) -> None:
        """Count a stream; raise TooManyStreams at the limit."""
        if self._open[actor] >= self._limit:
            raise TooManyStreams(
                f"The key has reached its limit of {self._limit} open streams",
                detail={"limit": self._limit},
            )
        self._open[actor] += 1

    def release(self, actor: str) -> None:
        self._open[actor] -= 1
        if not self._open[actor]:
            del self._open[actor]

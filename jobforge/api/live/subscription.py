"""One client of the live stream: what it wants to hear, and what waits for it.

What waits is bounded. Counts of a queue replace each other; everything else is kept in order, and
when there is too much of it the client is cut off, to come back for it with its last position.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from uuid import UUID

from jobforge.types.live_stream import Happening, StreamPosition, parse_position

_MOST_WAITING = 1000
LARGEST_CHUNK = 65536

_FAILURES = {"failed", "timed_out", "crashed", "lease_lost"}


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """What a client asked for. No tenant: all of them; an empty set: no matter which.

    `names` are outcomes and names of events.
    """

    tenant_id: UUID | None
    jobs: frozenset[UUID] = frozenset()
    definitions: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()

    def matches(self, happening: Happening) -> bool:
        return (
            (self.tenant_id is None or happening.tenant_id == self.tenant_id)
            and (not self.jobs or happening.job_id in self.jobs)
            and (not self.definitions or happening.definition in self.definitions)
            and (not self.states or self._matches_state(happening))
            and (not self.names or happening.name in self.names)
        )

    @property
    def wants_counts(self) -> bool:
        return self.tenant_id is not None and not self.jobs

    def _matches_state(self, happening: Happening) -> bool:
        if "failed" in self.states and happening.name in _FAILURES:
            return True
        return happening.state in self.states


class Subscription:
    """`position` is where the hub was when it began: all that follows is offered to it."""

    def __init__(self, watch: StreamFilter, position: str) -> None:
        self.filter = watch
        self.position = position
        self.end_reason: str | None = None  # why, once it is
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._received_up_to: StreamPosition | None = None  # until something comes that lies beyond
        self._counts: bytes | None = None
        self._ready = asyncio.Event()

    def offer(self, position: str, frame: bytes) -> None:
        if self.end_reason is not None or self._is_received(position):
            return
        if len(self._waiting) >= _MOST_WAITING:
            self.end("slow_reader")
            return
        self._waiting.append((position, frame))
        self._ready.set()

    def set_counts(self, frame: bytes) -> None:
        """The newest alone is worth sending."""
        self._counts = frame
        self._ready.set()

    def end(self, reason: str) -> None:
        self.end_reason = reason
        self._waiting.clear()
        self._ready.set()

    def skip_to(self, position: str) -> None:
        """The client has everything up to there already."""
        self._received_up_to = parse_position(position)
        while self._waiting and self._is_received(self._waiting[0][0]):
            self._waiting.popleft()

    async def take(self, within_s: float) -> bytes:
        """What waits, once there is something; nothing when the time is up, or after a cut."""
        try:
            async with asyncio.timeout(within_s):
                await self._ready.wait()
        except TimeoutError:
            return b""
        chunk = bytearray(self._counts or b"")
        self._counts = None
        while self._waiting and len(chunk) < LARGEST_CHUNK:
            chunk += self._waiting.popleft()[1]
        if not self._waiting and self.end_reason is None:
            self._ready.clear()
        return bytes(chunk)

    def _is_received(self, position: str) -> bool:
        if self._received_up_to is None:
            return False
        if parse_position(position) <= self._received_up_to:
            return True
        self._received_up_to = None  # what follows lies beyond, too
        return False

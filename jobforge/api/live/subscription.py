"""Subscription of one live stream client: its filter and its bounded buffer.

Queue counts replace older counts. All other events are buffered in order; if the buffer is full,
the client is cut off and reconnects with its last position.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from uuid import UUID

from jobforge.db.background_loop import wait_until_set
from jobforge.types.live_stream import Happening, StreamPosition, parse_position

_MOST_WAITING = 1000
LARGEST_CHUNK = 65536

_FAILURES = {"failed", "timed_out", "crashed", "lease_lost"}


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """Filter of a client. `tenant_id` None matches all tenants; an empty set matches everything.

    `names` are outcomes and event names.
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
    """Buffer of one client. The hub offers it all events after `position`."""

    def __init__(self, stream_filter: StreamFilter, position: str) -> None:
        self.filter = stream_filter
        self.position = position
        self.end_reason: str | None = None  # set when the subscription ends
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._received_up_to: StreamPosition | None = None  # None once a later event has arrived
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
        """Replace the counts to send."""
        self._counts = frame
        self._ready.set()

    def end(self, reason: str) -> None:
        self.end_reason = reason
        self._waiting.clear()
        self._ready.set()

    def skip_to(self, position: str) -> None:
        """Drop events up to `position`, which the client already has."""
        self._received_up_to = parse_position(position)
        while self._waiting and self._is_received(self._waiting[0][0]):
            self._waiting.popleft()

    async def take(self, within_s: float) -> bytes:
        """Return buffered frames as soon as there are any; empty after the timeout or the end."""
        if not await wait_until_set(self._ready, within_s):
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
        self._received_up_to = None  # all later events are new, too
        return False

"""Live stream hub: one database reader for all clients of this server.

While clients are connected, it reads the events of all tenants in the engine's order and passes
each to the matching subscriptions. A reconnecting client first reads missed events from the
database up to the hub's position, then continues live, without gaps or duplicates.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import groupby
from operator import attrgetter
from typing import Any
from uuid import UUID

from jobforge import calls
from jobforge.api.live.sse import encode_event
from jobforge.api.live.subscription import StreamFilter, Subscription
from jobforge.db import Database
from jobforge.db.background_loop import BackgroundLoop
from jobforge.errors import Invalid
from jobforge.observability import logs
from jobforge.redact import mask
from jobforge.types.live_stream import Happening, QueueCount, StreamPage

_READ_AT_ONCE = 2000
_REPLAYED_AT_ONCE = 5000
_MOST_REPLAYS = 4  # replaying from an old position makes the database skip many rows
# Counting uses at most a tenth of one connection's time.
_COUNTING_SHARE = 10


class Hub:
    """Hub of one server. `run` reads until `stop`, which also ends all subscriptions."""

    def __init__(self, database: Database, *, poll_s: float = 0.25, count_s: float = 1.0) -> None:
        self._database = database
        self._poll_s = poll_s
        self._count_s = count_s
        self._position: str | None = None  # None while no client is connected
        self._subscriptions: set[Subscription] = set()
        self._count_frames: dict[UUID, bytes] = {}
        self._position_lock = asyncio.Lock()
        self._replays = asyncio.Semaphore(_MOST_REPLAYS)
        self._poll_loop = BackgroundLoop("stream", self._poll, failure_event="stream.unread")
        self._count_loop = BackgroundLoop(
            "stream counts", self._publish_counts, failure_event="stream.uncounted"
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll_loop.run())
            group.create_task(self._count_loop.run())

    def stop(self) -> None:
        self._poll_loop.stop()
        self._count_loop.stop()
        for subscription in self._subscriptions:
            subscription.end("server_stopping")

    def __len__(self) -> int:
        return len(self._subscriptions)

    @property
    def position(self) -> str | None:
        """Position up to which all events have been published."""
        return self._position

    @asynccontextmanager
    async def subscribe(self, stream_filter: StreamFilter) -> AsyncIterator[Subscription]:
        subscription = Subscription(stream_filter, await self._load_position())
        if self._poll_loop.is_stopped:
            subscription.end("server_stopping")
        self._subscriptions.add(subscription)
        self._poll_loop.wake()
        self._count_loop.wake()
        if stream_filter.wants_counts and stream_filter.tenant_id in self._count_frames:
            subscription.set_counts(self._count_frames[stream_filter.tenant_id])
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            if not self._subscriptions and not self._poll_loop.is_stopped:
                self._position = None
                self._count_frames.clear()

    async def replay(self, stream_filter: StreamFilter, position: str) -> StreamPage:
        """Return a page of the events after a position; raise Invalid with the reason."""
        call = calls.read_stream(
            position, limit=_REPLAYED_AT_ONCE, tenant_id=stream_filter.tenant_id
        )
        async with self._replays:
            return await self._database.run(call)

    async def _load_position(self) -> str:
        """Return the hub's position; the first subscriber loads the current end of the stream."""
        async with self._position_lock:
            if self._position is None:
                self._position = (await self._database.run(calls.read_stream())).position
            return self._position

    async def _poll(self, loop: BackgroundLoop) -> None:
        """Publish new events while clients are connected."""
        start = self._position
        if start is None or not self._subscriptions:
            await loop.wait_for_wake()
            return
        try:
            page = await self._database.run(calls.read_stream(start, limit=_READ_AT_ONCE))
        except Invalid as error:
            self._reset_position(start)
            logs.emit("stream.reset", "warning", error=logs.error_fields(error))
            return
        if self._position != start:  # all clients disconnected in the meantime
            return
        self._position = page.position
        self._publish(page.happenings)
        if page.is_complete:
            await loop.pause(self._poll_s)

    def _reset_position(self, position: str) -> None:
        """End all streams after a restore lost the position; clients reconnect and are reset."""
        if self._position == position:
            self._position = None
            for subscription in self._subscriptions:
                subscription.end("unavailable")

    def _publish(self, happenings: Iterable[Happening]) -> None:
        watchers = self._group_by_tenant()
        for happening in happenings:
            interested = [
                subscription
                for tenant_id in (happening.tenant_id, None)
                for subscription in watchers.get(tenant_id, ())
                if subscription.filter.matches(happening)
            ]
            if interested:
                frame = encode_happening(happening)
                for subscription in interested:
                    subscription.offer(happening.position, frame)

    def _group_by_tenant(self) -> dict[UUID | None, list[Subscription]]:
        watchers: dict[UUID | None, list[Subscription]] = {}
        for subscription in self._subscriptions:
            watchers.setdefault(subscription.filter.tenant_id, []).append(subscription)
        return watchers

    async def _publish_counts(self, loop: BackgroundLoop) -> None:
        watching = [s for s in self._subscriptions if s.filter.wants_counts]
        tenants = {s.filter.tenant_id for s in watching if s.filter.tenant_id is not None}
        if not tenants:
            await loop.wait_for_wake()
            return
        began = time.monotonic()
        counts = await self._database.run(calls.count_states(sorted(tenants)))
        frames = {tenant_id: _encode_counts(()) for tenant_id in tenants}
        for tenant_id, tenant_counts in groupby(counts, key=attrgetter("tenant_id")):
            frames[tenant_id] = _encode_counts(tenant_counts)
        changed = {
            tenant_id
            for tenant_id, frame in frames.items()
            if self._count_frames.get(tenant_id) != frame
        }
        self._count_frames = frames
        for subscription in watching:
            if subscription.filter.tenant_id in changed:
                subscription.set_counts(frames[subscription.filter.tenant_id])
        await loop.pause(max(self._count_s, _COUNTING_SHARE * (time.monotonic() - began)))


def encode_happening(happening: Happening) -> bytes:
    """Encode an event for clients, with secrets masked."""
    facts: dict[str, Any] = {
        "tenant_id": happening.tenant_id,
        "job_id": happening.job_id,
        "definition": happening.definition,
        "queue": happening.queue,
        "at": happening.at,
    }
    if happening.kind == "attempt":
        details = {
            "attempt": happening.attempt,
            "outcome": happening.name,
            "state": happening.state,
        }
        return encode_event(
            "attempt", {**facts, **details, **mask(happening.data)}, happening.position
        )
    details = {"name": happening.name, "actor": happening.actor, "data": mask(happening.data)}
    return encode_event("event", {**facts, **details}, happening.position)


def _encode_counts(counts: Iterable[QueueCount]) -> bytes:
    queue_counts = list(counts)
    queues: dict[str, dict[str, Any]] = {}
    for count in queue_counts:
        queue = queues.setdefault(count.queue, {"queue": count.queue, "jobs": {}})
        queue["jobs"][count.state] = count.jobs
        if count.oldest_queued_at is not None:
            queue["oldest_queued_at"] = count.oldest_queued_at
    is_exact = all(count.is_exact for count in queue_counts)
    return encode_event("snapshot", {"queues": list(queues.values()), "is_exact": is_exact})

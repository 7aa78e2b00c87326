"""Follows a job until it has finished: yields its notes, past and new, and then its end.

An app with a server reads the server's stream. An app with a database polls.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, cast
from uuid import UUID

from jobforge import calls
from jobforge.calls.job_log import JobLogReader
from jobforge.sdk.call_context import refuse_inside_job
from jobforge.sdk.engine_client import EngineClient, complete
from jobforge.sdk.pools import Sender
from jobforge.timing.backoff import ExponentialBackoff
from jobforge.types.job_history import JobEvent
from jobforge.types.jobs import Job

if TYPE_CHECKING:
    from jobforge.client.transport import AsyncTransport, Transport

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 1.0


def follow(
    client: EngineClient, job_id: UUID, tenant_id: UUID, after: datetime | None
) -> Iterator[JobEvent]:
    """Yield the job's notes that are later than `after`, then its end."""
    refuse_inside_job()
    if client.pools.is_remote:
        from jobforge.client import stream  # noqa: PLC0415 - httpx2 is an extra

        transport = cast("Transport", client.pools.get_sync_pool().pool)
        state = stream.JobLogState(job_id, after, tenant_id=tenant_id)
        yield from stream.follow(transport, state)
        return
    polled = PolledJob(client, job_id, tenant_id, after)
    while True:
        yield from complete(polled.read_new(client.blocking))
        if polled.is_over:
            return
        time.sleep(polled.next_pause_s())


async def afollow(
    client: EngineClient, job_id: UUID, tenant_id: UUID, after: datetime | None
) -> AsyncIterator[JobEvent]:
    """Async twin of `follow`."""
    refuse_inside_job()
    if client.pools.is_remote:
        from jobforge.client import stream  # noqa: PLC0415 - httpx2 is an extra

        transport = cast("AsyncTransport", (await client.pools.get_loop_pool()).pool)
        state = stream.JobLogState(job_id, after, tenant_id=tenant_id)
        async with aclosing(stream.afollow(transport, state)) as events:
            async for event in events:
                yield event
        return
    polled = PolledJob(client, job_id, tenant_id, after)
    while True:
        for event in await polled.read_new(client.awaiting):
            yield event
        if polled.is_over:
            return
        await asyncio.sleep(polled.next_pause_s())


class PolledJob:
    """A job whose notes and state are polled in a database."""

    def __init__(
        self, client: EngineClient, job_id: UUID, tenant_id: UUID, after: datetime | None
    ) -> None:
        self.is_over = False
        self._client = client
        self._job_id = job_id
        self._tenant_id = tenant_id
        self._log = JobLogReader(job_id, after=after, tenant_id=tenant_id)
        self._backoff = ExponentialBackoff(_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S, factor=1.5)
        self._is_first = True

    async def read_new(self, sender: Sender) -> list[JobEvent]:
        """Return what is new since the last call."""
        new = await self._read_notes(sender)
        # The state costs more than the notes, and a job that writes notes has not finished.
        if self._is_first or not new:
            job = await self._load_job(sender)
            if job.state.is_final:
                # Read again: the last notes are stored before the job's end.
                new += [*await self._read_notes(sender), _end_of(job)]
                self.is_over = True
        self._is_first = False
        if new:
            self._backoff.reset()
        return new

    def next_pause_s(self) -> float:
        """Return the pause before the next call; it grows while nothing is new."""
        return self._backoff.next_pause_s()

    async def _load_job(self, sender: Sender) -> Job:
        call = calls.get_job(self._job_id, tenant_id=self._tenant_id)
        return (await self._client.run_separately(sender, call, self._tenant_id)).job

    async def _read_notes(self, sender: Sender) -> list[JobEvent]:
        new: list[JobEvent] = []
        while True:
            call = self._log.build_call()
            page = await self._client.run_separately(sender, call, self._tenant_id)
            new += self._log.take_new(page)
            if not self._log.has_more:
                return new


def _end_of(job: Job) -> JobEvent:
    return JobEvent(job.finished_at or job.created_at, "end", None, {"state": job.state})

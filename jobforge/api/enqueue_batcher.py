"""Makes single jobs, many at a time: what comes in while a call is under way goes in the next one.

A call for each tenant is under way at most. Whoever finds none makes it, for itself and for those
that wait, and hands that duty to the next in line: nobody waits for more than two calls.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from uuid import UUID

from jobforge import calls
from jobforge.db import Database
from jobforge.errors import Contended, JobForgeError, Unavailable
from jobforge.types.jobs import Enqueued, JobRequest

_MOST_AT_ONCE = 500


@dataclass(slots=True, eq=False)
class _PendingJob:
    """A job to be made. The answer is None when it is this one's turn to make the call."""

    job: JobRequest
    future: "asyncio.Future[Enqueued | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def resolve(self, enqueued: Enqueued | None) -> None:
        if not self.future.done():
            self.future.set_result(enqueued)

    def reject(self, error: JobForgeError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class EnqueueBatcher:
    """Of one server; the tenant is named by argument, so that a call is one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: dict[UUID, deque[_PendingJob]] = {}  # of tenants with a call under way

    async def enqueue(self, tenant_id: UUID, job: JobRequest) -> Enqueued:
        line = self._pending.get(tenant_id)
        if line is None:
            self._pending[tenant_id] = line = deque()
        else:
            wish = _PendingJob(job)
            line.append(wish)
            enqueued = await self._await_result(tenant_id, wish)
            if enqueued is not None:
                return enqueued
        return await self._lead_batch(tenant_id, job, line)

    async def _await_result(self, tenant_id: UUID, wish: _PendingJob) -> Enqueued | None:
        try:
            return await wish.future
        except asyncio.CancelledError:
            # It may have been told in the same moment that it is its turn.
            if wish.future.done() and not wish.future.cancelled() and wish.future.result() is None:
                self._promote_next_leader(tenant_id)
            raise

    async def _lead_batch(
        self, tenant_id: UUID, job: JobRequest, line: deque[_PendingJob]
    ) -> Enqueued:
        others = [line.popleft() for _ in range(min(len(line), _MOST_AT_ONCE))]
        try:
            if not others:
                return await self._enqueue_one(tenant_id, job)
            return await self._enqueue_batch(tenant_id, job, others)
        finally:
            for other in others:
                other.reject(Unavailable("the request was given up"))
            self._promote_next_leader(tenant_id)

    async def _enqueue_batch(
        self, tenant_id: UUID, job: JobRequest, others: list[_PendingJob]
    ) -> Enqueued:
        jobs = [job, *(other.job for other in others)]
        try:
            made = await self._database.run_fast(calls.enqueue_jobs(jobs, tenant_id=tenant_id))
        except (Contended, Unavailable) as error:
            for other in others:
                other.reject(error)
            raise
        except JobForgeError:
            # One of them is refused, and nothing was done: each is to have its own answer.
            await self._enqueue_separately(tenant_id, others)
            return await self._enqueue_one(tenant_id, job)
        for other, enqueued in zip(others, made[1:], strict=True):
            other.resolve(enqueued)
        return made[0]

    async def _enqueue_separately(self, tenant_id: UUID, wishes: list[_PendingJob]) -> None:
        for wish in wishes:
            try:
                wish.resolve(await self._enqueue_one(tenant_id, wish.job))
            except JobForgeError as error:
                wish.reject(error)

    async def _enqueue_one(self, tenant_id: UUID, job: JobRequest) -> Enqueued:
        return await self._database.run_fast(calls.enqueue_job(job, tenant_id=tenant_id))

    def _promote_next_leader(self, tenant_id: UUID) -> None:
        line = self._pending[tenant_id]
        while line:
            heir = line.popleft()
            if not heir.future.done():
                heir.resolve(None)
                return
        del self._pending[tenant_id]

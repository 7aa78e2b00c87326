"""Group commit for single enqueues: one call per tenant at a time sends all waiting jobs.

The first request becomes the leader. It sends its own job together with the waiting jobs, then
makes the next waiting request the leader. A job waits for at most two calls.
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
    """A waiting job. Its future resolves to the enqueued job, or to None to make it the leader."""

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
    """Enqueue batcher of one server. The tenant is an argument, so each call is one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: dict[UUID, deque[_PendingJob]] = {}  # by tenant with a call in progress

    async def enqueue(self, tenant_id: UUID, job: JobRequest) -> Enqueued:
        queue = self._pending.get(tenant_id)
        if queue is None:
            self._pending[tenant_id] = queue = deque()
        else:
            pending_job = _PendingJob(job)
            queue.append(pending_job)
            enqueued = await self._await_result(tenant_id, pending_job)
            if enqueued is not None:
                return enqueued
        return await self._lead_batch(tenant_id, job, queue)

    async def _await_result(self, tenant_id: UUID, pending_job: _PendingJob) -> Enqueued | None:
        try:
            return await pending_job.future
        except asyncio.CancelledError:
            # A cancellation can coincide with the promotion to leader: pass leadership on.
            if (
                pending_job.future.done()
                and not pending_job.future.cancelled()
                and pending_job.future.result() is None
            ):
                self._promote_next_leader(tenant_id)
            raise

    async def _lead_batch(
        self, tenant_id: UUID, job: JobRequest, queue: deque[_PendingJob]
    ) -> Enqueued:
        others = [queue.popleft() for _ in range(min(len(queue), _MOST_AT_ONCE))]
        try:
            if not others:
                return await self._enqueue_one(tenant_id, job)
            return await self._enqueue_batch(tenant_id, job, others)
        finally:
            for other in others:
                other.reject(Unavailable("The request was abandoned"))
            self._promote_next_leader(tenant_id)

    async def _enqueue_batch(
        self, tenant_id: UUID, job: JobRequest, others: list[_PendingJob]
    ) -> Enqueued:
        jobs = [job, *(other.job for other in others)]
        try:
            results = await self._database.run_fast(calls.enqueue_jobs(jobs, tenant_id=tenant_id))
        except (Contended, Unavailable) as error:
            for other in others:
                other.reject(error)
            raise
        except JobForgeError:
            # The engine rejected one job and created none: enqueue separately, so each gets its
            # result.
            await self._enqueue_separately(tenant_id, others)
            return await self._enqueue_one(tenant_id, job)
        for other, enqueued in zip(others, results[1:], strict=True):
            other.resolve(enqueued)
        return results[0]

    async def _enqueue_separately(self, tenant_id: UUID, pending_jobs: list[_PendingJob]) -> None:
        for pending_job in pending_jobs:
            try:
                pending_job.resolve(await self._enqueue_one(tenant_id, pending_job.job))
            except JobForgeError as error:
                pending_job.reject(error)

    async def _enqueue_one(self, tenant_id: UUID, job: JobRequest) -> Enqueued:
        return await self._database.run_fast(calls.enqueue_job(job, tenant_id=tenant_id))

    def _promote_next_leader(self, tenant_id: UUID) -> None:
        queue = self._pending[tenant_id]
        while queue:
            next_leader = queue.popleft()
            if not next_leader.future.done():
                next_leader.resolve(None)
                return
        del self._pending[tenant_id]

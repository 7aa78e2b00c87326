"""Group commit for single enqueues: one call per tenant at a time sends all waiting jobs.

A job that arrives while no call is in progress is sent at once. The jobs that arrive during a call
are sent together by the next one, so a job waits for at most two calls.
"""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID

from jobforge import calls
from jobforge.db import Database
from jobforge.errors import Contended, JobForgeError, Unavailable
from jobforge.types.jobs import Enqueued, JobRequest

_MOST_AT_ONCE = 500


@dataclass(slots=True, eq=False)
class _WaitingJob:
    job: JobRequest
    future: "asyncio.Future[Enqueued]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def resolve(self, enqueued: Enqueued) -> None:
        if not self.future.done():  # its request may have been canceled
            self.future.set_result(enqueued)

    def reject(self, error: JobForgeError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class EnqueueBatcher:
    """Enqueue batcher of one server. The tenant is an argument, so each call is one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[UUID, list[_WaitingJob]] = {}  # by tenant with a call in progress
        self._tasks: set[asyncio.Task[None]] = set()

    async def enqueue(self, tenant_id: UUID, job: JobRequest) -> Enqueued:
        waiting = self._waiting.get(tenant_id)
        if waiting is not None:
            waiting_job = _WaitingJob(job)
            waiting.append(waiting_job)
            return await waiting_job.future
        self._waiting[tenant_id] = waiting = []
        try:
            return await self._enqueue_one(tenant_id, job)
        finally:
            if waiting:
                task = asyncio.create_task(self._send_waiting(tenant_id, waiting))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                del self._waiting[tenant_id]

    async def _send_waiting(self, tenant_id: UUID, waiting: list[_WaitingJob]) -> None:
        """Send the tenant's waiting jobs until there are none."""
        batch: list[_WaitingJob] = []
        try:
            while waiting:
                batch, waiting[:_MOST_AT_ONCE] = waiting[:_MOST_AT_ONCE], []
                await self._enqueue_batch(tenant_id, batch)
        finally:
            del self._waiting[tenant_id]
            for abandoned in [*batch, *waiting]:  # none, except after an unexpected error
                abandoned.reject(Unavailable("The request was abandoned"))

    async def _enqueue_batch(self, tenant_id: UUID, batch: list[_WaitingJob]) -> None:
        batch = [each for each in batch if not each.future.done()]
        if len(batch) <= 1:
            await self._enqueue_separately(tenant_id, batch)
            return
        try:
            jobs = [each.job for each in batch]
            results = await self._database.run_fast(calls.enqueue_jobs(jobs, tenant_id=tenant_id))
        except (Contended, Unavailable) as error:
            for each in batch:
                each.reject(error)
        except JobForgeError:
            # The engine rejected one job and created none: enqueue separately, so each gets its
            # result.
            await self._enqueue_separately(tenant_id, batch)
        else:
            for each, enqueued in zip(batch, results, strict=True):
                each.resolve(enqueued)

    async def _enqueue_separately(self, tenant_id: UUID, batch: list[_WaitingJob]) -> None:
        for each in batch:
            try:
                each.resolve(await self._enqueue_one(tenant_id, each.job))
            except JobForgeError as error:
                each.reject(error)

    async def _enqueue_one(self, tenant_id: UUID, job: JobRequest) -> Enqueued:
        return await self._database.run_fast(calls.enqueue_job(job, tenant_id=tenant_id))

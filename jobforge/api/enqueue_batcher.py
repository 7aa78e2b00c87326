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
class _Wish:
    """A job to be made. The answer is None when it is this one's turn to make the call."""

    job: JobRequest
    answer: "asyncio.Future[Enqueued | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def grant(self, enqueued: Enqueued | None) -> None:
        if not self.answer.done():
            self.answer.set_result(enqueued)

    def refuse(self, error: JobForgeError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Creations:
    """Of one server; the tenant is named by argument, so that a call is one statement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lines: dict[UUID, deque[_Wish]] = {}  # of tenants with a call under way

    async def create(self, tenant_id: UUID, job: JobRequest) -> Enqueued:
        line = self._lines.get(tenant_id)
        if line is None:
            self._lines[tenant_id] = line = deque()
        else:
            wish = _Wish(job)
            line.append(wish)
            enqueued = await self._wait(tenant_id, wish)
            if enqueued is not None:
                return enqueued
        return await self._call(tenant_id, job, line)

    async def _wait(self, tenant_id: UUID, wish: _Wish) -> Enqueued | None:
        try:
            return await wish.answer
        except asyncio.CancelledError:
            # It may have been told in the same moment that it is its turn.
            if wish.answer.done() and not wish.answer.cancelled() and wish.answer.result() is None:
                self._hand_on(tenant_id)
            raise

    async def _call(self, tenant_id: UUID, job: JobRequest, line: deque[_Wish]) -> Enqueued:
        others = [line.popleft() for _ in range(min(len(line), _MOST_AT_ONCE))]
        try:
            if not others:
                return await self._make(tenant_id, job)
            return await self._make_all(tenant_id, job, others)
        finally:
            for other in others:
                other.refuse(Unavailable("the request was given up"))
            self._hand_on(tenant_id)

    async def _make_all(self, tenant_id: UUID, job: JobRequest, others: list[_Wish]) -> Enqueued:
        jobs = [job, *(other.job for other in others)]
        try:
            made = await self._database.run_swiftly(calls.enqueue_jobs(jobs, tenant_id=tenant_id))
        except (Contended, Unavailable) as error:
            for other in others:
                other.refuse(error)
            raise
        except JobForgeError:
            # One of them is refused, and nothing was done: each is to have its own answer.
            await self._make_apart(tenant_id, others)
            return await self._make(tenant_id, job)
        for other, enqueued in zip(others, made[1:], strict=True):
            other.grant(enqueued)
        return made[0]

    async def _make_apart(self, tenant_id: UUID, wishes: list[_Wish]) -> None:
        for wish in wishes:
            try:
                wish.grant(await self._make(tenant_id, wish.job))
            except JobForgeError as error:
                wish.refuse(error)

    async def _make(self, tenant_id: UUID, job: JobRequest) -> Enqueued:
        return await self._database.run_swiftly(calls.enqueue_job(job, tenant_id=tenant_id))

    def _hand_on(self, tenant_id: UUID) -> None:
        line = self._lines[tenant_id]
        while line:
            heir = line.popleft()
            if not heir.answer.done():
                heir.grant(None)
                return
        del self._lines[tenant_id]

"""Enqueuing by a running job in the event loop of a worker that has no database."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from jobforge import JobForge
from jobforge.errors import Conflict, Json
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, Enqueued, EnqueueStatus, JobRequest

CREATED = UUID(int=7)


class Services:
    """Creates every requested job and workflow."""

    async def enqueue(self, job: ClaimedJob, jobs: Sequence[JobRequest]) -> list[Enqueued]:
        assert job.definition == "work"
        return [Enqueued(CREATED, EnqueueStatus.CREATED) for _ in jobs]

    async def request(self, job: ClaimedJob, kind: str, data: Json) -> Json:
        assert (job.job_id, kind) == (data["input"], "enqueue_workflow")
        return {"id": str(CREATED), "jobs": {"work": str(CREATED)}}


def test_in_a_workers_loop_only_async_code_creates_jobs_and_workflows() -> None:
    jf = JobForge(server="http://127.0.0.1:1", key="jf_none")
    jf.client.set_job_services(Services())

    @jf.job(isolation="inline")
    async def work() -> None:
        return None

    async def handle() -> None:
        job = work.fake_claimed_job({}, UUID(int=1))
        CURRENT_JOB.set(job)
        with pytest.raises(Conflict, match="await aenqueue"):
            work.enqueue()
        assert (await work.aenqueue()).id == CREATED
        with pytest.raises(Conflict, match="async with"), jf.workflow("sync"):
            work.node()
        async with jf.workflow("async", input=job.job_id) as workflow:
            work.node()
        assert workflow.id == CREATED

    asyncio.run(handle())

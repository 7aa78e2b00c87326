"""What a running job's code may do in the loop of a worker that has no database."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from jobforge import JobForge
from jobforge.errors import Conflict, Json
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, Enqueued, EnqueueStatus, JobRequest

MADE = UUID(int=7)


class Host:
    """Makes whatever it is asked for."""

    async def enqueue(self, job: ClaimedJob, jobs: Sequence[JobRequest]) -> list[Enqueued]:
        assert job.definition == "work"
        return [Enqueued(MADE, EnqueueStatus.CREATED) for _ in jobs]

    async def request(self, job: ClaimedJob, kind: str, data: Json) -> Json:
        assert (job.job_id, kind) == (data["input"], "enqueue_workflow")
        return {"id": str(MADE), "jobs": {"work": str(MADE)}}


def test_in_a_workers_loop_only_async_code_makes_jobs_and_workflows() -> None:
    jf = JobForge(server="http://127.0.0.1:1", key="jf_none")
    jf.client.set_job_services(Host())

    @jf.job(isolation="inline")
    async def work() -> None:
        return None

    async def handle() -> None:
        job = work.fake_claimed_job({}, UUID(int=1))
        CURRENT_JOB.set(job)
        with pytest.raises(Conflict, match="await aenqueue"):
            work.enqueue()
        assert (await work.aenqueue()).id == MADE
        with pytest.raises(Conflict, match="async with"), jf.workflow("sync"):
            work.node()
        async with jf.workflow("async", input=job.job_id) as made:
            work.node()
        assert made.id == MADE

    asyncio.run(handle())

"""Enqueuing by a running job in the event loop of a worker that has no database."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from jobforge import JobForge
from jobforge.errors import Conflict
from jobforge.sdk.worker_requests import EnqueueJobs, EnqueueWorkflow, WorkerRequest
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, Enqueued, EnqueueStatus
from jobforge.types.workflows import MadeWorkflow

CREATED = UUID(int=7)


async def create(job: ClaimedJob, request: WorkerRequest[Any]) -> Any:
    """Create every requested job and workflow."""
    assert job.definition == "work"
    if isinstance(request, EnqueueJobs):
        return [Enqueued(CREATED, EnqueueStatus.CREATED) for _ in request.jobs]
    assert isinstance(request, EnqueueWorkflow)
    assert request.workflow.input == job.job_id
    return MadeWorkflow(CREATED, {"work": CREATED})


def test_in_a_workers_loop_only_async_code_creates_jobs_and_workflows() -> None:
    jf = JobForge(server="http://127.0.0.1:1", key="jf_none")
    jf.client.set_request_sender(create)

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

"""Calls of the SDK in a running job whose process or worker has no database."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

import pytest

from jobforge import JobForge
from jobforge.errors import Conflict
from jobforge.sdk.call_context import set_process_channel
from jobforge.sdk.worker_requests import EnqueueJobs, EnqueueWorkflow, JobChannel, WorkerRequest
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


class Channel:
    """A channel of a job's process; it only knows the tenant."""

    tenant_id = UUID(int=1)


@pytest.fixture
def in_job_process() -> Iterator[None]:
    set_process_channel(cast("JobChannel", Channel()))
    yield
    set_process_channel(None)


@pytest.mark.usefixtures("in_job_process")
def test_a_jobs_process_cannot_read_or_change_a_job() -> None:
    jf = JobForge("postgresql://127.0.0.1:1/none")
    handle = jf.job_of(CREATED)
    assert handle.tenant_id == Channel.tenant_id
    for use in (handle.job, handle.cancel, handle.retry, handle.explain, handle.logs):
        with pytest.raises(Conflict, match="has no database") as refusal:
            use()
        assert refusal.value.code == "conflict"
    with pytest.raises(Conflict, match="has no database"):
        next(handle.follow())
    with pytest.raises(Conflict):
        jf.workflow_of(CREATED).cancel()

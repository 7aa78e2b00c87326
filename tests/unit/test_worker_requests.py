"""Requests of a job's process as frames: each is decoded as it was sent, or refused."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from jobforge.errors import Invalid
from jobforge.sdk.worker_requests import (
    AddNodes,
    AddToBatch,
    CloseBatch,
    CreateBatch,
    EnqueueChildren,
    EnqueueJobs,
    EnqueueWorkflow,
    LoadParents,
    SaveStep,
    WorkerRequest,
)
from jobforge.types.jobs import JobRequest, UniformJobs
from jobforge.types.workflows import BatchRequest, WorkflowRequest
from jobforge.worker.isolation.channel import GetSecret, decode_request, encode_request
from jobforge.worker.isolation.frames import FrameDecoder

ID = UUID(int=7)
JOB = JobRequest("mail", {"to": "ada"}, run_at=datetime(2030, 1, 1, tzinfo=UTC), tags=["x"])


def _send(request: WorkerRequest[Any]) -> WorkerRequest[Any]:
    [(_, body)] = FrameDecoder().feed(encode_request(request))
    return decode_request(body)


@pytest.mark.parametrize(
    "request_",
    [
        SaveStep("charge", 1, {"paid": True}),
        SaveStep("nothing", 0, None),
        EnqueueChildren("mail", 0, [JOB]),
        EnqueueJobs([JOB, JobRequest("mail")]),
        EnqueueJobs([]),
        LoadParents(),
        AddNodes([{"name": "a", "definition": "mail"}]),
        EnqueueWorkflow(WorkflowRequest("nightly", [{"name": "a"}], input=1)),
        CreateBatch(BatchRequest(open=True), [JOB]),
        AddToBatch(ID, [JOB]),
        CloseBatch(ID),
        GetSecret("api"),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_request_arrives_as_it_was_sent(request_: WorkerRequest[Any]) -> None:
    assert _send(request_) == request_


def test_uniform_jobs_arrive_as_single_requests() -> None:
    jobs = UniformJobs(JobRequest("mail"), [{"to": "ada"}, {"to": "bob"}])
    assert _send(EnqueueJobs(jobs)) == EnqueueJobs(list(jobs))


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"null",
        b"{}",
        b'{"kind": "delete_tenant"}',
        b'{"kind": ["save_step"]}',
        b'{"kind": "save_step", "name": 7, "index": 0}',
        b'{"kind": "save_step", "name": "a", "index": "0"}',
        b'{"kind": "enqueue", "jobs": {}}',
        b'{"kind": "add_nodes", "nodes": "all"}',
        b'{"kind": "secret"}',
    ],
)
def test_a_request_with_a_field_of_another_type_is_refused(body: bytes) -> None:
    with pytest.raises(Invalid):
        decode_request(body)

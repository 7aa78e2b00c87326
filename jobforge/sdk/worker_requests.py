"""The requests of a running job to its worker, and the channel over which the job sends them.

A request has the fields and the type of its answer. Its call of the engine runs under the job's
lease, so a job that lost its lease can change nothing. A TenantRequest can also be sent without a
job, on a connection of the application.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, Self, TypeVar
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.calls.workflows import read_lineage
from jobforge.errors import InvalidResult, Json, LeaseLost
from jobforge.sdk.inheritance import (
    inherit_correlation,
    inherit_into_batch,
    inherit_into_workflow,
    inherit_trace,
    inherit_trace_in_nodes,
)
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import (
    ClaimedJob,
    Enqueued,
    EnqueueStatus,
    JobRequest,
    SaveStatus,
    Step,
    Token,
)
from jobforge.types.workflows import (
    BatchRequest,
    Lineage,
    MadeBatch,
    MadeWorkflow,
    WorkflowRequest,
    WorkflowState,
)

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


@dataclass(frozen=True, slots=True)
class WorkerRequest(Generic[A_co]):
    """A request of a running job to its worker, with an answer of type A."""

    kind: ClassVar[str]

    def build_call(self, worker_id: UUID, job: ClaimedJob) -> Call[A_co]:
        """Return the engine's call for this request of the job."""
        raise NotImplementedError

    def read_answer(self, answer: Json) -> A_co:
        """Return the answer from its JSON."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TenantRequest(WorkerRequest[A_co]):
    """A request that code outside of jobs can send too, for any of its tenants."""

    def build_tenant_call(self, tenant_id: UUID | None = None) -> Call[A_co]:
        raise NotImplementedError

    def inherit(self, job: ClaimedJob) -> Self:  # noqa: ARG002 - for requests that create jobs
        """Return the request with the fields that its jobs inherit from the running job."""
        return self

    def build_call(self, worker_id: UUID, job: ClaimedJob) -> Call[A_co]:
        return self.inherit(job).build_tenant_call().under_lease(worker_id, job.token)


class JobChannel(Protocol):
    """Connects a running job to its worker."""

    @property
    def tenant_id(self) -> UUID: ...

    def note(self, kind: str, data: dict[str, Json]) -> None: ...

    def secret(self, name: str) -> str: ...

    def request(self, request: WorkerRequest[A]) -> A: ...

    async def request_async(self, request: WorkerRequest[A]) -> A: ...


@dataclass(frozen=True, slots=True)
class SaveStep(WorkerRequest[None]):
    """Store the result of a step. Raises LeaseLost or InvalidResult."""

    kind = "save_step"

    name: str
    index: int
    result: Json

    def build_call(self, worker_id: UUID, job: ClaimedJob) -> Call[None]:
        call = calls.save_steps(worker_id, [self.to_step(job.token)])
        return call.map_result(lambda statuses: check_saved(self.name, statuses[0]))

    def to_step(self, token: Token) -> Step:
        return Step(*token, self.name, self.index, self.result)

    def read_answer(self, answer: Json) -> None:
        """Return None: an error would have been raised."""


@dataclass(frozen=True, slots=True)
class EnqueueChildren(WorkerRequest[list[Enqueued]]):
    """Enqueue child jobs in a step, once for all attempts of the job."""

    kind = "enqueue_children"

    name: str
    index: int
    jobs: Sequence[JobRequest]

    def build_call(self, worker_id: UUID, job: ClaimedJob) -> Call[list[Enqueued]]:
        jobs = [child.to_json() for child in inherit_correlation(job, self.jobs)]
        return calls.enqueue_children(worker_id, job.token, self.name, self.index, jobs)

    def read_answer(self, answer: Json) -> list[Enqueued]:
        return read_enqueued(answer)


@dataclass(frozen=True, slots=True)
class EnqueueJobs(WorkerRequest[list[Enqueued]]):
    """Enqueue jobs of the job's tenant, all or none."""

    kind = "enqueue"

    jobs: Sequence[JobRequest]

    def build_call(self, worker_id: UUID, job: ClaimedJob) -> Call[list[Enqueued]]:
        call = calls.enqueue_jobs(inherit_correlation(job, self.jobs))
        return call.under_lease(worker_id, job.token)

    def read_answer(self, answer: Json) -> list[Enqueued]:
        return read_enqueued(answer)


@dataclass(frozen=True, slots=True)
class LoadParents(WorkerRequest[Lineage]):
    """Return the job's parents and its workflow or batch."""

    kind = "parents"

    def build_call(self, worker_id: UUID, job: ClaimedJob) -> Call[Lineage]:
        return calls.load_parents(worker_id, job.token)

    def read_answer(self, answer: Json) -> Lineage:
        return read_lineage(answer)


@dataclass(frozen=True, slots=True)
class AddNodes(WorkerRequest[list[Enqueued]]):
    """Add nodes to the job's workflow."""

    kind = "add_nodes"

    nodes: Sequence[Mapping[str, Json]]

    def build_call(self, worker_id: UUID, job: ClaimedJob) -> Call[list[Enqueued]]:
        nodes = inherit_trace_in_nodes(job, self.nodes)
        call = calls.add_workflow_jobs(worker_id, job.token, nodes)
        return call.map_result(_created_jobs)

    def read_answer(self, answer: Json) -> list[Enqueued]:
        return read_enqueued(answer)


@dataclass(frozen=True, slots=True)
class EnqueueWorkflow(TenantRequest[MadeWorkflow]):
    kind = "enqueue_workflow"

    workflow: WorkflowRequest

    def build_tenant_call(self, tenant_id: UUID | None = None) -> Call[MadeWorkflow]:
        return calls.enqueue_workflow(self.workflow, tenant_id=tenant_id)

    def inherit(self, job: ClaimedJob) -> "EnqueueWorkflow":
        return EnqueueWorkflow(inherit_into_workflow(job, self.workflow))

    def read_answer(self, answer: Json) -> MadeWorkflow:
        workflow_id, jobs = answer
        return MadeWorkflow(UUID(workflow_id), {path: UUID(each) for path, each in jobs.items()})


@dataclass(frozen=True, slots=True)
class CreateBatch(TenantRequest[MadeBatch]):
    kind = "create_batch"

    batch: BatchRequest
    jobs: Sequence[JobRequest]

    def build_tenant_call(self, tenant_id: UUID | None = None) -> Call[MadeBatch]:
        return calls.create_batch(self.batch, self.jobs, tenant_id=tenant_id)

    def inherit(self, job: ClaimedJob) -> "CreateBatch":
        return CreateBatch(inherit_into_batch(job, self.batch), inherit_trace(job, self.jobs))

    def read_answer(self, answer: Json) -> MadeBatch:
        batch_id, jobs = answer
        return MadeBatch(UUID(batch_id), read_enqueued(jobs))


@dataclass(frozen=True, slots=True)
class AddToBatch(TenantRequest[list[Enqueued]]):
    kind = "add_to_batch"

    batch_id: UUID
    jobs: Sequence[JobRequest]

    def build_tenant_call(self, tenant_id: UUID | None = None) -> Call[list[Enqueued]]:
        return calls.add_to_batch(self.batch_id, self.jobs, tenant_id=tenant_id)

    def inherit(self, job: ClaimedJob) -> "AddToBatch":
        return replace(self, jobs=inherit_trace(job, self.jobs))

    def read_answer(self, answer: Json) -> list[Enqueued]:
        return read_enqueued(answer)


@dataclass(frozen=True, slots=True)
class CloseBatch(TenantRequest[WorkflowState]):
    kind = "close_batch"

    batch_id: UUID

    def build_tenant_call(self, tenant_id: UUID | None = None) -> Call[WorkflowState]:
        return calls.close_batch(self.batch_id, tenant_id=tenant_id)

    def read_answer(self, answer: Json) -> WorkflowState:
        return WorkflowState(answer)


def inherit_from_current_job(request: TenantRequest[A]) -> TenantRequest[A]:
    """Add the fields that new jobs inherit from the inline job that runs in this context, if any.

    For a job in a separate process, its worker adds these fields.
    """
    job = CURRENT_JOB.get()
    return request if job is None else request.inherit(job)


def read_enqueued(answer: Json) -> list[Enqueued]:
    """Return enqueued jobs from pairs of an ID and a status, as stored in a step of a job too."""
    return [Enqueued(UUID(job_id), EnqueueStatus(status)) for job_id, status in answer]


def _created_jobs(jobs: Mapping[str, UUID]) -> list[Enqueued]:
    return [Enqueued(job_id, EnqueueStatus.CREATED) for job_id in jobs.values()]


def check_saved(name: str, status: SaveStatus) -> None:
    """Raise LeaseLost or InvalidResult if the step was not stored."""
    if status is SaveStatus.OK:
        return
    if status is SaveStatus.LOST:
        raise LeaseLost
    why = {
        SaveStatus.TOO_LARGE: "the result is larger than 1 MiB, or nested more than 64 levels deep",
        SaveStatus.TOO_MANY: "a job can have at most 1,000 steps and 16 MiB of results",
    }
    raise InvalidResult(f"Step '{name}' cannot be stored: {why[status]}", field="result")

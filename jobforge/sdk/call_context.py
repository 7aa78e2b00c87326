"""Where a call of the SDK comes from: the ambient tenant, and the running job with its worker.

A job's process has a JobProcessChannel. In the event loop of a worker without a database, a
LoopJobServices serves all jobs. Both carry the requests of a job's code to its worker, for the
job's own tenant. New jobs inherit correlation ID and traceparent unless they set their own.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, TypeVar
from uuid import UUID

from jobforge.errors import Conflict, Denied, Invalid, Json, TenantRequired
from jobforge.sdk.enqueue_options import TenantRef
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, Enqueued, JobRequest, UniformJobs
from jobforge.types.workflows import BatchRequest, WorkflowRequest

T = TypeVar("T")
NodeDocument = Mapping[str, Json]

_CALLBACKS = ("on_success", "on_failure", "on_complete")

# Set by `with jf.tenant(…)`; the last element is the innermost block.
_TENANT_STACK: ContextVar[tuple[TenantRef, ...]] = ContextVar("jobforge_tenant", default=())


class TenantScope:
    """Sets the ambient tenant: `with jf.tenant("acme"):`, in sync or async code.

    One scope may be entered again, nested in itself, or by several tasks at a time. So the scope
    stores no state about who entered it.
    """

    __slots__ = ("_tenant",)

    def __init__(self, tenant: TenantRef) -> None:
        self._tenant = _check_tenant(tenant)

    def __enter__(self) -> None:
        _TENANT_STACK.set((*_TENANT_STACK.get(), self._tenant))

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        _TENANT_STACK.set(_TENANT_STACK.get()[:-1])


def choose_tenant(named: TenantRef | None, default: Callable[[], TenantRef | None]) -> TenantRef:
    """Return the tenant to use; raise TenantRequired with the ways to name one."""
    tenant = get_ambient_tenant() if named is None else named
    if tenant is None:
        job = CURRENT_JOB.get()
        tenant = default() if job is None else job.tenant_id
    if tenant is not None:
        return _check_tenant(tenant)
    raise TenantRequired(
        "A tenant is required: use using(tenant=…), wrap the call in jf.tenant(…), or set it"
        " for the app with JobForge(tenant=…) or JOBFORGE_TENANT"
    )


def get_ambient_tenant() -> TenantRef | None:
    """Return the tenant of the enclosing `with jf.tenant(…)` block, or None."""
    stack = _TENANT_STACK.get()
    return stack[-1] if stack else None


def parse_tenant_uuid(tenant: TenantRef) -> UUID | None:
    """Return the tenant's UUID, also from text; None for a slug."""
    if isinstance(tenant, UUID):
        return tenant
    try:
        return UUID(tenant) if len(tenant) >= 32 else None
    except ValueError:
        return None


def _check_tenant(tenant: object) -> TenantRef:
    if isinstance(tenant, UUID) or (isinstance(tenant, str) and tenant):
        return tenant
    raise Invalid(f"tenant must be a UUID or a slug, not {tenant!r}", field="tenant")


class JobProcessChannel(Protocol):
    """The connection of a job's process, which has no database, to its worker."""

    @property
    def tenant_id(self) -> UUID: ...

    def enqueue(self, jobs: Sequence[JobRequest]) -> list[Enqueued]: ...

    def request(self, kind: str, data: Json) -> Json: ...


class LoopJobServices(Protocol):
    """Serves the requests of all jobs that run in a worker's event loop."""

    async def enqueue(self, job: ClaimedJob, jobs: Sequence[JobRequest]) -> list[Enqueued]: ...

    async def request(self, job: ClaimedJob, kind: str, data: Json) -> Json: ...


_process_channel: JobProcessChannel | None = None


def set_process_channel(channel: JobProcessChannel | None) -> None:
    """Set the channel of this process, which runs a job; None when it runs none."""
    global _process_channel  # noqa: PLW0603 - the process as a whole runs one job
    _process_channel = channel


def find_process_channel() -> JobProcessChannel | None:
    """Return the channel, or None outside of a job's process."""
    return _process_channel


def check_own_tenant(tenant: TenantRef | None, own: UUID) -> None:
    """Raise Denied for any tenant, named or ambient, but the job's own."""
    requested = get_ambient_tenant() if tenant is None else tenant
    if requested is not None and parse_tenant_uuid(requested) != own:
        raise Denied("A job can enqueue only for its own tenant; omit tenant", field="tenant")


def refuse_inside_job() -> None:
    if _process_channel is not None:
        raise Conflict(
            "A job's process has no database, so it cannot wait for other jobs or read them"
        )


def refuse_to_emit(conn: Any) -> None:  # noqa: ANN401 - a connection of any library, or None
    if conn is None and _process_channel is not None:
        raise Conflict(
            "A job's process has no database; emit on a separate connection with conn=…, or from"
            ' an isolation="inline" job'
        )


def inherit_from_current_job(inherit: Callable[[ClaimedJob, T], T], value: T) -> T:
    """Copy inherited fields from the current inline job, if there is one, by calling `inherit`.

    For a job in a separate process, its worker adds these fields.
    """
    job = CURRENT_JOB.get()
    return value if job is None else inherit(job, value)


def inherit_correlation(job: ClaimedJob, jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
    if isinstance(jobs, UniformJobs):
        return UniformJobs(_inherit_correlation(job, jobs.template), jobs.payloads)
    return [_inherit_correlation(job, request) for request in jobs]


def inherit_trace(job: ClaimedJob, jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
    """Add the job's traceparent to jobs of a batch, which has its own correlation ID."""
    return [_inherit_trace(job, request) for request in jobs]


def inherit_into_batch(job: ClaimedJob, batch: BatchRequest) -> BatchRequest:
    return replace(batch, **_inherit_fields(job, batch))


def inherit_into_workflow(job: ClaimedJob, workflow: WorkflowRequest) -> WorkflowRequest:
    return replace(
        workflow,
        nodes=inherit_trace_in_nodes(job, workflow.nodes),
        **_inherit_fields(job, workflow),
    )


def inherit_trace_in_nodes(
    job: ClaimedJob, nodes: Sequence[NodeDocument]
) -> Sequence[NodeDocument]:
    """Add the job's traceparent to workflow nodes, including those of inner workflows."""
    return [_inherit_trace_in_node(job, node) for node in nodes]


def _inherit_fields(job: ClaimedJob, request: BatchRequest | WorkflowRequest) -> dict[str, Json]:
    callbacks = {
        name: _inherit_trace_in_callback(job, getattr(request, name)) for name in _CALLBACKS
    }
    return {"correlation_id": request.correlation_id or job.correlation_id, **callbacks}


def _inherit_trace_in_callback(
    job: ClaimedJob, callback: JobRequest | NodeDocument | None
) -> JobRequest | NodeDocument | None:
    if callback is None or isinstance(callback, JobRequest):
        return callback and _inherit_trace(job, callback)
    return _inherit_trace_in_node(job, callback)


def _inherit_trace_in_node(job: ClaimedJob, node: NodeDocument) -> NodeDocument:
    if job.traceparent is None:
        return node
    if "workflow" not in node:
        return {"traceparent": job.traceparent, **node}
    inner = node["workflow"]
    return {**node, "workflow": {**inner, "nodes": inherit_trace_in_nodes(job, inner["nodes"])}}


def _inherit_correlation(job: ClaimedJob, request: JobRequest) -> JobRequest:
    return _inherit_trace(job, request)._replace(
        correlation_id=request.correlation_id or job.correlation_id
    )


def _inherit_trace(job: ClaimedJob, request: JobRequest) -> JobRequest:
    return request._replace(traceparent=request.traceparent or job.traceparent)

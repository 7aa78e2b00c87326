"""The way from a running job to its worker, for what the job's code enqueues, makes or asks.

A process of its own has a Door; in the loop of a worker that has no database there is a Host. What
goes out is of the job's own tenant.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol
from uuid import UUID

from jobforge.errors import Conflict, Denied, Json
from jobforge.sdk.enqueue_calls import batches, joined
from jobforge.sdk.options import Tenant
from jobforge.sdk.tenancy import ambient, as_uuid
from jobforge.types.jobs import ClaimedJob, Enqueued, JobRequest

Answer = tuple[UUID, Iterable[Enqueued]]  # the tenant, and what became of each request


class Door(Protocol):
    """Of a job's process, which has no database."""

    @property
    def tenant_id(self) -> UUID: ...

    def enqueue(self, jobs: Sequence[JobRequest]) -> list[Enqueued]: ...

    def ask(self, kind: str, data: Json) -> Json: ...


class Host(Protocol):
    """Of all jobs that run in a worker's loop."""

    async def enqueue(self, job: ClaimedJob, jobs: Sequence[JobRequest]) -> list[Enqueued]: ...

    async def ask(self, job: ClaimedJob, kind: str, data: Json) -> Json: ...


_door: Door | None = None


def set_door(door: Door | None) -> None:
    """From now on this process is inside a job; with None, it is not."""
    global _door  # noqa: PLW0603 - it is the process that is inside a job
    _door = door


def find_door() -> Door | None:
    """None outside of a job's process."""
    return _door


def enqueue_through(door: Door, jobs: Sequence[JobRequest], tenant: Tenant | None) -> Answer:
    check_own(tenant, door.tenant_id)
    return door.tenant_id, joined(door.enqueue(batch) for batch in batches(jobs))


async def enqueue_by(
    host: Host, job: ClaimedJob, jobs: Sequence[JobRequest], tenant: Tenant | None
) -> Answer:
    check_own(tenant, job.tenant_id)
    return job.tenant_id, joined([await host.enqueue(job, batch) for batch in batches(jobs)])


def check_own(tenant: Tenant | None, own: UUID) -> None:
    """Raises Denied for any tenant but the job's own, be it named or ambient."""
    wanted = ambient() if tenant is None else tenant
    if wanted is not None and as_uuid(wanted) != own:
        raise Denied("a job enqueues for its own tenant only: leave tenant out", field="tenant")


def refuse_inside_job() -> None:
    if _door is not None:
        raise Conflict(
            "a job's process has no database, so it cannot wait for other jobs or read them"
        )


def refuse_to_emit(conn: Any) -> None:  # noqa: ANN401 - a connection of whatever library, or none
    if conn is None and _door is not None:
        raise Conflict(
            "a job's process has no database: emit on a connection of its own, by conn=…, or from"
            ' an isolation="inline" job'
        )

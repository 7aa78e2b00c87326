"""Where a call of the SDK comes from: the ambient tenant, or a job that runs in this process."""

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any
from uuid import UUID

from jobforge.errors import Conflict, Denied, Invalid, TenantRequired
from jobforge.sdk.enqueue_options import TenantRef
from jobforge.sdk.worker_requests import JobChannel
from jobforge.types.current_job import CURRENT_JOB

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


_process_channel: JobChannel | None = None


def set_process_channel(channel: JobChannel | None) -> None:
    """Set the channel of this process, which runs a job; None when it runs none."""
    global _process_channel  # noqa: PLW0603 - the process as a whole runs one job
    _process_channel = channel


def find_process_channel() -> JobChannel | None:
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
            "A job's process has no database, so it cannot read, change or wait for other jobs"
        )


def refuse_to_emit(conn: Any) -> None:  # noqa: ANN401 - a connection of any library, or None
    if conn is None and _process_channel is not None:
        raise Conflict(
            "A job's process has no database; emit on a separate connection with conn=…, or from"
            ' an isolation="inline" job'
        )

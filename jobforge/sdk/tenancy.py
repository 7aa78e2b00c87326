"""Chooses the tenant of a job: the named one, the ambient one, or the app's default."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from uuid import UUID

from jobforge.errors import Invalid, TenantRequired
from jobforge.sdk.enqueue_options import TenantRef
from jobforge.types.current_job import CURRENT_JOB

_REMEMBERED_S = 60.0

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


class TenantIdCache:
    """Tenant IDs by slug, cached for a minute."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[UUID, float]] = {}

    def get(self, slug: str) -> UUID | None:
        tenant_id, until = self._known.get(slug, (None, 0.0))
        return tenant_id if time.monotonic() < until else None

    def put(self, slug: str, tenant_id: UUID) -> UUID:
        self._known[slug] = (tenant_id, time.monotonic() + _REMEMBERED_S)
        return tenant_id

    def clear(self) -> None:
        self._known.clear()


def choose_tenant(named: TenantRef | None, default: Callable[[], TenantRef | None]) -> TenantRef:
    """Return the tenant to use; raise TenantRequired with the ways to name one."""
    for tenant in (named, get_ambient_tenant(), _get_job_tenant_id()):
        if tenant is not None:
            return _check_tenant(tenant)
    tenant = default()
    if tenant is not None:
        return _check_tenant(tenant)
    raise TenantRequired(
        "no tenant is named: give one with using(tenant=…), around the call with jf.tenant(…), or"
        " for the app with JobForge(tenant=…) or JOBFORGE_TENANT"
    )


def get_ambient_tenant() -> TenantRef | None:
    """Return the tenant of the enclosing `with jf.tenant(…)` block, or None."""
    return next(reversed(_TENANT_STACK.get()), None)


def _get_job_tenant_id() -> UUID | None:
    job = CURRENT_JOB.get()
    return None if job is None else job.tenant_id


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
    raise Invalid(f"a tenant is a UUID or a slug, not {tenant!r}", field="tenant")

"""Whose job it is: the tenant that was named, the ambient one, or the app's default."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from uuid import UUID

from jobforge.errors import Invalid, TenantRequired
from jobforge.sdk.options import Tenant
from jobforge.types.current_job import CURRENT

_REMEMBERED_S = 60.0

# Set by `with jf.tenant(…)`; the innermost is the last.
_AMBIENT: ContextVar[tuple[Tenant, ...]] = ContextVar("jobforge_tenant", default=())


class Ambient:
    """`with jf.tenant("acme"):` in sync or async code; may be entered again, also within itself
    and by others at the same time, so it keeps nothing of who has entered it."""

    __slots__ = ("_tenant",)

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = _checked(tenant)

    def __enter__(self) -> None:
        _AMBIENT.set((*_AMBIENT.get(), self._tenant))

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        _AMBIENT.set(_AMBIENT.get()[:-1])


class Slugs:
    """What slugs stand for, remembered for a minute."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[UUID, float]] = {}

    def get(self, slug: str) -> UUID | None:
        tenant_id, until = self._known.get(slug, (None, 0.0))
        return tenant_id if time.monotonic() < until else None

    def keep(self, slug: str, tenant_id: UUID) -> UUID:
        self._known[slug] = (tenant_id, time.monotonic() + _REMEMBERED_S)
        return tenant_id

    def forget(self) -> None:
        self._known.clear()


def choose(named: Tenant | None, default: Callable[[], Tenant | None]) -> Tenant:
    """TenantRequired, with the ways to name one, when none is."""
    for tenant in (named, ambient(), _of_current_job()):
        if tenant is not None:
            return _checked(tenant)
    tenant = default()
    if tenant is not None:
        return _checked(tenant)
    raise TenantRequired(
        "no tenant is named: give one with using(tenant=…), around the call with jf.tenant(…), or"
        " for the app with JobForge(tenant=…) or JOBFORGE_TENANT"
    )


def ambient() -> Tenant | None:
    """The one of `with jf.tenant(…)` around this call."""
    return next(reversed(_AMBIENT.get()), None)


def _of_current_job() -> UUID | None:
    job = CURRENT.get()
    return None if job is None else job.tenant_id


def as_uuid(tenant: Tenant) -> UUID | None:
    """The tenant when it is given as a UUID, also as text; None for a slug."""
    if isinstance(tenant, UUID):
        return tenant
    try:
        return UUID(tenant) if len(tenant) >= 32 else None
    except ValueError:
        return None


def _checked(tenant: object) -> Tenant:
    if isinstance(tenant, UUID) or (isinstance(tenant, str) and tenant):
        return tenant
    raise Invalid(f"a tenant is a UUID or a slug, not {tenant!r}", field="tenant")

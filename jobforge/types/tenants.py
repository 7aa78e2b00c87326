"""Tenants, their erasure, and the database logins bound to them."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class Erasure(NamedTuple):
    """A tenant's erasure that waits for the tenant's artifacts to be deleted."""

    tenant_id: UUID
    operation_id: UUID


@dataclass(frozen=True, slots=True)
class TenantInfo:
    """A tenant and its settings, for operators."""

    id: UUID
    slug: str | None
    name: str | None
    timezone: str
    weight: int
    max_running: int | None
    max_pending: int | None
    rate_limit: int | None
    paused_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class BoundLogin:
    """A database login and the tenants for which it may act.

    `slugs` has the ID for a tenant without a slug. `fault` says why the binding does not confine
    the login, for example because it does not exist or has become an operator.
    """

    login: str
    tenants: list[UUID]
    slugs: list[str]
    bound_at: datetime
    bound_by: str
    fault: str | None

"""Who makes a request, and what that may be: the answer of authentication, whatever the way in."""

from dataclasses import dataclass
from uuid import UUID

from jobforge.control import Role


@dataclass(frozen=True, slots=True)
class Principal:
    """`tenant_id` is the tenant acted for; None is the installation. Without scopes, no bounds."""

    actor: str
    role: Role
    tenant_id: UUID | None = None
    scopes: frozenset[str] = frozenset()
    key_id: UUID | None = None

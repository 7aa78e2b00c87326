"""Who makes a request, and what that may be: the answer of authentication, whatever the way in."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobforge.types.api_keys import Role


@dataclass(frozen=True, slots=True)
class Principal:
    """`tenant_id` is the tenant acted for; None is the installation. `scopes` of None do not narrow
    the role; no scopes at all allow nothing. `expires_at` is the end of its key."""

    actor: str
    role: Role
    tenant_id: UUID | None = None
    scopes: frozenset[str] | None = None
    key_id: UUID | None = None
    expires_at: datetime | None = None

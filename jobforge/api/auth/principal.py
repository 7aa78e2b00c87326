"""Principal: result of authentication by key, token or cookie."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobforge.types.api_keys import Role


@dataclass(frozen=True, slots=True)
class Principal:
    """Identity and rights of a caller.

    `tenant_id` is the tenant to act for, or None for the installation. `scopes` narrow the role:
    None does not narrow it, an empty set allows nothing. `expires_at` is the expiry of the key.
    """

    actor: str
    role: Role
    tenant_id: UUID | None = None
    scopes: frozenset[str] | None = None
    key_id: UUID | None = None
    expires_at: datetime | None = None

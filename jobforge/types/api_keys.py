"""API keys: their roles, and the rows that list and find them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class Role(StrEnum):
    """What the holder of a key may do."""

    VIEWER = "viewer"
    TENANT_ADMIN = "tenant_admin"
    WORKER = "worker"
    SUPER_ADMIN = "super_admin"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key in a list. A key without a tenant belongs to the installation."""

    id: UUID
    tenant_id: UUID | None
    name: str
    role: Role
    lookup: str
    scopes: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    rotated_from: UUID | None


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key for authentication. The database computes `is_live` from expiry and revocation."""

    id: UUID
    tenant_id: UUID | None
    role: Role
    scopes: list[str]
    hash: bytes
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    is_live: bool

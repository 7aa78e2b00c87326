"""Entries of the audit log."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jsonb import JsonFields


@dataclass(frozen=True, slots=True)
class AuditFilter(JsonFields):
    """Filter of log entries; an entry must match all fields that are set."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    after: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action: actor, action, target and details."""

    id: UUID
    tenant_id: UUID | None
    at: datetime
    actor: str
    action: str
    target: str | None
    detail: Json

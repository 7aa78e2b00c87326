"""Calls that read the installation: definitions, queues, the audit log."""

from uuid import UUID

from jobforge.calls.call import Call, JsonArgument
from jobforge.calls.results import many, one
from jobforge.types.audit import AuditEntry, AuditFilter
from jobforge.types.definitions import DefinitionInfo, DefinitionListing, QueueInfo, SlotHolder

EVERY_ENTRY = AuditFilter()


def list_definitions(
    *, prefix: str | None = None, limit: int = 50, after: str | None = None
) -> Call[list[DefinitionListing]]:
    """List definitions by key; `after` is the last key of the previous page."""
    return Call(
        "list_definitions",
        {"prefix": prefix, "limit": limit, "after": after},
        many(DefinitionListing),
    )


def get_definition(key: str, *, version: int | None = None) -> Call[DefinitionInfo]:
    """Return a definition; by default, the version that an enqueue uses. Raises NotFound."""
    return Call("get_definition", {"key": key, "version": version}, one(DefinitionInfo))


def list_queues(*, tenant_id: UUID | None = None) -> Call[list[QueueInfo]]:
    """List queues with job counts of one tenant; for operators without one, of all tenants."""
    return Call("list_queues", {"tenant_id": tenant_id}, many(QueueInfo))


def list_holders(queue: str, *, limit: int = 50) -> Call[list[SlotHolder]]:
    """List the running jobs of a queue, the longest-running first."""
    return Call("list_holders", {"queue": queue, "limit": limit}, many(SlotHolder))


def list_audit(
    which: AuditFilter = EVERY_ENTRY,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[AuditEntry]]:
    """List entries, newest first; `before` is the last ID of the previous page."""
    return Call(
        "list_audit",
        {
            "filter": JsonArgument.from_value(which.to_json(), "filter"),
            "limit": limit,
            "before": before,
            "tenant_id": tenant_id,
        },
        many(AuditEntry),
    )

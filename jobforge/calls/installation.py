"""Calls that read the installation: definitions, queues, the audit log, gauges and problems."""

from uuid import UUID

from jobforge.calls.call import Call, build_call
from jobforge.calls.results import many, one
from jobforge.types.audit import AuditEntry, AuditFilter
from jobforge.types.definitions import DefinitionInfo, DefinitionListing, QueueInfo, SlotHolder
from jobforge.types.diagnostics import AppliedFile, Gauge, InstallationProblem, MissedRun

EVERY_ENTRY = AuditFilter()


def list_definitions(
    *, prefix: str | None = None, limit: int = 50, after: str | None = None
) -> Call[list[DefinitionListing]]:
    """List definitions by key; `after` is the last key of the previous page."""
    return build_call(
        "list_definitions", many(DefinitionListing), prefix=prefix, limit=limit, after=after
    )


def get_definition(key: str, *, version: int | None = None) -> Call[DefinitionInfo]:
    """Return a definition; by default, the version that an enqueue uses. Raises NotFound."""
    return build_call("get_definition", one(DefinitionInfo), key=key, version=version)


def list_queues(*, tenant_id: UUID | None = None) -> Call[list[QueueInfo]]:
    """List queues with job counts of one tenant; for operators without one, of all tenants."""
    return build_call("list_queues", many(QueueInfo), tenant_id=tenant_id)


def list_holders(queue: str, *, limit: int = 50) -> Call[list[SlotHolder]]:
    """List the running jobs of a queue, the longest-running first."""
    return build_call("list_holders", many(SlotHolder), queue=queue, limit=limit)


def list_audit(
    which: AuditFilter = EVERY_ENTRY,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[AuditEntry]]:
    """List entries, newest first; `before` is the last ID of the previous page."""
    return build_call(
        "list_audit",
        many(AuditEntry),
        filter=which,
        limit=limit,
        before=before,
        tenant_id=tenant_id,
    )


def read_gauges(tenants: int = 20) -> Call[list[Gauge]]:
    """Read gauges; the `tenants` tenants with the most waiting jobs are listed separately."""
    return build_call("read_gauges", many(Gauge), tenants=tenants)


def find_problems() -> Call[list[InstallationProblem]]:
    return build_call("find_problems", many(InstallationProblem))


def find_unreadable() -> Call[list[InstallationProblem]]:
    return build_call("find_unreadable", many(InstallationProblem))


def list_missed_firings(*, limit: int = 50) -> Call[list[MissedRun]]:
    """List missed firings of schedules, latest first."""
    return build_call("list_missed_firings", many(MissedRun), limit=limit)


def list_migrations() -> Call[list[AppliedFile]]:
    return build_call("list_migrations", many(AppliedFile))

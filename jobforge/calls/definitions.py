"""Calls that read the installation: definitions, queues, the audit log."""

from uuid import UUID

from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.types.audit import AuditEntry, AuditFilter
from jobforge.types.definitions import DefinitionInfo, DefinitionListing, QueueInfo, SlotHolder
from jobforge.types.jsonb import encode

EVERY_ENTRY = AuditFilter()


def list_definitions(
    *, prefix: str | None = None, limit: int = 50, after: str | None = None
) -> Call[list[DefinitionListing]]:
    """List definitions by key; `after` is the last key of the previous page."""
    return Call(
        """
        select key, version, description, queue, timeout_s, max_attempts, backoff_base_s,
               backoff_cap_s, max_running, max_running_per_key, rate_limit, rate_period_s,
               rate_burst, rate_limit_per_key, rate_period_per_key_s, rate_burst_per_key, hooks,
               is_active, paused_at, created_at, updated_at, versions
          from jobforge.list_definitions(%s, %s::integer, %s)
        """,
        (prefix, limit, after),
        _definitions,
    )


def get_definition(key: str, *, version: int | None = None) -> Call[DefinitionInfo]:
    """Return a definition; by default, the version that an enqueue uses. Raises NotFound."""
    return Call(
        """
        select key, version, description, queue, timeout_s, max_attempts, backoff_base_s,
               backoff_cap_s, max_running, max_running_per_key, rate_limit, rate_period_s,
               rate_burst, rate_limit_per_key, rate_period_per_key_s, rate_burst_per_key, hooks,
               is_active, paused_at, created_at, updated_at, versions, registered, overrides,
               parameters
          from jobforge.get_definition(%s, %s::integer)
        """,
        (key, version),
        _definition,
    )


def list_queues(*, tenant_id: UUID | None = None) -> Call[list[QueueInfo]]:
    """List queues with job counts of one tenant; for operators without one, of all tenants."""
    return Call(
        """
        select name, paused_at, max_running, rate_limit, rate_period_s, rate_burst, queued, running,
               scheduled, oldest_queued_at
          from jobforge.list_queues(%s)
        """,
        (tenant_id,),
        _queues,
    )


def list_holders(queue: str, *, limit: int = 50) -> Call[list[SlotHolder]]:
    """List the running jobs of a queue, the longest-running first."""
    return Call(
        """
        select tenant_id, slug, job_id, definition, version, limit_key, worker_id, started_at,
               lease_expires_at
          from jobforge.list_holders(%s, %s::integer)
        """,
        (queue, limit),
        _holders,
    )


def list_audit(
    which: AuditFilter = EVERY_ENTRY,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[AuditEntry]]:
    """List entries, newest first; `before` is the last ID of the previous page."""
    return Call(
        """
        select id, tenant_id, at, actor, action, target, detail
          from jobforge.list_audit(%s::jsonb, %s::integer, %s, %s)
        """,
        (encode(which.to_json(), "filter"), limit, before, tenant_id),
        _audit,
    )


def _definitions(rows: Rows) -> list[DefinitionListing]:
    return [DefinitionListing(*row) for row in rows]


def _definition(rows: Rows) -> DefinitionInfo:
    return DefinitionInfo(*rows[0])


def _queues(rows: Rows) -> list[QueueInfo]:
    return [QueueInfo(*row) for row in rows]


def _audit(rows: Rows) -> list[AuditEntry]:
    return [AuditEntry(*row) for row in rows]


def _holders(rows: Rows) -> list[SlotHolder]:
    return [SlotHolder(*row) for row in rows]

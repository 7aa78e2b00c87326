"""Calls for operators and maintenance."""

from collections.abc import Mapping
from typing import Literal
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.errors import Json
from jobforge.types.jsonb import encode
from jobforge.types.operations import SweepPosition
from jobforge.types.tenants import Erasure, TenantInfo
from jobforge.types.workers import WorkerInfo

RetentionKind = Literal[
    "partitions",
    "dead_jobs",
    "idempotency_keys",
    "workers",
    "operations",
    "idempotent_requests",
    "steps",
    "workflows",
    "dependencies",
    "heartbeats",
    "buckets",
    "firings",
    "api_keys",
    "failure_notes",
]


def override_definition(key: str, overrides: Mapping[str, Json]) -> Call[None]:
    """Set settings that apply instead of those in code; null removes an override."""
    return Call(
        "select jobforge.override_definition(%s, %s::jsonb)",
        (key, encode(dict(overrides), "overrides")),
        rows.nothing,
    )


def put_tenant(tenant_id: UUID, settings: Mapping[str, Json] | None = None) -> Call[None]:
    """Create a tenant or change its settings."""
    return Call(
        "select jobforge.put_tenant(%s, %s::jsonb)",
        (tenant_id, encode(dict(settings or {}), "settings")),
        rows.nothing,
    )


def find_tenant(slug: str) -> Call[UUID]:
    """Return the ID of the tenant with this slug. Raises NotFound."""
    return Call("select jobforge.find_tenant(%s)", (slug,), rows.value)


def list_tenants() -> Call[list[TenantInfo]]:
    """List tenants by slug; only tenants with settings have a row."""
    return Call(
        """
        select id, slug, name, timezone, weight, max_running, max_pending, rate_limit, paused_at,
               created_at
          from jobforge.list_tenants()
        """,
        (),
        _tenants,
    )


def put_queue(queue: str, settings: Mapping[str, Json] | None = None) -> Call[None]:
    """Create a queue or change its settings."""
    return Call(
        "select jobforge.put_queue(%s, %s::jsonb)",
        (queue, encode(dict(settings or {}), "settings")),
        rows.nothing,
    )


def pause_queue(queue: str) -> Call[None]:
    """Stop workers from claiming jobs of this queue."""
    return Call("select jobforge.pause_queue(%s)", (queue,), rows.nothing)


def resume_queue(queue: str) -> Call[None]:
    """Let workers claim jobs of this queue again."""
    return Call("select jobforge.resume_queue(%s)", (queue,), rows.nothing)


def pause_definition(key: str) -> Call[None]:
    """Stop workers from claiming jobs of this definition."""
    return Call("select jobforge.pause_definition(%s)", (key,), rows.nothing)


def resume_definition(key: str) -> Call[None]:
    """Let workers claim jobs of this definition again."""
    return Call("select jobforge.resume_definition(%s)", (key,), rows.nothing)


def pause_tenant(tenant_id: UUID) -> Call[None]:
    """Stop workers from claiming jobs of this tenant."""
    return Call("select jobforge.pause_tenant(%s)", (tenant_id,), rows.nothing)


def resume_tenant(tenant_id: UUID) -> Call[None]:
    """Let workers claim jobs of this tenant again."""
    return Call("select jobforge.resume_tenant(%s)", (tenant_id,), rows.nothing)


def list_workers() -> Call[list[WorkerInfo]]:
    """List the registered workers."""
    return Call(
        """
        select id, state, host, pid, build, queues, definitions, slots, running, started_at,
               heartbeat_at, stopped_at, memory_bytes, clock_skew_s, isolation
          from jobforge.list_workers()
        """,
        (),
        _workers,
    )


def drain_worker(worker_id: UUID) -> Call[None]:
    """Ask a worker to finish its running jobs and then stop."""
    return Call("select jobforge.drain_worker(%s)", (worker_id,), rows.nothing)


def stop_worker(worker_id: UUID) -> Call[None]:
    """Ask a worker to stop; it releases jobs that do not finish in time."""
    return Call("select jobforge.stop_worker(%s)", (worker_id,), rows.nothing)


def delete_tenant(tenant_id: UUID) -> Call[UUID]:
    """Start the erasure of a tenant, or find the one in progress; return the operation's ID."""
    return Call("select jobforge.delete_tenant(%s)", (tenant_id,), rows.value)


def next_erasure(*, has_store: bool = True) -> Call[Erasure | None]:
    """Reserve an erasure whose artifacts must be deleted now; None if there is none.

    Without a store, only if no process has recorded a store: then there are no artifacts.
    """
    return Call(
        "select tenant_id, operation_id from jobforge.next_erasure(%s)", (has_store,), _erasure
    )


def confirm_erasure(erasure: Erasure, *, found: bool) -> Call[bool]:
    """Report that all artifacts of the tenant are deleted, and whether there were any.

    The erasure completes only after a check of the store that found none.
    """
    return Call(
        "select jobforge.confirm_erasure(%s, %s, %s)",
        (erasure.operation_id, erasure.tenant_id, found),
        rows.value,
    )


def ensure_partitions(*, days: int = 7) -> Call[int]:
    """Return the number of partitions created."""
    return Call("select jobforge.ensure_partitions(%s::integer)", (days,), rows.value)


def apply_retention(
    kind: RetentionKind | None = None,
    *,
    history_days: int = 14,
    dead_days: int = 90,
    audit_days: int = 365,
    limit: int = 10_000,
) -> Call[dict[str, Json]]:
    """Return what was deleted for one or all kinds; empty while another caller runs retention.

    The statement timeout is long, because a deletion that is interrupted starts over.
    """
    call: Call[dict[str, Json]] = Call(
        "select jobforge.apply_retention"
        "(%s::integer, %s::integer, %s::integer, %s::integer, %s::text)",
        (history_days, dead_days, limit, audit_days, kind),
        rows.value,
    )
    return call.with_setting("statement_timeout", "10min")


def regate_jobs(after: SweepPosition | None = None, *, limit: int = 5000) -> Call[SweepPosition]:
    """One step of the sweep that updates waiting jobs after limits or pauses changed."""
    return Call(
        "select after_tenant, after_id, changed from jobforge.regate_jobs(%s::integer, %s, %s)",
        (limit, after.after_tenant if after else None, after.after_id if after else None),
        _position,
    )


def free_blocked_jobs(
    after: SweepPosition | None = None, *, limit: int = 5000
) -> Call[SweepPosition]:
    """One step of the sweep that frees blocked jobs whose parents have all finished."""
    return Call(
        "select after_tenant, after_id, freed from jobforge.free_blocked_jobs(%s::integer, %s, %s)",
        (limit, after.after_tenant if after else None, after.after_id if after else None),
        _position,
    )


def _workers(rows: Rows) -> list[WorkerInfo]:
    return [WorkerInfo(*row) for row in rows]


def _tenants(rows: Rows) -> list[TenantInfo]:
    return [TenantInfo(*row) for row in rows]


def _erasure(rows: Rows) -> Erasure | None:
    return Erasure(*rows[0]) if rows else None


def _position(rows: Rows) -> SweepPosition:
    return SweepPosition(*rows[0])

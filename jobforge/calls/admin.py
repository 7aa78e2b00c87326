"""Calls for operators and maintenance."""

from collections.abc import Mapping, Sequence
from typing import Literal
from uuid import UUID

from jobforge.calls.call import Call, build_call
from jobforge.calls.results import NOTHING, Result, many, one, optional, value
from jobforge.errors import Json, TenantRequired
from jobforge.types.operations import SweepPosition
from jobforge.types.tenants import BoundLogin, Erasure, TenantInfo
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
    return build_call("override_definition", NOTHING, key=key, overrides=overrides)


def put_tenant(tenant_id: UUID, settings: Mapping[str, Json] | None = None) -> Call[None]:
    """Create a tenant or change its settings."""
    return build_call("put_tenant", NOTHING, tenant_id=tenant_id, settings=settings or {})


def find_tenant(slug: str) -> Call[UUID]:
    """Return the ID of the tenant with this slug. Raises NotFound."""
    return build_call("find_tenant", _TENANT_ID, slug=slug)


def list_tenants() -> Call[list[TenantInfo]]:
    """List tenants by slug; only tenants with settings have a row."""
    return build_call("list_tenants", many(TenantInfo))


def put_queue(queue: str, settings: Mapping[str, Json] | None = None) -> Call[None]:
    """Create a queue or change its settings."""
    return build_call("put_queue", NOTHING, queue=queue, settings=settings or {})


def pause_queue(queue: str) -> Call[None]:
    """Stop workers from claiming jobs of this queue."""
    return build_call("pause_queue", NOTHING, queue=queue)


def resume_queue(queue: str) -> Call[None]:
    """Let workers claim jobs of this queue again."""
    return build_call("resume_queue", NOTHING, queue=queue)


def pause_definition(key: str) -> Call[None]:
    """Stop workers from claiming jobs of this definition."""
    return build_call("pause_definition", NOTHING, key=key)


def resume_definition(key: str) -> Call[None]:
    """Let workers claim jobs of this definition again."""
    return build_call("resume_definition", NOTHING, key=key)


def pause_tenant(tenant_id: UUID) -> Call[None]:
    """Stop workers from claiming jobs of this tenant."""
    return build_call("pause_tenant", NOTHING, tenant_id=tenant_id)


def resume_tenant(tenant_id: UUID) -> Call[None]:
    """Let workers claim jobs of this tenant again."""
    return build_call("resume_tenant", NOTHING, tenant_id=tenant_id)


def list_workers() -> Call[list[WorkerInfo]]:
    """List the registered workers."""
    return build_call("list_workers", many(WorkerInfo))


def drain_worker(worker_id: UUID) -> Call[None]:
    """Ask a worker to finish its running jobs and then stop."""
    return build_call("drain_worker", NOTHING, worker_id=worker_id)


def stop_worker(worker_id: UUID) -> Call[None]:
    """Ask a worker to stop; it releases jobs that do not finish in time."""
    return build_call("stop_worker", NOTHING, worker_id=worker_id)


def delete_tenant(tenant_id: UUID) -> Call[UUID]:
    """Start the erasure of a tenant, or find the one in progress. Returns the operation's ID."""
    return build_call("delete_tenant", value(UUID, "id"), tenant_id=tenant_id)


def next_erasure(*, has_store: bool = True) -> Call[Erasure | None]:
    """Reserve an erasure whose artifacts must be deleted now; None if there is none.

    Without a store, only if no process has recorded a store: then there are no artifacts.
    """
    return build_call("next_erasure", optional(Erasure), has_store=has_store)


def confirm_erasure(erasure: Erasure, *, found: bool) -> Call[bool]:
    """Report that all artifacts of the tenant are deleted, and whether there were any.

    The erasure completes only after a check of the store that found none.
    """
    return build_call(
        "confirm_erasure",
        value(bool),
        operation_id=erasure.operation_id,
        tenant_id=erasure.tenant_id,
        found=found,
    )


def bind_login(login: str, tenants: Sequence[UUID]) -> Call[None]:
    """Replace the tenants for which a login may act. Raises Invalid, NotFound, TenantErased."""
    return build_call("bind_login", NOTHING, login=login, tenants=list(tenants))


def unbind_login(login: str) -> Call[None]:
    """Remove a login's binding. Raises NotFound."""
    return build_call("unbind_login", NOTHING, login=login)


def list_bound_logins() -> Call[list[BoundLogin]]:
    """List the bound logins by name."""
    return build_call("list_bound_logins", many(BoundLogin))


def ensure_partitions(*, days: int = 7) -> Call[int]:
    """Return the number of partitions created."""
    return build_call("ensure_partitions", value(int, "created"), days=days)


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
    call: Call[dict[str, Json]] = build_call(
        "apply_retention",
        value(dict),
        history_days=history_days,
        dead_days=dead_days,
        limit=limit,
        audit_days=audit_days,
        kind=kind,
    )
    return call.with_setting("statement_timeout", "10min")


def regate_jobs(after: SweepPosition | None = None, *, limit: int = 5000) -> Call[SweepPosition]:
    """One step of the sweep that updates waiting jobs after limits or pauses changed."""
    return Call(
        "regate_jobs",
        {
            "limit": limit,
            "after_tenant": after.after_tenant if after else None,
            "after_id": after.after_id if after else None,
        },
        one(SweepPosition),
        statement="select after_tenant, after_id, changed"
        " from jobforge.regate_jobs(%s::integer, %s, %s)",
    )


def free_blocked_jobs(
    after: SweepPosition | None = None, *, limit: int = 5000
) -> Call[SweepPosition]:
    """One step of the sweep that frees blocked jobs whose parents have all finished."""
    return Call(
        "free_blocked_jobs",
        {
            "limit": limit,
            "after_tenant": after.after_tenant if after else None,
            "after_id": after.after_id if after else None,
        },
        one(SweepPosition),
        statement="select after_tenant, after_id, freed"
        " from jobforge.free_blocked_jobs(%s::integer, %s, %s)",
    )


def _tenant_id_from_json(session: Json) -> UUID:
    if session["tenant_id"] is None:
        raise TenantRequired("this key is of no tenant: name the one to act for")
    return UUID(session["tenant_id"])


_TENANT_ID: Result[UUID] = Result("", lambda rows: rows[0][0], _tenant_id_from_json)

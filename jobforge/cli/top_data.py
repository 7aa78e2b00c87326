"""Read the overview that `jobforge top` shows: queues, tenants, workers, one tenant's jobs.

The list commands use the same row formats.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

from jobforge import calls
from jobforge.cli import output
from jobforge.cli.context import find_tenant_or_all
from jobforge.cli.engine import CliEngine
from jobforge.errors import Denied, Json
from jobforge.redact import redact
from jobforge.types.definitions import QueueInfo
from jobforge.types.jobs import JobFilter, JobListing
from jobforge.types.statistics import Usage
from jobforge.types.tenants import TenantInfo
from jobforge.types.workers import WorkerInfo

T = TypeVar("T")
OverviewRows = list[dict[str, Json]]

_JOBS = 50
_CAUSE = 80  # characters of the error shown on a terminal
_WINDOW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class TenantUsage:
    """A tenant's usage in the last hour."""

    id: UUID
    slug: str | None
    attempts: int
    run_s: float
    cpu_s: float
    paused_at: datetime | None


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of an installation at one moment.

    `tenants` and `workers` are None without operator rights; `tenants` also if one tenant was
    selected. `tenant` is the owner of `jobs`.
    """

    at: datetime
    tenant: str | None
    queues: list[QueueInfo]
    tenants: list[TenantUsage] | None
    workers: list[WorkerInfo] | None
    jobs: list[JobListing]

    @property
    def summary(self) -> str:
        queued = sum(queue.queued for queue in self.queues)
        running = sum(queue.running for queue in self.queues)
        words = [f"{queued:,} queued", f"{running:,} running"]
        if self.workers is not None:
            live = sum(worker.state == "live" for worker in self.workers)
            words.append(f"{live:,} worker{'s' * (live != 1)} live")
        return ", ".join(words)

    def to_rows(self) -> dict[str, OverviewRows]:
        """Return table rows by section."""
        return {
            "queues": [to_queue_row(each) for each in self.queues],
            "tenants": [asdict(each) for each in self.tenants or ()],
            "workers": [to_worker_row(each) for each in self.workers or ()],
            "jobs": [to_job_row(each) for each in self.jobs],
        }


def read_overview(
    engine: CliEngine, tenant: str | None, *, jobs_tenant_id: str | None, state: str
) -> Overview:
    """Read the overview of a tenant (slug or ID), or of all tenants.

    For all tenants, the jobs are those of `jobs_tenant_id`; default: the tenant with the most
    attempts in the last hour.
    """
    named = find_tenant_or_all(engine, tenant)
    tenants = _read_if_allowed(lambda: _read_tenants(engine)) if named is None else None
    workers = _read_if_allowed(lambda: engine.run(calls.list_workers()))
    shown = named or _pick_tenant(tenants or [], jobs_tenant_id)
    return Overview(
        at=datetime.now(UTC),
        tenant=tenant if named and tenant else _tenant_label(tenants or [], shown),
        queues=engine.run(calls.list_queues(tenant_id=named)),
        tenants=tenants,
        workers=workers and [each for each in workers if each.state != "stopped"],
        jobs=_list_jobs(engine, shown, state) if shown else [],
    )


def to_queue_row(queue: QueueInfo) -> dict[str, Json]:
    limits = [f"{queue.max_running} running"] if queue.max_running else []
    if queue.rate_limit:
        limits.append(f"{queue.rate_limit} in {queue.rate_period_s:g} s")
    return {
        "name": queue.name,
        "queued": queue.queued,
        "running": queue.running,
        "scheduled": queue.scheduled,
        "oldest_queued_at": queue.oldest_queued_at,
        "limits": ", ".join(limits),
        "paused_at": queue.paused_at,
    }


def to_worker_row(worker: WorkerInfo) -> dict[str, Json]:
    return {
        "id": worker.id,
        "state": worker.state,
        "host": worker.host,
        "pid": worker.pid,
        "queues": ",".join(worker.queues),
        "running": f"{worker.running}/{worker.slots}",
        "memory": None if worker.memory_bytes is None else f"{worker.memory_bytes >> 20} MB",
        "clock": None if worker.clock_skew_s is None else f"{worker.clock_skew_s:+z.1f} s",
        "isolation": worker.isolation,
        "started_at": worker.started_at,
        "heartbeat_at": worker.heartbeat_at,
    }


def to_job_row(job: JobListing) -> dict[str, Json]:
    error = dict(redact(job.error or {}))
    cause = ": ".join(filter(None, (error.get("type"), error.get("message"))))
    return {
        "id": job.id,
        "state": job.state,
        "definition": f"{job.definition}@{job.version}",
        "queue": job.queue,
        "attempt": f"{job.attempt}/{job.max_attempts}",
        "created_at": job.created_at,
        "error": cause[:_CAUSE] if output.is_terminal() else cause,
    }


def _read_tenants(engine: CliEngine) -> list[TenantUsage]:
    """Return tenants with settings or recent attempts, most attempts in the last hour first."""
    since = datetime.now(UTC) - _WINDOW
    known = {tenant.id: tenant for tenant in engine.run(calls.list_tenants())}
    used = {each.tenant_id: each for each in engine.run(calls.meter_tenants(since))}
    tenants = [
        _to_tenant_usage(each, known.get(each), used.get(each)) for each in {**used, **known}
    ]
    return sorted(tenants, key=lambda tenant: (-tenant.attempts, str(tenant.slug)))


def _to_tenant_usage(tenant_id: UUID, known: TenantInfo | None, used: Usage | None) -> TenantUsage:
    return TenantUsage(
        tenant_id,
        slug=known.slug if known else None,
        attempts=used.attempts if used else 0,
        run_s=round(used.run_s, 1) if used else 0.0,
        cpu_s=round(used.cpu_s, 1) if used else 0.0,
        paused_at=known.paused_at if known else None,
    )


def _list_jobs(engine: CliEngine, tenant_id: UUID, state: str) -> list[JobListing]:
    call = calls.list_jobs(JobFilter(state=state), limit=_JOBS).for_tenant(tenant_id)
    return [replace(job, error=redact(job.error)) for job in engine.run(call)]


def _pick_tenant(tenants: list[TenantUsage], tenant_id: str | None) -> UUID | None:
    return UUID(tenant_id) if tenant_id else next((tenant.id for tenant in tenants), None)


def _tenant_label(tenants: list[TenantUsage], shown: UUID | None) -> str | None:
    slugs = {tenant.id: tenant.slug for tenant in tenants}
    return None if shown is None else slugs.get(shown) or str(shown)


def _read_if_allowed(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except Denied:
        return None

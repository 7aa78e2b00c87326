"""Prometheus metrics of a server: gauges of the installation and the server's own requests.

All scrapes within a second share one database query.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from jobforge import __version__, calls
from jobforge.api.request_metrics import RequestMetrics
from jobforge.db import Database
from jobforge.db.doctor import probes
from jobforge.db.doctor.probes import VacuumBlocker
from jobforge.observability import prometheus
from jobforge.types.diagnostics import Gauge

_FRESH_S = 1.0
_MAX_TENANTS = 20  # with separate series; all others are summed

# By engine gauge: metric name, help text, and the labels for its subject and state.
_GAUGES: dict[str, tuple[str, str, list[str]]] = {
    "jobs": (
        "jobforge_jobs",
        "Jobs by queue and state; up to 20,000 queued ones of a queue are counted.",
        ["queue", "state"],
    ),
    "oldest_wait": (
        "jobforge_oldest_wait_seconds",
        "For how long the job has waited that has waited longest, of those counted.",
        ["queue"],
    ),
    "tenant_queued": (
        "jobforge_tenant_queued_jobs",
        "Queued jobs of the tenants with most of them, and of all others.",
        ["tenant"],
    ),
    "dead": (
        "jobforge_unresolved_dead_jobs",
        "Dead jobs that nobody has retried or discarded.",
        [],
    ),
    "expired_leases": (
        "jobforge_expired_leases",
        "Running jobs whose worker has not been heard from in time.",
        [],
    ),
    "workers": ("jobforge_workers", "Workers by state.", ["state"]),
    "slots": ("jobforge_slots", "How many jobs all live workers run at once.", []),
    "schedule_lag": (
        "jobforge_schedule_lag_seconds",
        "For how long the schedule has been due that has been due longest.",
        [],
    ),
    "maintenance_age": (
        "jobforge_maintenance_age_seconds",
        "How long ago a scheduler began that maintenance task; statistics: every half a minute.",
        ["task"],
    ),
    "faulty_triggers": ("jobforge_faulty_triggers", "Triggers that cannot be read.", []),
    "pending_events": ("jobforge_pending_events", "Events that were not dispatched yet.", []),
    "event_lag": (
        "jobforge_event_lag_seconds",
        "For how long the event has waited that has waited longest.",
        [],
    ),
    "open_operations": ("jobforge_open_operations", "Bulk operations that have not ended.", []),
    "disabled_webhooks": (
        "jobforge_disabled_webhooks",
        "Endpoints that were disabled because they failed.",
        [],
    ),
    "table_bytes": ("jobforge_table_bytes", "Tables with their indexes.", ["table"]),
    "live_rows": ("jobforge_table_live_rows", "Live rows, as the statistics have it.", ["table"]),
    "dead_rows": ("jobforge_table_dead_rows", "Dead rows, as the statistics have it.", ["table"]),
    "days_ahead": (
        "jobforge_partition_days_ahead",
        "For how many days to come the history has partitions.",
        ["table"],
    ),
    "default_rows": (
        "jobforge_partition_default_rows",
        "1 if rows went into the default partition.",
        ["table"],
    ),
}
_COUNTERS: dict[str, tuple[str, str, list[str]]] = {
    "inserted": (
        "jobforge_inserted_rows",
        "Rows that were inserted, also by plain SQL; of jobs: those enqueued.",
        ["table"],
    ),
}


class MetricsCollector:
    def __init__(self, database: Database, request_metrics: RequestMetrics) -> None:
        self._database = database
        self._request_metrics = request_metrics
        self._lock = asyncio.Lock()
        self._cached: list[Metric] = []
        self._cached_at = 0.0

    async def render(self) -> bytes:
        async with self._lock:
            if time.monotonic() - self._cached_at > _FRESH_S:
                self._cached = [*await self._collect()]
                self._cached_at = time.monotonic()
        return prometheus.render_page([*self._cached, *self._request_metrics.families()])

    async def _collect(self) -> Iterator[Metric]:
        began = time.perf_counter()
        gauges = await self._database.run(calls.read_gauges(_MAX_TENANTS))
        vacuum_blockers = await self._database.run(probes.vacuum_blockers())
        took_s = time.perf_counter() - began
        return _build_families(gauges, vacuum_blockers, took_s)


def _build_families(
    gauges: Sequence[Gauge], vacuum_blockers: Sequence[VacuumBlocker], took_s: float
) -> Iterator[Metric]:
    by_name: dict[str, list[Gauge]] = {}
    for each in gauges:
        by_name.setdefault(each.gauge, []).append(each)
    for name, (metric, help_text, labels) in _GAUGES.items():
        gauge = GaugeMetricFamily(metric, help_text, labels=labels)
        for each in by_name.get(name, ()):
            gauge.add_metric(_labels(each), each.value)
        yield gauge
    for name, (metric, help_text, labels) in _COUNTERS.items():
        counter = CounterMetricFamily(metric, help_text, labels=labels)
        for each in by_name.get(name, ()):
            counter.add_metric(_labels(each), each.value)
        yield counter
    yield GaugeMetricFamily(
        "jobforge_horizon_transactions",
        "How many transactions ago the oldest snapshot was taken that this login sees.",
        max((each.age for each in vacuum_blockers), default=0),
    )
    yield GaugeMetricFamily(
        "jobforge_horizon_seconds",
        "For how long the oldest transaction has been open that this login sees.",
        max((each.seconds or 0.0 for each in vacuum_blockers), default=0.0),
    )
    yield GaugeMetricFamily("jobforge_scrape_seconds", "What asking the database took.", took_s)
    yield InfoMetricFamily(
        "jobforge_build", "The release of this server.", {"version": __version__}
    )


def _labels(gauge: Gauge) -> list[str]:
    return [value for value in (gauge.subject, gauge.state) if value is not None]

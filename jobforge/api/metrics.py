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
from jobforge.timing.ttl_cache import TtlCache
from jobforge.types.diagnostics import Gauge

_FRESH_S = 1.0
_MAX_TENANTS = 20  # with separate series; all others are summed

# By engine gauge: metric name, help text, and the labels for its subject and state.
_GAUGES: dict[str, tuple[str, str, list[str]]] = {
    "jobs": (
        "jobforge_jobs",
        "Number of jobs by queue and state; at most 20,000 queued jobs per queue are counted.",
        ["queue", "state"],
    ),
    "oldest_wait": (
        "jobforge_oldest_wait_seconds",
        "Age of the oldest counted queued job.",
        ["queue"],
    ),
    "tenant_queued": (
        "jobforge_tenant_queued_jobs",
        "Number of queued jobs by tenant, and of all other tenants together.",
        ["tenant"],
    ),
    "dead": (
        "jobforge_unresolved_dead_jobs",
        "Number of dead jobs that were not retried or discarded.",
        [],
    ),
    "expired_leases": (
        "jobforge_expired_leases",
        "Number of running jobs with expired leases.",
        [],
    ),
    "workers": ("jobforge_workers", "Number of workers by state.", ["state"]),
    "slots": ("jobforge_slots", "Total number of slots of live workers.", []),
    "schedule_lag": (
        "jobforge_schedule_lag_seconds",
        "Lag of the schedule that has been due longest.",
        [],
    ),
    "maintenance_age": (
        "jobforge_maintenance_age_seconds",
        "Time since a scheduler last started the maintenance task.",
        ["task"],
    ),
    "faulty_triggers": (
        "jobforge_faulty_triggers",
        "Number of triggers that were disabled because they are invalid.",
        [],
    ),
    "pending_events": (
        "jobforge_pending_events",
        "Number of events that are not dispatched yet.",
        [],
    ),
    "event_lag": (
        "jobforge_event_lag_seconds",
        "Age of the oldest event that is not dispatched yet.",
        [],
    ),
    "open_operations": ("jobforge_open_operations", "Number of unfinished bulk operations.", []),
    "disabled_webhooks": (
        "jobforge_disabled_webhooks",
        "Number of webhook endpoints that were disabled because their deliveries failed.",
        [],
    ),
    "table_bytes": (
        "jobforge_table_bytes",
        "Size of the table with its indexes and partitions.",
        ["table"],
    ),
    "live_rows": (
        "jobforge_table_live_rows",
        "Live rows, estimated from Postgres's statistics.",
        ["table"],
    ),
    "dead_rows": (
        "jobforge_table_dead_rows",
        "Dead rows, estimated from Postgres's statistics.",
        ["table"],
    ),
    "days_ahead": (
        "jobforge_partition_days_ahead",
        "Number of future days for which partitions exist.",
        ["table"],
    ),
    "default_rows": (
        "jobforge_partition_default_rows",
        "1 if rows are in the default partition.",
        ["table"],
    ),
}
_COUNTERS: dict[str, tuple[str, str, list[str]]] = {
    "inserted": (
        "jobforge_inserted_rows",
        "Number of inserted rows, also by plain SQL; for jobs: all enqueued jobs.",
        ["table"],
    ),
}


class MetricsCollector:
    def __init__(self, database: Database, request_metrics: RequestMetrics) -> None:
        self._database = database
        self._request_metrics = request_metrics
        self._lock = asyncio.Lock()
        self._families: TtlCache[None, list[Metric]] = TtlCache(_FRESH_S)

    async def render(self) -> bytes:
        async with self._lock:
            families = self._families.get(None)
            if families is None:
                families = self._families.put(None, [*await self._collect()])
        return prometheus.render_page([*families, *self._request_metrics.families()])

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
        "Age of the oldest snapshot visible to this login, in transactions.",
        max((each.age for each in vacuum_blockers), default=0),
    )
    yield GaugeMetricFamily(
        "jobforge_horizon_seconds",
        "Age of the oldest open transaction visible to this login.",
        max((each.seconds or 0.0 for each in vacuum_blockers), default=0.0),
    )
    yield GaugeMetricFamily(
        "jobforge_scrape_seconds", "Duration of the query for these metrics.", took_s
    )
    yield InfoMetricFamily("jobforge_build", "Release of this server.", {"version": __version__})


def _labels(gauge: Gauge) -> list[str]:
    return [value for value in (gauge.subject, gauge.state) if value is not None]

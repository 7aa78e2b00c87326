"""Workloads of the comparison by name: the function that measures, and the sides that take part."""

from collections.abc import Callable
from dataclasses import dataclass

import enqueue_throughput
import execution_throughput
import fairness
import pickup_latency
import resource_usage
import scaling
import start_cancel_recovery
from bench_servers import BenchServers
from compared_side import Side
from measurements import Measurements
from rivals.catalog import RIVALS
from run_sizes import Size

JOBFORGE, FLOOR = "jobforge", "floor"
DURABLE = frozenset(name for name, rival in RIVALS.items() if not rival.redis_key)


@dataclass(frozen=True, slots=True)
class Workload:
    """A function that measures, the sides, and the rounds where they differ from the run's."""

    measure: Callable[[BenchServers, Side, Size], Measurements]
    sides: frozenset[str]
    rounds: int | None = None


_ONLY_JOBFORGE = frozenset({JOBFORGE})
_ALL = frozenset({JOBFORGE, *RIVALS})
_ALL_AND_FLOOR = _ALL | {FLOOR}
_ON_POSTGRES = DURABLE | {JOBFORGE}
_ISOLATING = frozenset({JOBFORGE, "celery", "rq"})
_WITH_HISTORY = frozenset(name for name, rival in RIVALS.items() if rival.add_history_query)
_FASTEST = frozenset({JOBFORGE, "graphile-worker", "pg-boss", "pgqueuer"})

WORKLOADS = {
    "drain": Workload(execution_throughput.drain, _ALL_AND_FLOOR),
    "drain_by_two": Workload(execution_throughput.drain_by_two, _ALL_AND_FLOOR),
    "bulk": Workload(enqueue_throughput.bulk, _ALL_AND_FLOOR),
    "single": Workload(enqueue_throughput.single, _ALL_AND_FLOOR),
    "crowd": Workload(enqueue_throughput.crowd, _ALL_AND_FLOOR),
    "latency": Workload(pickup_latency.latency, _ALL),
    "steady_500": Workload(pickup_latency.steady_500, _ALL),
    "steady_2000": Workload(pickup_latency.steady_2000, _ALL),
    "isolated": Workload(execution_throughput.isolated, _ISOLATING),
    "cost": Workload(resource_usage.cost, _ON_POSTGRES | {FLOOR}),
    "start": Workload(start_cancel_recovery.start, _ALL),
    "tenants": Workload(scaling.tenants, _ONLY_JOBFORGE),
    "caps": Workload(fairness.caps, _ONLY_JOBFORGE),
    "connections": Workload(scaling.connections, frozenset({JOBFORGE, FLOOR})),
    "history": Workload(scaling.history, _ONLY_JOBFORGE | _WITH_HISTORY, rounds=5),
    "backlog": Workload(scaling.backlog, _ON_POSTGRES, rounds=5),
    "flood": Workload(fairness.flood, _ON_POSTGRES, rounds=5),
    "held_snapshot": Workload(scaling.held_snapshot, _FASTEST, rounds=5),
    "idle": Workload(resource_usage.idle, _ON_POSTGRES, rounds=1),
    "memory": Workload(resource_usage.memory, _ONLY_JOBFORGE, rounds=1),
    "cancel": Workload(start_cancel_recovery.cancel, _ONLY_JOBFORGE, rounds=1),
    "recovery": Workload(start_cancel_recovery.recovery, _ONLY_JOBFORGE, rounds=1),
}

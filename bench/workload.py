"""The workloads by name: what measures each, and which sides take part."""

from collections.abc import Callable
from dataclasses import dataclass

import enqueuing
import fairness
import growth
import interruption
import pace
import pickup
import usage
from measured import Measured
from rivals.table import RIVALS
from side import Side
from size import Size
from stage import Stage

OURS, FLOOR = "jobforge", "floor"
DURABLE = frozenset(name for name, rival in RIVALS.items() if not rival.key)


@dataclass(frozen=True, slots=True)
class Workload:
    """What to measure, of which sides, and how often where not as often as the run says."""

    measure: Callable[[Stage, Side, Size], Measured]
    of: frozenset[str]
    rounds: int | None = None


_ONLY_OURS = frozenset({OURS})
_ALL = frozenset({OURS, *RIVALS})
_ALL_AND_FLOOR = _ALL | {FLOOR}
_ON_POSTGRES = DURABLE | {OURS}
_ISOLATING = frozenset({OURS, "celery", "rq"})
_WITH_HISTORY = frozenset(name for name, rival in RIVALS.items() if rival.finished)
_SWIFT = frozenset({OURS, "graphile-worker", "pg-boss", "pgqueuer"})

WORKLOADS = {
    "drain": Workload(pace.drain, _ALL_AND_FLOOR),
    "drain_by_two": Workload(pace.drain_by_two, _ALL_AND_FLOOR),
    "bulk": Workload(enqueuing.bulk, _ALL_AND_FLOOR),
    "single": Workload(enqueuing.single, _ALL_AND_FLOOR),
    "crowd": Workload(enqueuing.crowd, _ALL_AND_FLOOR),
    "latency": Workload(pickup.latency, _ALL),
    "steady_500": Workload(pickup.steady_500, _ALL),
    "steady_2000": Workload(pickup.steady_2000, _ALL),
    "isolated": Workload(pace.isolated, _ISOLATING),
    "cost": Workload(usage.cost, _ON_POSTGRES | {FLOOR}),
    "start": Workload(interruption.start, _ALL),
    "tenants": Workload(growth.tenants, _ONLY_OURS),
    "caps": Workload(fairness.caps, _ONLY_OURS),
    "connections": Workload(growth.connections, frozenset({OURS, FLOOR})),
    "history": Workload(growth.history, _ONLY_OURS | _WITH_HISTORY, rounds=5),
    "backlog": Workload(growth.backlog, _ON_POSTGRES, rounds=5),
    "flood": Workload(fairness.flood, _ON_POSTGRES, rounds=5),
    "held_snapshot": Workload(growth.held_snapshot, _SWIFT, rounds=5),
    "idle": Workload(usage.idle, _ON_POSTGRES, rounds=1),
    "memory": Workload(usage.memory, _ONLY_OURS, rounds=1),
    "cancel": Workload(interruption.cancel, _ONLY_OURS, rounds=1),
    "recovery": Workload(interruption.recovery, _ONLY_OURS, rounds=1),
}

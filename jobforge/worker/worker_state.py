"""What the parts of a worker share: settings, slots, leases, and the jobs between two parts.

A part changes this state and wakes the part that continues:

    Claimer ──claimed──► Launcher ──► runners ──end_attempts──► outcomes ──► Settler
       ▲                                            │
       └──────────────── free slots ◄───────────────┘
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from jobforge.calls import Call
from jobforge.errors import ConfigError
from jobforge.observability import logs
from jobforge.observability.metrics import Meters
from jobforge.types.jobs import ClaimedJob
from jobforge.worker.claim_buffer import ClaimBuffer
from jobforge.worker.leases import LeaseTable
from jobforge.worker.notes import NoteBuffer
from jobforge.worker.outcome_reports import EndedRun
from jobforge.worker.runner_protocol import Report
from jobforge.worker.slots import Pacer, Slots

# The limits that the engine enforces.
_MAX_QUEUES = 100
_MAX_LEASE_S = 3600


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker. `queues` maps each queue to its slots."""

    queues: Mapping[str, int]
    lease_s: float = 30
    heartbeat_s: float = 10
    poll_s: float = 1
    drain_s: float = 30
    build: str | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError for settings with which the engine would reject every claim."""
        if not self.queues or min(self.queues.values()) < 1:
            raise ConfigError("A worker requires a queue, and each queue a slot", field="queues")
        if len(self.queues) > _MAX_QUEUES:
            raise ConfigError(f"A worker can serve at most {_MAX_QUEUES} queues", field="queues")
        if not 1 <= self.lease_s <= _MAX_LEASE_S:
            raise ConfigError(f"lease_s must be between 1 and {_MAX_LEASE_S}", field="lease_s")
        if self.heartbeat_s * 2 > self.lease_s:
            raise ConfigError("lease_s must be at least twice heartbeat_s", field="heartbeat_s")


class WorkerState:
    """The state of a worker, from its creation to its end."""

    registration: Call[None]  # sent again when the database has lost it

    def __init__(self, settings: WorkerSettings, meters: Meters | None = None) -> None:
        self.worker_id: UUID = uuid4()
        self.settings = settings
        self.meters = meters
        self.slots = Slots(settings.queues)
        self.leases = LeaseTable(settings.lease_s)
        self.claimed = ClaimBuffer(meters)
        self.notes = NoteBuffer()
        self.outcomes: deque[EndedRun] = deque()  # of attempts that have ended, to be settled
        self.wake_claimer = asyncio.Event()
        self.wake_launcher = asyncio.Event()
        self.wake_settler = asyncio.Event()
        self.wake_step_writer = asyncio.Event()
        self.wake_heartbeat = asyncio.Event()
        self.stopping = asyncio.Event()
        self.killing = asyncio.Event()
        self.changed = asyncio.Event()  # set when jobs end or outcomes are settled
        self._pacer = Pacer(self.slots, self.wake_claimer.set, self.wake_settler.set)

    def stop(self) -> None:
        """Stop claiming and drain the running jobs; a second call releases them to the queue."""
        if self.stopping.is_set():
            self.killing.set()
            self.changed.set()
        self.stopping.set()

    def end_attempts(self, ended: Sequence[tuple[ClaimedJob, Report]]) -> None:
        """Free the slots of attempts that have ended, and queue their outcomes.

        Those that ended at their start are passed together: they were never in the lease table.
        """
        if not ended:
            return
        ran_s = 0.0
        for job, report in ended:
            ran_s = self.add_outcome(job, report)
        self._pacer.record_ends(*(job.queue for job, _ in ended), ran_s=ran_s)
        self.changed.set()

    def add_outcome(self, job: ClaimedJob, report: Report) -> float:
        """Pass the job's lease and report to the settler; return its run time in seconds."""
        ran_s = self.leases.drop(job)
        if report.verdict is None:
            if self.meters is not None:
                self.meters.lost_leases += 1
            logs.emit("job.lost", level="warning", **logs.job_fields(job))
        else:
            self.outcomes.append((job, report, ran_s))
        return ran_s

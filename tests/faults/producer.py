"""An application that enqueues jobs, and repeats each enqueue until it is acknowledged."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID

from faults.oracle import Oracle

from jobforge import calls, db
from jobforge.errors import Contended, Unavailable
from jobforge.types.jobs import Enqueued, EnqueueStatus, JobRequest

TENANTS = [UUID(f"aaaaaaaa-0000-4000-8000-00000000000{n}") for n in range(3)]

# The pause after a refused enqueue, and the pause between two batches.
_PAUSE_S = 0.05
_PACE_S = 0.02
_GIVE_UP_S = 60.0


@dataclass(slots=True)
class Producer:
    """Enqueues jobs. Each has a key, so that an enqueue with an unknown result can be repeated."""

    url: str
    oracle: Oracle
    refused: int = 0
    existing: int = 0
    _batches: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _opened: ExitStack = field(default_factory=ExitStack)
    _conn: db.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._opened.close()

    def stop(self) -> None:
        self._over.set()

    def enqueue(self, jobs: Sequence[JobRequest]) -> list[UUID]:
        """Return when the jobs are acknowledged and the oracle has recorded them."""
        self._batches += 1
        tenant = TENANTS[self._batches % len(TENANTS)]
        keyed = [job._replace(key=f"{self._batches}-{number}") for number, job in enumerate(jobs)]
        answers = self._until_acknowledged(keyed, tenant)
        self.existing += sum(answer.status is EnqueueStatus.EXISTING for answer in answers)
        self.oracle.acknowledge(answer.job_id for answer in answers)
        return [answer.job_id for answer in answers]

    def keep_enqueuing(self, batch: Callable[[], Sequence[JobRequest]]) -> None:
        """Enqueue until `stop` is called; to be run in a separate thread."""
        while not self._over.wait(_PACE_S):
            if jobs := batch():
                self.enqueue(jobs)

    def _until_acknowledged(self, jobs: Sequence[JobRequest], tenant: UUID) -> list[Enqueued]:
        deadline = time.monotonic() + _GIVE_UP_S
        while True:
            try:
                if self._conn is None or self._conn.closed:
                    self._conn = self._opened.enter_context(db.connect(self.url))
                return db.run(self._conn, calls.enqueue_jobs(jobs, tenant_id=tenant))
            except (Unavailable, Contended):
                if time.monotonic() > deadline:
                    raise
                self.refused += 1
                self._opened.close()
                self._conn = None
                threading.Event().wait(_PAUSE_S)

"""Concurrent claimers, each in a thread with its own connection."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from uuid import UUID

from cluster import Connect, Connection
from sql.engine import Row, claim, complete, new_worker

# One iteration of a claimer: its number, its connection, its worker ID.
Turn = Callable[[int, Connection, UUID], bool]


@dataclass(slots=True)
class Tally:
    """The number of jobs done so far; a claimer that found no jobs waits here for a change."""

    wanted: int
    jobs: list[Row] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    @property
    def is_full(self) -> bool:
        return len(self.jobs) >= self.wanted

    def add(self, jobs: list[Row]) -> None:
        with self._news:
            self.jobs.extend(jobs)
            self._news.notify_all()

    def wait(self) -> None:
        """Wait until a claimer adds jobs, but not indefinitely: other sessions can also make jobs
        ready.
        """
        with self._news:
            if not self.is_full:
                self._news.wait(0.01)


class Fleet:
    """Several claimers, connected as workers are."""

    def __init__(self, connect: Connect, size: int = 8) -> None:
        self._claimers = [(connect("worker_login"), new_worker()) for _ in range(size)]

    def run(self, turn: Turn) -> None:
        """Call `turn` in each thread until it returns false.

        The first error of any thread ends them all.
        """
        deadline = time.monotonic() + 60
        failed = threading.Event()

        def work(number: int) -> None:
            conn, worker = self._claimers[number]
            try:
                while not failed.is_set() and turn(number, conn, worker):
                    assert time.monotonic() < deadline, "the claimers do not finish"
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(len(self._claimers)) as threads:
            for done in [threads.submit(work, n) for n in range(len(self._claimers))]:
                done.result()

    def drain(self, wanted: int, queue: str = "default") -> list[Row]:
        """Claim and complete until this many jobs are done; batch sizes differ between claimers."""
        tally = Tally(wanted)

        def turn(number: int, conn: Connection, worker: UUID) -> bool:
            jobs = claim(conn, worker, queue, limit=1 + number % 4)
            if not jobs:
                tally.wait()
                return not tally.is_full
            left = jobs
            while left:
                # A change of a limit may lock a job briefly: its worker sends the outcome again.
                status = {row["job_id"]: row["status"] for row in complete(conn, worker, left)}
                assert set(status.values()) <= {"ok", "busy"}
                left = [job for job in left if status[job["job_id"]] == "busy"]
            tally.add(jobs)
            return not tally.is_full

        self.run(turn)
        assert len({job["job_id"] for job in tally.jobs}) == len(tally.jobs), "a job ran twice"
        return tally.jobs

"""A worker in the test's event loop, its jobs, and their outcomes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from cluster import Connection, Database
from integration.call_setup import TENANT_A

from jobforge import Retry, calls, db
from jobforge.db import driver
from jobforge.scheduler.scheduler import Scheduler
from jobforge.sdk.app import JobForge
from jobforge.types.job_history import Attempt, JobHistory
from jobforge.types.jobs import JobRequest, Outcome, State
from jobforge.worker import Worker

# Short, so that several of them pass quickly; long compared with the pauses of a busy machine.
LEASE_S = 4.0
HEARTBEAT_S = 0.5


class WorkerHarness:
    """An app, its database, and workers for it. `conn` has the migrating superuser's login."""

    def __init__(self, database: Database, conn: Connection) -> None:
        self.app = JobForge(database.url)
        self.database = database
        self.conn = conn

    def worker(self, pool: db.Database, **options: Any) -> Worker:
        given = {"queues": {"default": 10}, "lease_s": LEASE_S, "heartbeat_s": HEARTBEAT_S}
        return Worker(self.app, pool, **{**given, **options})

    @asynccontextmanager
    async def running_worker(
        self,
        *,
        login: str = "worker_login",
        listens: bool = True,
        timeouts: driver.Timeouts = driver.DEFAULT_TIMEOUTS,
        **options: Any,
    ) -> AsyncIterator[Worker]:
        """Run a worker until the end of the block; then stop it, twice if necessary."""
        url = self.database.url_as(login)
        async with db.Database(url, size=2, behind_pooler=not listens, timeouts=timeouts) as pool:
            worker = self.worker(pool, **options)
            running = asyncio.create_task(worker.run())
            try:
                await eventually(lambda: running.done() or worker.is_running)
                yield worker
            finally:
                worker.stop()
                worker.stop()
                await running

    def register(self) -> None:
        for call in self.app.registrations():
            db.run(self.conn, call)

    def enqueue(self, definition: str, payload: dict[str, Any] | None = None, **more: Any) -> UUID:
        request = JobRequest(definition, payload or {}, **more)
        return db.run(self.conn, calls.enqueue_job(request, tenant_id=TENANT_A)).job_id

    def history(self, job_id: UUID) -> JobHistory:
        return db.run(self.conn, calls.get_job(job_id, tenant_id=TENANT_A))

    def state(self, job_id: UUID) -> State:
        return self.history(job_id).job.state

    def attempts(self, job_id: UUID) -> list[Attempt]:
        return self.history(job_id).attempts

    def outcomes(self, job_id: UUID) -> list[Outcome | None]:
        return [attempt.outcome for attempt in self.attempts(job_id)]

    async def wait_for_state(self, job_id: UUID, state: State = State.SUCCEEDED) -> JobHistory:
        """Wait until the job is in this state, and return its history."""
        await eventually(lambda: self.state(job_id) is state)
        return self.history(job_id)


@asynccontextmanager
async def running_scheduler(database: Database, **settings: Any) -> AsyncIterator[None]:
    """Run a scheduler until the end of the block."""
    async with db.Database(database.url_as("worker_login")) as pool, asyncio.TaskGroup() as group:
        scheduler = Scheduler(pool, **settings)
        group.create_task(scheduler.run())
        try:
            yield
        finally:
            scheduler.stop()


class WaitingJobs:
    """The definition `wait`, whose jobs wait for `may_end`, and whose retries come late."""

    def __init__(self, harness: WorkerHarness) -> None:
        self.may_end = asyncio.Event()
        self.running = 0
        self.cancelled = 0

        @harness.app.job(isolation="inline", retry=Retry(base=3600))
        async def wait() -> None:
            self.running += 1
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise

        harness.register()


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a condition like cluster.wait_until, without blocking the loop."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - no signal exists for a condition of the database
            await asyncio.sleep(0.005)


def allow_connections(conn: Connection, *, are_allowed: bool) -> None:
    """Allow or forbid connections to the test's database."""
    conn.execute(
        "update pg_database set datallowconn = %s where datname = current_database()", [are_allowed]
    )


def cut_connections(conn: Connection) -> None:
    """End every other connection to the test's database."""
    conn.execute(
        """
        select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()
        """
    )

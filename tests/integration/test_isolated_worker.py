"""Isolated jobs with a real worker and database: what is recorded of them."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cluster import Connection, Database
from integration.isolation_rig import APP, COMMANDS, live_processes_of
from integration.worker_harness import WorkerHarness, eventually

from jobforge import calls, db
from jobforge.sdk.loader import load_app
from jobforge.types.job_history import Attempt, JobHistory
from jobforge.types.jobs import Outcome, State
from jobforge.worker import Worker
from jobforge.worker.isolation.runner import ProcessRunner
from jobforge.worker.runner_protocol import JobServices

pytestmark = pytest.mark.anyio


@pytest.fixture
async def harness(database: Database, conn: Connection) -> WorkerHarness:
    created = WorkerHarness(database, conn)
    created.app = load_app(APP)
    created.register()
    return created


@asynccontextmanager
async def _working(harness: WorkerHarness, login: str = "worker_login") -> AsyncIterator[Worker]:
    def isolated(host: JobServices) -> ProcessRunner:
        return ProcessRunner(
            APP, host, environment=os.environ, allowed_commands=COMMANDS, isolation_level="process"
        )

    async with harness.running_worker(login=login, runners={"process": isolated}) as worker:
        yield worker


async def _last(
    harness: WorkerHarness, definition: str, **payload: Any
) -> tuple[JobHistory, Attempt]:
    """Return a job with a single attempt, after its end."""
    job_id = harness.enqueue(definition, payload, max_attempts=1)
    ends = {State.SUCCEEDED, State.DEAD, State.CANCELED}
    await eventually(lambda: harness.state(job_id) in ends)
    history = harness.history(job_id)
    return history, history.attempts[-1]


async def test_the_end_of_each_process_is_recorded(harness: WorkerHarness) -> None:
    async with _working(harness):
        history, attempt = await _last(harness, "tell")
        assert history.job.state is State.SUCCEEDED
        assert (attempt.stdout_tail, attempt.stderr_tail) == ("to stdout\n", "to stderr\n")
        assert attempt.exit_code == 0
        assert attempt.pid
        assert attempt.peak_memory_bytes
        assert [event.kind for event in history.events].count("progress") == 1

        history, attempt = await _last(harness, "segfault")
        assert history.job.state is State.DEAD
        assert (attempt.outcome, attempt.exit_code) == (Outcome.CRASHED, -signal.SIGSEGV)

        _, attempt = await _last(harness, "take_memory", size=512)
        assert attempt.outcome is Outcome.CRASHED
        assert attempt.error is not None
        assert attempt.error["reason"] == "memory"

        history, attempt = await _last(harness, "leave")
        assert (attempt.outcome, attempt.exit_code) == (Outcome.FAILED, 7)

        history, _ = await _last(harness, "say", first="a", second=1)
        assert history.job.result == {"exit_code": 0}


async def test_a_cancel_request_stops_a_process(harness: WorkerHarness) -> None:
    async with _working(harness):
        job_id = harness.enqueue("heed_by_check")
        await eventually(lambda: _has_said(harness.history(job_id)))
        db.run(
            harness.conn, calls.cancel_job(job_id, tenant_id=harness.history(job_id).job.tenant_id)
        )
        await harness.wait_for_state(job_id, State.CANCELED)
        assert harness.outcomes(job_id) == [Outcome.CANCELED]


async def test_a_timeout_stops_a_process(harness: WorkerHarness) -> None:
    async with _working(harness):
        job_id = harness.enqueue("resist", max_attempts=1, timeout_s=1)
        await harness.wait_for_state(job_id, State.DEAD)
        assert harness.outcomes(job_id) == [Outcome.TIMED_OUT]


async def test_a_stopped_worker_releases_its_isolated_jobs(harness: WorkerHarness) -> None:
    async with _working(harness):
        job_id = harness.enqueue("wait_blindly")
        await eventually(lambda: _has_said(harness.history(job_id)))
        mark = f"{job_id}.{harness.history(job_id).job.lease}"
        assert live_processes_of(mark)
    assert harness.state(job_id) is State.QUEUED
    assert harness.outcomes(job_id) == [Outcome.RELEASED]
    await eventually(lambda: not live_processes_of(mark))


@pytest.mark.attack("log floods")
async def test_a_constant_flood_of_log_lines_does_not_delay_other_jobs(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    async with _working(harness):
        flooder = harness.enqueue("log_until", {"file": str(tmp_path / "enough")})
        await eventually(lambda: _lines(harness, flooder) > 0)
        quiet = harness.enqueue("log_lines", {"count": 200})
        await harness.wait_for_state(quiet, State.SUCCEEDED)
        assert harness.state(flooder) is State.RUNNING
        (tmp_path / "enough").touch()
        await harness.wait_for_state(flooder, State.SUCCEEDED)
    assert _lines(harness, quiet) == 200


def _lines(harness: WorkerHarness, job_id: UUID) -> int:
    """Return the number of stored log lines."""
    query = "select from jobforge.job_events where job_id = %s and kind = 'log'"
    return harness.conn.execute(query, [job_id]).rowcount


def _has_said(history: JobHistory) -> bool:
    return any(event.kind == "progress" for event in history.events)


async def test_a_refused_enqueue_names_the_option_as_the_job_wrote_it(
    harness: WorkerHarness,
) -> None:
    async with _working(harness, login="server_login"):
        _, attempt = await _last(harness, "enqueue_for_long", timeout=10**9)
    assert attempt.error is not None
    assert attempt.error["message"].startswith("timeout must be between")

"""Processes under the real worker and a real database: what is recorded of them."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cluster import Connection, Database
from integration.isolation_rig import APP, COMMANDS, living_of
from integration.worker_harness import Workshop, eventually

from jobforge import calls, db
from jobforge.sdk.loader import load_app
from jobforge.types.job_history import Attempt, JobHistory
from jobforge.types.jobs import Outcome, State
from jobforge.worker import Worker
from jobforge.worker.isolation.runner import ProcessRunner
from jobforge.worker.runner import JobServices

pytestmark = pytest.mark.anyio


@pytest.fixture
async def shop(database: Database, conn: Connection) -> Workshop:
    made = Workshop(database, conn)
    made.app = load_app(APP)
    made.register()
    return made


@asynccontextmanager
async def _working(shop: Workshop, login: str = "worker_login") -> AsyncIterator[Worker]:
    def isolated(host: JobServices) -> ProcessRunner:
        return ProcessRunner(
            APP, host, environment=os.environ, allowed_commands=COMMANDS, isolation_level="process"
        )

    async with shop.working(login=login, runners={"process": isolated}) as worker:
        yield worker


async def _last(shop: Workshop, definition: str, **payload: Any) -> tuple[JobHistory, Attempt]:
    """A job that has one attempt only, after its end."""
    job_id = shop.enqueue(definition, payload, max_attempts=1)
    ends = {State.SUCCEEDED, State.DEAD, State.CANCELED}
    await eventually(lambda: shop.state(job_id) in ends)
    history = shop.history(job_id)
    return history, history.attempts[-1]


async def test_what_became_of_each_process_is_recorded(shop: Workshop) -> None:
    async with _working(shop):
        history, attempt = await _last(shop, "tell")
        assert history.job.state is State.SUCCEEDED
        assert (attempt.stdout_tail, attempt.stderr_tail) == ("to stdout\n", "to stderr\n")
        assert attempt.exit_code == 0
        assert attempt.pid
        assert attempt.peak_memory_bytes
        assert [event.kind for event in history.events].count("progress") == 1

        history, attempt = await _last(shop, "segfault")
        assert history.job.state is State.DEAD
        assert (attempt.outcome, attempt.exit_code) == (Outcome.CRASHED, -signal.SIGSEGV)

        _, attempt = await _last(shop, "take_memory", size=512)
        assert attempt.outcome is Outcome.CRASHED
        assert attempt.error is not None
        assert attempt.error["reason"] == "memory"

        history, attempt = await _last(shop, "leave")
        assert (attempt.outcome, attempt.exit_code) == (Outcome.FAILED, 7)

        history, _ = await _last(shop, "say", first="a", second=1)
        assert history.job.result == {"exit_code": 0}


async def test_a_cancel_reaches_a_process(shop: Workshop) -> None:
    async with _working(shop):
        job_id = shop.enqueue("heed_by_check")
        await eventually(lambda: _has_said(shop.history(job_id)))
        db.run(shop.conn, calls.cancel_job(job_id, tenant_id=shop.history(job_id).job.tenant_id))
        await shop.ended(job_id, State.CANCELED)
        assert shop.outcomes(job_id) == [Outcome.CANCELED]


async def test_a_timeout_reaches_a_process(shop: Workshop) -> None:
    async with _working(shop):
        job_id = shop.enqueue("resist", max_attempts=1, timeout_s=1)
        await shop.ended(job_id, State.DEAD)
        assert shop.outcomes(job_id) == [Outcome.TIMED_OUT]


async def test_a_killed_worker_hands_back_its_processes(shop: Workshop) -> None:
    async with _working(shop):
        job_id = shop.enqueue("wait_blindly")
        await eventually(lambda: _has_said(shop.history(job_id)))
        mark = f"{job_id}.{shop.history(job_id).job.lease}"
        assert living_of(mark)
    assert shop.state(job_id) is State.QUEUED
    assert shop.outcomes(job_id) == [Outcome.RELEASED]
    await eventually(lambda: not living_of(mark))


@pytest.mark.attack("starvation")
async def test_a_constant_flood_of_log_lines_keeps_no_other_job_from_ending(
    shop: Workshop, tmp_path: Path
) -> None:
    async with _working(shop):
        flooder = shop.enqueue("log_until", {"file": str(tmp_path / "enough")})
        await eventually(lambda: _lines(shop, flooder) > 0)
        quiet = shop.enqueue("log_lines", {"count": 200})
        await shop.ended(quiet, State.SUCCEEDED)
        assert shop.state(flooder) is State.RUNNING
        (tmp_path / "enough").touch()
        await shop.ended(flooder, State.SUCCEEDED)
    assert _lines(shop, quiet) == 200


def _lines(shop: Workshop, job_id: UUID) -> int:
    """The number of stored log lines."""
    query = "select from jobforge.job_events where job_id = %s and kind = 'log'"
    return shop.conn.execute(query, [job_id]).rowcount


def _has_said(history: JobHistory) -> bool:
    return any(event.kind == "progress" for event in history.events)


async def test_what_a_job_may_not_enqueue_is_named_as_it_was_given(shop: Workshop) -> None:
    async with _working(shop, login="server_login"):
        _, attempt = await _last(shop, "enqueue_for_long", timeout=10**9)
    assert attempt.error is not None
    assert attempt.error["message"].startswith("timeout must lie between")

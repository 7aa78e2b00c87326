"""Wait for an enqueued job."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from cluster import Connection, Database
from integration.call_setup import TENANT_A, TENANT_B, WORKER, report
from integration.test_sdk_enqueue import register

from jobforge import Handle, JobForge, calls, db, errors
from jobforge.types.job_history import JobEvent
from jobforge.types.jobs import ClaimedJob, EnqueueStatus, Note, Outcome, State

pytestmark = pytest.mark.anyio

Finish = Callable[..., None]
Write = Callable[..., None]


@pytest.fixture(params=["service_login", "client_login"])
def jf(request: pytest.FixtureRequest, database: Database) -> Iterator[JobForge]:
    app = JobForge(database.url_as(request.param), tenant=TENANT_A)

    @app.job
    def due() -> list[date]: ...  # type: ignore[empty-body] # only its type counts

    register(app, database)
    yield app
    app.close()


@pytest.fixture
async def ajf(jf: JobForge) -> AsyncIterator[JobForge]:
    yield jf
    await jf.aclose()


@dataclass(slots=True)
class SoleWorker:
    """Claims the only job once it needs it."""

    conn: psycopg.Connection[Any]
    job: ClaimedJob | None = None

    def claim(self) -> ClaimedJob:
        if self.job is None:
            (self.job,) = db.run(self.conn, calls.claim_jobs(WORKER, {"default": 5}))
        return self.job

    def finish(self, outcome: Outcome = Outcome.SUCCEEDED, **more: Any) -> None:
        """Report the outcome of the job."""
        job, self.job = self.claim(), None
        db.run(self.conn, calls.complete_jobs(WORKER, [report(job, outcome, **more)]))

    def write(self, *lines: tuple[str, str]) -> None:
        """Write notes of these kinds and texts."""
        job = self.claim()
        notes = [Note(*job.token, kind, {"message": text}) for kind, text in lines]
        db.run(self.conn, calls.note_jobs(WORKER, notes))


@pytest.fixture
def worker(database: Database) -> Iterator[SoleWorker]:
    with db.connect(database.url_as("worker_login")) as conn:
        yield SoleWorker(conn)


@pytest.fixture
def finish(worker: SoleWorker) -> Finish:
    return worker.finish


@pytest.fixture
def write(worker: SoleWorker) -> Write:
    return worker.write


LINES = [("log", "one"), ("progress", "half"), ("log", "two"), ("log", "three")]
DEAD = {"error": {"type": "KeyError", "message": "no such month"}, "final": True}


def enqueue(jf: JobForge) -> Handle[list[date]]:
    return jf.definitions["due"].enqueue()


def test_a_result_is_returned_with_its_type(jf: JobForge, finish: Finish) -> None:
    handle = enqueue(jf)
    finish(result=["2030-01-02"])
    assert handle.result(timeout=30) == [date(2030, 1, 2)]
    assert handle.wait().state is State.SUCCEEDED


async def test_async_code_gets_the_same_result(ajf: JobForge, finish: Finish) -> None:
    handle = await ajf.definitions["due"].aenqueue()
    await asyncio.to_thread(finish, result=["2030-01-02"])
    assert await handle.aresult(timeout=30) == [date(2030, 1, 2)]
    assert (await handle.await_()).id == handle.id


def test_waiting_ends_when_the_job_does(jf: JobForge, finish: Finish) -> None:
    handle = enqueue(jf)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(handle.result, 60)
        finish(result=[])
        assert waiting.result() == []


def test_a_dead_job_raises_with_its_error(jf: JobForge, finish: Finish) -> None:
    handle = enqueue(jf)
    finish(Outcome.FAILED, error={"type": "KeyError", "message": "no such month"}, final=True)
    with pytest.raises(errors.JobFailed, match="no such month") as failure:
        handle.result()
    assert failure.value.detail["state"] == "dead"
    assert failure.value.detail["error"]["type"] == "KeyError"
    assert handle.wait().state is State.DEAD


def test_a_canceled_job_raises_with_its_reason(jf: JobForge, conn: Connection) -> None:
    handle = enqueue(jf)
    conn.execute("select jobforge.cancel_job(%s, 'not now', %s)", [handle.id, TENANT_A])
    with pytest.raises(errors.JobFailed, match="not now") as failure:
        handle.result()
    assert failure.value.detail["state"] == "canceled"


def test_a_wait_for_an_unfinished_job_times_out(jf: JobForge) -> None:
    handle = enqueue(jf)
    with pytest.raises(errors.WaitTimeout):
        handle.wait(timeout=0)
    with pytest.raises(errors.WaitTimeout):
        handle.result(timeout=0.05)
    assert handle.job().state is State.QUEUED


async def test_async_code_times_out_too(ajf: JobForge) -> None:
    handle = await ajf.definitions["due"].aenqueue()
    with pytest.raises(errors.WaitTimeout):
        await handle.aresult(timeout=0.05)
    assert (await handle.ajob()).state is State.QUEUED


def test_a_result_of_another_type_is_an_error(jf: JobForge, finish: Finish) -> None:
    handle = enqueue(jf)
    finish(result="soon")
    with pytest.raises(errors.Invalid) as refusal:
        handle.result()
    assert refusal.value.field == "result"


def test_a_job_of_an_open_transaction_is_not_found(jf: JobForge) -> None:
    with jf.transaction() as tx:
        handle = jf.definitions["due"].using(conn=tx).enqueue()
        with pytest.raises(errors.NotFound):
            handle.wait(timeout=0)
    assert handle.job().state is State.QUEUED


def test_a_handle_reads_only_jobs_of_its_tenant(jf: JobForge) -> None:
    handle = enqueue(jf)
    handle.tenant_id = TENANT_B
    with pytest.raises(errors.NotFound):
        handle.job()


def test_a_handle_by_id_returns_the_job_and_its_stored_result(jf: JobForge, finish: Finish) -> None:
    enqueued = enqueue(jf)
    handle = jf.job_of(enqueued.id)
    assert (handle.tenant_id, handle.status) == (TENANT_A, EnqueueStatus.EXISTING)
    assert handle.job().state is State.QUEUED
    finish(result=["2030-01-02"])
    assert handle.wait(timeout=30).state is State.SUCCEEDED
    assert handle.result() == ["2030-01-02"]
    with pytest.raises(errors.NotFound):
        jf.job_of(uuid4()).job()
    with pytest.raises(errors.NotFound):
        jf.job_of(enqueued.id, tenant=TENANT_B).job()


def test_a_handle_reschedules_explains_and_cancels_its_job(jf: JobForge) -> None:
    handle = enqueue(jf)
    later = datetime.now(UTC) + timedelta(days=1)
    assert handle.reschedule(later) is State.SCHEDULED
    assert (handle.job().run_at, handle.explain()[0].code) == (later, "scheduled")
    assert handle.reschedule(None) is State.QUEUED
    with pytest.raises(errors.Invalid):
        handle.reschedule(later.replace(tzinfo=None))
    assert jf.job_of(handle.id).cancel("not now") is State.CANCELED
    assert handle.job().cancel_reason == "not now"
    with pytest.raises(errors.Conflict):
        handle.reschedule(later)


def test_a_retry_revives_a_dead_job_under_its_own_handle(jf: JobForge, finish: Finish) -> None:
    handle = enqueue(jf)
    with pytest.raises(errors.Conflict):
        handle.retry()
    finish(Outcome.FAILED, **DEAD)
    assert handle.retry(attempts=2) is handle
    finish(result=["2030-01-02"])
    assert handle.result(timeout=30) == [date(2030, 1, 2)]


def test_a_retry_of_a_finished_job_returns_the_handle_of_a_new_job(
    jf: JobForge, finish: Finish
) -> None:
    handle = enqueue(jf)
    finish(result=[])
    again = handle.retry()
    assert (again.id != handle.id, again.status) == (True, EnqueueStatus.CREATED)
    finish(result=["2030-01-02"])
    assert again.result(timeout=30) == [date(2030, 1, 2)]
    assert handle.result() == []


def test_the_log_lines_of_a_job_are_listed_in_pages(jf: JobForge, write: Write) -> None:
    handle = enqueue(jf)
    write(*LINES)
    first = handle.logs(limit=2)
    rest = handle.logs(after=first[-1].at)
    assert [line.data["message"] for line in (*first, *rest)] == ["one", "two", "three"]


async def test_async_code_has_the_same_actions(ajf: JobForge, finish: Finish) -> None:
    handle = await ajf.ajob_of((await ajf.definitions["due"].aenqueue()).id)
    assert await handle.areschedule(datetime.now(UTC) + timedelta(days=1)) is State.SCHEDULED
    assert (await handle.aexplain())[0].code == "scheduled"
    assert await handle.areschedule(None) is State.QUEUED
    await asyncio.to_thread(finish, Outcome.FAILED, **DEAD)
    assert await handle.aretry() is handle
    assert await handle.acancel() is State.CANCELED
    assert await handle.alogs() == []


def texts(events: Iterable[JobEvent]) -> list[tuple[str, str]]:
    return [(each.kind, each.data.get("message") or each.data["state"]) for each in events]


def test_following_a_finished_job_replays_it_and_ends(
    jf: JobForge, write: Write, finish: Finish
) -> None:
    handle = enqueue(jf)
    write(*LINES)
    finish()
    events = list(handle.follow())
    assert texts(events) == [*LINES, ("end", "succeeded")]
    assert events[-1].at == handle.job().finished_at
    assert texts(handle.follow(after=events[1].at)) == [*LINES[2:], ("end", "succeeded")]
    assert texts(jf.job_of(handle.id).follow(after=events[-1].at)) == [("end", "succeeded")]


def test_a_running_job_is_followed_until_it_dies(
    jf: JobForge, write: Write, finish: Finish
) -> None:
    handle = enqueue(jf)
    following = handle.follow()
    write(LINES[0])
    assert texts([next(following)]) == LINES[:1]
    write(*LINES[1:])
    assert texts([next(following)]) == LINES[1:2]
    finish(Outcome.FAILED, **DEAD)
    assert texts(following) == [*LINES[2:], ("end", "dead")]


def test_a_job_that_does_not_exist_is_not_followed(jf: JobForge) -> None:
    with pytest.raises(errors.NotFound):
        next(jf.job_of(uuid4()).follow())
    with pytest.raises(errors.Invalid):
        next(jf.job_of(uuid4()).follow(after=datetime.now()))  # noqa: DTZ005 - without a time zone


async def test_async_code_follows_a_job_too(ajf: JobForge, write: Write, finish: Finish) -> None:
    handle = await ajf.definitions["due"].aenqueue()
    following = handle.afollow()
    await asyncio.to_thread(write, *LINES)
    assert texts([await anext(following) for _ in LINES]) == LINES
    await asyncio.to_thread(finish)
    assert texts([each async for each in following]) == [("end", "succeeded")]

"""Wait for an enqueued job."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pytest
from cluster import Connection, Database
from integration.call_setup import TENANT_A, TENANT_B, WORKER, report
from integration.test_sdk_enqueue import register

from jobforge import Handle, JobForge, calls, db, errors
from jobforge.types.jobs import Outcome, State

pytestmark = pytest.mark.anyio

Finish = Callable[..., None]


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


@pytest.fixture
def finish(database: Database) -> Iterator[Finish]:
    """Return a function that claims the only job and reports its outcome."""
    with db.connect(database.url_as("worker_login")) as conn:

        def finish(outcome: Outcome = Outcome.SUCCEEDED, **more: Any) -> None:
            (job,) = db.run(conn, calls.claim_jobs(WORKER, {"default": 5}))
            db.run(conn, calls.complete_jobs(WORKER, [report(job, outcome, **more)]))

        yield finish


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

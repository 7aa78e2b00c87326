"""The proxy works as its names say, so that the tests that use it can be trusted."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from faults.proxy import Cut, Loss, Proxy

from jobforge import calls, db
from jobforge.errors import Unavailable, UnknownDefinition
from jobforge.types.jobs import EnqueueStatus, JobRequest, Outcome, OutcomeReport, State

TENANT = UUID("aaaaaaaa-0000-4000-8000-000000000001")
A_JOB = JobRequest("test", {"n": 1}, key="one")


@pytest.fixture
def proxy(database: Database, conn: Connection) -> Iterator[Proxy]:
    conn.execute("select jobforge.put_definition('test', 1)")
    with Proxy(database) as opened:
        yield opened


def _keys(conn: Connection) -> list[str]:
    rows = conn.execute("select idempotency_key from jobforge.jobs").fetchall()
    return [row["idempotency_key"] for row in rows]


def test_without_a_fault_everything_is_forwarded(proxy: Proxy) -> None:
    with db.connect(proxy.url("service_login")) as client:
        enqueued = db.run(client, calls.enqueue_job(A_JOB, tenant_id=TENANT))
        assert db.run(client, calls.get_job(enqueued.job_id, tenant_id=TENANT)).job.payload


def test_a_cut_reply_leaves_the_work_done_and_the_client_without_a_response(
    proxy: Proxy, conn: Connection
) -> None:
    proxy.cuts = (Cut("enqueue_job"),)
    with db.connect(proxy.url("service_login")) as client, pytest.raises(Unavailable):
        db.run(client, calls.enqueue_job(A_JOB, tenant_id=TENANT))
    assert proxy.count("enqueue_job") == 1
    assert _keys(conn) == ["one"]


def test_a_cut_request_leaves_nothing_done(proxy: Proxy, conn: Connection) -> None:
    proxy.cuts = (Cut("enqueue_job", Loss.REQUEST),)
    with db.connect(proxy.url("service_login")) as client, pytest.raises(Unavailable):
        db.run(client, calls.enqueue_job(A_JOB, tenant_id=TENANT))
    assert proxy.count("enqueue_job", Loss.REQUEST) == 1
    assert _keys(conn) == []


def test_the_reply_to_a_statement_that_is_prepared_already_is_cut_too(
    proxy: Proxy, conn: Connection
) -> None:
    with db.connect(proxy.url("service_login")) as client:
        for n in range(8):  # the driver prepares a statement that it has sent five times
            job = A_JOB._replace(key=str(n))
            db.run(client, calls.enqueue_job(job, tenant_id=TENANT))
        proxy.cuts = (Cut("enqueue_job"),)
        with pytest.raises(Unavailable):
            db.run(client, calls.enqueue_job(A_JOB, tenant_id=TENANT))
    assert "one" in _keys(conn)


def test_the_reply_to_a_commit_is_cut(proxy: Proxy, conn: Connection) -> None:
    proxy.cuts = (Cut("commit"),)
    with (
        db.connect(proxy.url("client_login")) as client,
        pytest.raises(Unavailable),
        db.tenant(client, TENANT),
    ):
        db.run(client, calls.enqueue_job(A_JOB))
    assert proxy.count("commit") == 1
    assert _keys(conn) == ["one"]


def test_a_statement_that_fails_is_not_cut(proxy: Proxy, conn: Connection) -> None:
    proxy.cuts = (Cut("enqueue_job"),)
    with db.connect(proxy.url("service_login")) as client:
        with pytest.raises(UnknownDefinition):
            db.run(client, calls.enqueue_job(JobRequest("nobody"), tenant_id=TENANT))
        assert not client.closed
    assert proxy.seen == {}
    assert _keys(conn) == []


def test_reset_ends_connections_and_new_ones_are_accepted(proxy: Proxy) -> None:
    with db.connect(proxy.url("service_login")) as client:
        client.execute("select 1")
        proxy.reset()
        with pytest.raises(Unavailable):
            db.run(client, calls.enqueue_job(A_JOB, tenant_id=TENANT))
    with db.connect(proxy.url("service_login")) as client:
        db.run(client, calls.enqueue_job(A_JOB, tenant_id=TENANT))


def test_data_sent_during_a_stall_arrives_after_it(proxy: Proxy, conn: Connection) -> None:
    with db.connect(proxy.url("worker_login")) as client, ThreadPoolExecutor(1) as thread:
        with proxy.stalled():
            put = thread.submit(db.run, client, calls.put_definition("stalled", 1))
            with pytest.raises(TimeoutError):
                put.result(0.1)
            assert conn.execute("select from jobforge.definitions").rowcount == 1
        put.result(10)
    assert conn.execute("select from jobforge.definitions").rowcount == 2


def test_latency_delays_a_response_by_at_least_that_time(proxy: Proxy) -> None:
    with db.connect(proxy.url("service_login")) as client:
        proxy.latency_s = 0.05
        before = time.monotonic()
        client.execute("select 1")
        assert time.monotonic() - before >= 0.05


def test_an_enqueue_repeated_with_its_key_after_a_cut_returns_the_same_job(
    proxy: Proxy, conn: Connection
) -> None:
    proxy.cuts = (Cut("enqueue_job"),)
    with db.connect(proxy.url("service_login")) as client, pytest.raises(Unavailable):
        db.run(client, calls.enqueue_job(A_JOB, tenant_id=TENANT))
    proxy.cuts = ()
    with db.connect(proxy.url("service_login")) as client:
        again = db.run(client, calls.enqueue_job(A_JOB, tenant_id=TENANT))
    [row] = conn.execute("select id from jobforge.jobs").fetchall()
    assert again == (row["id"], EnqueueStatus.EXISTING)


def test_a_completion_repeated_after_a_cut_is_ok_and_recorded_once(
    proxy: Proxy, conn: Connection
) -> None:
    worker = uuid4()
    with db.connect(proxy.url("service_login")) as client:
        job_id = db.run(client, calls.enqueue_job(A_JOB, tenant_id=TENANT)).job_id
    with db.connect(proxy.url("worker_login")) as client:
        [job] = db.run(client, calls.claim_jobs(worker, {"default": 1}))
        report = OutcomeReport(*job.token, Outcome.SUCCEEDED, job.started_at)
        proxy.cuts = (Cut("complete_jobs"),)
        with pytest.raises(Unavailable):
            db.run(client, calls.complete_jobs(worker, [report]))
    proxy.cuts = ()
    with db.connect(proxy.url("worker_login")) as client:
        [settled] = db.run(client, calls.complete_jobs(worker, [report]))
    assert settled == (job_id, job.lease, "ok", None)
    [row] = conn.execute("select state from jobforge.finished_jobs").fetchall()
    assert State(row["state"]) is State.SUCCEEDED
    assert conn.execute("select from jobforge.all_attempts").rowcount == 1

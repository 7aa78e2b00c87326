"""Only the holder of the current lease changes a job, and its answer matches the record."""

from collections.abc import Iterator
from contextlib import closing
from uuid import UUID

import pytest
from cluster import Clock, Connect, Connection, Database, connect_to, fresh_database
from sql.background_call import in_background, wait_until_blocked
from sql.engine import (
    TENANT_A,
    call,
    complete,
    definition,
    enqueue,
    heartbeat,
    new_worker,
    reap,
    refused,
    release,
    state_of,
    token,
)
from sql.settlement import (
    OUTCOMES,
    check_a_late_heartbeat,
    check_a_late_settlement,
    claim_and_reap_job,
    claim_job,
    read_record,
    recorded_as,
    settle,
)
from sql.uncached_claim import claim

from jobforge.embedded import PostgresServer

# One database for all tests: each deletes the rows of the previous one, but the clock keeps its
# offset.


@pytest.fixture(scope="module")
def database(server: PostgresServer) -> Iterator[Database]:
    with fresh_database(server) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def clock(database: Database) -> Iterator[Clock]:
    with closing(connect_to(database.url)) as conn:
        yield Clock(conn)


@pytest.fixture
def worker(conn: Connection) -> UUID:
    conn.execute("delete from jobforge.jobs")
    definition(conn)
    return new_worker()


def connect_without_waiting(connect: Connect) -> Connection:
    """A session whose statements fail when they wait for a lock."""
    session = connect()
    session.execute("set lock_timeout = '1ms'")
    return session


# A repeated completion: the reply to the first may have been lost.


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_repeated_completion_returns_ok_and_changes_nothing(
    conn: Connection, worker: UUID, outcome: str
) -> None:
    job = claim_job(conn, worker)
    assert settle(conn, worker, job, outcome) == ["ok"]
    before = read_record(conn, job)
    assert settle(conn, worker, job, outcome) == ["ok"]
    assert read_record(conn, job) == before


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_repeated_completion_is_busy_until_the_first_commits_and_ok_afterwards(
    conn: Connection, connect: Connect, worker: UUID, outcome: str
) -> None:
    job = claim_job(conn, worker)
    first, again = connect(autocommit=False), connect_without_waiting(connect)
    settle(first, worker, job, outcome)
    assert settle(again, worker, job, outcome) == ["busy"]
    first.commit()
    assert settle(again, worker, job, outcome) == ["ok"]
    assert [row["outcome"] for row in read_record(conn, job)[1]] == [recorded_as(outcome)]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_repeated_completion_replaces_a_first_one_that_was_rolled_back(
    conn: Connection, connect: Connect, worker: UUID, outcome: str
) -> None:
    job = claim_job(conn, worker)
    first, again = connect(autocommit=False), connect_without_waiting(connect)
    settle(first, worker, job, outcome)
    assert settle(again, worker, job, outcome) == ["busy"]
    first.rollback()
    assert settle(again, worker, job, outcome) == ["ok"]
    assert [row["outcome"] for row in read_record(conn, job)[1]] == [recorded_as(outcome)]


@pytest.mark.parametrize("outcome", ["failed", "timed_out", "crashed", "snoozed", "released"])
def test_a_repeated_completion_returns_ok_and_does_not_change_the_new_owner(
    conn: Connection, clock: Clock, worker: UUID, outcome: str
) -> None:
    job = claim_job(conn, worker)
    settle(conn, worker, job, outcome)
    clock.travel(hours=2)
    [next_] = claim(conn, new_worker())
    before = read_record(conn, job)
    assert settle(conn, worker, job, outcome) == ["ok"]
    assert read_record(conn, job) == before
    assert before[0]["lease"] == next_["lease"]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_repeated_completion_returns_ok_when_the_clock_was_set_back_in_between(
    conn: Connection, clock: Clock, worker: UUID, outcome: str
) -> None:
    job = claim_job(conn, worker)
    clock.travel(hours=-1)
    assert settle(conn, worker, job, outcome) == ["ok"]
    assert settle(conn, worker, job, outcome) == ["ok"]


# A late completion: the lease has expired, and the reaper was first.


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_late_completion_is_lost_and_changes_nothing(
    conn: Connection, clock: Clock, worker: UUID, outcome: str
) -> None:
    check_a_late_settlement(conn, worker, claim_and_reap_job(conn, clock, worker), outcome)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_late_completion_does_not_touch_the_new_owner(
    conn: Connection, clock: Clock, worker: UUID, outcome: str
) -> None:
    job = claim_and_reap_job(conn, clock, worker)
    claim(conn, new_worker())
    check_a_late_settlement(conn, worker, job, outcome)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_late_completion_does_not_touch_the_next_attempt_of_the_same_worker(
    conn: Connection, clock: Clock, worker: UUID, outcome: str
) -> None:
    job = claim_and_reap_job(conn, clock, worker)
    claim(conn, worker)
    check_a_late_settlement(conn, worker, job, outcome)


def test_a_lost_lease_in_a_batch_does_not_prevent_the_others_from_settling(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    late = claim_and_reap_job(conn, clock, worker)
    claim(conn, new_worker())
    good = claim_job(conn, worker)
    answers = complete(conn, worker, [late, good])
    assert {row["job_id"]: row["status"] for row in answers} == {
        late["job_id"]: "lost",
        good["job_id"]: "ok",
    }


def test_another_worker_cannot_use_the_lease(conn: Connection, worker: UUID) -> None:
    job = claim_job(conn, worker)
    check_a_late_settlement(conn, new_worker(), job, "succeeded")


def test_a_late_single_completion_or_heartbeat_raises(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    job = token(claim_and_reap_job(conn, clock, worker)) | {"worker_id": worker}
    for function in ("complete_job", "heartbeat_job"):
        with refused("JF003"):
            call(conn, function, **job)


def test_a_late_heartbeat_does_not_extend_the_next_lease_of_the_same_worker(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    check_a_late_heartbeat(conn, clock, worker)


# The reaper, and concurrent changes of a job.


def test_the_reaper_skips_a_job_that_is_being_completed(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID
) -> None:
    job = claim_job(conn, worker)
    clock.travel(minutes=1)
    completing = connect(autocommit=False)
    complete(completing, worker, [job])
    assert reap(conn) == []
    completing.commit()
    assert reap(conn) == []
    assert state_of(conn, TENANT_A, job["job_id"]) == "succeeded"


def test_the_reaper_reaps_a_job_whose_completion_was_rolled_back(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID
) -> None:
    job = claim_job(conn, worker)
    clock.travel(minutes=1)
    completing = connect(autocommit=False)
    complete(completing, worker, [job])
    completing.rollback()
    assert [row["job_id"] for row in reap(conn)] == [job["job_id"]]


def test_a_completion_is_busy_while_the_reaper_locks_the_job_and_lost_afterwards(
    conn: Connection, connect: Connect, clock: Clock, worker: UUID
) -> None:
    job = claim_job(conn, worker)
    clock.travel(minutes=1)
    reaping, completing = connect(autocommit=False), connect_without_waiting(connect)
    reap(reaping)
    assert settle(completing, worker, job, "succeeded") == ["busy"]
    reaping.commit()
    assert settle(completing, worker, job, "succeeded") == ["lost"]
    assert state_of(conn, TENANT_A, job["job_id"]) == "scheduled"


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_completion_is_busy_during_a_cancel_request_and_ends_the_job_afterwards(
    conn: Connection, connect: Connect, worker: UUID, outcome: str
) -> None:
    job = claim_job(conn, worker)
    canceling, completing = connect(autocommit=False), connect_without_waiting(connect)
    call(canceling, "cancel_job", job_id=job["job_id"], tenant_id=TENANT_A)
    assert settle(completing, worker, job, outcome) == ["busy"]
    canceling.commit()
    assert settle(completing, worker, job, outcome) == ["ok"]
    expected = "succeeded" if outcome in {"succeeded", "plain"} else "canceled"
    assert state_of(conn, TENANT_A, job["job_id"]) == expected


def test_a_single_completion_waits_for_a_cancel_request(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    job = claim_job(conn, worker)
    canceling, completing = connect(autocommit=False), connect()
    call(canceling, "cancel_job", job_id=job["job_id"], tenant_id=TENANT_A)
    single = token(job) | {"worker_id": worker, "outcome": {"outcome": "failed"}}
    with in_background(completing, lambda c: call(c, "complete_job", **single)) as answer:
        wait_until_blocked(conn, completing, answer)
        canceling.commit()
        assert answer.result() == [{"complete_job": "canceled"}]


def test_a_heartbeat_never_waits_for_an_uncommitted_settlement(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    jobs = [claim_job(conn, worker) for _ in range(3)]
    settling, beating = connect(autocommit=False), connect()
    complete(settling, worker, jobs[:1])
    complete(settling, worker, jobs[1:2], "failed")
    beating.execute("set lock_timeout = '1ms'")  # fails on any lock wait
    answers = heartbeat(beating, worker, jobs)
    assert [row["status"] for row in answers[:3]] == ["ok", "ok", "ok"]
    settling.commit()
    status = {row["job_id"]: row["status"] for row in heartbeat(beating, worker, jobs)}
    assert [status[job["job_id"]] for job in jobs] == ["lost", "lost", "ok"]


def test_a_claim_never_waits_for_locked_rows(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    first, *others = enqueue(conn, n=3)
    holding, claiming = connect(autocommit=False), connect()
    holding.execute("select from jobforge.jobs where id = %s for update", [first])
    claiming.execute("set lock_timeout = '1ms'")
    assert {row["job_id"] for row in claim(claiming, worker, limit=3)} == set(others)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_claim_outside_read_committed_is_refused(
    conn: Connection, worker: UUID, isolation: str
) -> None:
    enqueue(conn)
    with conn.transaction():
        conn.execute(f"set transaction isolation level {isolation}".encode())
        with refused("JF012"), conn.transaction():
            claim(conn, worker)


def test_leases_increase_even_when_the_clock_is_set_back(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    enqueue(conn)
    leases = []
    for _ in range(3):
        [job] = claim(conn, worker)
        leases.append(job["lease"])
        release(conn, worker, [job])
        clock.travel(days=-1)
    assert leases == sorted(set(leases))

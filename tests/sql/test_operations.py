"""Bulk operations on jobs: each job once, in steps that another driver can continue."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection, Database, connect_to, fresh_database
from sql.background_call import in_background, wait_until_blocked
from sql.dead_jobs import create_dead_jobs, run_all
from sql.engine import (
    TENANT_A,
    Row,
    as_tenant,
    call,
    call_for_value,
    claim,
    complete,
    definition,
    enqueue,
    enqueue_one,
    job_of,
    new_worker,
    refused,
    state_of,
    wipe,
)

from jobforge.embedded import PostgresServer


@pytest.fixture(scope="module")
def shared_database(server: PostgresServer) -> Iterator[Database]:
    with fresh_database(server) as database:
        yield database


@pytest.fixture(scope="module")
def conn(shared_database: Database) -> Iterator[Connection]:
    with closing(connect_to(shared_database.url)) as conn:
        definition(conn)
        yield conn


@pytest.fixture(scope="module")
def clock(conn: Connection) -> Clock:
    return Clock(conn)


@pytest.fixture
def second(shared_database: Database) -> Iterator[Connection]:
    """Another server or worker that drives operations."""
    with closing(connect_to(shared_database.url)) as conn:
        yield conn


@pytest.fixture
def tenant(conn: Connection) -> Iterator[UUID]:
    """A separate tenant for each test, so that its rows do not affect the next test."""
    tenant = uuid4()
    yield tenant
    wipe(conn, tenant)


def start(conn: Connection, tenant: UUID, kind: str, which: Any = None, **options: Any) -> UUID:
    operation = call_for_value(
        conn,
        "start_operation",
        kind=kind,
        filter=which or {},
        options=options,
        tenant_id=tenant,
    )
    assert isinstance(operation, UUID)
    return operation


def advance(conn: Connection, limit: int = 1000) -> Row | None:
    rows = call(conn, "advance_operations", limit=limit)
    return rows[0] if rows else None


def finish(conn: Connection, limit: int = 1000) -> int:
    """Run steps until nothing is due; return their number."""
    steps = 0
    while advance(conn, limit) is not None:
        steps += 1
    return steps


def get_operation(conn: Connection, tenant: UUID, operation: UUID) -> Row:
    [row] = call(conn, "get_operation", id=operation, tenant_id=tenant)
    return row


def progress(conn: Connection, tenant: UUID, operation: UUID) -> tuple[str, int, int]:
    row = get_operation(conn, tenant, operation)
    return row["state"], row["done"], row["skipped"]


def states(conn: Connection, tenant: UUID, jobs: list[UUID]) -> list[str]:
    return [state_of(conn, tenant, job) for job in jobs]


def count(conn: Connection, tenant: UUID, kind: str, which: Any = None) -> int:
    n = call_for_value(conn, "count_jobs", kind=kind, filter=which or {}, tenant_id=tenant)
    assert isinstance(n, int)
    return n


# The effect of each kind.


def test_each_kind_acts_on_jobs_of_its_states_and_counts_them_first(
    conn: Connection, tenant: UUID
) -> None:
    definition(conn, "patient", backoff_base_s=3600)

    def prepare() -> dict[str, UUID]:
        wipe(conn, tenant)
        jobs = {"dead": create_dead_jobs(conn, 1, tenant)[0]}
        jobs["failed"] = enqueue_one(conn, tenant, definition="patient")
        run_all(conn, "failed", 1, error={"type": "Oops", "message": "no"})
        jobs["succeeded"] = enqueue_one(conn, tenant)
        run_all(conn, "succeeded", 1)
        jobs["running"] = enqueue_one(conn, tenant)
        claim(conn, new_worker())
        jobs["scheduled"] = enqueue_one(conn, tenant, delay_s=3600)
        jobs["queued"] = enqueue_one(conn, tenant)
        return jobs

    changed = {
        "cancel": {
            "failed": "canceled",
            "running": "canceling",
            "scheduled": "canceled",
            "queued": "canceled",
        },
        "retry": {"dead": "queued", "failed": "queued"},
        "redrive": {"dead": "queued"},
        "discard": {"dead": "canceled"},
    }
    for kind, after in changed.items():
        jobs = prepare()
        before = {name: state_of(conn, tenant, job) for name, job in jobs.items()}
        assert count(conn, tenant, kind) == len(after)
        operation = start(conn, tenant, kind)
        assert get_operation(conn, tenant, operation)["matched"] == len(after)
        finish(conn)
        now = {name: state_of(conn, tenant, job) for name, job in jobs.items()}
        assert now == before | after, kind
        assert progress(conn, tenant, operation) == ("done", len(after), 0)


def test_a_filter_selects_the_jobs(conn: Connection, tenant: UUID) -> None:
    [red] = enqueue(conn, tenant, tags=["red"])
    [blue] = enqueue(conn, tenant, tags=["blue"])
    assert count(conn, tenant, "cancel", {"tag": "red"}) == 1
    start(conn, tenant, "cancel", {"tag": "red"}, reason="wrong colour")
    finish(conn)
    assert states(conn, tenant, [red, blue]) == ["canceled", "queued"]
    assert job_of(conn, tenant, red)["cancel_reason"] == "wrong colour"


def test_a_discarded_job_says_so_and_a_retried_one_gets_its_allowance_again(
    conn: Connection, tenant: UUID
) -> None:
    [gone] = create_dead_jobs(conn, 1, tenant, message="hopeless")
    start(conn, tenant, "discard")
    finish(conn)
    assert job_of(conn, tenant, gone)["cancel_reason"] == "discarded"
    [back] = create_dead_jobs(conn, 1, tenant)
    start(conn, tenant, "retry", attempts=7)
    finish(conn)
    row = job_of(conn, tenant, back)
    assert (row["attempt"], row["max_attempts"]) == (1, 8)


def test_the_timeline_and_the_log_name_the_actor(
    conn: Connection, second: Connection, tenant: UUID
) -> None:
    job = enqueue_one(conn, tenant)
    second.execute("select set_config('app.actor', 'ada@example.org', false)")
    operation = start(second, tenant, "cancel", reason="no more")
    finish(conn)
    [shown] = call(conn, "get_job", job_id=job, tenant_id=tenant)
    [event] = [event for event in shown["events"] if event["kind"] == "cancel_requested"]
    assert event["actor"] == "ada@example.org"
    assert event["data"] == {"operation_id": str(operation), "reason": "no more"}
    entries = [
        (row["action"], row["target"], row["detail"].get("done"))
        for row in call(conn, "list_audit", tenant_id=tenant)
    ]
    assert entries == [
        ("operation.end", str(operation), 1),
        ("operation.start", str(operation), None),
    ]
    assert get_operation(conn, tenant, operation)["created_by"] == "ada@example.org"


WRONG: list[tuple[str, str | None, Any, Any]] = [
    ("kind", "erase", {}, {}),
    ("kind", None, {}, {}),
    ("colour", "cancel", {"colour": "red"}, {}),
    ("state", "cancel", {"state": "lost"}, {}),
    ("canary", "cancel", {}, {"canary": 1}),
    ("rate", "discard", {}, {"rate": 1}),
    ("attempts", "cancel", {}, {"attempts": 1}),
    ("canary", "redrive", {}, {"canary": 0}),
    ("canary", "redrive", {}, {"canary": 1.5}),
    ("canary", "redrive", {}, {"canary": 1001}),
    ("attempts", "retry", {}, {"attempts": "3"}),
    ("rate", "redrive", {}, {"rate": 0}),
    ("rate", "redrive", {}, {"rate": -1}),
    ("rate", "redrive", {}, {"rate": 1e9}),
    ("reason", "cancel", {}, {"reason": 5}),
    ("reason", "cancel", {}, {"reason": "r" * 1001}),
]


def test_an_invalid_operation_is_refused_by_field(conn: Connection, tenant: UUID) -> None:
    for field, kind, which, options in WRONG:
        with refused("JF002", field=field):
            call(
                conn,
                "start_operation",
                kind=kind,
                filter=which,
                options=options,
                tenant_id=tenant,
            )
    assert call(conn, "list_operations", tenant_id=tenant) == []


# Steps.


def test_an_operation_runs_in_steps_and_handles_each_job_once(
    conn: Connection, tenant: UUID
) -> None:
    jobs = enqueue(conn, tenant, 25)
    operation = start(conn, tenant, "cancel")
    seen = []
    while (step := advance(conn, 10)) is not None:
        seen.append((step["jobs"], step["state"]))
    assert seen == [(10, "running"), (10, "running"), (5, "done")]
    assert set(states(conn, tenant, jobs)) == {"canceled"}
    row = get_operation(conn, tenant, operation)
    assert (row["matched"], row["done"], row["skipped"]) == (25, 25, 0)
    assert row["created_at"] <= row["started_at"] <= row["finished_at"]


def test_jobs_enqueued_later_are_not_affected(conn: Connection, tenant: UUID) -> None:
    enqueue(conn, tenant, 15)
    operation = start(conn, tenant, "cancel")
    advance(conn, 10)
    late = enqueue_one(conn, tenant)
    finish(conn)
    assert state_of(conn, tenant, late) == "queued"
    assert get_operation(conn, tenant, operation)["done"] == 15


def test_a_job_that_dies_again_is_not_redriven_twice(conn: Connection, tenant: UUID) -> None:
    create_dead_jobs(conn, 12, tenant)
    operation = start(conn, tenant, "redrive")
    advance(conn, 6)
    error = {"type": "Oops", "message": "no"}
    run_all(conn, "failed", 6, error=error, final=True)
    finish(conn)
    assert progress(conn, tenant, operation) == ("done", 12, 0)
    assert count(conn, tenant, "redrive") == 6


def test_a_rare_match_is_found_in_bounded_steps(conn: Connection, tenant: UUID) -> None:
    [rare] = enqueue(conn, tenant, tags=["rare"])
    enqueue(conn, tenant, 10_050)
    operation = start(conn, tenant, "cancel", {"tag": "rare"})
    step = advance(conn)
    assert step is not None
    assert (step["state"], step["jobs"]) == ("running", 0)
    finish(conn)
    assert progress(conn, tenant, operation) == ("done", 1, 0)
    assert state_of(conn, tenant, rare) == "canceled"


def test_an_interrupted_step_has_no_effect(
    conn: Connection, second: Connection, tenant: UUID
) -> None:
    jobs = enqueue(conn, tenant, 20)
    operation = start(conn, tenant, "cancel")
    with second.transaction(force_rollback=True):
        step = advance(second, 10)
        assert step is not None
        assert step["jobs"] == 10
        # While it is being worked on, no other driver takes the operation.
        assert advance(conn, 10) is None
    assert progress(conn, tenant, operation) == ("queued", 0, 0)
    assert set(states(conn, tenant, jobs)) == {"queued"}
    finish(conn, 10)
    assert progress(conn, tenant, operation) == ("done", 20, 0)


def test_two_drivers_take_different_operations(
    conn: Connection, second: Connection, tenant: UUID
) -> None:
    enqueue(conn, tenant, 4)
    operations = {start(conn, tenant, "cancel", {"queue": queue}) for queue in ("default", "slow")}
    with conn.transaction(), second.transaction():
        steps = [advance(conn), advance(second)]
    assert {step["operation_id"] for step in steps if step} == operations


def test_a_job_that_finishes_during_a_step_is_skipped(
    shared_database: Database, conn: Connection, second: Connection, tenant: UUID
) -> None:
    ended = enqueue_one(conn, tenant)
    worker = new_worker()
    held = claim(conn, worker)
    waiting = enqueue_one(conn, tenant)
    operation = start(conn, tenant, "cancel")
    with closing(connect_to(shared_database.url, autocommit=False)) as settling:
        complete(settling, worker, held)
        with in_background(second, advance) as step:
            wait_until_blocked(conn, second, step)
            settling.commit()
            step.result(timeout=30)
    assert states(conn, tenant, [ended, waiting]) == ["succeeded", "canceled"]
    assert progress(conn, tenant, operation) == ("done", 1, 1)


def test_a_step_that_waits_too_long_for_a_lock_is_retried_later(
    conn: Connection, clock: Clock, second: Connection, tenant: UUID
) -> None:
    job = enqueue_one(conn, tenant)
    other = enqueue_one(conn, tenant, queue="slow")
    operation = start(conn, tenant, "cancel", {"queue": "default"})
    start(conn, tenant, "cancel", {"queue": "slow"})
    with second.transaction():
        second.execute("select from jobforge.jobs where id = %s for update", [job])
        conn.execute("set lock_timeout = '10ms'")
        finish(conn)
        conn.execute("reset lock_timeout")
    assert progress(conn, tenant, operation)[0] == "queued"
    assert state_of(conn, tenant, other) == "canceled"
    clock.travel(seconds=6)
    finish(conn)
    assert progress(conn, tenant, operation) == ("done", 1, 0)


def test_a_step_that_cannot_run_fails_its_operation_only(conn: Connection, tenant: UUID) -> None:
    job = enqueue_one(conn, tenant)
    broken, sound = start(conn, tenant, "cancel"), start(conn, tenant, "cancel")
    conn.execute(
        "update jobforge.operations set filter = '{\"colour\": 1}' where id = %s", [broken]
    )
    finish(conn)
    row = get_operation(conn, tenant, broken)
    assert (row["state"], row["reason"][:11]) == ("failed", "error JF002")
    assert progress(conn, tenant, sound) == ("done", 1, 0)
    assert state_of(conn, tenant, job) == "canceled"


# Canceling an operation.


def test_a_canceled_operation_stops(conn: Connection, tenant: UUID) -> None:
    jobs = enqueue(conn, tenant, 20)
    operation = start(conn, tenant, "cancel")
    advance(conn, 5)
    for _ in range(2):
        assert (
            call_for_value(conn, "cancel_operation", id=operation, tenant_id=tenant) == "canceled"
        )
    assert finish(conn) == 0
    assert states(conn, tenant, jobs).count("canceled") == 5
    row = get_operation(conn, tenant, operation)
    assert (row["state"], row["done"]) == ("canceled", 5)
    assert row["finished_at"] is not None


def test_a_finished_operation_cannot_be_canceled(conn: Connection, tenant: UUID) -> None:
    operation = start(conn, tenant, "cancel")
    finish(conn)
    with refused("JF005", state="done"):
        call(conn, "cancel_operation", id=operation, tenant_id=tenant)


# Canaries and rates.


def test_a_redrive_waits_for_its_canaries_and_continues_when_they_succeed(
    conn: Connection, clock: Clock, tenant: UUID
) -> None:
    jobs = create_dead_jobs(conn, 10, tenant)
    operation = start(conn, tenant, "redrive", canary=2)
    finish(conn)
    assert progress(conn, tenant, operation) == ("waiting", 2, 0)
    clock.travel(seconds=2)
    finish(conn)
    assert progress(conn, tenant, operation) == ("waiting", 2, 0)
    assert len(run_all(conn, "succeeded", 10)) == 2
    clock.travel(seconds=2)
    finish(conn)
    assert progress(conn, tenant, operation) == ("done", 10, 0)
    assert sorted(states(conn, tenant, jobs)) == ["queued"] * 8 + ["succeeded"] * 2


def test_a_canary_that_fails_once_is_awaited_and_one_that_dies_stops_the_redrive(
    conn: Connection, clock: Clock, tenant: UUID
) -> None:
    jobs = create_dead_jobs(conn, 10, tenant)
    operation = start(conn, tenant, "redrive", canary=1)
    finish(conn)
    error = {"type": "Oops", "message": "still"}
    run_all(conn, "failed", 1, error=error, retry_in_s=1)
    clock.travel(seconds=2)
    finish(conn)
    assert get_operation(conn, tenant, operation)["state"] == "waiting"
    run_all(conn, "failed", 1, error=error, final=True)
    clock.travel(seconds=2)
    finish(conn)
    row = get_operation(conn, tenant, operation)
    assert (row["state"], row["done"]) == ("failed", 1)
    assert row["reason"] == f"canary job {jobs[-1]} failed again"
    clock.travel(hours=1)
    assert finish(conn) == 0
    assert set(states(conn, tenant, jobs)) == {"dead"}


# One at once, then by the rate, and never more than a second's worth (or one) in a step. The real
# clock runs in addition to the travel, so no step is close to the time of the next job.
RATES: list[tuple[float, list[tuple[float, int]]]] = [
    (10, [(0, 1), (1.1, 10), (3600, 10), (2, 10)]),
    (0.001, [(0, 1), (500, 0), (501, 1), (360_000, 1), (500, 0)]),
]


def test_a_redrive_keeps_its_rate_even_after_a_long_pause(
    conn: Connection, clock: Clock, tenant: UUID
) -> None:
    create_dead_jobs(conn, 60, tenant)
    for rate, steps in RATES:
        operation = start(conn, tenant, "redrive", rate=rate)
        for seconds, released in steps:
            clock.travel(seconds=seconds)
            step = advance(conn)
            assert (step["jobs"] if step else 0) == released, (rate, seconds)
        call(conn, "cancel_operation", id=operation, tenant_id=tenant)


def test_canaries_come_first_regardless_of_the_rate(conn: Connection, tenant: UUID) -> None:
    create_dead_jobs(conn, 5, tenant)
    operation = start(conn, tenant, "redrive", canary=3, rate=0.01)
    finish(conn)
    assert progress(conn, tenant, operation) == ("waiting", 3, 0)
    assert len(claim(conn, new_worker(), limit=10)) == 3


# Access by tenant.


def test_the_operation_of_another_tenant_is_not_found(conn: Connection, tenant: UUID) -> None:
    operation = start(conn, tenant, "cancel")
    for unknown in (operation, uuid4()):
        for function in ("get_operation", "cancel_operation"):
            with refused("JF004", id=str(unknown)):
                call(conn, function, id=unknown, tenant_id=TENANT_A)
    assert call(conn, "list_operations", tenant_id=TENANT_A) == []
    finish(conn)


def test_pages_of_operations_continue_where_the_last_one_ended(
    conn: Connection, tenant: UUID
) -> None:
    made = [start(conn, tenant, "cancel") for _ in range(5)]
    first = call(conn, "list_operations", limit=3, tenant_id=tenant)
    rest = call(conn, "list_operations", limit=3, before=first[-1]["id"], tenant_id=tenant)
    assert [row["id"] for row in first + rest] == made[::-1]
    finish(conn)


def test_a_worker_confined_to_a_tenant_advances_only_its_operations(
    connect: Connect,
) -> None:
    admin = connect()
    definition(admin)
    other, own = uuid4(), uuid4()
    foreign, mine = (start(admin, tenant, "cancel") for tenant in (other, own))
    worker = connect("worker_login")
    with as_tenant(worker, own):
        step = advance(worker)
        assert advance(worker) is None
    assert step is not None
    assert step["operation_id"] == mine
    assert progress(admin, other, foreign)[0] == "queued"
    step = advance(worker)
    assert step is not None
    assert step["operation_id"] == foreign

"""A settlement never waits for a lock of an application's transaction.

A job that is locked, or whose completion needs a locked row, is `busy`: it is settled later. All
other jobs of the call, of all tenants, are settled at once.
"""

from collections.abc import Callable, Sequence
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection, wait_until
from sql.background_call import in_background, wait_until_blocked
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    Row,
    attempts_of,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue,
    enqueue_one,
    heartbeat,
    new_worker,
    reap,
    release,
    state_of,
    succeed,
    token,
)
from sql.mutation import mutate
from sql.webhook_endpoints import create_endpoint, define_connector

Settle = Callable[[Connection, UUID, Sequence[Row]], dict[UUID, str]]
Hold = Callable[[Connection, UUID], object]


@pytest.fixture
def worker(conn: Connection) -> UUID:
    definition(conn, max_attempts=1)
    return new_worker()


@pytest.fixture
def settler(connect: Connect) -> Connection:
    """The session that settles. As a worker's session, it has a lock timeout."""
    session = connect("worker_login")
    session.execute("set lock_timeout = '1s'")
    return session


def _succeed_or_complete(conn: Connection, worker: UUID, jobs: Sequence[Row]) -> dict[UUID, str]:
    """Settle as a worker does: pass the jobs that succeed_jobs did not settle to complete_jobs."""
    left = {row["job_id"] for row in succeed(conn, worker, jobs)}
    status = {job["job_id"]: "ok" for job in jobs if job["job_id"] not in left}
    rest = [job for job in jobs if job["job_id"] in left]
    return status | (_with("succeeded")(conn, worker, rest) if rest else {})


def _with(outcome: str, **fields: Json) -> Settle:
    def settle(conn: Connection, worker: UUID, jobs: Sequence[Row]) -> dict[UUID, str]:
        answers = complete(conn, worker, jobs, outcome, **fields)
        assert len(answers) == len(jobs)
        return {row["job_id"]: row["status"] for row in answers}

    return settle


def _released(conn: Connection, worker: UUID, jobs: Sequence[Row]) -> dict[UUID, str]:
    return {row["job_id"]: row["status"] for row in release(conn, worker, jobs)}


# Each of these ends the job, except release.
SETTLES: dict[str, Settle] = {
    "plainly": _succeed_or_complete,
    "succeeded": _with("succeeded", result={"n": 1}),
    "failed": _with("failed", error={"type": "Oops"}),
    "canceled": _with("canceled"),
}


def _enqueue_after(conn: Connection, job: UUID) -> object:
    return enqueue_one(conn, after=[str(job)], on_parent_failure="run", queue="later")


def _cancel(conn: Connection, job: UUID) -> object:
    return call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A)


def _lock(conn: Connection, job: UUID) -> object:
    return conn.execute("select from jobforge.jobs where id = %s for update", [job])


HOLDS: dict[str, Hold] = {"enqueue after": _enqueue_after, "cancel": _cancel, "lock": _lock}


def _claimed(conn: Connection, worker: UUID, jobs: Sequence[UUID]) -> dict[UUID, Row]:
    rows: dict[UUID, Row] = {}
    while len(rows) < len(jobs):
        found = claim(conn, worker, limit=1000)
        assert found
        rows |= {row["job_id"]: row for row in found}
    assert set(rows) == set(jobs)
    return rows


# The row of the job itself is locked.


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("way", [*SETTLES, "released"])
def test_a_job_that_an_open_transaction_holds_is_busy_and_2000_others_are_settled(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID, way: str, hold: str
) -> None:
    settle = SETTLES.get(way, _released)
    jobs = [job for _ in range(20) for job in enqueue(conn, uuid4(), n=100)]
    busy = enqueue_one(conn)
    held = _claimed(conn, worker, [*jobs, busy])
    application = connect(autocommit=False)
    HOLDS[hold](application, busy)

    status = settle(settler, worker, list(held.values()))
    assert status == dict.fromkeys(jobs, "ok") | {busy: "busy"}
    assert settle(settler, worker, [held[busy]]) == {busy: "busy"}
    assert attempts_of(conn, TENANT_A, busy) == []
    application.commit()
    assert settle(settler, worker, [held[busy]]) == {busy: "ok"}
    assert len(attempts_of(conn, TENANT_A, busy)) == 1


def test_a_success_is_settled_at_once_after_a_lock_of_its_row_is_released(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID
) -> None:
    jobs = _claimed(conn, worker, enqueue(conn, n=3))
    application = connect(autocommit=False)
    for job in jobs:
        _lock(application, job)
    application.rollback()
    assert succeed(settler, worker, list(jobs.values())) == []


@pytest.mark.parametrize("limit", [1, 50])
def test_the_row_of_a_claimed_job_shows_no_trace_of_a_lock(
    conn: Connection, worker: UUID, limit: int
) -> None:
    """Otherwise each success would need the slower second pass."""
    enqueue(conn, n=limit)
    jobs = claim(conn, worker, limit=limit)
    heartbeat(conn, worker, jobs)
    rows = conn.execute("select xmax = xmin or xmax = 0 as is_free from jobforge.jobs").fetchall()
    assert [row["is_free"] for row in rows] == [True] * limit


def test_a_lost_lease_is_lost_although_the_row_is_locked(
    conn: Connection, connect: Connect, clock: Clock, settler: Connection, worker: UUID
) -> None:
    [late] = _claimed(conn, worker, [enqueue_one(conn, max_attempts=2)]).values()
    clock.travel(minutes=1)
    assert len(reap(conn)) == 1
    application = connect(autocommit=False)
    _lock(application, late["job_id"])
    for settle in SETTLES.values():
        assert settle(settler, worker, [late]) == {late["job_id"]: "lost"}


# Rows that the completion of the job needs are locked.


def _parents(conn: Connection, n: int) -> dict[UUID, UUID]:
    """Create jobs that each have one child."""
    parents = enqueue(conn, n=n)
    return {parent: _as_uuid(_enqueue_after(conn, parent)) for parent in parents}


def _as_uuid(job: object) -> UUID:
    assert isinstance(job, UUID)
    return job


@pytest.mark.parametrize("way", SETTLES)
def test_a_job_whose_child_is_locked_is_busy_and_all_others_are_settled(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID, way: str
) -> None:
    settle = SETTLES[way]
    children = _parents(conn, 100)
    others = enqueue(conn, TENANT_B, n=500)
    held = _claimed(conn, worker, [*children, *others])
    busy = min(children)
    application = connect(autocommit=False)
    _enqueue_after(application, children[busy])

    status = settle(settler, worker, list(held.values()))
    assert status == dict.fromkeys(held, "ok") | {busy: "busy"}
    freed = [child for parent, child in children.items() if parent != busy]
    assert {state_of(conn, TENANT_A, child) for child in freed} == {"queued"}
    assert state_of(conn, TENANT_A, children[busy]) == "blocked"
    application.commit()
    assert settle(settler, worker, [held[busy]]) == {busy: "ok"}
    assert state_of(conn, TENANT_A, children[busy]) == "queued"


@pytest.mark.parametrize("way", SETTLES)
def test_jobs_whose_batch_is_locked_are_busy_and_all_others_are_settled(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID, way: str
) -> None:
    settle = SETTLES[way]
    jobs = [{"definition": "test"}] * 3
    [batch, *_] = call(conn, "create_batch", batch={"open": True}, jobs=jobs, tenant_id=TENANT_A)
    rows = call(conn, "enqueue_workflow", workflow={"nodes": [_node("a")]}, tenant_id=TENANT_A)
    others = [row["job_id"] for row in rows if row["job_id"]] + enqueue(conn, TENANT_B, n=100)
    held = {row["job_id"]: row for row in claim(conn, worker, limit=1000)}
    busy = [job for job in held if job not in others]
    assert len(busy) == 3
    application = connect(autocommit=False)
    added = [{"definition": "test", "queue": "later"}]
    call(application, "add_to_batch", id=batch["batch_id"], jobs=added, tenant_id=TENANT_A)

    status = settle(settler, worker, list(held.values()))
    assert status == dict.fromkeys(others, "ok") | dict.fromkeys(busy, "busy")
    application.commit()
    again = settle(settler, worker, [held[job] for job in busy])
    assert again == dict.fromkeys(busy, "ok")


def _node(name: str) -> Json:
    return {"name": name, "definition": "test"}


def test_a_job_that_gathers_a_locked_job_is_busy_and_its_batch_is_settled(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID
) -> None:
    child = enqueue_one(conn, queue="later")
    jobs = enqueue(conn, n=3)
    held = _claimed(conn, worker, jobs)
    wait = {"kind": "gather", "name": "children", "index": 0, "jobs": [str(child)]}
    outcomes = [token(held[jobs[0]]) | {"outcome": "snoozed", "wait": wait}]
    outcomes += [token(held[job]) | {"outcome": "failed"} for job in jobs[1:]]
    application = connect(autocommit=False)
    _lock(application, child)

    rows = call(settler, "complete_jobs", worker_id=worker, outcomes=outcomes)
    assert {row["job_id"]: row["status"] for row in rows} == {
        jobs[0]: "busy",
        jobs[1]: "ok",
        jobs[2]: "ok",
    }
    application.rollback()
    [row] = call(settler, "complete_jobs", worker_id=worker, outcomes=outcomes[:1])
    assert (row["status"], row["state"]) == ("ok", "blocked")


@pytest.mark.parametrize("way", SETTLES)
def test_many_jobs_with_locked_children_do_not_prevent_others_from_being_settled(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID, way: str
) -> None:
    settle = SETTLES[way]
    children = _parents(conn, 400)
    held = _claimed(conn, worker, list(children))
    busy = list(children)[::2]
    application = connect(autocommit=False)
    for parent in busy:
        _lock(application, children[parent])
    _count_readings_of_the_clock(conn)

    status = settle(settler, worker, list(held.values()))
    assert status == {job: "busy" if job in busy else "ok" for job in held}
    # Each attempt to settle reads the clock once or twice.
    assert _readings(conn) < 20
    application.rollback()
    assert settle(settler, worker, [held[job] for job in busy]) == dict.fromkeys(busy, "ok")
    assert count(conn, "awaited_jobs") == 0


def test_many_locked_workflows_and_gathered_jobs_do_not_prevent_others_from_being_settled(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID
) -> None:
    workflows: dict[UUID, UUID] = {}
    jobs: dict[UUID, Json] = {}
    busy = set()
    for _ in range(60):
        rows = call(conn, "enqueue_workflow", workflow={"nodes": [_node("a")]}, tenant_id=TENANT_A)
        [job] = [row["job_id"] for row in rows if row["job_id"]]
        workflows[job] = next(row["workflow_id"] for row in rows)
        jobs[job] = {"outcome": "succeeded"}
    for child in enqueue(conn, n=60, queue="later"):
        wait = {"kind": "gather", "name": "children", "index": 0, "jobs": [str(child)]}
        jobs[enqueue_one(conn)] = {"outcome": "snoozed", "wait": wait}
    held = _claimed(conn, worker, list(jobs))
    application = connect(autocommit=False)
    for job in list(jobs)[::2]:
        busy.add(job)
        if job in workflows:
            application.execute(
                "select from jobforge.workflows where id = %s for update", [workflows[job]]
            )
        else:
            _lock(application, UUID(jobs[job]["wait"]["jobs"][0]))

    outcomes = [token(held[job]) | outcome for job, outcome in jobs.items()]
    rows = call(settler, "complete_jobs", worker_id=worker, outcomes=outcomes)
    assert {row["job_id"]: row["status"] for row in rows} == {
        job: "busy" if job in busy else "ok" for job in jobs
    }


def test_a_failure_that_is_retried_is_settled_although_all_children_are_locked(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID
) -> None:
    definition(conn, max_attempts=2)
    children = _parents(conn, 50)
    one = enqueue_one(conn, max_attempts=1)
    last = _as_uuid(_enqueue_after(conn, one))
    held = _claimed(conn, worker, [*children, one])
    application = connect(autocommit=False)
    for child in [*children.values(), last]:
        _lock(application, child)
    status = SETTLES["failed"](settler, worker, list(held.values()))
    assert status == dict.fromkeys(children, "ok") | {one: "busy"}


def test_a_failure_is_busy_when_a_job_that_its_child_cancels_is_locked(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID
) -> None:
    parents = enqueue(conn, n=60)
    last = {}
    for parent in parents:
        child = enqueue_one(conn, after=[str(parent)], queue="later")
        last[parent] = enqueue_one(conn, after=[str(child)], queue="later")
    held = _claimed(conn, worker, parents)
    busy = parents[::2]
    application = connect(autocommit=False)
    for parent in busy:
        _lock(application, last[parent])
    _count_readings_of_the_clock(conn)
    status = SETTLES["failed"](settler, worker, list(held.values()))
    assert status == {job: "busy" if job in busy else "ok" for job in held}
    assert {state_of(conn, TENANT_A, last[job]) for job in parents[1::2]} == {"canceled"}
    rest = SETTLES["succeeded"](settler, worker, [held[job] for job in busy])
    assert rest == dict.fromkeys(busy, "ok"), "a success affects only the child"


def test_jobs_that_one_call_did_not_try_are_settled_by_the_next_calls(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID
) -> None:
    """No pass can find a row that an insert waits for; a trigger that takes a lock simulates
    one."""
    children = _parents(conn, 64)
    held = _claimed(conn, worker, list(children))
    stuck = list(children)[::8]
    conn.execute("create table public.held as select unnest(%s::uuid[]) as id", [stuck])
    conn.execute("grant all on public.held to public")
    conn.execute(
        "create function public.wait() returns trigger language plpgsql as"
        " $$ begin perform from public.held as h where h.id = old.id for update; return null; end"
        " $$;"
        "create trigger wait after delete on jobforge.jobs for each row execute function wait()"
    )
    application = connect(autocommit=False)
    application.execute("select from public.held for update")
    _count_readings_of_the_clock(conn)
    left = dict(held)
    for calls in range(40):
        status = _succeed_or_complete(settler, worker, list(left.values()))
        assert calls or _readings(conn) < 200, "a call tries only some of the jobs"
        left = {job: row for job, row in left.items() if status[job] == "busy"}
        if set(left) == set(stuck):
            break
    assert set(left) == set(stuck)
    application.rollback()
    assert _succeed_or_complete(settler, worker, list(left.values())) == dict.fromkeys(stuck, "ok")


def test_without_the_pass_that_finds_locked_rows_unlocked_jobs_are_left(
    conn: Connection, connect: Connect, settler: Connection, worker: UUID
) -> None:
    every = "array(select jsonb_array_elements(p_outcomes) order by random())"
    mutate(conn, "settle_in_parts", "jobforge_private.lockable_outcomes(p_outcomes)", every)
    children = _parents(conn, 400)
    held = _claimed(conn, worker, list(children))
    application = connect(autocommit=False)
    for parent in list(children)[::2]:
        _lock(application, children[parent])
    status = _succeed_or_complete(settler, worker, list(held.values()))
    assert list(status.values()).count("busy") > 200


def _readings(conn: Connection) -> int:
    [row] = conn.execute("select last_value as n from public.readings").fetchall()
    return int(row["n"])


def _count_readings_of_the_clock(conn: Connection) -> None:
    """Count in a sequence, which is not rolled back."""
    conn.execute("create sequence public.readings")
    conn.execute("grant usage on sequence public.readings to public")
    conn.execute(
        """
        create or replace function jobforge_private.now() returns timestamptz language sql volatile
        as $$ select clock_timestamp() from nextval('public.readings') $$
        """
    )


def test_a_single_completion_waits_for_the_child(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    [(parent, child)] = _parents(conn, 1).items()
    held = _claimed(conn, worker, [parent])
    application, completing = connect(autocommit=False), connect()
    _lock(application, child)
    single = token(held[parent]) | {"worker_id": worker}
    with in_background(completing, lambda c: call_for_value(c, "complete_job", **single)) as answer:
        # Longer than complete_jobs waits.
        completing_pid = completing.info.backend_pid
        wait_until_blocked(conn, completing, answer)
        _wait_until_waiting_for(conn, completing_pid, seconds=0.3)
        application.rollback()
        assert answer.result() == "succeeded"
    assert state_of(conn, TENANT_A, child) == "queued"


def _wait_until_waiting_for(conn: Connection, pid: int, *, seconds: float) -> None:
    def waits() -> bool:
        [row] = conn.execute(
            "select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart)), 0) > %s as w"
            "  from pg_locks as l where l.pid = %s and not l.granted",
            [seconds, pid],
        ).fetchall()
        return bool(row["w"])

    wait_until(waits)


# The lease of a job that is busy.


def test_a_busy_job_keeps_its_lease_by_heartbeats_and_is_not_reaped(
    conn: Connection, connect: Connect, clock: Clock, settler: Connection, worker: UUID
) -> None:
    [(parent, child)] = _parents(conn, 1).items()
    [job] = _claimed(conn, worker, [parent]).values()
    application = connect(autocommit=False)
    _enqueue_after(application, child)
    for _ in range(3):
        assert _succeed_or_complete(settler, worker, [job]) == {parent: "busy"}
        assert heartbeat(settler, worker, [job])[0]["status"] == "ok"
        clock.travel(seconds=20)
        assert reap(conn) == []
    application.commit()
    assert _succeed_or_complete(settler, worker, [job]) == {parent: "ok"}
    assert [row["outcome"] for row in attempts_of(conn, TENANT_A, parent)] == ["succeeded"]


# Tenants with webhooks: a completion of their jobs also touches other rows.


@pytest.mark.parametrize("way", SETTLES)
def test_jobs_of_tenants_with_and_without_webhooks_are_settled_together(
    conn: Connection, settler: Connection, worker: UUID, way: str
) -> None:
    define_connector(conn)
    create_endpoint(conn, TENANT_A)
    heeded, unheeded = enqueue(conn, TENANT_A, n=3), enqueue(conn, TENANT_B, n=3)
    held = _claimed(conn, worker, [*heeded, *unheeded])
    settle = SETTLES[way]
    assert settle(settler, worker, [held[job] for job in unheeded]) == dict.fromkeys(unheeded, "ok")
    assert settle(settler, worker, [held[job] for job in heeded]) == dict.fromkeys(heeded, "ok")
    assert count(conn, "webhook_deliveries") == 3

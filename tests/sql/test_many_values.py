"""Values that are permitted one by one, and together exceed what Postgres or a process can hold.

A function bounds the data that it reads and returns, and values that one job or tenant stored do
not stop others.
"""

import json
from uuid import UUID

import pytest
from attacks import Attempts
from cluster import Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue,
    enqueue_one,
    job_of,
    new_worker,
    succeed,
)

from jobforge import calls, db
from jobforge.calls.worker import is_unreadable
from jobforge.errors import JobForgeError
from jobforge.scheduler import reaction
from jobforge.types.jobs import ClaimedJob

MIB = 1024**2
LONGEST_ANSWER = 16 * MIB

# Permitted results: 1.04 MB of jsonb with 5.7 MB of text, and 1 MiB of plain text.
NUMBERS = "(select jsonb_agg(1e62::numeric) from generate_series(1, 86000))"
ZEROS = "(select jsonb_build_object('x', jsonb_agg(0e-16383)) from generate_series(1, 127))"
PLAIN = "to_jsonb(repeat('x', 1040000))"


@pytest.mark.attack("payloads")
@pytest.mark.parametrize(
    ("children", "result"), [(200, NUMBERS), (300, PLAIN)], ids=["long text", "plain"]
)
def test_a_gather_of_many_large_results_does_not_stop_other_jobs(
    conn: Connection, attempts: Attempts, children: int, result: str
) -> None:
    attempts(1)
    definition(conn)
    gatherer = _gather(conn, _finished(conn, children, result))
    other = enqueue_one(conn, TENANT_B)
    worker = new_worker()
    claimed = {job.job_id: job for job in _claim_as_workers_do(conn, worker)}
    assert claimed.keys() == {gatherer, other}
    steps = claimed[gatherer].steps_json
    assert steps is not None
    assert '"too_large"' in steps
    assert len(steps) < 1000


@pytest.mark.attack("payloads")
def test_a_job_with_too_many_steps_fails_and_others_are_claimed(
    conn: Connection, attempts: Attempts
) -> None:
    """The job has waited for sixteen events of 2 MiB, and one more."""
    attempts(1)
    definition(conn)
    worker = new_worker()
    bad = enqueue_one(conn, TENANT_A)
    jobs = claim(conn, worker)
    for index in range(17):
        wait = {"kind": "event", "name": "paid", "index": index}
        complete(conn, worker, jobs, "snoozed", wait=wait, retry_in_s=60)
        _resume(conn)
        if index == 15:
            [held] = _claim_as_workers_do(conn, worker)
            assert held.steps_json is not None
            assert 31 * MIB < len(held.steps_json) <= 32 * MIB
            jobs = [{**jobs[0], "lease": held.lease}]
        elif index < 16:
            jobs = claim(conn, worker)
    good = enqueue_one(conn, TENANT_B)
    # A hook job has the payload and the result of another job.
    conn.execute(f"update jobforge.jobs set payload = {NUMBERS} where id = '{good}'".encode())
    with pytest.raises(JobForgeError) as caught:
        _claim_as_workers_do(conn, worker)
    assert is_unreadable(caught.value)
    claims = calls.claim_readable_jobs(calls.claim_jobs(worker, {"default": 10}))
    assert [job.job_id for job in db.run(conn, claims)] == [good]
    job = job_of(conn, TENANT_A, bad)
    assert (job["state"], job["error"]["type"]) == ("dead", "UnreadableSteps")
    assert job["error"]["message"] == "The job's steps have more than 32 MiB of JSON text"


@pytest.mark.attack("payloads")
def test_large_events_are_dispatched_in_parts(conn: Connection, attempts: Attempts) -> None:
    attempts(1)
    definition(conn)
    _event_trigger(conn, TENANT_A)
    _event_trigger(conn, TENANT_B)
    _emit_large(conn, 460)
    other = call_for_value(conn, "emit_event", name="e", tenant_id=TENANT_B)
    _emit_large(conn, 40)
    first = _dispatch(conn)
    assert str(other) in {event["event_id"] for event in first}
    assert 1 < len(first) < 20
    # Dispatching all of them takes minutes on a busy machine; 40 of them show that it continues.
    conn.execute("delete from jobforge.outbox where event_id < %s", [other])
    rounds = 0
    while _dispatch(conn):
        rounds += 1
    assert rounds >= 40 * 2 * MIB // LONGEST_ANSWER
    assert count(conn, "outbox") == 0


def _emit_large(conn: Connection, events: int) -> None:
    conn.execute(
        f"select jobforge.emit_event('e', {ZEROS}, '{{}}', %s)"
        f"  from generate_series(1, {events})".encode(),
        [TENANT_A],
    )


def _dispatch(conn: Connection) -> list[Json]:
    """Dispatch one batch of events, to which no trigger reacts."""
    pending = _answered(conn, "pending_events")
    deliveries = [{"id": event["id"], "deliveries": []} for event in pending["events"]]
    if deliveries:
        call(conn, "record_deliveries", deliveries=deliveries)
    return list(pending["events"])


@pytest.mark.attack("payloads")
def test_an_event_with_many_large_triggers_fails_for_some_within_bounds(
    conn: Connection, attempts: Attempts
) -> None:
    attempts(1)
    definition(conn)
    triggers = [_event_trigger(conn, TENANT_A, ZEROS) for _ in range(20)]
    call(conn, "emit_event", name="e", tenant_id=TENANT_A)
    with conn.transaction(force_rollback=True):
        _answered(conn, "pending_events")
    found = db.run(conn, calls.pending_events())
    readers = [reaction.parse_trigger(found.triggers[each]) for each in triggers]
    assert {reader.fault for reader in readers} == {
        None,
        "payload cannot be read: the triggers of the event have more than 12 MiB",
    }


@pytest.mark.attack("payloads")
def test_large_schedules_of_many_tenants_fire_in_parts(
    conn: Connection, attempts: Attempts
) -> None:
    attempts(1)
    definition(conn)
    for tenant in range(6):
        _schedules(conn, UUID(int=tenant + 1), 100)
    assert 1 < _fire(conn) < 20
    # Firing all of them takes minutes on a busy machine; this number shows that it continues.
    conn.execute("""
        delete from jobforge.triggers as t
         where exists (select from jobforge.triggers as n
                        where n.tenant_id = t.tenant_id and n.id > t.id offset 6)
    """)
    rounds = 0
    while _fire(conn):
        rounds += 1
    assert rounds >= 6 * 7 * 2 * MIB // LONGEST_ANSWER
    fired = conn.execute(
        "select tenant_id, count(last_fired_at) as n from jobforge.triggers group by 1"
    ).fetchall()
    assert len(fired) == 6
    assert all(row["n"] >= 7 for row in fired)


def _schedules(conn: Connection, tenant: UUID, schedules: int) -> None:
    """Create one schedule and copies of it: checking each would take longer than the test."""
    conn.execute(
        f"""
        select jobforge.create_trigger('schedule', jsonb_build_object(
                   'label', 'l', 'definition', 'test', 'cron', '* * * * *', 'payload', {ZEROS}),
                   '{tenant}')
    """.encode()
    )
    conn.execute(
        f"""
        insert into jobforge.triggers
        select (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).*
          from jobforge.triggers as t, generate_series(2, {schedules})
         where t.tenant_id = '{tenant}'
    """.encode()
    )


def _fire(conn: Connection) -> int:
    """Record one firing of each schedule that is due; return how many there were."""
    due = _answered(conn, "due_schedules")
    firing = {"kind": "schedule", "fire_at": "2026-01-01T00:00:00Z", "payload": {}}
    plans = [
        {name: each[name] for name in ("tenant_id", "id", "due_at", "updated_at")}
        | {"next_run_at": "2100-01-01T00:00:00Z", "firings": [firing]}
        for each in due["triggers"]
    ]
    if plans:
        assert call_for_value(conn, "record_firings", plans=plans) == len(plans)
    return len(plans)


def _event_trigger(conn: Connection, tenant: UUID, payload: str = "'{}'::jsonb") -> UUID:
    row = conn.execute(
        "select jobforge.create_trigger('event', jsonb_build_object('label', 'l', 'definition',"
        f" 'test', 'event', 'e', 'payload', {payload}), %s) as id".encode(),
        [tenant],
    ).fetchone()
    assert row is not None
    return UUID(str(row["id"]))


def _answered(conn: Connection, function: str) -> Json:
    """Return the function's result, which must not be too long."""
    row = conn.execute(f"select jobforge.{function}()::text as text".encode()).fetchone()
    assert row is not None
    assert len(row["text"]) <= LONGEST_ANSWER
    return json.loads(row["text"])


def _resume(conn: Connection) -> None:
    """Resume waiting jobs as the dispatch of an event does."""
    conn.execute(
        f"select jobforge_private.resume_waits(%s, gen_random_uuid(), 'paid', {ZEROS})".encode(),
        [TENANT_A],
    )


def _gather(conn: Connection, children: list[UUID]) -> UUID:
    """Create a job that is due and whose gather of these jobs has finished."""
    worker = new_worker()
    gatherer = enqueue_one(conn, TENANT_A)
    wait = {
        "kind": "gather",
        "name": "gather",
        "index": 0,
        "jobs": [str(child) for child in children],
    }
    complete(conn, worker, claim(conn, worker), "snoozed", wait=wait)
    return gatherer


def _finished(conn: Connection, jobs: int, result: str) -> list[UUID]:
    """Create jobs that have succeeded with this result, an SQL expression."""
    worker = new_worker()
    ids = enqueue(conn, TENANT_A, jobs, queue="children")
    succeed(conn, worker, claim(conn, worker, "children", jobs))
    with conn.transaction():
        conn.execute("set local session_replication_role = replica")  # avoids the check of each
        conn.execute(
            f"update jobforge.finished_jobs set result = {result} where queue = 'children'".encode()
        )
    [row] = conn.execute(
        f"select octet_length(({result})::text) as text,"
        f" jobforge_private.is_storable_result({result}) as is_storable".encode()
    ).fetchall()
    assert row["is_storable"]
    return ids


def _claim_as_workers_do(conn: Connection, worker: UUID) -> list[ClaimedJob]:
    """Claim and load the steps of each job in the same statement."""
    return db.run(conn, calls.claim_jobs(worker, {"default": 10}))

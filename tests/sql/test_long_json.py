"""JSON that is short as jsonb and very long as text is refused, and does not stop other jobs."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest
from attacks import Attempts
from cluster import Connection, connect_to, fresh_database, wait_until
from psycopg import sql
from sql.attack_arguments import Arguments, Function, functions
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    Row,
    call,
    call_for_value,
    claim,
    definition,
    enqueue,
    enqueue_one,
    new_worker,
    refused,
    token,
)
from sql.long_json import LONG, is_concerned, is_public, long_arguments, unbounded_columns
from sql.planted_tenants import plant
from sql.tenancy_attack import World

from jobforge.embedded import PostgresServer

REFUSAL = re.compile(r"JF0\d\d")

# These functions settle a job or save its output: they store what can be stored, and say so.
TOLERANT = {
    *("complete_job", "complete_jobs", "succeed_jobs"),
    *("note_jobs", "save_steps", "record_deliveries"),
}


@pytest.fixture(scope="module")
def world(server: PostgresServer) -> Iterator[World]:
    """One database for all attempts: each is rolled back."""
    with fresh_database(server) as database, closing(connect_to(database.url)) as conn:
        yield World.make(database, conn)


@pytest.mark.attack("payloads")
def test_every_json_argument_of_every_public_function_is_bounded(
    world: World, attempts: Attempts
) -> None:
    found = []
    for function in functions(world.conn):
        if not is_concerned(function) or not is_public(world.conn, function):
            continue
        for what, arguments in long_arguments(function, world.a, world.b):
            attempts(1)
            found += [f"{what}: {fault}" for fault in _try(world.conn, function, arguments)]
    assert not found, "\n".join(found)


def _try(conn: Connection, function: Function, arguments: Arguments) -> Iterator[str]:
    """Return what is wrong with the outcome of a call; the call is rolled back."""
    given = sql.SQL(", ").join(
        sql.SQL("{} => {}::{}").format(
            sql.Identifier(parameter.name),
            sql.Literal(arguments[parameter.name]),
            sql.SQL(parameter.type),
        )
        for parameter in function.parameters
    )
    query = sql.SQL("select count(*) from jobforge.{}({})")
    with conn.transaction(force_rollback=True):
        try:
            with conn.transaction():
                conn.execute(query.format(sql.Identifier(function.name), given))
        except psycopg.Error as error:
            if not REFUSAL.fullmatch(error.sqlstate or ""):
                yield f"{error.sqlstate} {str(error)[:200]}"
            return
        if function.name not in TOLERANT:
            yield "taken"
        yield from unbounded_columns(conn)


@pytest.mark.attack("payloads")
def test_the_refusal_names_the_number(conn: Connection) -> None:
    definition(conn)
    payload = sql.SQL('{{"items": [1, {{"price": {}}}]}}')
    with refused("JF007", field="payload", path="$.items[1].price", index=0):
        _enqueue(conn, payload.format(sql.SQL("1e131071")).as_string())


@pytest.mark.parametrize("number", ["9e308", "-9e308", "5e-324", "1e-300", "0.1", "0", "1e22"])
def test_any_double_is_accepted(conn: Connection, number: str) -> None:
    definition(conn)
    assert _enqueue(conn, f'{{"x": [{number}]}}') is not None


def test_a_payload_has_at_most_2_mib_of_text(conn: Connection) -> None:
    """The payload has zeros with many decimals, which a client can send in few bytes."""
    definition(conn)
    zeros = ",".join(["0e-16383"] * 120)
    assert _enqueue(conn, f'{{"x": [{zeros}]}}') is not None
    with refused("JF007", field="payload"):
        _enqueue(conn, f'{{"x": [{zeros},{zeros}]}}')


@pytest.mark.parametrize("update", ["jobs", "events", "triggers", "finished_jobs"])
def test_a_superuser_cannot_update_a_row_to_a_long_value(conn: Connection, update: str) -> None:
    plant(conn, TENANT_A, "amberword")
    column = "data" if update == "events" else "payload"
    with refused("JF007", field=column, path="$.x[0]", table=_table_of(conn, update)):
        conn.execute(f"update jobforge.{update} set {column} = '{LONG}'".encode())


def _table_of(conn: Connection, table: str) -> str:
    row = conn.execute(
        f"select split_part(t.tableoid::regclass::text, '.', 2) as name"
        f"  from jobforge.{table} as t limit 1".encode()
    ).fetchone()
    assert row is not None
    return str(row["name"])


@pytest.mark.attack("payloads")
def test_a_planted_payload_does_not_stop_other_jobs(conn: Connection) -> None:
    definition(conn)
    bad = enqueue_one(conn, TENANT_A)
    good = [enqueue_one(conn, tenant) for tenant in (TENANT_A, TENANT_B)]
    _plant(conn, "jobs", "payload", bad)
    worker = new_worker()
    with pytest.raises(psycopg.Error) as caught:
        claim(conn, worker, limit=10)
    assert caught.value.sqlstate == "54000"
    claimed = call(conn, "claim_readable_jobs", worker_id=worker, queues=["default"], limits=[10])
    assert sorted(row["job_id"] for row in claimed) == sorted(good)
    job = call(conn, "get_job", job_id=bad, tenant_id=TENANT_A)[0]["job"]
    assert job["state"] == "dead"
    assert job["error"]["type"] == "UnreadablePayload"
    assert job["payload"] == {"$unreadable": "the value was too long as JSON text"}
    assert unbounded_columns(conn) == []
    [trouble] = call(conn, "find_unreadable")
    assert (trouble["kind"], trouble["subject"]) == ("removed", str(bad))


@pytest.mark.attack("payloads")
@pytest.mark.parametrize("column", ["payload", "result", "error"])
def test_a_planted_value_of_a_job_can_be_seen_canceled_and_erased(
    conn: Connection, column: str
) -> None:
    definition(conn)
    bad = enqueue_one(conn, TENANT_A)
    _plant(conn, "jobs", column, bad)
    [trouble] = call(conn, "find_unreadable")
    assert (trouble["kind"], trouble["subject"], trouble["detail"]) == ("job", str(bad), column)
    assert [row["id"] for row in call(conn, "list_jobs", tenant_id=TENANT_A)] == [bad]
    job = call(conn, "get_job", job_id=bad, tenant_id=TENANT_A)[0]["job"]
    assert job[column] == {"$unreadable": "the value is too long as JSON text"}
    call(conn, "cancel_job", job_id=bad, tenant_id=TENANT_A)
    call(conn, "erase_job", job_id=bad, tenant_id=TENANT_A)
    assert unbounded_columns(conn) == []
    assert call(conn, "find_unreadable") == []


@pytest.mark.attack("payloads")
def test_a_planted_event_does_not_stop_the_dispatch(conn: Connection) -> None:
    definition(conn)
    settings = {"label": "l", "definition": "test", "event": "e"}
    call(conn, "create_trigger", type="event", settings=settings, tenant_id=TENANT_A)
    bad = call_for_value(conn, "emit_event", name="e", tenant_id=TENANT_A)
    good = call_for_value(conn, "emit_event", name="e", tenant_id=TENANT_A)
    _plant(conn, "events", "data", bad)
    pending = call_for_value(conn, "pending_events")["events"]
    assert {each["event_id"]: len(each["triggers"]) for each in pending} == {
        str(bad): 0,
        str(good): 1,
    }
    [event] = call(conn, "get_event", id=bad, tenant_id=TENANT_A)
    assert event["data"] == {"$unreadable": "the value is too long as JSON text"}


@pytest.mark.attack("payloads")
def test_a_planted_trigger_does_not_stop_the_schedules(conn: Connection) -> None:
    definition(conn)
    settings = {"label": "l", "definition": "test", "cron": "@daily"}
    made = [
        call_for_value(conn, "create_trigger", type="schedule", settings=settings, tenant_id=tenant)
        for tenant in (TENANT_A, TENANT_B)
    ]
    _plant(conn, "triggers", "payload", made[0])
    due = call_for_value(conn, "due_schedules")["triggers"]
    payloads = {each["id"]: each["payload"] for each in due}
    assert payloads == {
        str(made[0]): {"$unreadable": "the value is too long as JSON text"},
        str(made[1]): {},
    }
    for each in call(conn, "list_triggers", tenant_id=TENANT_A):
        assert each["payload"] == payloads[str(each["id"])]


@pytest.mark.attack("payloads")
def test_a_planted_note_does_not_stop_the_stream(conn: Connection) -> None:
    definition(conn)
    job = enqueue_one(conn, TENANT_A)
    start = call(conn, "read_stream")[-1]["place"]
    call(conn, "reschedule_job", job_id=job, run_at=datetime.now(UTC), tenant_id=TENANT_A)
    conn.execute(f"update jobforge.job_events set data = '{LONG}'".encode())
    # The stream ends before the oldest open transaction of the cluster, such as a vacuum.
    wait_until(lambda: call(conn, "read_stream", after=start)[0]["kind"] != "mark")
    rows = call(conn, "read_stream", after=start)
    assert rows[0]["data"] == {"$unreadable": "the value is too long as JSON text"}
    assert call(conn, "list_notes", job_id=job, tenant_id=TENANT_A)[0]["data"] == rows[0]["data"]


@pytest.mark.attack("payloads")
def test_one_invalid_outcome_does_not_fail_the_others(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, TENANT_A, 4)
    worker = new_worker()
    jobs = claim(conn, worker, limit=4)
    reports: list[Json] = [
        {"outcome": "succeeded", "result": "<long>"},
        {"outcome": "failed", "error": {"type": "E", "message": "<long>"}},
        {"outcome": "failed", "reason": "<long>"},
        {"outcome": "succeeded", "result": 1},
    ]
    outcomes = [{**token(job), **report} for job, report in zip(jobs, reports, strict=True)]
    text = json.dumps(outcomes).replace('"<long>"', LONG)
    settled = conn.execute(
        "select * from jobforge.complete_jobs(%s, %s::jsonb)", [worker, text]
    ).fetchall()
    assert {row["job_id"]: (row["status"], row["state"]) for row in settled} == {
        jobs[0]["job_id"]: ("ok", "dead"),
        jobs[1]["job_id"]: ("ok", "scheduled"),
        jobs[2]["job_id"]: ("ok", "dead"),
        jobs[3]["job_id"]: ("ok", "succeeded"),
    }
    errors = conn.execute("select error ->> 'type' as type from jobforge.jobs").fetchall()
    assert Counter(row["type"] for row in errors) == {
        "ResultTooLong": 1,
        "InvalidOutcome": 1,
        None: 1,
    }
    assert unbounded_columns(conn) == []


def _enqueue(conn: Connection, payload: str) -> Row | None:
    query = "select * from jobforge.enqueue_job('test', %s::jsonb, '{}', %s)"
    return conn.execute(query, [payload, TENANT_A]).fetchone()


def _plant(conn: Connection, table: str, column: str, row_id: UUID) -> None:
    """Store the value as a superuser does who has disabled the triggers."""
    with conn.transaction():
        conn.execute("set local session_replication_role = replica")
        conn.execute(
            f"update jobforge.{table} set {column} = '{LONG}' where id = %s".encode(), [row_id]
        )

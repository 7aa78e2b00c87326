"""The erasure of a single job: what is deleted, what is kept, and what is refused afterwards."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    as_tenant,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue_one,
    job_of,
    new_worker,
    note,
    refused,
    succeed,
    token,
)
from sql.webhook_endpoints import create_endpoint, define_connector, list_sent

SECRET = "jane-doe-1984"
ERROR = {"type": "Oops", "message": SECRET, "traceback": SECRET}


def finish_job(conn: Connection, how: str, tenant: UUID = TENANT_A) -> UUID:
    """Return a finished job (succeeded or dead) with its secret in every field where a job can have
    it."""
    definition(conn, max_attempts=2)
    job = enqueue_one(
        conn,
        tenant,
        payload={"who": SECRET},
        key=SECRET,
        tags=[SECRET],
        correlation_id=SECRET,
        created_by=SECRET,
    )
    worker = new_worker()
    rows = claim(conn, worker)
    for kind in ("progress", "log", "event"):
        note(conn, worker, rows, kind, text=SECRET)
    step = {"name": "s", "index": 0, "result": SECRET}
    call(conn, "save_steps", worker_id=worker, steps=[token(row) | step for row in rows])
    tails = {"stdout_tail": SECRET, "stderr_tail": SECRET}
    complete(conn, worker, rows, "failed", error=ERROR, retry_in_s=0, **tails)
    call(conn, "edit_job", job_id=job, changes={"payload": {"who": SECRET}}, tenant_id=tenant)
    rows = claim(conn, worker)
    assert [row["job_id"] for row in rows] == [job]
    if how == "dead":
        complete(conn, worker, rows, "failed", error=ERROR, final=True, **tails)
    elif how == "canceled":
        call(conn, "cancel_job", job_id=job, reason=SECRET, tenant_id=tenant)
        complete(conn, worker, rows, "canceled", reason=SECRET)
    else:
        complete(conn, worker, rows, "succeeded", result={"who": SECRET}, **tails)
    return job


def erase_job(conn: Connection, job: UUID) -> list[str]:
    folders = call_for_value(conn, "erase_job", job_id=job, tenant_id=TENANT_A)
    assert isinstance(folders, list)
    return folders


def find_tables_containing(conn: Connection, word: str) -> list[str]:
    tables = conn.execute(
        "select c.relname as name from pg_class as c"
        " where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')"
        "   and not c.relispartition"
    ).fetchall()
    return [
        table["name"]
        for table in tables
        if conn.execute(
            f"select from jobforge.{table['name']} as t where t::text like %s limit 1".encode(),
            [f"%{word}%"],
        ).rowcount
    ]


KEPT = (
    *("id", "state", "definition", "queue", "attempt", "created_at", "run_at"),
    *("started_at", "finished_at", "worker_id", "lease", "fingerprint"),
)


@pytest.mark.parametrize("how", ["succeeded", "canceled", "dead"])
def test_an_erased_job_keeps_only_what_the_counts_need(conn: Connection, how: str) -> None:
    job = finish_job(conn, how)
    before = job_of(conn, TENANT_A, job)
    counted = call(conn, "list_failures", tenant_id=TENANT_A)
    attempts = count(conn, "attempts")
    assert set(find_tables_containing(conn, SECRET)) >= {"attempts", "job_events", "steps"}
    erase_job(conn, job)
    assert find_tables_containing(conn, SECRET) == []
    after = job_of(conn, TENANT_A, job)
    assert {name: after[name] for name in KEPT} == {name: before[name] for name in KEPT}
    assert after["state"] == how
    assert list(after["payload"]) == ["$erased"]
    assert count(conn, "attempts") == attempts
    assert len(call(conn, "list_failures", tenant_id=TENANT_A)) == len(counted)
    if how == "dead":
        assert after["error"] == {"type": "Oops", "message": "erased"}


def test_webhook_messages_about_an_erased_job_are_erased(conn: Connection) -> None:
    define_connector(conn)
    webhook_id = create_endpoint(conn, events=["end", "failure"])
    job = finish_job(conn, "dead")
    assert "webhook_deliveries" in find_tables_containing(conn, SECRET)
    messages = len(list_sent(conn, webhook_id))
    erase_job(conn, job)
    assert find_tables_containing(conn, SECRET) == []
    assert len(list_sent(conn, webhook_id)) == messages


def test_the_audit_log_and_the_timeline_record_who_erased_a_job(conn: Connection) -> None:
    job = finish_job(conn, "canceled")
    with conn.transaction():
        conn.execute("select set_config('app.actor', 'key:dpo', true)")
        erase_job(conn, job)
    rows = conn.execute(
        "select actor, action, detail from jobforge.audit_log where target = %s order by id",
        [str(job)],
    ).fetchall()
    assert rows[-1] == {"actor": "key:dpo", "action": "job.erase", "detail": None}
    assert {row["action"] for row in rows} >= {"job.cancel", "job.edit"}
    events = conn.execute("select kind, data from jobforge.job_events order by at").fetchall()
    assert [row["kind"] for row in events] == ["edited", "cancel_requested", "erased"]
    assert {row["data"] for row in events} == {None}


def test_a_job_that_has_not_finished_is_not_erased(conn: Connection) -> None:
    definition(conn)
    parent = enqueue_one(conn)
    waiting = [
        ("queued", parent),
        ("scheduled", enqueue_one(conn, delay_s=60)),
        ("blocked", enqueue_one(conn, after=[str(parent)])),
    ]
    for state, job in waiting:
        with refused("JF005", state=state):
            erase_job(conn, job)
    worker = new_worker()
    rows = claim(conn, worker)
    with refused("JF005", state="running"):
        erase_job(conn, parent)
    succeed(conn, worker, rows)
    erase_job(conn, parent)
    with refused("JF004"):
        erase_job(conn, uuid4())


def test_a_client_erases_jobs_of_its_own_tenant_only(conn: Connection, connect: Connect) -> None:
    job = finish_job(conn, "succeeded")
    client = connect("client_login")
    with as_tenant(client, TENANT_B), refused("JF004"):
        call(client, "erase_job", job_id=job)
    with as_tenant(client, TENANT_A):
        call(client, "erase_job", job_id=job)
    assert find_tables_containing(conn, SECRET) == []


@pytest.mark.parametrize("how", ["succeeded", "dead"])
def test_an_erased_job_never_runs_again(conn: Connection, how: str) -> None:
    job = finish_job(conn, how)
    erase_job(conn, job)
    for payload in (None, {"who": "else"}):
        with refused("JF005", job_id=str(job)):
            call(conn, "retry_job", job_id=job, payload=payload, tenant_id=TENANT_A)
    assert call_for_value(conn, "retry_jobs", limit=1, tenant_id=TENANT_A) == 0
    for kind in ("retry", "redrive"):
        given: dict[str, Any] = {"kind": kind, "filter": {}, "tenant_id": TENANT_A}
        assert call_for_value(conn, "count_jobs", **given) == 0
        call(conn, "start_operation", **given)
    while call(conn, "advance_operations"):
        pass
    assert job_of(conn, TENANT_A, job)["state"] == how
    assert claim(conn, new_worker()) == []


def test_erased_jobs_do_not_hide_others_from_a_retry(conn: Connection) -> None:
    other = finish_job(conn, "dead")
    erase_job(conn, ended_again(conn))
    assert call_for_value(conn, "retry_jobs", limit=1, tenant_id=TENANT_A) == 1
    assert job_of(conn, TENANT_A, other)["state"] == "queued"


def ended_again(conn: Connection) -> UUID:
    job = enqueue_one(conn)
    worker = new_worker()
    complete(conn, worker, claim(conn, worker), "failed", error=ERROR, final=True)
    return job


def test_a_workflow_with_an_erased_node_cannot_be_retried(conn: Connection) -> None:
    definition(conn)
    workflow = {"nodes": [{"name": "a", "definition": "test", "payload": {"who": SECRET}}]}
    rows = call(conn, "enqueue_workflow", workflow=workflow, tenant_id=TENANT_A)
    worker = new_worker()
    claimed = claim(conn, worker)
    complete(conn, worker, claimed, "failed", error=ERROR, final=True)
    erase_job(conn, claimed[0]["job_id"])
    workflow_id = conn.execute("select id from jobforge.workflows").fetchall()[0]["id"]
    assert rows
    with refused("JF005", job_id=str(claimed[0]["job_id"])):
        call(conn, "retry_workflow", id=workflow_id, tenant_id=TENANT_A)


def test_its_key_is_free_again(conn: Connection) -> None:
    job = finish_job(conn, "succeeded")
    erase_job(conn, job)
    assert enqueue_one(conn, key=SECRET) != job


def test_its_artifacts_are_unused_at_once_except_those_that_another_job_names(
    conn: Connection,
) -> None:
    definition(conn)
    payload, shared = (f"{TENANT_A}/2026-01-01/{uuid4()}" for _ in range(2))
    first = enqueue_one(conn, artifact_ref=f"artifact:{payload}/payload.json")
    second = enqueue_one(conn, artifact_ref=f"artifact:{shared}/payload.json")
    enqueue_one(conn, artifact_ref=f"artifact:{shared}/payload.json")
    worker = new_worker()
    rows = [row for row in claim(conn, worker, limit=3) if row["job_id"] in (first, second)]
    succeed(conn, worker, rows)
    [today] = conn.execute(
        "select (jobforge_private.now() at time zone 'UTC')::date::text as day"
    ).fetchall()
    own = f"{TENANT_A}/{today['day']}/{first}"
    found = {"folders": [own, payload, shared]}
    assert call(conn, "unused_artifacts", **found) == []
    assert set(erase_job(conn, first)) >= {own, payload}
    assert shared not in erase_job(conn, second)
    assert {row["folder"] for row in call(conn, "unused_artifacts", **found)} == {own, payload}


def test_erasing_twice_is_not_an_error(conn: Connection) -> None:
    job = finish_job(conn, "dead")
    erase_job(conn, job)
    erase_job(conn, job)
    assert find_tables_containing(conn, SECRET) == []

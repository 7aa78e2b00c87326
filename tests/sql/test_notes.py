"""Notes of running jobs: progress, log lines and events, stored under the lease of their time."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection
from psycopg.types.json import Jsonb
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    as_tenant,
    call,
    complete,
    count,
    definition,
    enqueue,
    erase,
    new_worker,
    note,
    refused,
    token,
)
from sql.settlement import check_a_late_note, claim_and_reap_job, claim_job
from sql.uncached_claim import claim

DENIED = "42501"


@pytest.fixture
def worker(conn: Connection) -> UUID:
    definition(conn)
    return new_worker()


def say(conn: Connection, worker: UUID, *said: tuple[Row, str, Any]) -> list[Row]:
    """Send one batch of notes, each with its job, kind and data."""
    notes = [token(job) | {"kind": kind, "data": data} for job, kind, data in said]
    return call(conn, "note_jobs", worker_id=worker, notes=Jsonb(notes))


def listed(conn: Connection, job: Row, **arguments: Any) -> list[Row]:
    key = {"job_id": job["job_id"], "tenant_id": job["tenant_id"]}
    return call(conn, "list_notes", **key, **arguments)


def messages(conn: Connection, job: Row, **arguments: Any) -> list[Any]:
    return [row["data"]["message"] for row in listed(conn, job, **arguments)]


# What is stored.


def test_a_note_keeps_its_kind_its_data_and_its_lease(conn: Connection, worker: UUID) -> None:
    job = claim_job(conn, worker)
    said: list[tuple[str, Any]] = [
        ("progress", {"done": 3, "total": 7, "message": "halfway"}),
        ("log", {"level": "info", "message": "hello", "of": [None, 1.5]}),
        ("event", {"name": "sent", "data": {"to": "ada"}}),
    ]
    [answer] = say(conn, worker, *((job, kind, data) for kind, data in said))
    assert answer == {"job_id": job["job_id"], "lease": job["lease"], "status": "ok"}
    assert [(row["kind"], row["data"], row["actor"]) for row in listed(conn, job)] == [
        (kind, data | {"lease": job["lease"]}, None) for kind, data in said
    ]


def test_notes_are_read_in_the_order_in_which_they_were_sent(
    conn: Connection, worker: UUID
) -> None:
    jobs = [claim_job(conn, worker) for _ in range(2)]
    for batch in range(3):
        said = [(jobs[n % 2], "log", {"message": [batch, n]}) for n in range(200)]
        assert len(say(conn, worker, *said)) == 2
    for parity, job in enumerate(jobs):
        expected = [[batch, n] for batch in range(3) for n in range(parity, 200, 2)]
        assert messages(conn, job, limit=1000) == expected


def test_no_two_notes_of_a_batch_have_the_same_time(conn: Connection, worker: UUID) -> None:
    job = claim_job(conn, worker)
    say(conn, worker, *[(job, "log", {})] * 1000)
    assert len({row["at"] for row in listed(conn, job, limit=1000)}) == 1000


def test_data_up_to_the_limits_are_stored_unchanged(conn: Connection, worker: UUID) -> None:
    job = claim_job(conn, worker)
    large, deep = {"message": "x" * 65_000}, _nested(64)
    say(conn, worker, (job, "log", large), (job, "event", deep))
    assert [row["data"] for row in listed(conn, job)] == [
        large | {"lease": job["lease"]},
        deep | {"lease": job["lease"]},
    ]


@pytest.mark.parametrize("cut", ["too large", "too deep"])
def test_data_beyond_the_limits_are_stored_as_the_start_of_their_text(
    conn: Connection, worker: UUID, cut: str
) -> None:
    job = claim_job(conn, worker)
    data = {"a": "x" * 70_000} if cut == "too large" else _nested(65)
    [answer] = say(conn, worker, (job, "log", data))
    assert answer["status"] == "ok"
    [row] = listed(conn, job)
    assert (row["data"]["truncated"], row["data"]["lease"]) == (True, job["lease"])
    assert row["data"]["text"].startswith('{"a": "xxx' if cut == "too large" else '{"in": {"in"')
    assert len(row["data"]["text"]) <= 8000


def _nested(levels: int) -> Any:
    """Return objects in objects, nested this deep."""
    return {"in": _nested(levels - 1)} if levels else 0


def test_an_unknown_kind_is_refused_with_its_whole_batch(conn: Connection, worker: UUID) -> None:
    job = claim_job(conn, worker)
    with refused("JF002", field="kind"):
        say(conn, worker, (job, "log", {}), (job, "cancel_requested", {}))
    with refused("JF002", field="data"):
        say(conn, worker, (job, "log", {}), (job, "log", "no object"))
    assert count(conn, "job_events") == 0


def test_an_empty_batch_of_notes_returns_no_answers(conn: Connection, worker: UUID) -> None:
    assert call(conn, "note_jobs", worker_id=worker, notes=Jsonb([])) == []


# Whose notes are stored.


def test_notes_of_a_stale_lease_are_lost_even_if_its_worker_has_the_job_again(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    stale = claim_and_reap_job(conn, clock, worker)
    check_a_late_note(conn, worker, stale)
    claim(conn, worker)
    check_a_late_note(conn, worker, stale)


def test_notes_under_another_workers_lease_are_lost(conn: Connection, worker: UUID) -> None:
    check_a_late_note(conn, new_worker(), claim_job(conn, worker))


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "released", "canceled"])
def test_notes_of_an_attempt_that_has_ended_are_lost(
    conn: Connection, worker: UUID, outcome: str
) -> None:
    job = claim_job(conn, worker)
    complete(conn, worker, [job], outcome)
    check_a_late_note(conn, worker, job)


def test_notes_with_another_tenants_id_are_lost(conn: Connection, worker: UUID) -> None:
    job = claim_job(conn, worker)
    check_a_late_note(conn, worker, job | {"tenant_id": TENANT_B})
    assert listed(conn, job) == []


def test_a_lost_lease_in_a_batch_does_not_lose_the_notes_of_others(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    stale = claim_and_reap_job(conn, clock, worker)
    [current] = claim(conn, worker)
    other = claim_job(conn, worker)
    answers = say(
        conn,
        worker,
        (stale, "log", {"message": "stale"}),
        (current, "log", {"message": "one"}),
        (other, "log", {"message": "two"}),
        (stale, "log", {"message": "stale again"}),
        (current, "progress", {"message": "three"}),
    )
    assert {(row["job_id"], row["lease"], row["status"]) for row in answers} == {
        (stale["job_id"], stale["lease"], "lost"),
        (current["job_id"], current["lease"], "ok"),
        (other["job_id"], other["lease"], "ok"),
    }
    assert len(answers) == 3
    assert messages(conn, current) == ["one", "three"]
    assert messages(conn, other) == ["two"]


def test_a_job_that_was_asked_to_stop_can_still_send_notes(conn: Connection, worker: UUID) -> None:
    job = claim_job(conn, worker)
    call(conn, "cancel_job", job_id=job["job_id"], tenant_id=TENANT_A)
    [answer] = note(conn, worker, [job], message="tidying up")
    assert answer["status"] == "ok"


def test_notes_do_not_wait_for_a_lock_of_the_job(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    job = claim_job(conn, worker)
    other = connect(autocommit=False)
    complete(other, worker, [job])
    conn.execute("set lock_timeout = '1ms'")
    [answer] = note(conn, worker, [job], message="not ended for us yet")
    assert answer["status"] == "ok"


def test_a_worker_confined_to_a_tenant_adds_no_notes_to_other_tenants_jobs(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    for tenant in (TENANT_A, TENANT_B):
        enqueue(conn, tenant)
    jobs = claim(conn, worker, limit=2)
    confined = connect("worker_login")
    with as_tenant(confined, TENANT_A):
        answers = note(confined, worker, jobs, message="heard")
    tenants = {job["job_id"]: job["tenant_id"] for job in jobs}
    assert {tenants[row["job_id"]]: row["status"] for row in answers} == {
        TENANT_A: "ok",
        TENANT_B: "lost",
    }
    assert count(conn, "job_events", TENANT_B) == 0


def test_clients_read_notes_and_workers_write_them(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    job = claim_job(conn, worker)
    note(connect("worker_login"), worker, [job], message="hello")
    client = connect("client_login")
    with as_tenant(client, TENANT_A):
        assert messages(client, job) == ["hello"]
    with refused(DENIED):
        note(client, worker, [job], message="forged")
    with refused(DENIED):
        listed(connect("worker_login"), job)


# Reading notes.


def test_the_timeline_of_a_job_has_its_progress_and_events_but_no_log_lines(
    conn: Connection, worker: UUID
) -> None:
    job = claim_job(conn, worker)
    for kind in ("progress", "log", "event"):
        note(conn, worker, [job], kind, message=kind)
    complete(conn, worker, [job])
    [shown] = call(conn, "get_job", job_id=job["job_id"], tenant_id=TENANT_A)
    kinds = [event["kind"] for event in shown["events"]]
    assert [kind for kind in kinds if kind in {"progress", "log", "event"}] == ["progress", "event"]
    assert kinds[0] == "created"
    assert kinds[-1] == "succeeded"


def test_notes_are_read_in_pages_oldest_first(conn: Connection, worker: UUID) -> None:
    job = claim_job(conn, worker)
    say(conn, worker, *((job, "log", {"message": n}) for n in range(5)))
    pages, after = [], None
    while page := listed(conn, job, limit=2, after=after):
        pages.append([row["data"]["message"] for row in page])
        after = page[-1]["at"]
    assert pages == [[0, 1], [2, 3], [4]]


def test_notes_are_filtered_by_kind(conn: Connection, worker: UUID) -> None:
    job = claim_job(conn, worker)
    for n, kind in enumerate(["log", "progress", "event", "log"]):
        note(conn, worker, [job], kind, message=n)
    assert messages(conn, job, kinds=["log"]) == [0, 3]
    assert messages(conn, job, kinds=["progress", "event"]) == [1, 2]
    assert messages(conn, job, kinds=["log"], limit=1) == [0]
    assert messages(conn, job, kinds=None) == [0, 1, 2, 3]
    assert messages(conn, job, kinds=[]) == []


def test_actions_on_a_job_are_among_its_notes_with_their_actor(
    conn: Connection, worker: UUID
) -> None:
    job = claim_job(conn, worker)
    note(conn, worker, [job], message="working")
    with as_tenant(conn, TENANT_A):
        conn.execute("select set_config('app.actor', 'ada', true)")
        call(conn, "cancel_job", job_id=job["job_id"], reason="enough")
    note(conn, worker, [job], message="stopping")
    assert [(row["kind"], row["actor"]) for row in listed(conn, job)] == [
        ("log", None),
        ("cancel_requested", "ada"),
        ("log", None),
    ]


def test_notes_are_kept_after_the_attempt_and_the_job_have_finished(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    worker = new_worker()
    first = claim_job(conn, worker)
    note(conn, worker, [first], message="first attempt")
    complete(conn, worker, [first], "failed", retry_in_s=0)
    clock.travel(seconds=1)
    [second] = claim(conn, worker)
    note(conn, worker, [second], message="second attempt")
    complete(conn, worker, [second])
    assert [(row["data"]["message"], row["data"]["lease"]) for row in listed(conn, first)] == [
        ("first attempt", first["lease"]),
        ("second attempt", second["lease"]),
    ]


def test_a_job_without_notes_has_an_empty_list_and_an_unknown_job_is_not_found(
    conn: Connection, worker: UUID
) -> None:
    job = claim_job(conn, worker)
    assert listed(conn, job) == []
    complete(conn, worker, [job])
    assert listed(conn, job) == []
    with refused("JF004", job_id=str(worker)):
        listed(conn, job | {"job_id": worker})


def test_a_tenant_cannot_read_the_notes_of_another(
    conn: Connection, connect: Connect, worker: UUID
) -> None:
    job = claim_job(conn, worker)
    note(conn, worker, [job], message="secret")
    client = connect("client_login")
    with refused("JF004"), as_tenant(client, TENANT_B):
        call(client, "list_notes", job_id=job["job_id"])
    with refused("JF006"), as_tenant(client, TENANT_B):
        listed(client, job)
    with refused("JF001"):
        listed(client, job)


def test_deleting_a_tenant_deletes_its_notes(conn: Connection, worker: UUID) -> None:
    job = claim_job(conn, worker)
    note(conn, worker, [job], message="hello")
    erase(conn)
    assert count(conn, "job_events") == 0
    assert note(conn, worker, [job | {"job_id": uuid4()}])[0]["status"] == "lost"

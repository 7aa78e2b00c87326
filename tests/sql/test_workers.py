"""Workers: registration, the answers to heartbeats, and commands to drain or stop."""

from datetime import timedelta
from uuid import UUID

import pytest
from cluster import Clock, Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    as_tenant,
    call,
    claim,
    complete,
    definition,
    enqueue,
    heartbeat,
    new_worker,
    refused,
)


def register(conn: Connection, worker: UUID, **settings: object) -> None:
    given = {"queues": ["default"], "slots": 4, **settings}
    call(conn, "register_worker", worker_id=worker, **given)


def listed(conn: Connection) -> dict[UUID, Row]:
    return {row["id"]: row for row in call(conn, "list_workers")}


def beat(conn: Connection, worker: UUID) -> str:
    """Return the answer of a heartbeat about the worker itself."""
    *_, row = heartbeat(conn, worker, [])
    assert row["job_id"] is None
    return str(row["status"])


def test_a_worker_is_listed_with_its_registered_facts(conn: Connection) -> None:
    worker = new_worker()
    said = {"queues": ["a", "b"], "slots": 7, "definitions": ["test@1"], "host": "h", "pid": 12}
    register(conn, worker, **said, build="1.2")
    row = listed(conn)[worker]
    assert {name: row[name] for name in said} == said
    assert (row["state"], row["build"], row["running"]) == ("live", "1.2", 0)
    assert row["started_at"] == row["heartbeat_at"]


def test_the_heartbeat_of_an_unregistered_worker_says_so(conn: Connection) -> None:
    worker = new_worker()
    assert beat(conn, worker) == "unknown"
    register(conn, worker)
    assert beat(conn, worker) == "ok"


def test_registering_again_keeps_the_start_time_and_updates_the_facts(
    conn: Connection, clock: Clock
) -> None:
    worker = new_worker()
    register(conn, worker)
    started = listed(conn)[worker]["started_at"]
    clock.travel(minutes=5)
    register(conn, worker, slots=9, queues=["other"])
    row = listed(conn)[worker]
    assert (row["started_at"], row["slots"], row["queues"]) == (started, 9, ["other"])
    assert row["state"] == "live"


def test_a_heartbeat_reports_how_many_jobs_run(conn: Connection) -> None:
    definition(conn)
    worker = new_worker()
    register(conn, worker)
    enqueue(conn, n=3)
    rows = claim(conn, worker, limit=3)
    heartbeat(conn, worker, rows)
    assert listed(conn)[worker]["running"] == 3
    complete(conn, worker, rows)
    heartbeat(conn, worker, [])
    assert listed(conn)[worker]["running"] == 0


def test_a_heartbeat_reports_memory_and_clock_skew(conn: Connection, clock: Clock) -> None:
    worker = new_worker()
    register(conn, worker)
    for ahead_s in (90.0, -90.0):
        before = clock.now()
        reported = before + timedelta(seconds=ahead_s)
        call(conn, "heartbeat_jobs", worker_id=worker, memory_bytes=50 << 20, clock=reported)
        took_s = (clock.now() - before).total_seconds()
        row = listed(conn)[worker]
        assert row["memory_bytes"] == 50 << 20
        assert ahead_s - took_s <= row["clock_skew_s"] <= ahead_s
    call(conn, "heartbeat_jobs", worker_id=worker, clock="infinity")
    row = listed(conn)[worker]
    assert (row["memory_bytes"], row["clock_skew_s"]) == (None, None), "not reported"


@pytest.mark.parametrize(
    ("command", "reported", "state"),
    [("drain_worker", "drain", "draining"), ("stop_worker", "stop", "stopping")],
)
def test_a_command_is_returned_by_the_next_heartbeat(
    conn: Connection, command: str, reported: str, state: str
) -> None:
    worker = new_worker()
    register(conn, worker)
    call(conn, command, worker_id=worker)
    assert beat(conn, worker) == reported
    assert beat(conn, worker) == reported, "also when the first answer was lost"
    assert listed(conn)[worker]["state"] == state


def test_a_worker_that_signed_off_is_stopped_and_takes_no_commands(conn: Connection) -> None:
    worker = new_worker()
    register(conn, worker)
    call(conn, "unregister_worker", worker_id=worker)
    row = listed(conn)[worker]
    assert (row["state"], row["running"]) == ("stopped", 0)
    with refused("JF004", worker_id=str(worker)):
        call(conn, "drain_worker", worker_id=worker)


def test_a_killed_worker_is_not_live_when_its_jobs_have_been_reaped(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    killed, alive = new_worker(), new_worker()
    for worker in [killed, alive]:
        register(conn, worker)
    enqueue(conn)
    heartbeat(conn, killed, claim(conn, killed))
    call(conn, "reap_jobs")
    for _ in range(4):
        clock.travel(seconds=10)
        call(conn, "reap_jobs")
        beat(conn, alive)
    [job] = conn.execute("select state from jobforge.jobs").fetchall()
    assert job["state"] == "scheduled", "the lease was reaped"
    states = {worker: row["state"] for worker, row in listed(conn).items()}
    assert states == {killed: "stale", alive: "live"}


def test_a_worker_without_a_heartbeat_is_stale_after_the_length_of_its_lease(
    conn: Connection, clock: Clock
) -> None:
    silent, alive, patient = new_worker(), new_worker(), new_worker()
    for worker in [silent, alive]:
        register(conn, worker)
    register(conn, patient, lease_s=120)
    clock.travel(seconds=25)
    beat(conn, alive)
    clock.travel(seconds=10)
    states = {worker: row["state"] for worker, row in listed(conn).items()}
    assert states == {silent: "stale", alive: "live", patient: "live"}
    call(conn, "heartbeat_jobs", worker_id=patient, lease_s=20)
    clock.travel(seconds=21)
    assert listed(conn)[patient]["state"] == "stale", "the lease of the last heartbeat counts"
    beat(conn, silent)
    assert listed(conn)[silent]["state"] == "live"


def test_signing_off_twice_or_unregistered_is_not_an_error(conn: Connection) -> None:
    worker = new_worker()
    register(conn, worker)
    for _ in range(2):
        call(conn, "unregister_worker", worker_id=worker)
    call(conn, "unregister_worker", worker_id=new_worker())


def test_registering_again_does_not_cancel_a_command(conn: Connection) -> None:
    worker = new_worker()
    register(conn, worker)
    call(conn, "drain_worker", worker_id=worker)
    register(conn, worker)
    assert beat(conn, worker) == "drain"


def test_only_operators_see_and_command_workers(conn: Connection, connect: Connect) -> None:
    worker = new_worker()
    register(connect("worker_login"), worker)
    for role in ["worker_login", "client_login", "service_login"]:
        for function, arguments in [("list_workers", {}), ("stop_worker", {"worker_id": worker})]:
            with refused("42501"):
                call(connect(role), function, **arguments)
    assert worker in listed(connect("admin_login"))
    call(connect("admin_login"), "drain_worker", worker_id=worker)
    assert beat(conn, worker) == "drain"


def test_other_tenants_cannot_reach_a_tenants_worker(conn: Connection) -> None:
    worker = new_worker()
    with as_tenant(conn, TENANT_A):
        register(conn, worker)
    with as_tenant(conn, TENANT_B):
        assert beat(conn, worker) == "unknown"
        call(conn, "unregister_worker", worker_id=worker)
    with refused("JF004"), as_tenant(conn, TENANT_B):
        register(conn, worker)
    with refused("JF004"):
        register(conn, worker)
    assert listed(conn)[worker]["state"] == "live"
    with as_tenant(conn, TENANT_A):
        assert beat(conn, worker) == "ok"


def test_a_worker_is_found_by_the_login_that_registered_it(conn: Connection) -> None:
    mine, tenants = new_worker(), new_worker()
    register(conn, mine)
    with as_tenant(conn, TENANT_A):
        register(conn, tenants)
        call(conn, "find_worker", worker_id=tenants, owner="postgres")
    call(conn, "find_worker", worker_id=mine, owner="postgres")
    for worker, owner in [(mine, "key:other"), (new_worker(), "postgres"), (tenants, "postgres")]:
        with refused("JF004"):
            call(conn, "find_worker", worker_id=worker, owner=owner)


def test_a_worker_of_another_login_cannot_be_registered(conn: Connection, connect: Connect) -> None:
    worker = new_worker()
    register(connect("worker_login"), worker)
    with refused("JF004"):
        register(conn, worker)
    register(connect("worker_login"), worker)


def test_claims_use_the_registered_definitions_even_of_workers_that_share_a_session(
    conn: Connection,
) -> None:
    """Behind a pooler, what the session remembers is of another worker."""
    served = {new_worker(): ["test@1"], new_worker(): ["mail@1"], new_worker(): ["test@1"]}
    for key in ("test", "mail"):
        definition(conn, key)
    for worker, names in served.items():
        register(conn, worker, definitions=names)
    for worker, names in [*served.items(), *served.items()]:
        enqueue(conn, n=1, definition="test")
        enqueue(conn, n=1, definition="mail")
        rows = claim(conn, worker, limit=10, registered=True)
        assert {f"{row['definition']}@{row['version']}" for row in rows} == set(names)


def test_the_next_claim_uses_a_new_definition_or_registration(
    conn: Connection,
) -> None:
    definition(conn)
    worker = new_worker()
    register(conn, worker, definitions=["test@1"])
    enqueue(conn)
    assert len(claim(conn, worker, limit=10, registered=True)) == 1
    definition(conn, "mail")
    enqueue(conn, definition="mail")
    assert claim(conn, worker, limit=10, registered=True) == []
    register(conn, worker, definitions=["test@1", "mail@1"])
    assert len(claim(conn, worker, limit=10, registered=True)) == 1
    register(conn, worker)
    definition(conn, "other")
    enqueue(conn, definition="other")
    assert len(claim(conn, worker, limit=10, registered=True)) == 1


def test_a_claim_without_a_registration_is_refused_instead_of_getting_all_jobs(
    conn: Connection,
) -> None:
    definition(conn)
    enqueue(conn)
    worker = new_worker()
    with refused("JF004"):
        claim(conn, worker, registered=True)
    with as_tenant(conn, TENANT_B):
        register(conn, worker)
    with as_tenant(conn, TENANT_A), refused("JF004"):
        claim(conn, worker, registered=True)
    with refused("JF002", field="definitions"):
        claim(conn, worker, registered=True, definitions=["test@1"])

"""Settling a job the way workers do, and what a settlement that comes too late must leave alone."""

from uuid import UUID

from cluster import Clock, Connection
from sql.engine import (
    Json,
    Row,
    attempts_of,
    complete,
    enqueue,
    heartbeat,
    job_of,
    note,
    reap,
    succeed,
)
from sql.uncached_claim import claim


def _nested(levels: int) -> Json:
    return {"in": _nested(levels - 1)} if levels else {}


# Every way in which an attempt can end, with the fields of it; what the engine records it as
# differs from what was sent only in the last.
OUTCOMES: dict[str, Json] = {
    "succeeded": {"result": {"n": 1}},
    "plain": {"outcome": "succeeded"},
    "failed": {"error": {"type": "Oops"}},
    "timed_out": {},
    "crashed": {"exit_code": -9},
    "canceled": {"reason": "on its own"},
    "snoozed": {"retry_in_s": 0},
    "released": {},
    "unstorable": {"outcome": "succeeded", "result": _nested(100)},
}


def recorded_as(outcome: str) -> str:
    return {"unstorable": "failed", "plain": "succeeded"}.get(outcome, outcome)


def held(conn: Connection, worker: UUID) -> Row:
    """A job of definition `test` that this worker runs."""
    enqueue(conn)
    [job] = claim(conn, worker)
    return job


def reaped(conn: Connection, clock: Clock, worker: UUID) -> Row:
    """A job that this worker ran until its lease was over; it is ready again."""
    job = held(conn, worker)
    clock.travel(minutes=1)
    assert [row["job_id"] for row in reap(conn)] == [job["job_id"]]
    clock.travel(hours=2)
    return job


def settle(conn: Connection, worker: UUID, job: Row, outcome: str) -> list[str]:
    """What the worker is told of its one job."""
    if outcome == "plain" and not succeed(conn, worker, [job]):
        return ["ok"]
    # The time of the claim goes with it: the engine then looks at the history of that time only.
    fields = {"outcome": outcome, "started_at": job["started_at"].isoformat()} | OUTCOMES[outcome]
    return [row["status"] for row in complete(conn, worker, [job], **fields)]


def record(conn: Connection, job: Row) -> tuple[Row, list[Row]]:
    """All that is known of a job, to the last column."""
    key = job["tenant_id"], job["job_id"]
    return job_of(conn, *key), attempts_of(conn, *key)


def notes_of(conn: Connection, tenant: UUID, job: UUID) -> list[Row]:
    """What was said of a job and done to it, oldest first."""
    return conn.execute(
        "select * from jobforge.job_events where tenant_id = %s and job_id = %s order by at",
        [tenant, job],
    ).fetchall()


def check_a_late_settlement(conn: Connection, worker: UUID, job: Row, outcome: str) -> None:
    before = record(conn, job)
    assert settle(conn, worker, job, outcome) == ["lost"]
    assert record(conn, job) == before


def check_a_late_heartbeat(conn: Connection, clock: Clock, worker: UUID) -> None:
    """The worker holds the job again, under a new lease, and beats for the old one."""
    job = reaped(conn, clock, worker)
    claim(conn, worker)
    before = record(conn, job)
    clock.travel(seconds=5)
    assert heartbeat(conn, worker, [job])[0]["status"] == "lost"
    assert record(conn, job) == before


def check_a_late_note(conn: Connection, worker: UUID, job: Row) -> None:
    key = job["tenant_id"], job["job_id"]
    before = notes_of(conn, *key)
    [answer] = note(conn, worker, [job], message="too late")
    assert (answer["job_id"], answer["lease"]) == (job["job_id"], job["lease"])
    assert answer["status"] == "lost"
    assert notes_of(conn, *key) == before

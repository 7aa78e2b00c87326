"""Settle jobs as workers do, and check what a late settlement must not change."""

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


# Each outcome of an attempt with its fields; only the last is recorded under another name than the
# one sent.
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


def claim_job(conn: Connection, worker: UUID) -> Row:
    """Return a job of definition `test` that this worker runs."""
    enqueue(conn)
    [job] = claim(conn, worker)
    return job


def claim_and_reap_job(conn: Connection, clock: Clock, worker: UUID) -> Row:
    """Return a job that this worker ran until its lease expired; the job is ready again."""
    job = claim_job(conn, worker)
    clock.travel(minutes=1)
    assert [row["job_id"] for row in reap(conn)] == [job["job_id"]]
    clock.travel(hours=2)
    return job


def settle(conn: Connection, worker: UUID, job: Row, outcome: str) -> list[str]:
    """Settle the worker's only job and return the answer."""
    if outcome == "plain" and not succeed(conn, worker, [job]):
        return ["ok"]
    # Pass the time of the claim too: the engine then searches only the history of that time.
    fields = {"outcome": outcome, "started_at": job["started_at"].isoformat()} | OUTCOMES[outcome]
    return [row["status"] for row in complete(conn, worker, [job], **fields)]


def read_record(conn: Connection, job: Row) -> tuple[Row, list[Row]]:
    """Return everything that is recorded about a job, with all columns."""
    key = job["tenant_id"], job["job_id"]
    return job_of(conn, *key), attempts_of(conn, *key)


def list_job_notes(conn: Connection, tenant: UUID, job: UUID) -> list[Row]:
    """Return a job's notes and the actions on it, oldest first."""
    return conn.execute(
        "select * from jobforge.job_events where tenant_id = %s and job_id = %s order by at",
        [tenant, job],
    ).fetchall()


def check_a_late_settlement(conn: Connection, worker: UUID, job: Row, outcome: str) -> None:
    before = read_record(conn, job)
    assert settle(conn, worker, job, outcome) == ["lost"]
    assert read_record(conn, job) == before


def check_a_late_heartbeat(conn: Connection, clock: Clock, worker: UUID) -> None:
    """Send a heartbeat for the old lease of a job that the worker holds again under a new one."""
    job = claim_and_reap_job(conn, clock, worker)
    claim(conn, worker)
    before = read_record(conn, job)
    clock.travel(seconds=5)
    assert heartbeat(conn, worker, [job])[0]["status"] == "lost"
    assert read_record(conn, job) == before


def check_a_late_note(conn: Connection, worker: UUID, job: Row) -> None:
    key = job["tenant_id"], job["job_id"]
    before = list_job_notes(conn, *key)
    [answer] = note(conn, worker, [job], message="too late")
    assert (answer["job_id"], answer["lease"]) == (job["job_id"], job["lease"])
    assert answer["status"] == "lost"
    assert list_job_notes(conn, *key) == before

"""The stream: a reader that continues from its position gets every row exactly once."""

from typing import Any
from uuid import UUID

import pytest
from cluster import Clock, Connect, Connection, wait_until
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
    new_worker,
    note,
    refused,
    release,
    succeed,
)

WORKER = new_worker()
OWN = ("place", "at", "job_id", "data", "tenant_id")


class Reader:
    """Reads on from its last position; `seen` is everything so far."""

    def __init__(self, conn: Connection, limit: int = 1000, tenant: UUID | None = None) -> None:
        self.conn = conn
        self.asked = {"limit": limit, "tenant_id": tenant}
        _wait_for_other_transactions(conn)
        self.position = str(call(conn, "read_stream")[-1]["place"])
        self.seen: list[Row] = []

    def read(self) -> list[Row]:
        """Return the new rows."""
        _wait_for_other_transactions(self.conn)
        found: list[Row] = []
        is_complete = False
        while not is_complete:
            *rows, mark = call(self.conn, "read_stream", after=self.position, **self.asked)
            found += rows
            self.position, is_complete = mark["place"], mark["data"]["is_complete"]
        self.seen += found
        return found

    def jobs(self) -> list[UUID]:
        return [row["job_id"] for row in self.read()]


def _wait_for_other_transactions(conn: Connection) -> None:
    """Wait for the transactions of other tests: the stream ends before the oldest running one."""
    query = """
        select pid, backend_xid::text as xid from pg_stat_activity
         where backend_xid is not null and datname <> current_database()
    """

    def running() -> set[tuple[int, str]]:
        return {(row["pid"], row["xid"]) for row in conn.execute(query)}

    others = running()
    wait_until(lambda: others.isdisjoint(running()), why=lambda: f"{others & running()} still run")


@pytest.fixture
def running(conn: Connection) -> list[Row]:
    """Six running jobs, of tenants A and B alternately."""
    definition(conn)
    for tenant in (TENANT_A, TENANT_B) * 3:
        enqueue(conn, tenant)
    return sorted(claim(conn, WORKER, limit=6), key=lambda job: job["job_id"])


def test_a_plain_success_is_streamed_like_any_other(conn: Connection, running: list[Row]) -> None:
    reader = Reader(conn)
    assert succeed(conn, WORKER, running[:1]) == []
    complete(conn, WORKER, running[2:3])
    plain, other = ({**row, **dict.fromkeys(OWN)} for row in reader.read())
    assert plain == other


def test_an_attempt_is_streamed_with_its_job_and_the_resulting_state(
    conn: Connection, running: list[Row]
) -> None:
    reader = Reader(conn)
    outcomes: list[tuple[str, dict[str, Any], str]] = [
        ("succeeded", {}, "succeeded"),
        ("failed", {"error": {"type": "Oops", "message": "x"}}, "scheduled"),
        ("failed", {"final": True}, "dead"),
        ("canceled", {}, "canceled"),
        ("snoozed", {"retry_in_s": 60}, "scheduled"),
        ("released", {}, "queued"),
    ]
    for job, (outcome, fields, _) in zip(running, outcomes, strict=True):
        complete(conn, WORKER, [job], outcome, **fields)
    rows = reader.read()
    assert [(row["kind"], row["name"], row["state"]) for row in rows] == [
        ("attempt", outcome, state) for outcome, _, state in outcomes
    ]
    assert [row["job_id"] for row in rows] == [job["job_id"] for job in running]
    assert {(row["definition"], row["queue"], row["attempt"]) for row in rows} == {
        ("test", "default", 1)
    }
    assert rows[1]["data"]["error"] == {"type": "Oops", "message": "x"}
    assert reader.read() == []


def test_the_streamed_state_is_that_of_its_time_not_the_current_one(
    conn: Connection, running: list[Row]
) -> None:
    reader = Reader(conn)
    revived, gatherer, lone, other = running[:4]
    complete(conn, WORKER, [revived], "failed", final=True)
    call(conn, "retry_job", job_id=revived["job_id"], tenant_id=revived["tenant_id"])
    wait = {"kind": "gather", "name": "all", "index": 0}
    complete(conn, WORKER, [gatherer], "snoozed", wait=wait | {"jobs": [str(running[5]["job_id"])]})
    call(conn, "cancel_job", job_id=gatherer["job_id"], tenant_id=gatherer["tenant_id"])
    complete(conn, WORKER, [other])
    complete(conn, WORKER, [lone], "snoozed", wait=wait | {"jobs": [str(other["job_id"])]})
    ended = [row for row in reader.read() if row["kind"] == "attempt"]
    assert [(row["job_id"], row["state"]) for row in ended] == [
        (revived["job_id"], "dead"),
        (gatherer["job_id"], "blocked"),
        (other["job_id"], "succeeded"),
        (lone["job_id"], "scheduled"),
    ]


def test_events_are_streamed_and_log_lines_are_not(conn: Connection, running: list[Row]) -> None:
    reader = Reader(conn)
    note(conn, WORKER, running[:1], "log", message="one")
    note(conn, WORKER, running[:1], "progress", done=1)
    call(conn, "cancel_job", job_id=running[0]["job_id"], tenant_id=TENANT_A)
    rows = reader.read()
    assert [(row["kind"], row["name"], row["definition"]) for row in rows] == [
        ("event", "progress", "test"),
        ("event", "cancel_requested", "test"),
    ]
    assert rows[0]["data"]["done"] == 1
    note(conn, WORKER, running[1:2], "event", name="large", data="x" * 20_000)
    [large] = reader.read()
    assert large["data"]["truncated"] is True
    assert len(large["data"]["text"]) == 1000


def test_rows_that_commit_late_are_streamed_late_and_no_row_is_lost_or_repeated(
    conn: Connection, connect: Connect, running: list[Row]
) -> None:
    reader = Reader(conn)
    early, late = connect(autocommit=False), connect(autocommit=False)
    complete(early, WORKER, running[:1])
    complete(late, WORKER, running[1:2])
    complete(conn, WORKER, running[2:3])
    assert reader.jobs() == []  # younger than two transactions that are still open
    late.commit()
    assert reader.jobs() == []
    complete(conn, WORKER, running[3:4])
    early.commit()
    assert reader.jobs() == [job["job_id"] for job in running[:4]]
    assert reader.read() == []


def test_pages_split_large_transactions_without_losing_a_row(
    conn: Connection, running: list[Row]
) -> None:
    readers = [Reader(conn, limit) for limit in (1, 2, 4, 1000)]
    with conn.transaction():
        complete(conn, WORKER, running[:4])
        note(conn, WORKER, running[4:], "progress", done=1)
        note(conn, WORKER, running[4:], "progress", done=2)
    release(conn, WORKER, running[4:])
    for reader in readers:
        rows = reader.read()
        assert len(rows) == 10
        assert len({row["place"] for row in rows}) == 10
        assert rows == readers[0].seen


def test_reading_can_continue_from_any_position(conn: Connection, running: list[Row]) -> None:
    reader = Reader(conn)
    for job in running:
        complete(conn, WORKER, [job])
    rows = reader.read()
    for index, row in enumerate(rows):
        reader.position = row["place"]
        assert reader.read() == rows[index + 1 :]


def test_a_tenant_reads_only_its_own_rows(conn: Connection, running: list[Row]) -> None:
    reader = Reader(conn, limit=1, tenant=TENANT_A)
    complete(conn, WORKER, running)
    note(conn, WORKER, running, "progress")
    assert {row["tenant_id"] for row in reader.read()} == {TENANT_A}
    assert len(reader.seen) == 3


def test_within_a_tenant_another_cannot_be_named(conn: Connection) -> None:
    with refused("JF006"), as_tenant(conn, TENANT_A):
        call(conn, "read_stream", tenant_id=TENANT_B)


def test_an_invalid_position_is_refused(conn: Connection) -> None:
    wrong = ["", "x", "1", "1:2:3", "1:2:attempt:3:4", "9999999999999999999:0", "-1:0", "1:0\n"]
    for position in (*wrong, "1:²", "1:1:log:1", "1:1:event:9999999999999999999"):
        with refused("JF002", reason="unknown"):
            call(conn, "read_stream", after=position)


def test_a_position_older_than_the_kept_history_is_refused(
    conn: Connection, clock: Clock, running: list[Row]
) -> None:
    complete(conn, WORKER, running)
    position = Reader(conn).position
    clock.travel(days=10)
    call(conn, "ensure_partitions")
    call(conn, "read_stream", after=position)
    clock.travel(days=10)
    call(conn, "apply_retention", history_days=14)
    with refused("JF002", reason="expired"):
        call(conn, "read_stream", after=position)


def test_a_tenants_jobs_are_counted_by_queue_and_state(
    conn: Connection, running: list[Row]
) -> None:
    enqueue(conn, TENANT_A, 3)
    enqueue(conn, TENANT_A, 2, queue="slow", delay_s=60)
    call(conn, "cancel_job", job_id=running[0]["job_id"], tenant_id=TENANT_A)
    rows = call(conn, "count_states", tenants=[TENANT_A])
    assert [(row["queue"], row["state"], row["jobs"], row["is_exact"]) for row in rows] == [
        ("default", "canceling", 1, True),
        ("default", "queued", 3, True),
        ("default", "running", 2, True),
        ("slow", "scheduled", 2, True),
    ]

"""A job waits for its parents: when it is released, and what a failing parent causes."""

from uuid import UUID, uuid4

import pytest
from cluster import Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    Row,
    call,
    call_for_value,
    claim,
    complete,
    count,
    definition,
    enqueue_one,
    job_of,
    new_worker,
    refused,
    state_of,
)
from sql.interleaver import Action, Interleaver, Script, interleavings


@pytest.fixture
def jobs(conn: Connection) -> Connection:
    definition(conn, max_attempts=1)
    return conn


def after(conn: Connection, *parents: UUID, policy: str | None = None, **options: Json) -> UUID:
    if policy is not None:
        options["on_parent_failure"] = policy
    return enqueue_one(conn, after=[str(parent) for parent in parents], **options)


def end(conn: Connection, job: UUID, outcome: str = "succeeded", tenant: UUID = TENANT_A) -> None:
    """Claim one job alone and end its attempt."""
    conn.execute("update jobforge.jobs set priority = 9 where id = %s", [job])
    worker = new_worker()
    rows = claim(conn, worker, tenants=[tenant])
    assert [row["job_id"] for row in rows] == [job]
    complete(conn, worker, rows, outcome)


def test_a_child_is_blocked_until_its_last_parent_has_succeeded(jobs: Connection) -> None:
    first, second = enqueue_one(jobs), enqueue_one(jobs)
    child = after(jobs, first, second)
    assert state_of(jobs, TENANT_A, child) == "blocked"
    end(jobs, second)
    assert state_of(jobs, TENANT_A, child) == "blocked"
    end(jobs, first)
    assert state_of(jobs, TENANT_A, child) == "queued"


def test_a_parent_that_has_succeeded_counts_at_once(jobs: Connection) -> None:
    parent = enqueue_one(jobs)
    end(jobs, parent)
    assert state_of(jobs, TENANT_A, after(jobs, parent)) == "queued"
    assert state_of(jobs, TENANT_A, after(jobs, parent, delay_s=60)) == "scheduled"


@pytest.mark.parametrize("end_of_parent", ["dead", "canceled"])
@pytest.mark.parametrize(
    ("policy", "state"),
    [(None, "canceled"), ("cancel", "canceled"), ("run", "queued"), ("wait", "blocked")],
)
@pytest.mark.parametrize("is_early", [True, False])
def test_the_policy_decides_when_a_parent_fails(
    jobs: Connection, end_of_parent: str, policy: str | None, state: str, *, is_early: bool
) -> None:
    parent = enqueue_one(jobs)
    child = after(jobs, parent, policy=policy) if is_early else None
    if end_of_parent == "dead":
        end(jobs, parent, "failed")
    else:
        call(jobs, "cancel_job", job_id=parent, tenant_id=TENANT_A)
    child = child or after(jobs, parent, policy=policy)
    assert state_of(jobs, TENANT_A, child) == state


def test_a_dead_parent_that_is_revived_and_succeeds_releases_its_children(jobs: Connection) -> None:
    parent = enqueue_one(jobs)
    child = after(jobs, parent, policy="wait")
    end(jobs, parent, "failed")
    call(jobs, "retry_job", job_id=parent, tenant_id=TENANT_A)
    end(jobs, parent)
    assert state_of(jobs, TENANT_A, child) == "queued"


def test_a_child_of_a_canceled_parent_waits_for_its_retry(jobs: Connection) -> None:
    parent = enqueue_one(jobs)
    child = after(jobs, parent, policy="wait")
    call(jobs, "cancel_job", job_id=parent, tenant_id=TENANT_A)
    retried = call_for_value(jobs, "retry_job", job_id=parent, tenant_id=TENANT_A)
    end(jobs, retried)
    assert state_of(jobs, TENANT_A, child) == "queued"


def test_a_retry_of_a_canceled_child_waits_for_its_parents_again(jobs: Connection) -> None:
    parent = enqueue_one(jobs)
    child = after(jobs, parent)
    call(jobs, "cancel_job", job_id=child, tenant_id=TENANT_A)
    again = call_for_value(jobs, "retry_job", job_id=child, tenant_id=TENANT_A)
    assert state_of(jobs, TENANT_A, again) == "blocked"
    end(jobs, parent)
    assert state_of(jobs, TENANT_A, again) == "queued"


def test_a_failure_cancels_its_descendants(jobs: Connection) -> None:
    chain = [enqueue_one(jobs)]
    for _ in range(50):
        chain.append(after(jobs, chain[-1]))
    anyway = after(jobs, chain[-1], policy="run")
    end(jobs, chain[0], "failed")
    assert {state_of(jobs, TENANT_A, job) for job in chain[1:]} == {"canceled"}
    assert state_of(jobs, TENANT_A, anyway) == "queued"
    assert f"{chain[0]} is dead" in job_of(jobs, TENANT_A, chain[9])["cancel_reason"]


@pytest.mark.parametrize("parent", ["unknown", "foreign"])
def test_a_parent_that_does_not_exist_in_the_tenant_is_refused(
    jobs: Connection, parent: str
) -> None:
    job = enqueue_one(jobs, TENANT_B) if parent == "foreign" else uuid4()
    with refused("JF004", job_id=str(job)):
        after(jobs, job)
    assert count(jobs, "jobs", TENANT_A) == 0


def test_explain_names_the_parents_and_the_remedy(jobs: Connection) -> None:
    waiting, dead = enqueue_one(jobs), enqueue_one(jobs)
    child = after(jobs, waiting, dead, policy="wait")
    end(jobs, dead, "failed")
    [first, *_] = call(jobs, "explain_job", job_id=child, tenant_id=TENANT_A)
    assert first["code"] == "waiting_parents"
    assert [parent["job_id"] for parent in first["detail"]["parents"]] == [
        str(dead),
        str(waiting),
    ]
    assert "Retry the parent" in first["remedy"]


def test_a_job_lists_its_parents_and_children(jobs: Connection) -> None:
    parent = enqueue_one(jobs)
    child = after(jobs, parent)
    [row] = call(jobs, "get_job", job_id=parent, tenant_id=TENANT_A)
    assert [each["job_id"] for each in row["job"]["children"]] == [str(child)]
    [row] = call(jobs, "get_job", job_id=child, tenant_id=TENANT_A)
    assert [each["state"] for each in row["job"]["parents"]] == ["queued"]


def test_a_plain_job_has_no_flags_and_leaves_no_rows(jobs: Connection) -> None:
    parent, plain = enqueue_one(jobs), enqueue_one(jobs)
    child = after(jobs, parent)
    flags = {job: job_flags(jobs, job) for job in (parent, plain, child)}
    assert flags == {parent: 2, plain: 0, child: 0}
    end(jobs, parent)
    assert count(jobs, "awaited_jobs") == 0


def job_flags(conn: Connection, job: UUID) -> int:
    [row] = conn.execute("select flags from jobforge.jobs where id = %s", [job]).fetchall()
    flags = row["flags"]
    assert isinstance(flags, int)
    return flags


# Concurrent changes.

ENDS: dict[str, tuple[str, Json]] = {
    "success": ("succeeded", {}),
    "death": ("failed", {"final": True}),
}


@pytest.mark.parametrize("ends", [("success", "success"), ("success", "death")])
@pytest.mark.parametrize("policy", ["cancel", "run", "wait"])
def test_two_parents_that_finish_at_once_decide_on_the_child_once(
    jobs: Connection, connect: Connect, ends: tuple[str, str], policy: str
) -> None:
    interleaver = Interleaver(connect(), [connect(autocommit=False) for _ in range(2)])
    expected = "queued" if "death" not in ends or policy == "run" else None
    expected = expected or {"cancel": "canceled", "wait": "blocked"}[policy]
    for schedule in interleavings(2, 2):
        jobs.execute("truncate jobforge.jobs, jobforge.awaited_jobs")
        parents = [enqueue_one(jobs), enqueue_one(jobs)]
        child = after(jobs, *parents, policy=policy)
        worker = new_worker()
        rows = sorted(claim(jobs, worker, limit=2), key=lambda row: row["job_id"])
        scripts = [
            Script(end, (settling(worker, row, *ENDS[end]),))
            for row, end in zip(rows, ends, strict=True)
        ]
        outcomes = interleaver.run(scripts, schedule, lambda: None)
        assert all(outcome.committed for outcome in outcomes), schedule
        _settle_busy(jobs, scripts)
        assert state_of(jobs, TENANT_A, child) == expected, schedule
    interleaver.close()


def _settle_busy(conn: Connection, scripts: list[Script]) -> None:
    """Send busy outcomes again, as workers do: a repeated outcome changes nothing."""
    for script in scripts:
        for call_ in script.calls:
            assert [row["status"] for row in call_(conn)] == ["ok"]


def settling(worker: UUID, row: Row, outcome: str, fields: Json) -> Action:
    return lambda conn: complete(conn, worker, [row], outcome, **fields)


@pytest.mark.parametrize("end_of_parent", ["success", "death"])
def test_a_child_enqueued_while_its_parent_finishes_is_not_forgotten(
    jobs: Connection, connect: Connect, end_of_parent: str
) -> None:
    interleaver = Interleaver(connect(), [connect(autocommit=False) for _ in range(2)])
    for schedule in interleavings(2, 2):
        parent = enqueue_one(jobs)
        worker = new_worker()
        [row] = claim(jobs, worker)
        children: list[UUID] = []
        scripts = [
            Script("end", (settling(worker, row, *ENDS[end_of_parent]),)),
            Script("enqueue", (lambda conn: children.append(after(conn, parent)),)),  # noqa: B023 - run at once
        ]
        interleaver.run(scripts, schedule, lambda: None)
        _settle_busy(jobs, scripts[:1])
        [child] = children
        expected = "queued" if end_of_parent == "success" else "canceled"
        assert state_of(jobs, TENANT_A, child) == expected, schedule
        call(jobs, "cancel_jobs", filter={}, tenant_id=TENANT_A)
    interleaver.close()


def test_a_bulk_cancel_and_a_settlement_do_not_deadlock(jobs: Connection, connect: Connect) -> None:
    interleaver = Interleaver(connect(), [connect(autocommit=False) for _ in range(2)])
    for schedule in interleavings(2, 2):
        first = enqueue_one(jobs)
        blocked = after(jobs, first)
        second = enqueue_one(jobs)  # the blocked job lies between them in the order of ID
        after(jobs, blocked, second)
        worker = new_worker()
        rows = claim(jobs, worker, limit=2)
        assert {row["job_id"] for row in rows} == {first, second}
        scripts = [
            Script("end", (lambda conn: complete(conn, worker, rows),)),  # noqa: B023 - run at once
            Script("cancel", (cancel_everything,)),
        ]
        interleaver.run(scripts, schedule, lambda: None)
        complete(jobs, worker, rows, "canceled")
        call(jobs, "cancel_jobs", filter={}, tenant_id=TENANT_A)
    interleaver.close()


def cancel_everything(conn: Connection) -> None:
    call(conn, "cancel_jobs", filter={}, tenant_id=TENANT_A)

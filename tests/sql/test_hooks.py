"""A job of a definition with hooks gets one job of `<key>:hooks`, however it ends."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from cluster import Clock, Connect, Connection
from psycopg.types.json import Jsonb
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    call,
    complete,
    definition,
    enqueue,
    enqueue_one,
    job_of,
    new_worker,
    reap,
    release,
    state_of,
    token,
)
from sql.hook_jobs import (
    check_a_discarded_job_has_no_second_hook_job,
    check_a_retry_has_no_hook_job,
    define_hooks,
    list_hook_jobs,
    run_once,
)
from sql.interleaver import Interleaver, Script, interleavings
from sql.lifecycle_actions import ACTIONS, act, prepare
from sql.settlement import list_job_notes
from sql.uncached_claim import claim

FINAL = ("succeeded", "canceled", "dead")
STARTS = [
    "scheduled",
    "retrying",
    "blocked",
    "queued",
    "running",
    "last attempt",
    "canceling",
    *FINAL,
]
ERROR = {"type": "ValueError", "message": "no such user", "of": None}


@pytest.fixture
def hooked(conn: Connection) -> Connection:
    define_hooks(conn)
    return conn


def cancel(conn: Connection, job: UUID, reason: str | None = None) -> None:
    call(conn, "cancel_job", job_id=job, reason=reason, tenant_id=TENANT_A)


# Every way to end a job.


@pytest.fixture(scope="module")
def shared_hooked(shared_conn: Connection) -> Connection:
    define_hooks(shared_conn)
    return shared_conn


@pytest.mark.parametrize("action", ACTIONS)
def test_each_end_of_a_job_creates_one_hook_job_and_other_actions_create_none(
    shared_hooked: Connection, shared_clock: Clock, action: str
) -> None:
    for start in STARTS:
        subject = prepare(shared_hooked, shared_clock, start)
        had_ended = subject.state() in FINAL
        before = list_hook_jobs(subject.conn, subject.tenant)
        assert len(before) == had_ended, start

        act(action, subject)

        expected = [] if had_ended or subject.state() not in FINAL else [subject.state()]
        added = list_hook_jobs(subject.conn, subject.tenant)[len(before) :]
        assert [follower["payload"]["state"] for follower in added] == expected, start
        assert {follower["source_ref"] for follower in added} <= {str(subject.job)}


End = Callable[[Connection, Clock, UUID], object]


def _settled(outcome: str, **fields: Json) -> End:
    return lambda conn, _, __: run_once(conn, outcome, **fields)


def _asked_to_stop(outcome: str, **fields: Json) -> End:
    def end(conn: Connection, _: Clock, job: UUID) -> None:
        worker = new_worker()
        held = claim(conn, worker)
        cancel(conn, job, "enough")
        complete(conn, worker, held, outcome, **fields)

    return end


def _asked_to_stop_and_released(conn: Connection, _: Clock, job: UUID) -> None:
    worker = new_worker()
    held = claim(conn, worker)
    cancel(conn, job, "enough")
    release(conn, worker, held)


def _completed_alone(conn: Connection, _: Clock, job: UUID) -> None:
    worker = new_worker()
    [held] = claim(conn, worker)
    names = {"tenant_id": TENANT_A, "job_id": job, "worker_id": worker, "lease": held["lease"]}
    call(conn, "complete_job", **names, outcome={"outcome": "succeeded", "result": 5})


def _exhausted(conn: Connection, clock: Clock, _: UUID) -> None:
    run_once(conn, "failed", error={"type": "First"})
    clock.travel(minutes=5)
    run_once(conn, "failed", error=ERROR)


def _reaped_until_dead(conn: Connection, clock: Clock, _: UUID) -> None:
    for _attempt in range(2):
        claim(conn, new_worker())
        clock.travel(minutes=5)
        reap(conn)
        clock.travel(minutes=5)


def _canceled_by_filter(conn: Connection, _: Clock, __: UUID) -> None:
    call(conn, "cancel_jobs", filter={}, reason="enough", tenant_id=TENANT_A)


def _canceled_while_it_waits_for_its_backoff(conn: Connection, _: Clock, job: UUID) -> None:
    run_once(conn, "failed", error=ERROR)
    cancel(conn, job, "enough")


def _expired_for_the_reaper(conn: Connection, clock: Clock, _: UUID) -> None:
    clock.travel(hours=2)
    reap(conn)


def _expired_during_a_claim(conn: Connection, clock: Clock, _: UUID) -> None:
    clock.travel(hours=2)
    claim(conn, new_worker())


LOST = {"type": "LeaseLost", "message": "The worker stopped renewing its lease"}
INVALID = {"type": "InvalidOutcome", "message": "Unknown outcome finished"}

ENDS: dict[str, tuple[End, Json]] = {
    "success": (
        _settled("succeeded", result={"rows": [1, None]}),
        {"state": "succeeded", "attempt": 1, "result": {"rows": [1, None]}},
    ),
    "success by the single form": (
        _completed_alone,
        {"state": "succeeded", "attempt": 1, "result": 5},
    ),
    "success after it was asked to stop": (
        _asked_to_stop("succeeded", result="done"),
        {"state": "succeeded", "attempt": 1, "result": "done"},
    ),
    "cancel by its worker": (
        _settled("canceled", reason="not needed"),
        {"state": "canceled", "attempt": 1, "reason": "not needed"},
    ),
    "failure after it was asked to stop": (
        _asked_to_stop("failed", error=ERROR),
        {"state": "canceled", "attempt": 1, "error": ERROR, "reason": "enough"},
    ),
    "release after it was asked to stop": (
        _asked_to_stop_and_released,
        {"state": "canceled", "attempt": 0, "reason": "enough"},
    ),
    "cancel of a waiting job": (
        lambda conn, _, job: cancel(conn, job, "enough"),
        {"state": "canceled", "attempt": 0, "reason": "enough"},
    ),
    "cancel without a reason": (
        lambda conn, _, job: cancel(conn, job),
        {"state": "canceled", "attempt": 0},
    ),
    "cancel between two attempts": (
        _canceled_while_it_waits_for_its_backoff,
        {"state": "canceled", "attempt": 1, "error": ERROR, "reason": "enough"},
    ),
    "cancel by filter": (
        _canceled_by_filter,
        {"state": "canceled", "attempt": 0, "reason": "enough"},
    ),
    "expiry seen by the reaper": (
        _expired_for_the_reaper,
        {"state": "canceled", "attempt": 0, "reason": "expired"},
    ),
    "expiry seen by a claim": (
        _expired_during_a_claim,
        {"state": "canceled", "attempt": 0, "reason": "expired"},
    ),
    "lost worker": (_reaped_until_dead, {"state": "dead", "attempt": 2, "error": LOST}),
    "final failure": (
        _settled("failed", error=ERROR, final=True),
        {"state": "dead", "attempt": 1, "error": ERROR},
    ),
    "last failure": (_exhausted, {"state": "dead", "attempt": 2, "error": ERROR}),
    "outcome that cannot be stored": (
        _settled("finished"),
        {"state": "dead", "attempt": 1, "error": INVALID},
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_hook_payload_has_the_outcome_of_the_job(
    hooked: Connection, clock: Clock, name: str
) -> None:
    end, expected = ENDS[name]
    trace: dict[str, Json] = {"correlation_id": "order-7", "traceparent": "00-ab-cd-01"}
    job = enqueue_one(hooked, payload={"to": None}, priority=7, expires_in_s=3600, **trace)

    end(hooked, clock, job)

    [follower] = list_hook_jobs(hooked)
    received = {"result": None, "error": None, "reason": None} | expected
    received |= {"job_id": str(job), "definition": "test", "version": 1, "payload": {"to": None}}
    assert follower["payload"] == received
    assert (follower["definition"], follower["version"]) == ("test:hooks", 1)
    assert (follower["state"], follower["queue"], follower["priority"]) == ("queued", "hooks", 7)
    assert (follower["source"], follower["source_ref"]) == ("system", str(job))
    assert {field: follower[field] for field in trace} == trace
    ended = job_of(hooked, TENANT_A, job)
    assert {"state": ended["state"], "attempt": ended["attempt"]} == {
        field: received[field] for field in ("state", "attempt")
    }


def test_hooks_accept_payloads_and_results_of_the_largest_size(hooked: Connection) -> None:
    enqueue_one(hooked, payload={"text": "x" * 250_000})
    run_once(hooked, "succeeded", result="y" * 1_000_000)
    [follower] = list_hook_jobs(hooked)
    assert len(follower["payload"]["payload"]["text"]) == 250_000
    assert len(follower["payload"]["result"]) == 1_000_000


def test_a_job_that_was_enqueued_alone_has_hooks_too(hooked: Connection) -> None:
    [row] = call(hooked, "enqueue_job", definition="test", tenant_id=TENANT_A)
    run_once(hooked, "succeeded")
    assert [follower["source_ref"] for follower in list_hook_jobs(hooked)] == [str(row["job_id"])]


def test_the_hook_jobs_of_a_batch_are_in_the_tenants_of_their_jobs(hooked: Connection) -> None:
    jobs = {tenant: enqueue(hooked, tenant, 3) for tenant in (TENANT_A, TENANT_B)}
    worker = new_worker()
    held = claim(hooked, worker, limit=6)
    ways = ["succeeded", "failed", "canceled"] * 2
    outcomes = [
        token(job) | {"outcome": way, "final": True} for job, way in zip(held, ways, strict=True)
    ]
    call(hooked, "complete_jobs", worker_id=worker, outcomes=Jsonb(outcomes))
    for tenant, ids in jobs.items():
        received = [follower["source_ref"] for follower in list_hook_jobs(hooked, tenant)]
        assert sorted(received) == sorted(map(str, ids))


def test_hook_jobs_of_different_jobs_have_different_ids(hooked: Connection) -> None:
    enqueue(hooked, n=50)
    worker = new_worker()
    complete(hooked, worker, claim(hooked, worker, limit=50))
    assert len({follower["id"] for follower in list_hook_jobs(hooked)}) == 50


# Ends without a hook job.


def test_a_failure_that_is_retried_has_no_hook_job(hooked: Connection) -> None:
    check_a_retry_has_no_hook_job(hooked)


def test_a_dead_job_that_is_discarded_has_no_second_hook_job(hooked: Connection) -> None:
    check_a_discarded_job_has_no_second_hook_job(hooked)


@pytest.mark.parametrize("outcome", ["succeeded", "canceled", "failed"])
def test_a_repeated_completion_creates_no_second_hook_job(hooked: Connection, outcome: str) -> None:
    enqueue_one(hooked)
    worker = new_worker()
    held = claim(hooked, worker)
    for jobs in [held * 2, held]:
        answers = complete(hooked, worker, jobs, outcome, final=True)
        assert {answer["status"] for answer in answers} == {"ok"}
    assert len(list_hook_jobs(hooked)) == 1


def test_a_late_completion_creates_no_hook_job(hooked: Connection, clock: Clock) -> None:
    enqueue_one(hooked)
    worker = new_worker()
    held = claim(hooked, worker)
    clock.travel(minutes=1)
    reap(hooked)
    assert complete(hooked, worker, held)[0]["status"] == "lost"
    assert list_hook_jobs(hooked) == []


def test_a_completion_that_is_rolled_back_creates_no_hook_job(
    hooked: Connection, connect: Connect
) -> None:
    enqueue_one(hooked)
    worker = new_worker()
    held = claim(hooked, worker)
    session = connect(autocommit=False)
    complete(session, worker, held)
    assert len(list_hook_jobs(session)) == 1
    session.rollback()
    assert list_hook_jobs(hooked) == []


@pytest.fixture
def interleaver(connect: Connect) -> Iterator[Interleaver]:
    made = Interleaver(connect(), [connect(autocommit=False) for _ in range(2)])
    yield made
    made.close()


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
def test_a_concurrent_completion_and_cancel_create_one_hook_job(
    hooked: Connection, interleaver: Interleaver, outcome: str
) -> None:
    for schedule in interleavings(2, 2):
        hooked.execute("truncate jobforge.jobs")
        job, worker = enqueue_one(hooked), new_worker()
        held = claim(hooked, worker)

        def settle(conn: Connection, worker: UUID = worker, held: Any = held) -> None:
            complete(conn, worker, held, outcome, final=True)

        def stop(conn: Connection, job: UUID = job) -> None:
            cancel(conn, job)

        scripts = [Script("settle", (settle,)), Script("cancel", (stop,))]
        interleaver.run(scripts, schedule, lambda: None)
        settle(hooked)  # again, as workers do after busy
        assert state_of(hooked, TENANT_A, job) in FINAL
        assert len(list_hook_jobs(hooked)) == 1, schedule


def test_a_job_without_hooks_has_no_hook_job(conn: Connection) -> None:
    definition(conn)
    definition(conn, "test:hooks")
    job, waiting = enqueue_one(conn), enqueue_one(conn, delay_s=60)
    run_once(conn, "succeeded")
    cancel(conn, waiting)
    assert list_hook_jobs(conn) == []
    assert [note["kind"] for note in list_job_notes(conn, TENANT_A, job)] == []


def test_a_hook_job_has_no_hook_job_itself(hooked: Connection) -> None:
    enqueue_one(hooked)
    run_once(hooked, "succeeded")
    worker = new_worker()
    complete(hooked, worker, claim(hooked, worker, "hooks"))
    [follower] = list_hook_jobs(hooked)
    assert follower["state"] == "succeeded"


# Jobs that end more than once, and jobs enqueued before the hooks were declared.


def test_a_dead_job_that_is_revived_has_another_hook_job_at_its_next_end(
    hooked: Connection,
) -> None:
    job = enqueue_one(hooked)
    run_once(hooked, "failed", final=True)
    call(hooked, "retry_job", job_id=job, tenant_id=TENANT_A)
    assert len(list_hook_jobs(hooked)) == 1
    run_once(hooked, "succeeded")
    received = [(f["payload"]["state"], f["payload"]["attempt"]) for f in list_hook_jobs(hooked)]
    assert received == [("dead", 1), ("succeeded", 2)]


def test_the_retry_of_a_finished_job_has_its_own_hook_job(hooked: Connection) -> None:
    job = enqueue_one(hooked)
    run_once(hooked, "succeeded")
    [row] = call(hooked, "retry_job", job_id=job, tenant_id=TENANT_A)
    run_once(hooked, "succeeded")
    received = [follower["source_ref"] for follower in list_hook_jobs(hooked)]
    assert received == [str(job), str(row["retry_job"])]


def test_a_job_has_the_hooks_that_its_definition_had_when_it_was_enqueued(
    conn: Connection,
) -> None:
    definition(conn)
    before = enqueue_one(conn)
    define_hooks(conn)
    run_once(conn, "succeeded")
    assert state_of(conn, TENANT_A, before) == "succeeded"
    assert list_hook_jobs(conn) == []
    enqueue_one(conn)
    definition(conn)
    run_once(conn, "succeeded")
    assert len(list_hook_jobs(conn)) == 1


@pytest.mark.parametrize("hooks_come_last", [True, False])
def test_a_replaced_job_has_the_hooks_of_its_new_version(
    conn: Connection, *, hooks_come_last: bool
) -> None:
    for version, hooks in ((1, not hooks_come_last), (2, hooks_come_last)):
        definition(conn, version=version, hooks=hooks)
        definition(conn, "test:hooks", version, queue="hooks")
    enqueue_one(conn, definition="test@1", key="k", delay_s=60)
    enqueue_one(conn, definition="test@2", key="k", on_conflict="replace")
    run_once(conn, "succeeded")
    assert [follower["version"] for follower in list_hook_jobs(conn)] == [2] * hooks_come_last


def test_hook_jobs_have_the_version_of_their_job(hooked: Connection) -> None:
    definition(hooked, version=2, hooks=True)
    definition(hooked, "test:hooks", 2, queue="hooks")
    for version in (1, 2):
        enqueue_one(hooked, definition=f"test@{version}")
        run_once(hooked, "succeeded")
    assert [follower["version"] for follower in list_hook_jobs(hooked)] == [1, 2]


# Problems that must not prevent a job from ending.


@pytest.mark.parametrize("way", ["succeeded", "dead", "canceled"])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [(None, "unknown_definition"), ({"is_active": False}, "definition_inactive")],
)
def test_hooks_that_cannot_be_enqueued_leave_a_note_and_the_job_still_ends(
    conn: Connection, settings: Json, reason: str, way: str
) -> None:
    definition(conn, hooks=True)
    if settings is not None:
        definition(conn, "test:hooks", **settings)
    job, plain = enqueue_one(conn), enqueue_one(conn, delay_s=60)
    if way == "canceled":
        cancel(conn, job)
    else:
        run_once(conn, "failed" if way == "dead" else way, final=True)
    assert state_of(conn, TENANT_A, job) == way
    assert state_of(conn, TENANT_A, plain) == "scheduled"
    assert list_hook_jobs(conn) == []
    [shown] = call(conn, "get_job", job_id=job, tenant_id=TENANT_A)
    [skipped] = [event for event in shown["events"] if event["kind"] == "hooks_skipped"]
    assert skipped["data"] == {"definition": "test:hooks", "version": 1, "reason": reason}


def test_hooks_of_another_version_are_not_used_instead(hooked: Connection) -> None:
    definition(hooked, version=2, hooks=True)
    job = enqueue_one(hooked, definition="test@2")
    run_once(hooked, "succeeded")
    assert list_hook_jobs(hooked) == []
    assert [note["kind"] for note in list_job_notes(hooked, TENANT_A, job)] == ["hooks_skipped"]


def test_the_limit_of_pending_jobs_does_not_apply_to_hook_jobs(hooked: Connection) -> None:
    jobs = enqueue(hooked, n=3)
    call(hooked, "put_tenant", tenant_id=TENANT_A, settings={"max_pending": 1})
    run_once(hooked, "succeeded")
    run_once(hooked, "failed", final=True)
    cancel(hooked, jobs[2])
    assert [follower["source_ref"] for follower in list_hook_jobs(hooked)] == list(map(str, jobs))


def test_hook_jobs_wait_while_their_tenant_is_paused(hooked: Connection) -> None:
    enqueue_one(hooked)
    worker = new_worker()
    held = claim(hooked, worker)
    call(hooked, "pause_tenant", tenant_id=TENANT_A)
    complete(hooked, worker, held)
    assert claim(hooked, worker, "hooks") == []
    call(hooked, "resume_tenant", tenant_id=TENANT_A)
    assert len(claim(hooked, worker, "hooks")) == 1

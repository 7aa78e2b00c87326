"""Durable steps and waits in the engine: stored once, under a lease; a wait ends once."""

from collections.abc import Iterator
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
    attempts_of,
    call,
    call_for_value,
    complete,
    count,
    definition,
    enqueue_one,
    job_of,
    new_worker,
    refused,
    state_of,
    succeed,
    token,
)
from sql.interleaver import Interleaver, Script, interleavings
from sql.uncached_claim import claim


class RunningJob:
    """A running job in a separate queue, and its worker."""

    def __init__(self, conn: Connection, **options: Any) -> None:
        self.conn = conn
        self.queue = f"q-{uuid4().hex}"
        self.worker = new_worker()
        self.id = enqueue_one(conn, queue=self.queue, **options)
        self.row = self.claim()

    def claim(self) -> Row:
        [self.row] = claim(self.conn, self.worker, self.queue)
        return self.row

    def is_due(self) -> bool:
        rows = claim(self.conn, self.worker, self.queue)
        if rows:
            [self.row] = rows
        return bool(rows)

    def save(self, name: str = "step", index: int = 0, result: Any = None) -> str:
        step = token(self.row) | {"name": name, "index": index, "result": result}
        [answer] = call(self.conn, "save_steps", worker_id=self.worker, steps=Jsonb([step]))
        status = answer["status"]
        assert isinstance(status, str)
        return status

    def load(self) -> Any:
        return call_for_value(
            self.conn,
            "load_steps",
            worker_id=self.worker,
            tenant_id=self.row["tenant_id"],
            job_id=self.id,
            lease=self.row["lease"],
        )

    def wait(self, kind: str, name: str = "paid", retry_in_s: float = 3600, **more: Any) -> Row:
        wait = {"kind": kind, "name": name, "index": 0, **more}
        [answer] = complete(
            self.conn, self.worker, [self.row], "snoozed", wait=wait, retry_in_s=retry_in_s
        )
        return answer

    def flags(self) -> int:
        [row] = self.conn.execute(
            "select flags from jobforge.jobs where id = %s", [self.id]
        ).fetchall()
        flags = row["flags"]
        assert isinstance(flags, int)
        return flags

    def waits(self) -> int:
        return self.conn.execute("select from jobforge.waits where job_id = %s", [self.id]).rowcount

    def explain(self) -> list[Row]:
        return call(self.conn, "explain_job", job_id=self.id, tenant_id=TENANT_A)


def resume(
    conn: Connection,
    data: Any,
    name: str = "paid",
    tenant: UUID = TENANT_A,
    event: UUID | None = None,
) -> int:
    answer = call_for_value(
        conn,
        "jobforge_private.resume_waits",
        tenant_id=tenant,
        event_id=event or uuid4(),
        name=name,
        data=Jsonb(data),
    )
    assert isinstance(answer, int)
    return answer


@pytest.fixture
def running(shared_conn: Connection) -> RunningJob:
    definition(shared_conn)
    return RunningJob(shared_conn)


# Steps.


def test_a_step_is_stored_once_and_loaded_by_later_attempts(running: RunningJob) -> None:
    assert running.flags() == 0
    assert running.save("send", result={"id": 7}) == "ok"
    assert running.save("send", result="other") == "ok"
    assert running.save("send", 1) == "ok"
    complete(running.conn, running.worker, [running.row], "failed", retry_in_s=0)
    row = running.claim()
    assert row["flags"] & 4 == 4
    assert running.load() == [
        {"kind": "step", "name": "send", "index": 0, "result": {"id": 7}},
        {"kind": "step", "name": "send", "index": 1, "result": None},
    ]


def test_a_stale_lease_stores_no_step_and_loads_none(
    shared_conn: Connection, shared_clock: Clock, running: RunningJob
) -> None:
    late = RunningJob.__new__(RunningJob)
    late.__dict__.update(running.__dict__)
    shared_clock.travel(seconds=31)
    call(shared_conn, "reap_jobs")
    shared_clock.travel(seconds=5)
    assert running.is_due()
    assert late.row["lease"] < running.row["lease"]
    assert late.save() == "lost"
    assert late.load() is None
    running.worker, honest = new_worker(), running.worker
    assert running.save() == "lost"
    running.worker = honest
    assert running.load() == []


def test_results_and_steps_are_bounded(running: RunningJob) -> None:
    assert running.save(result="x" * (1 << 20)) == "too_large"
    deep: Any = 1
    for _ in range(65):
        deep = [deep]
    assert running.save(result=deep) == "too_large"
    assert running.load() == []
    running.conn.execute(
        """
        insert into jobforge.steps (tenant_id, job_id, lease, at, index, kind, name, result)
        select %s, %s, 1, now(), i, 'step', 'many', 'null' from generate_series(1, 1000) as i
        """,
        [TENANT_A, running.id],
    )
    assert running.save() == "too_many"


@pytest.mark.parametrize(
    "step", [{"name": ""}, {"index": 1}, {"name": "x", "index": -1}, {"name": 7, "index": 0}]
)
def test_a_step_without_name_or_index_is_refused(running: RunningJob, step: Any) -> None:
    with refused("JF002", field="steps"):
        call(
            running.conn,
            "save_steps",
            worker_id=running.worker,
            steps=Jsonb([token(running.row) | step]),
        )


# Child jobs.


def test_children_are_created_once_despite_repetition(running: RunningJob) -> None:
    def spawn() -> list[Row]:
        return call(
            running.conn,
            "enqueue_children",
            worker_id=running.worker,
            job_id=running.id,
            lease=running.row["lease"],
            name="test",
            index=0,
            jobs=[{"definition": "test", "queue": running.queue}] * 2,
            tenant_id=TENANT_A,
        )

    before = count(running.conn, "jobs")
    made = spawn()
    assert [row["index"] for row in made] == [0, 1]
    assert spawn() == made
    assert count(running.conn, "jobs") == before + 2
    child = job_of(running.conn, TENANT_A, made[0]["job_id"])
    assert (child["source"], child["source_ref"]) == ("workflow", str(running.id))
    complete(running.conn, running.worker, [running.row], "failed", final=True)
    with refused("JF003", job_id=str(running.id)):
        spawn()


# Waits.


def test_a_sleep_does_not_count_as_an_attempt_and_is_over_when_the_job_runs_again(
    shared_clock: Clock, running: RunningJob
) -> None:
    answer = running.wait("sleep", "sleep")
    assert (answer["status"], answer["state"]) == ("ok", "scheduled")
    assert job_of(running.conn, TENANT_A, running.id)["attempt"] == 0
    [reason] = [row for row in running.explain() if row["code"] == "sleeping"]
    assert reason["detail"]["until"]
    assert not running.is_due()
    shared_clock.travel(hours=1)
    assert running.is_due()
    assert running.row["attempt"] == 1
    assert [step["kind"] for step in running.load()] == ["sleep"]


def test_an_event_resumes_a_waiting_job_at_once_and_once(running: RunningJob) -> None:
    running.wait("event", match={"order": {"id": 7}})
    assert running.explain()[0]["code"] == "waiting_event"
    assert running.explain()[0]["detail"]["match"] == {"order": {"id": 7}}
    assert resume(running.conn, {"order": {"id": 8}}) == 0
    assert resume(running.conn, {"order": {"id": 7}}, "other") == 0
    assert resume(running.conn, {"order": {"id": 7}}, tenant=TENANT_B) == 0
    event = uuid4()
    data = {"order": {"id": 7, "total": 3}}
    assert resume(running.conn, data, event=event) == 1
    assert resume(running.conn, data) == 0
    assert state_of(running.conn, TENANT_A, running.id) == "queued"
    running.claim()
    [step] = running.load()
    assert step["result"] == {"id": str(event), "data": data}


def emit(conn: Connection, data: Any = None, name: str = "paid") -> UUID:
    event = call_for_value(
        conn, "emit_event", name=name, data=Jsonb(data or {}), tenant_id=TENANT_A
    )
    assert isinstance(event, UUID)
    return event


def dispatch(conn: Connection) -> None:
    """Dispatch a batch of events as a scheduler does, without triggers."""
    pending = call_for_value(conn, "pending_events", limit=5000)
    taken = [{"id": event["id"], "deliveries": []} for event in pending["events"]]
    call_for_value(conn, "record_deliveries", deliveries=Jsonb(taken))


def result_of(running: RunningJob, index: int = 0) -> Any:
    """Return the result of the last wait for an event; the job must be due."""
    assert running.is_due()
    [result] = [step["result"] for step in running.load() if step["index"] == index]
    return result


def test_an_event_that_was_dispatched_before_the_wait_resumes_the_job(
    running: RunningJob,
) -> None:
    event = emit(running.conn, {"order": {"id": 7}})
    emit(running.conn, {"order": {"id": 8}})
    dispatch(running.conn)
    running.wait("event", match={"order": {"id": 7}})
    assert not running.is_due()
    dispatch(running.conn)
    assert result_of(running) == {"id": str(event), "data": {"order": {"id": 7}}}


def test_events_count_since_the_job_was_created_or_since_a_given_time(
    shared_clock: Clock, running: RunningJob
) -> None:
    name = f"e-{uuid4().hex}"
    created = shared_clock.now().timestamp()
    shared_clock.travel(seconds=5)
    early = emit(running.conn, name=name)
    dispatch(running.conn)
    shared_clock.travel(seconds=5)
    running.wait("event", name, retry_in_s=60, since=created + 7)
    dispatch(running.conn)
    assert not running.is_due()
    late = RunningJob(running.conn)
    late.wait("event", name, retry_in_s=60)
    later = RunningJob(running.conn)
    later.wait("event", name, retry_in_s=60, since=created)
    dispatch(running.conn)
    assert not late.is_due()
    assert result_of(later)["id"] == str(early)


def test_each_event_ends_one_wait_of_a_job(running: RunningJob) -> None:
    name = f"e-{uuid4().hex}"
    first, second = emit(running.conn, {"n": 1}, name), emit(running.conn, {"n": 2}, name)
    running.wait("event", name)
    # The look-back finds the first event, which is dispatched a moment later.
    dispatch(running.conn)
    assert result_of(running)["id"] == str(first)
    running.wait("event", name, index=1)
    dispatch(running.conn)
    assert result_of(running, 1)["id"] == str(second)
    running.wait("event", name, index=2)
    dispatch(running.conn)
    assert not running.is_due()


def test_an_event_dispatched_while_its_wait_is_being_registered_is_not_missed(
    connect: Connect,
) -> None:
    conn, settling, scheduler = connect(), connect(autocommit=False), connect()
    definition(conn)
    running = RunningJob(conn)
    running.conn = settling
    running.wait("event")
    event = emit(scheduler)
    dispatch(scheduler)
    settling.commit()
    running.conn = conn
    assert not running.is_due()
    dispatch(scheduler)
    assert result_of(running)["id"] == str(event)


def test_a_locked_job_that_looks_back_does_not_delay_others(connect: Connect) -> None:
    conn, application = connect(), connect(autocommit=False)
    definition(conn)
    jobs = [RunningJob(conn), RunningJob(conn)]
    emit(conn)
    dispatch(conn)
    for running in jobs:
        running.wait("event")
    locked, free = jobs
    application.execute("select from jobforge.jobs where id = %s for update", [locked.id])
    dispatch(conn)
    assert (locked.is_due(), free.is_due()) == (False, True)
    application.rollback()
    dispatch(conn)
    assert locked.is_due()


def test_a_wait_looks_back_only_once(running: RunningJob) -> None:
    running.wait("event", f"e-{uuid4().hex}")
    [row] = running.conn.execute(
        "select look_back_to from jobforge.waits where job_id = %s", [running.id]
    ).fetchall()
    assert row["look_back_to"] is not None
    dispatch(running.conn)
    assert running.conn.execute(
        "select look_back_to from jobforge.waits where job_id = %s", [running.id]
    ).fetchall() == [{"look_back_to": None}]


def test_a_wait_that_times_out_ends_without_a_result(
    shared_clock: Clock, running: RunningJob
) -> None:
    running.wait("event", retry_in_s=60)
    shared_clock.travel(seconds=61)
    running.claim()
    assert running.load() == [{"kind": "event", "name": "paid", "index": 0, "result": None}]
    assert resume(running.conn, {}) == 0
    [step] = call(running.conn, "list_steps", job_id=running.id, tenant_id=TENANT_A)
    assert step["state"] == "timed_out"


def test_a_repeated_report_registers_no_second_wait(running: RunningJob) -> None:
    running.wait("event")
    assert resume(running.conn, {}) == 1
    assert running.wait("event")["status"] == "ok"
    assert running.waits() == 0


def test_a_wait_reported_under_a_lost_lease_registers_nothing(
    shared_conn: Connection, shared_clock: Clock, running: RunningJob
) -> None:
    shared_clock.travel(seconds=31)
    call(shared_conn, "reap_jobs")
    assert running.wait("event")["status"] == "lost"
    assert resume(running.conn, {}) == 0


@pytest.mark.parametrize(
    "wait",
    [
        {"kind": "hope", "name": "x", "index": 0},
        {"kind": "sleep", "index": 0},
        {"kind": "sleep", "name": "x", "index": 0.5},
        {"kind": "event", "name": "x", "index": 0, "match": [1]},
        {"kind": "event", "name": "x", "index": 0, "since": "2026-01-01"},
        {"kind": "event", "name": "x", "index": 0, "since": 1e12},
        {"kind": "sleep", "name": "x", "index": 0, "since": 0},
        {"kind": "gather", "name": "x", "index": 0, "jobs": ["no id"]},
        {"kind": "gather", "name": "x", "index": 0, "jobs": []},
        {"kind": "sleep", "name": "x", "index": 0, "jobs": []},
        7,
    ],
)
def test_a_wait_of_an_unknown_kind_is_a_final_failure(running: RunningJob, wait: Any) -> None:
    [answer] = complete(running.conn, running.worker, [running.row], "snoozed", wait=wait)
    assert answer["state"] == "dead"
    error = job_of(running.conn, TENANT_A, running.id)["error"]
    assert (error["type"], error["message"][:23]) == ("InvalidWait", "A wait must have a kind")


def test_a_wait_for_a_finished_step_leaves_no_undispatchable_event(
    running: RunningJob,
) -> None:
    """A worker requests the same step again."""
    for _ in range(2):
        running.wait("event")
        assert resume(running.conn, {}) == 1
        running.claim()
    assert len(running.load()) == 1


def test_a_canceled_job_has_no_waits(running: RunningJob) -> None:
    running.wait("event")
    call(running.conn, "cancel_job", job_id=running.id, tenant_id=TENANT_A)
    assert running.waits() == 0
    assert resume(running.conn, {}) == 0


# Gathers.


def test_a_gather_waits_until_all_its_jobs_have_finished_and_returns_their_outcomes(
    running: RunningJob,
) -> None:
    others = [RunningJob(running.conn) for _ in range(2)]
    ids = [str(other.id) for other in others]
    answer = running.wait("gather", "gather", 0, jobs=ids)
    assert answer["state"] == "blocked"
    [reason, *_] = running.explain()
    assert reason["code"] == "waiting_children"
    assert [job["job_id"] for job in reason["detail"]["jobs"]] == ids
    succeed(running.conn, others[0].worker, [others[0].row], [7])
    assert not running.is_due()
    error = {"type": "Oops", "message": "no"}
    complete(running.conn, others[1].worker, [others[1].row], "failed", error=error, final=True)
    row = running.claim()
    assert row["attempt"] == 1
    [step] = running.load()
    assert [(each["state"], each["result"]) for each in step["result"]] == [
        ("succeeded", 7),
        ("dead", None),
    ]
    assert step["result"][1]["error"] == error


def test_a_gather_of_finished_jobs_continues_at_once(running: RunningJob) -> None:
    other = RunningJob(running.conn)
    succeed(running.conn, other.worker, [other.row], ["done"])
    gone = str(uuid4())
    assert running.wait("gather", "gather", 0, jobs=[str(other.id), gone])["state"] == "scheduled"
    running.claim()
    [step] = running.load()
    assert [each["state"] for each in step["result"]] == ["succeeded", None]


def test_the_attempt_before_a_gather_is_recorded_once_with_the_resulting_state(
    running: RunningJob,
) -> None:
    other = RunningJob(running.conn)
    wait = {"kind": "gather", "name": "gather", "index": 0, "jobs": [str(other.id)]}
    with running.conn.transaction(force_rollback=True):
        running.conn.execute(
            """
            create function pg_temp.refuse() returns trigger language plpgsql as
            $$ begin raise 'an attempt is updated'; end $$;
            create trigger attempts_are_written_once before update on jobforge.attempts
                for each row execute function pg_temp.refuse();
            """
        )
        # A repeated outcome does not repeat the attempt.
        fields = {"wait": wait, "retry_in_s": 0, "exit_code": 7}
        complete(running.conn, running.worker, [running.row] * 2, "snoozed", **fields)
        [attempt] = attempts_of(running.conn, TENANT_A, running.id)
        assert (attempt["state"], attempt["outcome"]) == ("blocked", "snoozed")
        assert (attempt["exit_code"], attempt["attempt"]) == (7, 1)
        assert attempt["worker_id"] == running.worker
        complete(running.conn, other.worker, [other.row], "failed", final=True)
        running.claim()
        running.wait("gather", "gather", 0, jobs=[str(other.id)])
        [_, attempt] = attempts_of(running.conn, TENANT_A, running.id)
        assert attempt["state"] == "scheduled"


def test_a_gathered_job_that_runs_again_is_waited_for_again(running: RunningJob) -> None:
    other = RunningJob(running.conn)
    running.wait("gather", "gather", 0, jobs=[str(other.id)])
    complete(running.conn, other.worker, [other.row], "failed", final=True)
    call(running.conn, "retry_job", job_id=other.id, tenant_id=TENANT_A)
    running.claim()
    assert running.load() == []


@pytest.mark.parametrize("error", ["EventTimeout", "Other"])
def test_a_revived_job_repeats_only_the_wait_that_failed(
    shared_clock: Clock, running: RunningJob, error: str
) -> None:
    assert running.save() == "ok"
    for name in ("first", "second"):
        running.wait("event", name, 60)
        shared_clock.travel(seconds=61)
        running.claim()
        running.load()
    complete(
        running.conn,
        running.worker,
        [running.row],
        "failed",
        error={"type": error},
        final=True,
    )
    call(running.conn, "retry_job", job_id=running.id, tenant_id=TENANT_A)
    running.claim()
    names = [step["name"] for step in running.load()]
    assert names == ["step", "first"] + ["second"] * (error == "Other")


# Races: every order of two sessions' steps.


def _settles(running: RunningJob) -> Script:
    def settle(conn: Connection) -> None:
        running.conn = conn
        running.wait("event")

    return Script("settle with a wait", (settle,))


def _resumes() -> Script:
    return Script("event", (lambda conn: resume(conn, {}),))


def _wakes(running: RunningJob) -> Script:
    def wake(conn: Connection) -> None:
        running.conn = conn
        if running.is_due():  # otherwise the event locks it
            assert running.load() is not None

    return Script("claim after the time is up", (wake,))


@pytest.fixture
def sessions(connect: Connect, conn: Connection) -> Iterator[Interleaver]:
    definition(conn)
    interleaver = Interleaver(conn, [connect(autocommit=False) for _ in range(2)])
    yield interleaver
    interleaver.close()


def test_a_concurrent_event_either_ends_the_wait_or_precedes_its_registration(
    conn: Connection, sessions: Interleaver
) -> None:
    for order in interleavings(2, 2):
        running = RunningJob(conn)
        _, event = sessions.run([_settles(running), _resumes()], order, lambda: None)
        running.conn = conn
        is_resumed = event.answers[0] == 1
        assert state_of(conn, TENANT_A, running.id) == ("queued" if is_resumed else "scheduled")
        # After the wait is registered, dispatch always finds it.
        assert resume(conn, {}) == (0 if is_resumed else 1)
        assert count(conn, "steps", TENANT_A) == 1
        conn.execute("truncate jobforge.steps, jobforge.jobs")


def test_a_concurrent_event_and_timeout_end_a_wait_once(
    conn: Connection, clock: Clock, sessions: Interleaver
) -> None:
    seen = set()
    for order in interleavings(2, 2):
        running = RunningJob(conn)
        running.wait("event", retry_in_s=60)
        clock.travel(seconds=61)
        _, event = sessions.run([_wakes(running), _resumes()], order, lambda: None)
        running.conn = conn
        running.is_due()
        [step] = running.load()
        assert (step["result"] is None) == (event.answers[0] == 0)
        assert state_of(conn, TENANT_A, running.id) == "running"
        seen.add(event.answers[0])
        conn.execute("truncate jobforge.steps, jobforge.jobs")
    assert seen == {0, 1}


def test_a_gather_never_misses_the_end_of_its_job(conn: Connection, sessions: Interleaver) -> None:
    for order in interleavings(2, 2):
        running, other = RunningJob(conn), RunningJob(conn)

        def gather(
            session: Connection, running: RunningJob = running, other: RunningJob = other
        ) -> None:
            running.conn = session
            running.wait("gather", "gather", 0, jobs=[str(other.id)])

        def end(session: Connection, other: RunningJob = other) -> None:
            succeed(session, other.worker, [other.row], [7])

        scripts = [Script("gather", (gather,)), Script("end of its job", (end,))]
        outcomes = sessions.run(scripts, order, lambda: None)
        assert all(outcome.committed for outcome in outcomes)
        end(conn)  # again, as workers do after busy
        running.conn = conn
        running.claim()
        [step] = running.load()
        assert [each["result"] for each in step["result"]] == [7]


def test_two_events_resume_a_wait_once(conn: Connection, sessions: Interleaver) -> None:
    for order in interleavings(2, 2):
        running = RunningJob(conn)
        running.wait("event")
        outcomes = sessions.run([_resumes(), _resumes()], order, lambda: None)
        assert sorted(outcome.answers[0] for outcome in outcomes) == [0, 1]
        conn.execute("truncate jobforge.steps, jobforge.jobs")


# Maintenance.


def test_steps_are_deleted_when_their_job_cannot_run_again(
    shared_conn: Connection, shared_clock: Clock
) -> None:
    conn = shared_conn
    definition(conn)
    kept, gone = RunningJob(conn), RunningJob(conn)
    for running in (kept, gone):
        assert running.save() == "ok"
    succeed(conn, gone.worker, [gone.row])
    kept.wait("sleep", retry_in_s=86400 * 20)
    shared_clock.travel(days=15)
    assert call_for_value(conn, "apply_retention")["steps"] >= 1
    rows = conn.execute(
        "select job_id from jobforge.steps where job_id = any (%s)", [[kept.id, gone.id]]
    ).fetchall()
    assert [row["job_id"] for row in rows] == [kept.id]


def test_a_tenants_worker_cannot_load_steps_of_another(shared_conn: Connection) -> None:
    conn = shared_conn
    definition(conn)
    running = RunningJob(conn)
    with as_tenant(conn, TENANT_B):
        assert running.save() == "lost"
        assert running.load() is None
    with refused("JF003", job_id=str(running.id)), as_tenant(conn, TENANT_B):
        call(
            conn,
            "enqueue_children",
            worker_id=running.worker,
            job_id=running.id,
            lease=running.row["lease"],
            name="test",
            index=0,
            jobs=[{"definition": "test"}],
        )
    with as_tenant(conn, TENANT_A):
        assert running.save() == "ok"
        assert len(running.load()) == 1

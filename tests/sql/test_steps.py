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


class Held:
    """A running job in a queue of its own, and its worker."""

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
def held(shared_conn: Connection) -> Held:
    definition(shared_conn)
    return Held(shared_conn)


# Steps.


def test_a_step_is_stored_once_and_told_to_later_attempts(held: Held) -> None:
    assert held.flags() == 0
    assert held.save("send", result={"id": 7}) == "ok"
    assert held.save("send", result="other") == "ok"
    assert held.save("send", 1) == "ok"
    complete(held.conn, held.worker, [held.row], "failed", retry_in_s=0)
    row = held.claim()
    assert row["flags"] & 4 == 4
    assert held.load() == [
        {"kind": "step", "name": "send", "index": 0, "result": {"id": 7}},
        {"kind": "step", "name": "send", "index": 1, "result": None},
    ]


def test_a_stale_lease_stores_no_step_and_loads_none(
    shared_conn: Connection, shared_clock: Clock, held: Held
) -> None:
    late = Held.__new__(Held)
    late.__dict__.update(held.__dict__)
    shared_clock.travel(seconds=31)
    call(shared_conn, "reap_jobs")
    shared_clock.travel(seconds=5)
    assert held.is_due()
    assert late.row["lease"] < held.row["lease"]
    assert late.save() == "lost"
    assert late.load() is None
    held.worker, honest = new_worker(), held.worker
    assert held.save() == "lost"
    held.worker = honest
    assert held.load() == []


def test_results_and_steps_are_bounded(held: Held) -> None:
    assert held.save(result="x" * (1 << 20)) == "too_large"
    deep: Any = 1
    for _ in range(65):
        deep = [deep]
    assert held.save(result=deep) == "too_large"
    assert held.load() == []
    held.conn.execute(
        """
        insert into jobforge.steps (tenant_id, job_id, lease, at, index, kind, name, result)
        select %s, %s, 1, now(), i, 'step', 'many', 'null' from generate_series(1, 1000) as i
        """,
        [TENANT_A, held.id],
    )
    assert held.save() == "too_many"


@pytest.mark.parametrize(
    "step", [{"name": ""}, {"index": 1}, {"name": "x", "index": -1}, {"name": 7, "index": 0}]
)
def test_a_step_without_name_or_index_is_refused(held: Held, step: Any) -> None:
    with refused("JF002", field="steps"):
        call(held.conn, "save_steps", worker_id=held.worker, steps=Jsonb([token(held.row) | step]))


# Children.


def test_children_are_made_once_whatever_is_repeated(held: Held) -> None:
    def spawn() -> list[Row]:
        return call(
            held.conn,
            "enqueue_children",
            worker_id=held.worker,
            job_id=held.id,
            lease=held.row["lease"],
            name="test",
            index=0,
            jobs=[{"definition": "test", "queue": held.queue}] * 2,
            tenant_id=TENANT_A,
        )

    before = count(held.conn, "jobs")
    made = spawn()
    assert [row["index"] for row in made] == [0, 1]
    assert spawn() == made
    assert count(held.conn, "jobs") == before + 2
    child = job_of(held.conn, TENANT_A, made[0]["job_id"])
    assert (child["source"], child["source_ref"]) == ("workflow", str(held.id))
    complete(held.conn, held.worker, [held.row], "failed", final=True)
    with refused("JF003", job_id=str(held.id)):
        spawn()


# Waits.


def test_a_sleep_does_not_count_as_an_attempt_and_is_over_when_the_job_runs_again(
    shared_clock: Clock, held: Held
) -> None:
    answer = held.wait("sleep", "sleep")
    assert (answer["status"], answer["state"]) == ("ok", "scheduled")
    assert job_of(held.conn, TENANT_A, held.id)["attempt"] == 0
    [reason] = [row for row in held.explain() if row["code"] == "sleeping"]
    assert reason["detail"]["until"]
    assert not held.is_due()
    shared_clock.travel(hours=1)
    assert held.is_due()
    assert held.row["attempt"] == 1
    assert [step["kind"] for step in held.load()] == ["sleep"]


def test_an_event_resumes_who_waits_for_it_at_once_and_once(held: Held) -> None:
    held.wait("event", match={"order": {"id": 7}})
    assert held.explain()[0]["code"] == "waiting_event"
    assert held.explain()[0]["detail"]["match"] == {"order": {"id": 7}}
    assert resume(held.conn, {"order": {"id": 8}}) == 0
    assert resume(held.conn, {"order": {"id": 7}}, "other") == 0
    assert resume(held.conn, {"order": {"id": 7}}, tenant=TENANT_B) == 0
    event = uuid4()
    data = {"order": {"id": 7, "total": 3}}
    assert resume(held.conn, data, event=event) == 1
    assert resume(held.conn, data) == 0
    assert state_of(held.conn, TENANT_A, held.id) == "queued"
    held.claim()
    [step] = held.load()
    assert step["result"] == {"id": str(event), "data": data}


def emit(conn: Connection, data: Any = None, name: str = "paid") -> UUID:
    event = call_for_value(
        conn, "emit_event", name=name, data=Jsonb(data or {}), tenant_id=TENANT_A
    )
    assert isinstance(event, UUID)
    return event


def dispatch(conn: Connection) -> None:
    """What a scheduler does with each batch of events, when no trigger listens."""
    pending = call_for_value(conn, "pending_events", limit=5000)
    taken = [{"id": event["id"], "deliveries": []} for event in pending["events"]]
    call_for_value(conn, "record_deliveries", deliveries=Jsonb(taken))


def result_of(held: Held, index: int = 0) -> Any:
    """What the last wait for an event returned; the job must be due."""
    assert held.is_due()
    [result] = [step["result"] for step in held.load() if step["index"] == index]
    return result


def test_an_event_that_was_dispatched_before_the_wait_resumes_the_job(held: Held) -> None:
    event = emit(held.conn, {"order": {"id": 7}})
    emit(held.conn, {"order": {"id": 8}})
    dispatch(held.conn)
    held.wait("event", match={"order": {"id": 7}})
    assert not held.is_due()
    dispatch(held.conn)
    assert result_of(held) == {"id": str(event), "data": {"order": {"id": 7}}}


def test_events_count_since_the_job_was_created_or_since_a_given_time(
    shared_clock: Clock, held: Held
) -> None:
    name = f"e-{uuid4().hex}"
    created = shared_clock.now().timestamp()
    shared_clock.travel(seconds=5)
    early = emit(held.conn, name=name)
    dispatch(held.conn)
    shared_clock.travel(seconds=5)
    held.wait("event", name, retry_in_s=60, since=created + 7)
    dispatch(held.conn)
    assert not held.is_due()
    late = Held(held.conn)
    late.wait("event", name, retry_in_s=60)
    later = Held(held.conn)
    later.wait("event", name, retry_in_s=60, since=created)
    dispatch(held.conn)
    assert not late.is_due()
    assert result_of(later)["id"] == str(early)


def test_each_event_ends_one_wait_of_a_job(held: Held) -> None:
    name = f"e-{uuid4().hex}"
    first, second = emit(held.conn, {"n": 1}, name), emit(held.conn, {"n": 2}, name)
    held.wait("event", name)
    # The look-back finds the first event, which is dispatched a moment later.
    dispatch(held.conn)
    assert result_of(held)["id"] == str(first)
    held.wait("event", name, index=1)
    dispatch(held.conn)
    assert result_of(held, 1)["id"] == str(second)
    held.wait("event", name, index=2)
    dispatch(held.conn)
    assert not held.is_due()


def test_an_event_dispatched_while_its_wait_is_being_registered_is_not_missed(
    connect: Connect,
) -> None:
    conn, settling, scheduler = connect(), connect(autocommit=False), connect()
    definition(conn)
    held = Held(conn)
    held.conn = settling
    held.wait("event")
    event = emit(scheduler)
    dispatch(scheduler)
    settling.commit()
    held.conn = conn
    assert not held.is_due()
    dispatch(scheduler)
    assert result_of(held)["id"] == str(event)


def test_a_locked_job_that_looks_back_holds_up_no_other(connect: Connect) -> None:
    conn, application = connect(), connect(autocommit=False)
    definition(conn)
    jobs = [Held(conn), Held(conn)]
    emit(conn)
    dispatch(conn)
    for held in jobs:
        held.wait("event")
    locked, free = jobs
    application.execute("select from jobforge.jobs where id = %s for update", [locked.id])
    dispatch(conn)
    assert (locked.is_due(), free.is_due()) == (False, True)
    application.rollback()
    dispatch(conn)
    assert locked.is_due()


def test_a_wait_looks_back_once(held: Held) -> None:
    held.wait("event", f"e-{uuid4().hex}")
    [row] = held.conn.execute(
        "select look_back_to from jobforge.waits where job_id = %s", [held.id]
    ).fetchall()
    assert row["look_back_to"] is not None
    dispatch(held.conn)
    assert held.conn.execute(
        "select look_back_to from jobforge.waits where job_id = %s", [held.id]
    ).fetchall() == [{"look_back_to": None}]


def test_a_wait_whose_time_is_up_ends_without_a_result(shared_clock: Clock, held: Held) -> None:
    held.wait("event", retry_in_s=60)
    shared_clock.travel(seconds=61)
    held.claim()
    assert held.load() == [{"kind": "event", "name": "paid", "index": 0, "result": None}]
    assert resume(held.conn, {}) == 0
    [told] = call(held.conn, "list_steps", job_id=held.id, tenant_id=TENANT_A)
    assert told["state"] == "timed_out"


def test_a_repeated_report_registers_no_second_wait(held: Held) -> None:
    held.wait("event")
    assert resume(held.conn, {}) == 1
    assert held.wait("event")["status"] == "ok"
    assert held.waits() == 0


def test_a_wait_reported_under_a_lost_lease_registers_nothing(
    shared_conn: Connection, shared_clock: Clock, held: Held
) -> None:
    shared_clock.travel(seconds=31)
    call(shared_conn, "reap_jobs")
    assert held.wait("event")["status"] == "lost"
    assert resume(held.conn, {}) == 0


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
def test_a_wait_for_nothing_known_is_a_final_failure(held: Held, wait: Any) -> None:
    [answer] = complete(held.conn, held.worker, [held.row], "snoozed", wait=wait)
    assert answer["state"] == "dead"
    error = job_of(held.conn, TENANT_A, held.id)["error"]
    assert (error["type"], error["message"][:18]) == ("InvalidWait", "a wait has a kind ")


def test_a_wait_for_what_the_job_has_already_is_no_event_that_cannot_be_dispatched(
    held: Held,
) -> None:
    """A worker that asks again for the step that it has."""
    for _ in range(2):
        held.wait("event")
        assert resume(held.conn, {}) == 1
        held.claim()
    assert len(held.load()) == 1


def test_who_is_canceled_waits_for_nothing(held: Held) -> None:
    held.wait("event")
    call(held.conn, "cancel_job", job_id=held.id, tenant_id=TENANT_A)
    assert held.waits() == 0
    assert resume(held.conn, {}) == 0


# Gathers.


def test_a_gather_waits_until_all_its_jobs_have_ended_and_has_what_became_of_them(
    held: Held,
) -> None:
    others = [Held(held.conn) for _ in range(2)]
    ids = [str(other.id) for other in others]
    answer = held.wait("gather", "gather", 0, jobs=ids)
    assert answer["state"] == "blocked"
    [reason, *_] = held.explain()
    assert reason["code"] == "waiting_children"
    assert [job["job_id"] for job in reason["detail"]["jobs"]] == ids
    succeed(held.conn, others[0].worker, [others[0].row], [7])
    assert not held.is_due()
    error = {"type": "Oops", "message": "no"}
    complete(held.conn, others[1].worker, [others[1].row], "failed", error=error, final=True)
    row = held.claim()
    assert row["attempt"] == 1
    [step] = held.load()
    assert [(each["state"], each["result"]) for each in step["result"]] == [
        ("succeeded", 7),
        ("dead", None),
    ]
    assert step["result"][1]["error"] == error


def test_a_gather_of_jobs_that_have_ended_goes_on_at_once(held: Held) -> None:
    other = Held(held.conn)
    succeed(held.conn, other.worker, [other.row], ["done"])
    gone = str(uuid4())
    assert held.wait("gather", "gather", 0, jobs=[str(other.id), gone])["state"] == "scheduled"
    held.claim()
    [step] = held.load()
    assert [each["state"] for each in step["result"]] == ["succeeded", None]


def test_the_attempt_before_a_gather_is_written_once_with_where_the_job_went(held: Held) -> None:
    other = Held(held.conn)
    wait = {"kind": "gather", "name": "gather", "index": 0, "jobs": [str(other.id)]}
    with held.conn.transaction(force_rollback=True):
        held.conn.execute(
            """
            create function pg_temp.refuse() returns trigger language plpgsql as
            $$ begin raise 'an attempt is updated'; end $$;
            create trigger attempts_are_written_once before update on jobforge.attempts
                for each row execute function pg_temp.refuse();
            """
        )
        # A repeated outcome does not repeat the attempt.
        fields = {"wait": wait, "retry_in_s": 0, "exit_code": 7}
        complete(held.conn, held.worker, [held.row] * 2, "snoozed", **fields)
        [attempt] = attempts_of(held.conn, TENANT_A, held.id)
        assert (attempt["state"], attempt["outcome"]) == ("blocked", "snoozed")
        assert (attempt["exit_code"], attempt["attempt"]) == (7, 1)
        assert attempt["worker_id"] == held.worker
        complete(held.conn, other.worker, [other.row], "failed", final=True)
        held.claim()
        held.wait("gather", "gather", 0, jobs=[str(other.id)])
        [_, attempt] = attempts_of(held.conn, TENANT_A, held.id)
        assert attempt["state"] == "scheduled"


def test_a_gathered_job_that_runs_again_is_waited_for_again(held: Held) -> None:
    other = Held(held.conn)
    held.wait("gather", "gather", 0, jobs=[str(other.id)])
    complete(held.conn, other.worker, [other.row], "failed", final=True)
    call(held.conn, "retry_job", job_id=other.id, tenant_id=TENANT_A)
    held.claim()
    assert held.load() == []


@pytest.mark.parametrize("error", ["EventTimeout", "Other"])
def test_a_revived_job_waits_again_for_what_it_died_of_alone(
    shared_clock: Clock, held: Held, error: str
) -> None:
    assert held.save() == "ok"
    for name in ("first", "second"):
        held.wait("event", name, 60)
        shared_clock.travel(seconds=61)
        held.claim()
        held.load()
    complete(held.conn, held.worker, [held.row], "failed", error={"type": error}, final=True)
    call(held.conn, "retry_job", job_id=held.id, tenant_id=TENANT_A)
    held.claim()
    names = [step["name"] for step in held.load()]
    assert names == ["step", "first"] + ["second"] * (error == "Other")


# Races: every order of two sessions' steps.


def _settles(held: Held) -> Script:
    def settle(conn: Connection) -> None:
        held.conn = conn
        held.wait("event")

    return Script("settle with a wait", (settle,))


def _resumes() -> Script:
    return Script("event", (lambda conn: resume(conn, {}),))


def _wakes(held: Held) -> Script:
    def wake(conn: Connection) -> None:
        held.conn = conn
        if held.is_due():  # otherwise the event holds it
            assert held.load() is not None

    return Script("claim after the time is up", (wake,))


@pytest.fixture
def sessions(connect: Connect, conn: Connection) -> Iterator[Interleaver]:
    definition(conn)
    interleaver = Interleaver(conn, [connect(autocommit=False) for _ in range(2)])
    yield interleaver
    interleaver.close()


def test_an_event_and_the_registration_of_its_wait_meet_or_miss_each_other_whole(
    conn: Connection, sessions: Interleaver
) -> None:
    for order in interleavings(2, 2):
        held = Held(conn)
        _, event = sessions.run([_settles(held), _resumes()], order, lambda: None)
        held.conn = conn
        is_resumed = event.answers[0] == 1
        assert state_of(conn, TENANT_A, held.id) == ("queued" if is_resumed else "scheduled")
        # What is dispatched once the wait is there always finds it.
        assert resume(conn, {}) == (0 if is_resumed else 1)
        assert count(conn, "steps", TENANT_A) == 1
        conn.execute("truncate jobforge.steps, jobforge.jobs")


def test_an_event_and_the_end_of_the_time_end_a_wait_once(
    conn: Connection, clock: Clock, sessions: Interleaver
) -> None:
    seen = set()
    for order in interleavings(2, 2):
        held = Held(conn)
        held.wait("event", retry_in_s=60)
        clock.travel(seconds=61)
        _, event = sessions.run([_wakes(held), _resumes()], order, lambda: None)
        held.conn = conn
        held.is_due()
        [step] = held.load()
        assert (step["result"] is None) == (event.answers[0] == 0)
        assert state_of(conn, TENANT_A, held.id) == "running"
        seen.add(event.answers[0])
        conn.execute("truncate jobforge.steps, jobforge.jobs")
    assert seen == {0, 1}


def test_a_gather_never_misses_the_end_of_its_job(conn: Connection, sessions: Interleaver) -> None:
    for order in interleavings(2, 2):
        held, other = Held(conn), Held(conn)

        def gather(session: Connection, held: Held = held, other: Held = other) -> None:
            held.conn = session
            held.wait("gather", "gather", 0, jobs=[str(other.id)])

        def end(session: Connection, other: Held = other) -> None:
            succeed(session, other.worker, [other.row], [7])

        scripts = [Script("gather", (gather,)), Script("end of its job", (end,))]
        outcomes = sessions.run(scripts, order, lambda: None)
        assert all(outcome.committed for outcome in outcomes)
        end(conn)  # again, as workers do when it was busy
        held.conn = conn
        held.claim()
        [step] = held.load()
        assert [each["result"] for each in step["result"]] == [7]


def test_two_events_resume_a_wait_once(conn: Connection, sessions: Interleaver) -> None:
    for order in interleavings(2, 2):
        held = Held(conn)
        held.wait("event")
        outcomes = sessions.run([_resumes(), _resumes()], order, lambda: None)
        assert sorted(outcome.answers[0] for outcome in outcomes) == [0, 1]
        conn.execute("truncate jobforge.steps, jobforge.jobs")


# Upkeep.


def test_steps_go_when_their_job_cannot_run_again(
    shared_conn: Connection, shared_clock: Clock
) -> None:
    conn = shared_conn
    definition(conn)
    kept, gone = Held(conn), Held(conn)
    for held in (kept, gone):
        assert held.save() == "ok"
    succeed(conn, gone.worker, [gone.row])
    kept.wait("sleep", retry_in_s=86400 * 20)
    shared_clock.travel(days=15)
    assert call_for_value(conn, "apply_retention")["steps"] >= 1
    rows = conn.execute(
        "select job_id from jobforge.steps where job_id = any (%s)", [[kept.id, gone.id]]
    ).fetchall()
    assert [row["job_id"] for row in rows] == [kept.id]


def test_a_tenants_worker_has_no_steps_of_another(shared_conn: Connection) -> None:
    conn = shared_conn
    definition(conn)
    held = Held(conn)
    with as_tenant(conn, TENANT_B):
        assert held.save() == "lost"
        assert held.load() is None
    with refused("JF003", job_id=str(held.id)), as_tenant(conn, TENANT_B):
        call(
            conn,
            "enqueue_children",
            worker_id=held.worker,
            job_id=held.id,
            lease=held.row["lease"],
            name="test",
            index=0,
            jobs=[{"definition": "test"}],
        )
    with as_tenant(conn, TENANT_A):
        assert held.save() == "ok"
        assert len(held.load()) == 1

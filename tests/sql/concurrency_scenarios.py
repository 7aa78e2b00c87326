"""A few jobs that concurrent sessions change, the scripts of these sessions, and the invariants.

The world is created once by calling functions, and restored before every run. The lease of its
running job has expired, so that at any moment its worker may settle it and any session may reap it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from cluster import Clock, Connection
from sql.engine import (
    TENANT_A,
    Json,
    Row,
    call,
    call_for_value,
    complete,
    definition,
    enqueue,
    enqueue_one,
    heartbeat,
    new_worker,
    reap,
    release,
    succeed,
)
from sql.interleaver import Action, Outcome, Script
from sql.ledger import Ledger
from sql.uncached_claim import claim

CAP = 2
QUEUE = "default"
KEY = "taken"

_SAVED = (
    "jobforge.jobs",
    "jobforge.heartbeats",
    "jobforge.reaper",
    "jobforge.finished_jobs",
    "jobforge.attempts",
    "jobforge.job_events",
    "jobforge.idempotency_keys",
    "jobforge.audit_log",
    "jobforge.definitions",
    "jobforge.dependencies",
    "jobforge.awaited_jobs",
    "public.ledger",
)


class World:
    """Jobs of one tenant: running, two under its cap, ready, dead, backing off, and blocked.

    The blocked job waits for the running one and the ready one.
    """

    def __init__(self, conn: Connection, restorer: Connection) -> None:
        self._conn = conn
        # A change of session_replication_role makes a session discard all its cached plans.
        self._restorer = restorer
        self._clock = Clock(conn)
        self._ledger = Ledger(conn)
        self._restored = 0
        self.holder = new_worker()
        definition(conn, "plain", max_attempts=3)
        definition(conn, "capped", max_attempts=3, max_running=CAP)
        self.dead = self._after_an_attempt("plain", final=True)
        self.failed = self._after_an_attempt("plain", retry_in_s=86400)
        self.held = self._claimed("capped")
        self.ready = enqueue_one(conn, definition="plain", key=KEY)
        enqueue(conn, n=2, definition="capped")
        parents = [str(self.held["job_id"]), str(self.ready)]
        enqueue(conn, definition="plain", after=parents, on_parent_failure="run")
        self._clock.travel(minutes=10)
        self._jobs = {row["id"] for row in self._rows("select id from jobforge.jobs")}
        self._save()

    def restore(self) -> None:
        self._restorer.execute(self._restoring)
        self._restored += 1
        if self._restored % 100 == 0:  # no other process cleans up, and every run leaves dead rows
            self._restorer.execute(f"vacuum {', '.join(_SAVED)}".encode())

    def check_cap(self) -> None:
        """Check that no limit is exceeded.

        Called at every commit, it checks every state that is visible to other sessions.
        """
        [row] = self._rows(
            "select count(*) as n from jobforge.jobs "
            "where state = 'running' and definition = 'capped'"
        )
        assert row["n"] <= CAP, f"{row['n']} jobs run under a cap of {CAP}"

    def check(self, outcomes: Sequence[Outcome]) -> None:
        """Check the ledger, and the answers that the sessions received."""
        for outcome in outcomes:
            _check_refusal(outcome)
        self._ledger.check()
        answers = SessionAnswers(outcomes)
        jobs = {row["id"]: row for row in self._rows("select * from jobforge.all_jobs")}
        assert set(jobs) == self._jobs | answers.created, "jobs were lost or invented"
        self._check_leases(answers)
        self._check_settlements(answers)
        self._check_cancellations(answers, jobs)
        keys = Counter(row["idempotency_key"] for row in jobs.values() if row["idempotency_key"])
        assert all(n == 1 for n in keys.values()), f"keys were assigned twice: {keys}"
        self._check_blocked_jobs()
        self._check_heartbeats(answers)
        self._check_nothing_is_stuck()

    def _check_leases(self, answers: "SessionAnswers") -> None:
        """Each granted lease, and no other, is recorded as ended or is still held."""
        ended = self._rows("select job_id, lease from jobforge.all_attempts")
        running = self._rows("select id as job_id, lease from jobforge.jobs where state='running'")
        known = Counter((row["job_id"], row["lease"]) for row in ended + running)
        granted = Counter(answers.granted)
        granted.update((row["job_id"], row["lease"]) for row in self._granted_before)
        assert known == granted, f"granted {granted}, known {known}"

    def _check_settlements(self, answers: "SessionAnswers") -> None:
        """Check that the recorded settlements match the answers.

        `ok` means that the end of the lease is recorded as a settlement, `lost` that it is not.
        `busy` means neither: another session had locked the job, and may have settled it.
        """
        rows = self._rows(
            "select outcome from jobforge.all_attempts where job_id = %s and lease = %s",
            self.held["job_id"],
            self.held["lease"],
        )
        recorded = {row["outcome"] for row in rows}
        for outcome, status in answers.settled:
            if status == "ok":
                assert recorded - {"lease_lost"}, f"{outcome} returned ok, but is not recorded"
            elif status == "lost":
                assert outcome not in recorded, f"{outcome} is recorded, but returned {status}"

    def _check_cancellations(self, answers: "SessionAnswers", jobs: dict[UUID, Row]) -> None:
        for job, answer in answers.canceled:
            row = jobs[job]
            if answer == "canceled":
                assert row["state"] == "canceled"
            elif row["state"] == "running":
                assert row["cancel_requested_at"] is not None
            else:
                assert row["state"] in {"succeeded", "canceled"}, f"asked to stop, {row['state']}"

    def _check_blocked_jobs(self) -> None:
        """A blocked job waits for at least one unfinished job, and for no finished one."""
        stuck = self._rows(
            """
            select j.id, a.job_id, p.state
              from jobforge.jobs as j
              left join jobforge.awaited_jobs as a
                on a.tenant_id = j.tenant_id and a.waiter_id = j.id
              left join jobforge.jobs as p on p.tenant_id = a.tenant_id and p.id = a.job_id
             where j.state = 'blocked'
               and (p.id is null or p.state = 'dead' and a.on_parent_failure <> 'wait')
            """
        )
        assert not stuck, f"blocked jobs wait for finished jobs: {stuck}"

    def _check_heartbeats(self, answers: "SessionAnswers") -> None:
        """A lease that a heartbeat has extended was not ended by a reaper, and has not expired."""
        if answers.is_extended:
            reap(self._conn)
            lost = self._rows(
                "select outcome from jobforge.all_attempts"
                " where job_id = %s and lease = %s and outcome = 'lease_lost'",
                self.held["job_id"],
                self.held["lease"],
            )
            assert not lost, "a heartbeat returned ok, and the lease was reaped"

    def _check_nothing_is_stuck(self) -> None:
        """Each job that is ready and within the cap can be claimed at once."""
        [row] = self._rows(
            """
            select count(*) filter (where state = 'queued' and definition = 'plain') as plain,
                   count(*) filter (where state = 'queued' and definition = 'capped') as capped,
                   count(*) filter (where state = 'running' and definition = 'capped') as held
              from jobforge.jobs
            """
        )
        expected = row["plain"] + min(row["capped"], CAP - row["held"])
        taken = len(claim(self._conn, new_worker(), QUEUE, limit=100))
        assert taken == expected, f"{taken} of {expected} ready jobs were claimed"

    def _after_an_attempt(self, key: str, **fields: Any) -> UUID:
        held = self._claimed(key)
        complete(self._conn, self.holder, [held], "failed", error={"type": "Oops"}, **fields)
        job = held["job_id"]
        assert isinstance(job, UUID)
        return job

    def _claimed(self, key: str) -> Row:
        enqueue(self._conn, definition=key)
        [held] = claim(self._conn, self.holder, QUEUE)
        return held

    def _save(self) -> None:
        saved = [(table, f"public.saved_{table.replace('.', '_')}") for table in _SAVED]
        for table, copy in saved:
            self._conn.execute(f"create table {copy} as table {table}".encode())
        self._granted_before = self._rows(
            "select job_id, lease from public.saved_public_ledger where to_state = 'running'"
        )
        # The world's own triggers would record the restore in the ledger.
        self._restoring = "; ".join(
            [
                "begin",
                "set local session_replication_role = replica",
                *(f"delete from {table}" for table, _ in saved),
                *(
                    f"insert into {table} overriding system value table {copy}"
                    for table, copy in saved
                ),
                "commit",
            ]
        ).encode()

    def _rows(self, query: str, *arguments: Any) -> list[Row]:
        return self._conn.execute(query.encode(), arguments or None).fetchall()


def _check_refusal(outcome: Outcome) -> None:
    """A function may refuse for the job's state, and, at other isolation levels, for the level."""
    if outcome.error is not None:
        expected = {"JF005"}
        if outcome.script.isolation is not None:
            expected |= {"JF012", "40001"}
        assert outcome.error.sqlstate in expected, (outcome.script.name, outcome.error)


class SessionAnswers:
    """The answers that the committed sessions received, by subject."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.granted: list[tuple[UUID, int]] = []
        self.created: set[UUID] = set()
        self.settled: list[tuple[str, str]] = []
        self.canceled: list[tuple[UUID, str]] = []
        self.is_extended = False
        for outcome in outcomes:
            if outcome.committed:
                for answer in outcome.answers:
                    self._take(answer)

    def _take(self, answer: Any) -> None:
        match answer:
            case ("claimed", rows):
                self.granted.extend((row["job_id"], row["lease"]) for row in rows)
            case ("created", job):
                self.created.add(job)
            case ("settled", outcome, [row]):
                self.settled.append((outcome, row["status"]))
            case ("canceled", job, state):
                self.canceled.append((job, state))
            case ("beat", [row, _]):
                self.is_extended |= row["status"] in {"ok", "cancel"}
            case _:
                pass


def scripts(world: World) -> dict[str, Script]:
    """Return all scripts that a session can run, by name."""
    held = world.held
    kinds: dict[str, list[Action]] = {
        "claim": [_claim("plain")],
        "capped claim": [_claim("capped")],
        "capped claim that is rolled back": [_claim("capped")],
        "success": [_settle(world, "succeeded")],
        "success that is rolled back": [_settle(world, "succeeded")],
        "plain success": [_succeed(world)],
        "plain success that is rolled back": [_succeed(world)],
        "success, then capped claim": [_settle(world, "succeeded"), _claim("capped")],
        "failure": [_settle(world, "failed")],
        "last failure": [_settle(world, "failed", final=True)],
        "release": [lambda conn: ("settled", "released", release(conn, world.holder, [held]))],
        "heartbeat": [lambda conn: ("beat", heartbeat(conn, world.holder, [held]))],
        "reap": [reap],
        "cancel of the held job": [_cancel(held["job_id"])],
        "cancel of the ready job": [_cancel(world.ready)],
        "cancel of all jobs": [_bulk("cancel_jobs")],
        "enqueue under a taken key": [_enqueue(KEY)],
        "replacement under a taken key": [_enqueue(KEY, on_conflict="replace")],
        "enqueue under a free key": [_enqueue("free")],
        "retry of the dead job": [_retry(world.dead)],
        "retry of the failed job": [_retry(world.failed)],
        "retry of all dead jobs": [_bulk("retry_jobs")],
        "change of the capped definition": [_change_capped],
    }
    made = {
        name: Script(name, tuple(calls), commits="rolled back" not in name)
        for name, calls in kinds.items()
    }
    return made | {script.name: script for script in _applications(world)}


def _applications(world: World) -> list[Script]:
    """Return the scripts of applications, whose transactions stay open or have an older
    snapshot."""
    held, ready = world.held["job_id"], world.ready
    left_open: dict[str, Action] = {
        "enqueue after the held job": _enqueue_after(held),
        "enqueue after the ready job": _enqueue_after(ready),
        "cancel of the held job": _cancel(held),
        "cancel of the ready job": _cancel(ready),
        "edit of the ready job": _edit(ready),
        "enqueue under a free key": _enqueue("free"),
        "change of the capped definition": _change_capped,
        "cancel of all jobs": _bulk("cancel_jobs"),
    }
    # The last ones are refused, so that rows missing from their snapshot cannot cause harm.
    with_a_snapshot: list[tuple[str, str, Action]] = [
        ("edit of the ready job", "repeatable read", _edit(ready)),
        ("enqueue under a taken key", "repeatable read", _enqueue(KEY)),
        ("replacement under a taken key", "serializable", _enqueue(KEY, on_conflict="replace")),
        ("enqueue under a free key", "serializable", _enqueue("free")),
        ("enqueue after the held job", "repeatable read", _enqueue_after(held)),
        ("cancel of the ready job", "repeatable read", _cancel(ready)),
        ("success", "serializable", _settle(world, "succeeded")),
        ("cancel of the held job", "serializable", _cancel(held)),
        ("retry of the dead job", "repeatable read", _retry(world.dead)),
    ]
    with_a_snapshot_left_open: list[tuple[str, str, Action]] = [
        ("edit of the ready job", "serializable", _edit(ready)),
        ("enqueue under a free key", "repeatable read", _enqueue("free")),
    ]
    return [
        *(
            Script(f"{name}, left open", (action,), stays_open=True)
            for name, action in left_open.items()
        ),
        *(
            Script(f"{name} at {level}", (_take_snapshot, action), isolation=level)
            for name, level, action in with_a_snapshot
        ),
        *(
            Script(
                f"{name} at {level}, left open",
                (_take_snapshot, action),
                stays_open=True,
                isolation=level,
            )
            for name, level, action in with_a_snapshot_left_open
        ),
    ]


def _change_capped(conn: Connection) -> None:
    definition(conn, "capped", max_running=CAP, timeout_s=60)


def _take_snapshot(conn: Connection) -> None:
    conn.execute("select from jobforge.jobs limit 1")


def _claim(key: str) -> Action:
    return lambda conn: (
        "claimed",
        claim(conn, new_worker(), QUEUE, limit=2, definitions=[f"{key}@1"]),
    )


def _settle(world: World, outcome: str, **fields: Any) -> Action:
    return lambda conn: (
        "settled",
        outcome,
        complete(conn, world.holder, [world.held], outcome, **fields),
    )


def _succeed(world: World) -> Action:
    """Settle by succeed_jobs, which does not say whether an unsettled job was lost or busy."""
    return lambda conn: (
        "settled",
        "succeeded",
        [{"status": "left" if succeed(conn, world.holder, [world.held]) else "ok"}],
    )


def _cancel(job: UUID) -> Action:
    return lambda conn: (
        "canceled",
        job,
        call_for_value(conn, "cancel_job", job_id=job, tenant_id=TENANT_A),
    )


def _enqueue(key: str, **options: Json) -> Action:
    return lambda conn: ("created", enqueue_one(conn, definition="plain", key=key, **options))


def _enqueue_after(job: UUID) -> Action:
    options: dict[str, Json] = {"after": [str(job)], "on_parent_failure": "run"}
    return lambda conn: ("created", enqueue_one(conn, definition="plain", **options))


def _edit(job: UUID) -> Action:
    return lambda conn: call_for_value(
        conn, "edit_job", job_id=job, changes={"priority": 7}, tenant_id=TENANT_A
    )


def _retry(job: UUID) -> Action:
    return lambda conn: (
        "created",
        call_for_value(conn, "retry_job", job_id=job, tenant_id=TENANT_A),
    )


def _bulk(function: str) -> Callable[[Connection], list[Row]]:
    return lambda conn: call(conn, function, filter={}, tenant_id=TENANT_A)

"""What a scheduler makes of schedules: their times, their jobs, and why there is none."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cluster import Clock, Connect, Connection, Database
from integration.call_setup import TENANT_A, TENANT_B, WORKER
from integration.schedule_harness import Timetable
from psycopg import sql
from sql import engine

from jobforge import calls, db
from jobforge.errors import Conflict, Invalid, NotFound, UnknownDefinition
from jobforge.scheduler import firing as schedules
from jobforge.types.triggers import (
    DueSchedule,
    FiringKind,
    FiringOutcome,
    Plan,
    TriggerFilter,
    TriggerType,
)

ENQUEUED, SKIPPED, FAILED = FiringOutcome.ENQUEUED, FiringOutcome.SKIPPED, FiringOutcome.FAILED


@pytest.fixture
def table(database: Database, conn: Connection, clock: Clock) -> Timetable:
    engine.definition(conn, "test")
    return Timetable(database, conn, clock)


def test_a_schedule_fires_at_its_time_and_is_due_again_at_the_next(table: Timetable) -> None:
    made = table.add("0 * * * *", payload={"at": "{{schedule.fire_at}}", "n": 1}, priority=3)
    assert table.fire() == 0
    due = table.travel_to_next(made)
    assert table.fire() == 1
    assert table.fire() == 0
    [firing] = table.firings(made)
    assert (firing.fire_at, firing.outcome, firing.kind) == (due, ENQUEUED, FiringKind.SCHEDULE)
    [job] = table.jobs(made)
    assert job["id"] == firing.job_id
    assert job["payload"] == {"at": due.isoformat(), "n": 1}
    assert (job["priority"], job["source"], job["state"]) == (3, "schedule", "queued")
    trigger = table.get(made)
    assert (trigger.last_fired_at, trigger.next_run_at) == (due, due + timedelta(hours=1))


@pytest.mark.parametrize(
    ("catch_up", "limit", "expected"),
    [
        ("none", 10, [SKIPPED]),
        ("last", 10, [SKIPPED, ENQUEUED]),
        ("all", 10, [ENQUEUED] * 5),
        ("all", 3, [SKIPPED, ENQUEUED, ENQUEUED, ENQUEUED]),
    ],
)
def test_after_downtime_a_schedule_catches_up_as_it_says(
    table: Timetable, catch_up: str, limit: int, expected: list[FiringOutcome]
) -> None:
    made = table.add("0 * * * *", catch_up=catch_up, catch_up_limit=limit)
    first = table.travel_to_next(made, hours=4, minutes=30)
    table.fire()
    assert table.outcomes(made) == expected
    firings = table.firings(made)
    assert all(f.reason and "missed" in f.reason for f in firings if f.outcome is SKIPPED)
    latest = first + timedelta(hours=4)
    assert firings[-1].fire_at == latest
    assert table.get(made).next_run_at == latest + timedelta(hours=1)
    if limit == 3:
        assert firings[0].fire_at == first + timedelta(hours=1)
        assert first.isoformat() in str(firings[0].reason)


def test_a_firing_that_is_only_late_was_not_missed(table: Timetable) -> None:
    made = table.add("0 * * * *", catch_up="none")
    table.travel_to_next(made, seconds=45)
    table.fire()
    assert table.outcomes(made) == [ENQUEUED]


@pytest.mark.parametrize(
    ("overlap", "state", "expected"),
    [
        ("allow", "queued", (ENQUEUED, ["queued", "queued"])),
        ("skip", "queued", (SKIPPED, ["queued"])),
        ("skip", "running", (SKIPPED, ["running"])),
        ("skip", "dead", (ENQUEUED, ["dead", "queued"])),
        ("queue", "queued", (SKIPPED, ["queued"])),
        ("queue", "running", (ENQUEUED, ["running", "queued"])),
        ("cancel_running", "queued", (ENQUEUED, ["queued"])),
        ("cancel_running", "running", (ENQUEUED, ["running", "queued"])),
    ],
)
def test_a_firing_meets_the_unfinished_job_of_the_one_before(
    table: Timetable, overlap: str, state: str, expected: tuple[FiringOutcome, list[str]]
) -> None:
    made = table.add("0 * * * *", overlap=overlap)
    table.travel_to_next(made)
    table.fire()
    [first] = table.jobs(made)
    if state != "queued":
        jobs = engine.claim(table.conn, WORKER, lease_s=3600)
        if state == "dead":
            engine.complete(table.conn, WORKER, jobs, "failed", final=True)
    table.travel_to_next(made)
    table.fire()
    jobs = table.jobs(made)
    assert (table.outcomes(made)[-1], [job["state"] for job in jobs]) == expected
    if overlap == "cancel_running":
        was_asked = jobs[0]["id"] != first["id"] or jobs[0]["cancel_requested_at"]
        assert was_asked
    if expected[0] is SKIPPED:
        assert str(first["id"]) in str(table.firings(made)[-1].reason)


def test_schedules_that_cannot_make_a_job_say_why_and_hold_up_nobody(table: Timetable) -> None:
    conn = table.conn
    schema = {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}
    engine.definition(conn, "strict", parameters=schema)
    engine.definition(conn, "off", is_active=False)
    engine.call(conn, "put_tenant", tenant_id=TENANT_B, settings={"max_pending": 1})
    reasons = {
        table.add(payload={}, definition="strict"): (FAILED, "to"),
        table.add(payload={"to": "{{schedule.nothing}}"}, definition="strict"): (FAILED, "nothing"),
        table.add(definition="off"): (SKIPPED, "not active"),
        table.add(): (ENQUEUED, ""),
    }
    full = [table.add(tenant=TENANT_B) for _ in range(2)]
    table.travel_to_next(next(iter(reasons)))
    assert table.fire() == 6
    for made, (outcome, word) in reasons.items():
        [firing] = table.firings(made)
        assert firing.outcome is outcome
        assert word in str(firing.reason)
    of_b = [table.firings(made, TENANT_B)[0] for made in full]
    assert sorted(firing.outcome for firing in of_b) == [ENQUEUED, FAILED]


def test_a_schedule_that_cannot_be_read_is_disabled_with_the_reason(table: Timetable) -> None:
    made = table.add("61 * * * *")
    trigger = table.get(made)
    assert not trigger.enabled
    assert "61 does not lie between 0 and 59" in str(trigger.fault)
    table.edit(made, cron="1 * * * *", enabled=True)
    table.fire()
    trigger = table.get(made)
    assert (trigger.fault, trigger.enabled) == (None, True)
    assert trigger.next_run_at is not None


def test_a_plan_that_was_overtaken_is_left_alone(table: Timetable) -> None:
    """Two schedulers have read the same, and somebody edits meanwhile: forced, not hoped for."""
    fired, edited = table.add(catch_up="all"), table.add()
    table.travel_to_next(fired, hours=2)
    due = db.run(table.conn, calls.due_schedules())
    target = schedules.TargetDefinition("test", is_active=True, validator=None)
    plans = [schedules.plan_schedule(each, due.now, target) for each in due.triggers]
    table.edit(edited, payload={"new": True})
    assert db.run(table.conn, calls.record_firings(plans)) == 3
    assert db.run(table.conn, calls.record_firings(plans)) == 0
    assert len(table.jobs(fired)) == 3
    table.fire()
    assert [job["payload"] for job in table.jobs(edited)] == [{"new": True}]


def test_while_one_scheduler_acts_the_others_get_nothing(table: Timetable) -> None:
    table.travel_to_next(table.add())
    with table.conn.transaction():
        assert db.run(table.conn, calls.record_firings([])) == 0
        assert table.fire() == 0
    assert table.fire() == 1


def test_what_is_asked_for_by_hand_is_made_whatever_the_policy(table: Timetable) -> None:
    made = table.add(overlap="skip", enabled=False)
    fire_at = db.run(table.conn, calls.run_trigger(made, tenant_id=TENANT_A))
    assert table.outcomes(made) == [FiringOutcome.PENDING]
    db.run(table.conn, calls.run_trigger(made, tenant_id=TENANT_A))
    assert table.fire() == 2
    first = table.firings(made)[0]
    assert (first.fire_at, first.kind, first.outcome) == (fire_at, FiringKind.MANUAL, ENQUEUED)
    assert first.created_by is not None
    assert len(table.jobs(made)) == 2


def test_a_backfill_makes_each_time_of_a_range_once(table: Timetable) -> None:
    made = table.add("0 * * * *", payload={"for": "{{schedule.scheduled_for}}"})
    end = datetime(2026, 1, 1, 6, tzinfo=UTC)
    times = [end - timedelta(hours=n) for n in range(6)]
    call = calls.backfill_trigger(made, times, tenant_id=TENANT_A)
    assert db.run(table.conn, call) == 6
    assert table.fire() == 6
    assert db.run(table.conn, call) == 0
    assert table.fire() == 0
    found = [job["payload"]["for"] for job in table.jobs(made)]
    assert sorted(found) == sorted(time.isoformat() for time in times)
    assert table.get(made).last_fired_at is None
    future = calls.backfill_trigger(made, [end + timedelta(days=9999)], tenant_id=TENANT_A)
    with pytest.raises(Invalid):
        db.run(table.conn, future)


def test_a_backfill_of_a_time_that_is_due_makes_it_once(table: Timetable) -> None:
    """After a downtime both the operator and the schedule itself catch up."""
    made, other = table.add(), table.add()
    due = table.travel_to_next(made)
    assert db.run(table.conn, calls.backfill_trigger(made, [due], tenant_id=TENANT_A)) == 1
    assert table.fire() == 2
    assert (table.outcomes(made), table.outcomes(other)) == ([ENQUEUED], [ENQUEUED])
    assert len(table.jobs(made)) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"starts_at": "0001-01-01T00:00:00+14:00"},
        {"ends_at": "9999-12-31T23:59:59-12:00"},
    ],
)
def test_a_time_that_no_calendar_has_is_refused(table: Timetable, settings: dict[str, Any]) -> None:
    """Schedulers that cannot read it would fire nothing of anybody's."""
    with pytest.raises(Invalid, match="is not a point in time"):
        table.add(**settings)


def test_a_schedule_starts_and_ends_when_it_is_told_to(table: Timetable) -> None:
    start = (table.clock.now() + timedelta(hours=10)).replace(minute=0, second=0, microsecond=0)
    made = table.add(
        starts_at=start.isoformat(),
        ends_at=(start + timedelta(hours=2)).isoformat(),
        catch_up="all",
    )
    assert table.travel_to_next(made, hours=20) == start
    table.fire()
    fired = [firing.fire_at for firing in table.firings(made)]
    assert fired == [start, start + timedelta(hours=1)]
    assert table.get(made).next_run_at is None


def test_time_spent_disabled_is_not_caught_up(table: Timetable) -> None:
    made = table.add(catch_up="all")
    table.edit(made, enabled=False)
    assert table.get(made).next_run_at is None
    table.clock.travel(hours=5)
    table.edit(made, enabled=True)
    assert table.fire() == 0
    table.travel_to_next(made)
    assert table.fire() == 1


def test_a_tenants_schedule_follows_the_tenants_clocks(table: Timetable) -> None:
    engine.call(table.conn, "put_tenant", tenant_id=TENANT_A, settings={})
    made = table.add("0 9 * * *", timezone="tenant")
    before = table.get(made)
    assert before.zone == "UTC"
    settings = {"timezone": "Asia/Kolkata"}
    engine.call(table.conn, "put_tenant", tenant_id=TENANT_A, settings=settings)
    table.fire()
    after = table.get(made)
    assert after.zone == "Asia/Kolkata"
    assert after.next_run_at is not None
    assert (after.next_run_at.astimezone(UTC).hour, after.next_run_at.minute) == (3, 30)


def test_jitter_is_the_same_for_every_scheduler(table: Timetable) -> None:
    made = table.add(jitter_s=600)
    due = table.travel_to_next(made)
    [schedule] = _due(table)
    target = schedules.TargetDefinition("test", is_active=True, validator=None)
    [one], [other] = (schedules.plan_schedule(schedule, due, target).firings for _ in range(2))
    assert one.run_at == other.run_at
    assert one.run_at is not None
    assert due < one.run_at < due + timedelta(minutes=10)
    table.fire()
    [job] = table.jobs(made)
    assert (job["state"], job["run_at"]) == ("scheduled", one.run_at)


def test_what_a_trigger_cannot_be_is_refused(table: Timetable) -> None:
    with pytest.raises(UnknownDefinition):
        table.add(definition="nothing")
    wrong: dict[str, Any] = {
        "cron": "x" * 101,
        "overlap": "never",
        "catch_up_limit": 101,
        "jitter_s": -1,
        "event": "order.paid",
        "payload": [],
        "queue": "no queue",
        "starts_at": "tomorrow",
    }
    for field, value in wrong.items():
        with pytest.raises(Invalid) as refused:
            table.add(**{field: value})
        assert refused.value.field == field
    with pytest.raises(Invalid):
        table.add(starts_at="2026-01-02T00:00:00Z", ends_at="2026-01-01T00:00:00Z")


def test_a_time_that_the_zones_rules_have_moved_is_planned_anew(table: Timetable) -> None:
    """Between a release of the zones and the next, a time that was found may be none any more."""
    made = table.add("0 * * * *", catch_up="all")
    table.conn.execute(
        "update jobforge.triggers set next_run_at = %(at)s, due_at = %(at)s",
        {"at": table.clock.now().replace(minute=7, second=0, microsecond=0) - timedelta(hours=3)},
    )
    table.fire()
    after = table.get(made).next_run_at
    assert after is not None
    assert after.minute == 0
    assert [firing.fire_at.minute for firing in table.firings(made)][-1] == 0


def test_one_schedule_that_cannot_be_planned_holds_up_nobody(
    table: Timetable, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = table.add(), table.add()
    table.travel_to_next(sound)
    plan = schedules.plan_schedule

    def break_one(schedule: DueSchedule, *others: Any) -> Plan:
        if schedule.id == str(broken):
            raise ZeroDivisionError
        return plan(schedule, *others)

    monkeypatch.setattr(schedules, "plan_schedule", break_one)
    table.fire()
    assert table.outcomes(sound) == [ENQUEUED]
    assert "ZeroDivisionError" in str(table.get(broken).fault)


def test_one_schedule_whose_firings_cannot_be_recorded_holds_up_nobody(table: Timetable) -> None:
    broken, sound = table.add(), table.add()
    table.conn.execute(
        sql.SQL("alter table jobforge.firings add constraint c check (trigger_id <> {})").format(
            sql.Literal(broken)
        )
    )
    table.travel_to_next(sound)
    assert table.fire() == 1
    assert table.outcomes(sound) == [ENQUEUED]
    assert table.get(broken).enabled
    table.conn.execute("alter table jobforge.firings drop constraint c")
    assert table.fire() == 1
    assert table.outcomes(broken) == [ENQUEUED]


def test_large_schedules_that_cannot_be_recorded_hold_up_nobody(table: Timetable) -> None:
    """They fill the first answer of due_schedules, and come first again in the next."""
    table.add(payload={"x": "y" * 250_000})
    sound = table.add()
    table.conn.execute(
        """
        insert into jobforge.triggers
        select (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).*
          from jobforge.triggers as t, generate_series(2, 40)
         where t.payload <> '{}'
        """
    )
    table.conn.execute(
        sql.SQL("alter table jobforge.firings add constraint c check (trigger_id = {})").format(
            sql.Literal(sound)
        )
    )
    table.travel_to_next(sound)
    table.conn.execute("update jobforge.triggers set due_at = due_at - interval '1 s'")
    table.conn.execute(
        "update jobforge.triggers set due_at = due_at + interval '1 s' where id = %s", [sound]
    )
    assert len(db.run(table.conn, calls.due_schedules()).triggers) < 40
    assert table.fire() == 1
    assert table.outcomes(sound) == [ENQUEUED]
    table.conn.execute("alter table jobforge.firings drop constraint c")
    assert table.fire() == 40


def test_a_schedule_whose_job_somebody_holds_holds_up_nobody(
    table: Timetable, connect: Connect
) -> None:
    """It is to cancel the job, which its own worker completes in a transaction that lasts."""
    held = table.add(overlap="cancel_running")
    table.travel_to_next(held)
    table.fire()
    sound = table.add()
    holder = connect(autocommit=False)
    holder.execute("select from jobforge.jobs for update")
    table.travel_to_next(sound)
    assert table.fire() == 1
    assert (table.outcomes(held), table.outcomes(sound)) == ([ENQUEUED], [ENQUEUED])
    holder.rollback()
    assert table.fire() == 1
    assert table.outcomes(held) == [ENQUEUED, ENQUEUED]


def test_a_tenant_has_a_hundred_schedules_at_most(table: Timetable) -> None:
    settings = {"label": "l", "definition": "test", "cron": "@daily"}
    call = calls.create_trigger(TriggerType.SCHEDULE, settings, tenant_id=TENANT_A)
    made = [db.run(table.conn, call) for _ in range(100)]
    with pytest.raises(Conflict):
        db.run(table.conn, call)
    db.run(table.conn, calls.delete_trigger(made[0], tenant_id=TENANT_A))
    db.run(table.conn, call)
    with pytest.raises(NotFound):
        table.get(made[0])
    assert table.firings(made[0]) == []
    listed = db.run(
        table.conn,
        calls.list_triggers(TriggerFilter(enabled=True), limit=200, tenant_id=TENANT_A),
    )
    assert made[0] not in {trigger.id for trigger in listed}
    assert len(listed) == 100


def test_old_firings_and_deleted_triggers_are_forgotten(table: Timetable) -> None:
    made = table.add()
    table.travel_to_next(made)
    table.fire()
    db.run(table.conn, calls.delete_trigger(made, tenant_id=TENANT_A))
    table.clock.travel(days=15)
    gone = db.run(table.conn, calls.apply_retention())
    assert gone["firings"] == 1
    with pytest.raises(NotFound):
        table.firings(made)


def test_a_schedule_of_every_minute_costs_little_after_years(table: Timetable) -> None:
    made = table.add("* * * * *", catch_up="all", catch_up_limit=100)
    table.clock.travel(days=1000)
    assert table.fire() == 101
    assert table.outcomes(made) == [SKIPPED, *[ENQUEUED] * 100]


def _due(table: Timetable) -> list[DueSchedule]:
    return db.run(table.conn, calls.due_schedules()).triggers

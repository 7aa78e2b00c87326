"""Schedules: the times that a scheduler plans, the jobs it creates, and the reasons why it creates
none.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cluster import Clock, Connect, Connection, Database
from integration.call_setup import TENANT_A, TENANT_B, WORKER
from integration.schedule_harness import ScheduleHarness
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
def harness(database: Database, conn: Connection, clock: Clock) -> ScheduleHarness:
    engine.definition(conn, "test")
    return ScheduleHarness(database, conn, clock)


def test_a_schedule_fires_at_its_time_and_is_planned_for_the_next_one(
    harness: ScheduleHarness,
) -> None:
    created = harness.add("0 * * * *", payload={"at": "{{schedule.fire_at}}", "n": 1}, priority=3)
    assert harness.fire_due() == 0
    due = harness.travel_to_next(created)
    assert harness.fire_due() == 1
    assert harness.fire_due() == 0
    [firing] = harness.firings(created)
    assert (firing.fire_at, firing.outcome, firing.kind) == (due, ENQUEUED, FiringKind.SCHEDULE)
    [job] = harness.jobs(created)
    assert job["id"] == firing.job_id
    assert job["payload"] == {"at": due.isoformat(), "n": 1}
    assert (job["priority"], job["source"], job["state"]) == (3, "schedule", "queued")
    trigger = harness.get(created)
    assert (trigger.last_fired_at, trigger.next_run_at) == (due, due + timedelta(hours=1))


def test_an_interval_fires_within_a_minute_and_catches_up_as_a_cron_expression_does(
    harness: ScheduleHarness,
) -> None:
    created = harness.add("@every 20s", payload={"at": "{{schedule.fire_at}}"})
    due = harness.travel_to_next(created)
    assert due.timestamp() % 20 == 0
    assert harness.fire_due() == 1
    harness.travel_to_next(created, seconds=45)
    assert harness.fire_due() == 2
    fired = [(each.fire_at, each.outcome) for each in harness.firings(created)]
    assert fired == [
        (due, ENQUEUED),
        (due + timedelta(seconds=40), SKIPPED),
        (due + timedelta(seconds=60), ENQUEUED),
    ]
    assert harness.get(created).next_run_at == due + timedelta(seconds=80)


def test_an_interval_without_catch_up_fires_once_after_a_delay(harness: ScheduleHarness) -> None:
    created = harness.add("@every 2s", catch_up="none")
    harness.travel_to_next(created, seconds=31)
    assert harness.fire_due() == 2
    assert harness.outcomes(created) == [SKIPPED, ENQUEUED]


@pytest.mark.parametrize(
    ("catch_up", "limit", "expected"),
    [
        ("none", 10, [SKIPPED]),
        ("last", 10, [SKIPPED, ENQUEUED]),
        ("all", 10, [ENQUEUED] * 5),
        ("all", 3, [SKIPPED, ENQUEUED, ENQUEUED, ENQUEUED]),
    ],
)
def test_a_schedule_catches_up_after_downtime_by_its_policy(
    harness: ScheduleHarness, catch_up: str, limit: int, expected: list[FiringOutcome]
) -> None:
    created = harness.add("0 * * * *", catch_up=catch_up, catch_up_limit=limit)
    first = harness.travel_to_next(created, hours=4, minutes=30)
    harness.fire_due()
    assert harness.outcomes(created) == expected
    firings = harness.firings(created)
    assert all(f.reason and "missed" in f.reason for f in firings if f.outcome is SKIPPED)
    latest = first + timedelta(hours=4)
    assert firings[-1].fire_at == latest
    assert harness.get(created).next_run_at == latest + timedelta(hours=1)
    if limit == 3:
        assert firings[0].fire_at == first + timedelta(hours=1)
        assert first.isoformat() in str(firings[0].reason)


def test_a_late_firing_is_not_missed(harness: ScheduleHarness) -> None:
    created = harness.add("0 * * * *", catch_up="none")
    harness.travel_to_next(created, seconds=45)
    harness.fire_due()
    assert harness.outcomes(created) == [ENQUEUED]


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
def test_the_overlap_policy_applies_to_the_unfinished_previous_job(
    harness: ScheduleHarness, overlap: str, state: str, expected: tuple[FiringOutcome, list[str]]
) -> None:
    created = harness.add("0 * * * *", overlap=overlap)
    harness.travel_to_next(created)
    harness.fire_due()
    [first] = harness.jobs(created)
    if state != "queued":
        jobs = engine.claim(harness.conn, WORKER, lease_s=3600)
        if state == "dead":
            engine.complete(harness.conn, WORKER, jobs, "failed", final=True)
    harness.travel_to_next(created)
    harness.fire_due()
    jobs = harness.jobs(created)
    assert (harness.outcomes(created)[-1], [job["state"] for job in jobs]) == expected
    if overlap == "cancel_running":
        was_asked = jobs[0]["id"] != first["id"] or jobs[0]["cancel_requested_at"]
        assert was_asked
    if expected[0] is SKIPPED:
        assert str(first["id"]) in str(harness.firings(created)[-1].reason)


def test_schedules_that_cannot_create_a_job_give_the_reason_and_do_not_delay_others(
    harness: ScheduleHarness,
) -> None:
    conn = harness.conn
    schema = {"type": "object", "required": ["to"], "properties": {"to": {"type": "string"}}}
    engine.definition(conn, "strict", parameters=schema)
    engine.definition(conn, "off", is_active=False)
    engine.call(conn, "put_tenant", tenant_id=TENANT_B, settings={"max_pending": 1})
    reasons = {
        harness.add(payload={}, definition="strict"): (FAILED, "to"),
        harness.add(payload={"to": "{{schedule.nothing}}"}, definition="strict"): (
            FAILED,
            "nothing",
        ),
        harness.add(definition="off"): (SKIPPED, "not active"),
        harness.add(): (ENQUEUED, ""),
    }
    full = [harness.add(tenant=TENANT_B) for _ in range(2)]
    harness.travel_to_next(next(iter(reasons)))
    assert harness.fire_due() == 6
    for created, (outcome, word) in reasons.items():
        [firing] = harness.firings(created)
        assert firing.outcome is outcome
        assert word in str(firing.reason)
    of_b = [harness.firings(created, TENANT_B)[0] for created in full]
    assert sorted(firing.outcome for firing in of_b) == [ENQUEUED, FAILED]


def test_a_schedule_that_cannot_be_read_is_disabled_with_the_reason(
    harness: ScheduleHarness,
) -> None:
    created = harness.add("61 * * * *")
    trigger = harness.get(created)
    assert not trigger.enabled
    assert "'61' is not a valid minute (0 to 59)" in str(trigger.fault)
    harness.edit(created, cron="1 * * * *", enabled=True)
    harness.fire_due()
    trigger = harness.get(created)
    assert (trigger.fault, trigger.enabled) == (None, True)
    assert trigger.next_run_at is not None


def test_an_outdated_plan_is_ignored(harness: ScheduleHarness) -> None:
    """Two schedulers have read the same schedule, and an edit comes in between; the test forces
    this order.
    """
    fired, edited = harness.add(catch_up="all"), harness.add()
    harness.travel_to_next(fired, hours=2)
    due = db.run(harness.conn, calls.due_schedules())
    target = schedules.TargetDefinition("test", is_active=True, validator=None)
    plans = [schedules.plan_schedule(each, due.now, target) for each in due.triggers]
    harness.edit(edited, payload={"new": True})
    assert db.run(harness.conn, calls.record_firings(plans)) == 3
    assert db.run(harness.conn, calls.record_firings(plans)) == 0
    assert len(harness.jobs(fired)) == 3
    harness.fire_due()
    assert [job["payload"] for job in harness.jobs(edited)] == [{"new": True}]


def test_while_one_scheduler_fires_the_others_get_nothing(harness: ScheduleHarness) -> None:
    harness.travel_to_next(harness.add())
    with harness.conn.transaction():
        assert db.run(harness.conn, calls.record_firings([])) == 0
        assert harness.fire_due() == 0
    assert harness.fire_due() == 1


def test_a_manual_run_creates_a_job_whatever_the_policy(harness: ScheduleHarness) -> None:
    created = harness.add(overlap="skip", enabled=False)
    fire_at = db.run(harness.conn, calls.run_trigger(created, tenant_id=TENANT_A))
    assert harness.outcomes(created) == [FiringOutcome.PENDING]
    db.run(harness.conn, calls.run_trigger(created, tenant_id=TENANT_A))
    assert harness.fire_due() == 2
    first = harness.firings(created)[0]
    assert (first.fire_at, first.kind, first.outcome) == (fire_at, FiringKind.MANUAL, ENQUEUED)
    assert first.created_by is not None
    assert len(harness.jobs(created)) == 2


def test_a_backfill_creates_each_run_of_a_range_once(harness: ScheduleHarness) -> None:
    created = harness.add("0 * * * *", payload={"for": "{{schedule.scheduled_for}}"})
    end = datetime(2026, 1, 1, 6, tzinfo=UTC)
    times = [end - timedelta(hours=n) for n in range(6)]
    call = calls.backfill_trigger(created, times, tenant_id=TENANT_A)
    assert db.run(harness.conn, call) == 6
    assert harness.fire_due() == 6
    assert db.run(harness.conn, call) == 0
    assert harness.fire_due() == 0
    found = [job["payload"]["for"] for job in harness.jobs(created)]
    assert sorted(found) == sorted(time.isoformat() for time in times)
    assert harness.get(created).last_fired_at is None
    future = calls.backfill_trigger(created, [end + timedelta(days=9999)], tenant_id=TENANT_A)
    with pytest.raises(Invalid):
        db.run(harness.conn, future)


def test_a_backfill_of_a_due_time_creates_its_job_once(harness: ScheduleHarness) -> None:
    """After a downtime, both the operator and the schedule catch up."""
    created, other = harness.add(), harness.add()
    due = harness.travel_to_next(created)
    assert db.run(harness.conn, calls.backfill_trigger(created, [due], tenant_id=TENANT_A)) == 1
    assert harness.fire_due() == 2
    assert (harness.outcomes(created), harness.outcomes(other)) == ([ENQUEUED], [ENQUEUED])
    assert len(harness.jobs(created)) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"starts_at": "0001-01-01T00:00:00+14:00"},
        {"ends_at": "9999-12-31T23:59:59-12:00"},
    ],
)
def test_a_time_outside_the_calendar_is_refused(
    harness: ScheduleHarness, settings: dict[str, Any]
) -> None:
    """A scheduler that cannot read the time would fire no schedule of any tenant."""
    with pytest.raises(Invalid, match="is not a valid time"):
        harness.add(**settings)


def test_a_schedule_starts_and_ends_at_its_bounds(harness: ScheduleHarness) -> None:
    start = (harness.clock.now() + timedelta(hours=10)).replace(minute=0, second=0, microsecond=0)
    created = harness.add(
        starts_at=start.isoformat(),
        ends_at=(start + timedelta(hours=2)).isoformat(),
        catch_up="all",
    )
    assert harness.travel_to_next(created, hours=20) == start
    harness.fire_due()
    fired = [firing.fire_at for firing in harness.firings(created)]
    assert fired == [start, start + timedelta(hours=1)]
    assert harness.get(created).next_run_at is None


def test_time_spent_disabled_is_not_caught_up(harness: ScheduleHarness) -> None:
    created = harness.add(catch_up="all")
    harness.edit(created, enabled=False)
    assert harness.get(created).next_run_at is None
    harness.clock.travel(hours=5)
    harness.edit(created, enabled=True)
    assert harness.fire_due() == 0
    harness.travel_to_next(created)
    assert harness.fire_due() == 1


def test_a_tenants_schedule_uses_the_tenants_time_zone(harness: ScheduleHarness) -> None:
    engine.call(harness.conn, "put_tenant", tenant_id=TENANT_A, settings={})
    created = harness.add("0 9 * * *", timezone="tenant")
    before = harness.get(created)
    assert before.zone == "UTC"
    settings = {"timezone": "Asia/Kolkata"}
    engine.call(harness.conn, "put_tenant", tenant_id=TENANT_A, settings=settings)
    harness.fire_due()
    after = harness.get(created)
    assert after.zone == "Asia/Kolkata"
    assert after.next_run_at is not None
    assert (after.next_run_at.astimezone(UTC).hour, after.next_run_at.minute) == (3, 30)


def test_jitter_is_the_same_for_every_scheduler(harness: ScheduleHarness) -> None:
    created = harness.add(jitter_s=600)
    due = harness.travel_to_next(created)
    [schedule] = _due(harness)
    target = schedules.TargetDefinition("test", is_active=True, validator=None)
    [one], [other] = (schedules.plan_schedule(schedule, due, target).firings for _ in range(2))
    assert one.run_at == other.run_at
    assert one.run_at is not None
    assert due < one.run_at < due + timedelta(minutes=10)
    harness.fire_due()
    [job] = harness.jobs(created)
    assert (job["state"], job["run_at"]) == ("scheduled", one.run_at)


def test_an_invalid_trigger_is_refused(harness: ScheduleHarness) -> None:
    with pytest.raises(UnknownDefinition):
        harness.add(definition="nothing")
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
            harness.add(**{field: value})
        assert refused.value.field == field
    with pytest.raises(Invalid):
        harness.add(starts_at="2026-01-02T00:00:00Z", ends_at="2026-01-01T00:00:00Z")


def test_a_time_moved_by_new_zone_rules_is_planned_again(harness: ScheduleHarness) -> None:
    """After a release of the time zone data, a planned time may not exist any more."""
    created = harness.add("0 * * * *", catch_up="all")
    harness.conn.execute(
        "update jobforge.triggers set next_run_at = %(at)s, due_at = %(at)s",
        {"at": harness.clock.now().replace(minute=7, second=0, microsecond=0) - timedelta(hours=3)},
    )
    harness.fire_due()
    after = harness.get(created).next_run_at
    assert after is not None
    assert after.minute == 0
    assert [firing.fire_at.minute for firing in harness.firings(created)][-1] == 0


def test_a_schedule_that_cannot_be_planned_does_not_delay_others(
    harness: ScheduleHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, sound = harness.add(), harness.add()
    harness.travel_to_next(sound)
    plan = schedules.plan_schedule

    def break_one(schedule: DueSchedule, *others: Any) -> Plan:
        if schedule.id == str(broken):
            raise ZeroDivisionError
        return plan(schedule, *others)

    monkeypatch.setattr(schedules, "plan_schedule", break_one)
    harness.fire_due()
    assert harness.outcomes(sound) == [ENQUEUED]
    assert "ZeroDivisionError" in str(harness.get(broken).fault)


def test_a_schedule_whose_firings_cannot_be_recorded_does_not_delay_others(
    harness: ScheduleHarness,
) -> None:
    broken, sound = harness.add(), harness.add()
    harness.conn.execute(
        sql.SQL("alter table jobforge.firings add constraint c check (trigger_id <> {})").format(
            sql.Literal(broken)
        )
    )
    harness.travel_to_next(sound)
    assert harness.fire_due() == 1
    assert harness.outcomes(sound) == [ENQUEUED]
    assert harness.get(broken).enabled
    harness.conn.execute("alter table jobforge.firings drop constraint c")
    assert harness.fire_due() == 1
    assert harness.outcomes(broken) == [ENQUEUED]


def test_large_schedules_that_cannot_be_recorded_do_not_delay_others(
    harness: ScheduleHarness,
) -> None:
    """They fill the first result of due_schedules, and come first again in the next one."""
    harness.add(payload={"x": "y" * 250_000})
    sound = harness.add()
    harness.conn.execute(
        """
        insert into jobforge.triggers
        select (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid()))).*
          from jobforge.triggers as t, generate_series(2, 40)
         where t.payload <> '{}'
        """
    )
    harness.conn.execute(
        sql.SQL("alter table jobforge.firings add constraint c check (trigger_id = {})").format(
            sql.Literal(sound)
        )
    )
    harness.travel_to_next(sound)
    harness.conn.execute("update jobforge.triggers set due_at = due_at - interval '1 s'")
    harness.conn.execute(
        "update jobforge.triggers set due_at = due_at + interval '1 s' where id = %s", [sound]
    )
    assert len(db.run(harness.conn, calls.due_schedules()).triggers) < 40
    assert harness.fire_due() == 1
    assert harness.outcomes(sound) == [ENQUEUED]
    harness.conn.execute("alter table jobforge.firings drop constraint c")
    assert harness.fire_due() == 40


def test_a_schedule_with_a_locked_job_does_not_delay_others(
    harness: ScheduleHarness, connect: Connect
) -> None:
    """The schedule has to cancel a job that its worker completes in a long transaction."""
    held = harness.add(overlap="cancel_running")
    harness.travel_to_next(held)
    harness.fire_due()
    sound = harness.add()
    holder = connect(autocommit=False)
    holder.execute("select from jobforge.jobs for update")
    harness.travel_to_next(sound)
    assert harness.fire_due() == 1
    assert (harness.outcomes(held), harness.outcomes(sound)) == ([ENQUEUED], [ENQUEUED])
    holder.rollback()
    assert harness.fire_due() == 1
    assert harness.outcomes(held) == [ENQUEUED, ENQUEUED]


def test_a_tenant_has_at_most_a_hundred_schedules(harness: ScheduleHarness) -> None:
    settings = {"label": "l", "definition": "test", "cron": "@daily"}
    call = calls.create_trigger(TriggerType.SCHEDULE, settings, tenant_id=TENANT_A)
    created = [db.run(harness.conn, call) for _ in range(100)]
    with pytest.raises(Conflict):
        db.run(harness.conn, call)
    db.run(harness.conn, calls.delete_trigger(created[0], tenant_id=TENANT_A))
    db.run(harness.conn, call)
    with pytest.raises(NotFound):
        harness.get(created[0])
    assert harness.firings(created[0]) == []
    listed = db.run(
        harness.conn,
        calls.list_triggers(TriggerFilter(enabled=True), limit=200, tenant_id=TENANT_A),
    )
    assert created[0] not in {trigger.id for trigger in listed}
    assert len(listed) == 100


def test_old_firings_and_deleted_triggers_are_deleted_by_maintenance(
    harness: ScheduleHarness,
) -> None:
    created = harness.add()
    harness.travel_to_next(created)
    harness.fire_due()
    db.run(harness.conn, calls.delete_trigger(created, tenant_id=TENANT_A))
    harness.clock.travel(days=15)
    gone = db.run(harness.conn, calls.apply_retention())
    assert gone["firings"] == 1
    with pytest.raises(NotFound):
        harness.firings(created)


def test_a_schedule_of_every_minute_costs_little_after_years(harness: ScheduleHarness) -> None:
    created = harness.add("* * * * *", catch_up="all", catch_up_limit=100)
    harness.clock.travel(days=1000)
    assert harness.fire_due() == 101
    assert harness.outcomes(created) == [SKIPPED, *[ENQUEUED] * 100]


def _due(harness: ScheduleHarness) -> list[DueSchedule]:
    return db.run(harness.conn, calls.due_schedules()).triggers

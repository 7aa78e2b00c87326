"""Schedules declared in code: kept in sync with the code, and fired by the worker's scheduler."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connection, Database
from integration.call_setup import TENANT_A, TENANT_B
from integration.schedule_harness import ScheduleHarness
from integration.worker_harness import WorkerHarness, eventually
from sql import engine

from jobforge import calls, db
from jobforge.errors import ConfigError, Conflict, Invalid, NotFound
from jobforge.scheduler.scheduler import Scheduler
from jobforge.sdk.app import JobForge
from jobforge.types.triggers import Trigger


def register(conn: Connection, app: JobForge) -> None:
    for call in (*app.registrations(), app.build_trigger_declaration()):
        db.run(conn, call)


def declared(conn: Connection, tenant: UUID = TENANT_A) -> dict[str | None, Trigger]:
    listed = db.run(conn, calls.list_triggers(tenant_id=tenant))
    return {trigger.declared: trigger for trigger in listed}


def an_app(*, of: UUID | None = TENANT_A, **settings: Any) -> JobForge:
    """Return an app of tenant `of`, unless the schedule names another tenant."""
    app = JobForge("postgresql://unused", tenant=of)

    @app.job(key="report", **settings)
    def report(day: str = "") -> str:
        return day

    return app


def test_a_declared_schedule_follows_the_code(conn: Connection) -> None:
    register(
        conn, an_app(cron="0 9 * * *", tz="Europe/Berlin", payload={"day": "{{schedule.date}}"})
    )
    created = declared(conn)["report"]
    assert (created.cron, created.timezone, created.definition) == (
        "0 9 * * *",
        "Europe/Berlin",
        "report",
    )
    register(
        conn, an_app(cron="0 9 * * *", tz="Europe/Berlin", payload={"day": "{{schedule.date}}"})
    )
    assert declared(conn)["report"] == created

    register(conn, an_app(cron="30 8 * * *", overlap="skip", jitter=300))
    changed = declared(conn)["report"]
    assert (changed.id, changed.cron, changed.timezone) == (created.id, "30 8 * * *", "tenant")
    assert (changed.overlap, changed.jitter_s, changed.payload) == ("skip", 300, {})

    db.run(conn, calls.run_trigger(created.id, tenant_id=TENANT_A))
    register(conn, an_app())
    assert declared(conn) == {}
    [asked] = db.run(conn, calls.list_firings(created.id, tenant_id=TENANT_A))
    assert (asked.outcome, asked.reason) == ("skipped", "the trigger was deleted")
    register(conn, an_app(cron="@daily"))
    assert declared(conn)["report"].id == created.id


def test_a_declared_interval_is_a_schedule(conn: Connection) -> None:
    register(conn, an_app(every=90, jitter=5, overlap="skip"))
    created = declared(conn)["report"]
    assert (created.cron, created.jitter_s, created.overlap) == ("@every 1m30s", 5, "skip")
    register(conn, an_app(every=timedelta(hours=1)))
    assert (declared(conn)["report"].id, declared(conn)["report"].cron) == (created.id, "@every 1h")
    register(conn, an_app(cron="@hourly"))
    assert declared(conn)["report"].cron == "@hourly"


def test_changes_by_operators_are_kept(conn: Connection) -> None:
    register(conn, an_app(cron="@daily"))
    created = declared(conn)["report"].id
    db.run(conn, calls.edit_trigger(created, {"enabled": False}, tenant_id=TENANT_A))
    register(conn, an_app(cron="@hourly"))
    trigger = declared(conn)["report"]
    assert (trigger.cron, trigger.enabled) == ("@hourly", False)
    with pytest.raises(Conflict, match="declared in code"):
        db.run(conn, calls.edit_trigger(created, {"cron": "@weekly"}, tenant_id=TENANT_A))
    with pytest.raises(Conflict, match="declared in code"):
        db.run(conn, calls.delete_trigger(created, tenant_id=TENANT_A))


def test_schedules_of_another_app_are_unchanged(conn: Connection) -> None:
    register(conn, an_app(cron="@daily"))
    other = JobForge("postgresql://unused")

    @other.job
    def something() -> None: ...

    register(conn, other)
    assert "report" in declared(conn)


def test_a_schedule_for_all_tenants_includes_later_tenants(conn: Connection) -> None:
    engine.call(conn, "put_tenant", tenant_id=TENANT_A, settings={})
    register(conn, an_app(cron="@daily", tenant="*"))
    assert "report" in declared(conn, TENANT_A)
    assert "report" not in declared(conn, TENANT_B)
    engine.call(conn, "put_tenant", tenant_id=TENANT_B, settings={"timezone": "Asia/Tokyo"})
    assert declared(conn, TENANT_B)["report"].zone == "Asia/Tokyo"
    register(conn, an_app())
    engine.call(conn, "put_tenant", tenant_id=uuid4(), settings={})
    rows = conn.execute("select from jobforge.triggers where deleted_at is null").fetchall()
    assert rows == []


def test_a_schedule_needs_an_existing_tenant(conn: Connection) -> None:
    with pytest.raises(ConfigError, match="requires a tenant"):
        an_app(of=None, cron="@daily").build_trigger_declaration()
    with pytest.raises(NotFound):
        register(conn, an_app(cron="@daily", tenant="nobody"))


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "@daily", "tz": "Mars/X"}, "timezone"),
        ({"cron": "@daily", "payload": {"a": "{{event.b}}"}}, "payload.a"),
        ({"tz": "Europe/Berlin"}, "tz"),
        ({"cron": "@every 30"}, "cron"),
        ({"every": 30, "cron": "@daily"}, "every"),
        ({"every": 30, "on_event": "a"}, "on_event"),
        ({"every": 0}, "every"),
        ({"every": 0.5}, "every"),
        ({"every": timedelta(days=366)}, "every"),
        ({"every": 30, "payload": {"a": "{{event.b}}"}}, "payload.a"),
    ],
)
def test_a_schedule_that_can_never_fire_is_refused_at_declaration(
    settings: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        an_app(**settings)
    assert refused.value.field == field


@pytest.mark.anyio
@pytest.mark.parametrize("listens", [True, False])
async def test_a_worker_runs_a_scheduler_for_declared_schedules(
    database: Database, conn: Connection, clock: Clock, *, listens: bool
) -> None:
    harness = WorkerHarness(database, conn)
    reported = []

    @harness.app.job(
        isolation="inline",
        cron="0 * * * *",
        tenant=TENANT_A,
        tz="UTC",
        payload={"at": "{{schedule.fire_at}}"},
    )
    async def hourly(at: str) -> None:
        reported.append(at)

    async with db.Database(database.url_as("worker_login"), behind_pooler=not listens) as pool:
        scheduler = Scheduler(pool, poll_s=0.05)
        async with harness.running_worker(scheduler=scheduler, listens=listens):
            table = ScheduleHarness(database, conn, clock)
            [created] = [trigger.id for trigger in declared(conn).values()]
            await eventually(lambda: table.get(created).next_run_at is not None)
            due = table.travel_to_next(created)
            conn.execute("select jobforge_private.wake_scheduler()")
            await eventually(lambda: bool(reported))
    assert reported == [due.isoformat()]


@pytest.mark.anyio
async def test_a_scheduler_can_be_stopped_before_and_after_it_runs(database: Database) -> None:
    async with db.Database(database.url_as("worker_login")) as pool:
        scheduler = Scheduler(pool)
        scheduler.stop()
        scheduler.stop()
        await scheduler.run()

"""Event triggers declared in code: kept in sync with the code, and the jobs that they create."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from integration.call_setup import TENANT_A, TENANT_B
from integration.test_declared_schedules import declared, register
from pydantic import BaseModel, RootModel
from sql import engine

from jobforge import calls, db
from jobforge.db.outage import MonitoredLink, Outage
from jobforge.errors import Conflict, Invalid, Json
from jobforge.scheduler.dispatch import Dispatcher
from jobforge.sdk.app import JobForge
from jobforge.types.events import DeliveryOutcome
from jobforge.types.triggers import TriggerType


def an_app(**settings: Any) -> JobForge:
    app = JobForge("postgresql://unused", tenant=TENANT_A)

    @app.job(key="book", **settings)
    def book(invoice: str, total: float = 0.5, note: str | None = None) -> None: ...

    return app


def emit(conn: Connection, *events: dict[str, Json], name: str = "invoice.paid") -> list[UUID]:
    return [db.run(conn, calls.emit_event(name, data, tenant_id=TENANT_A)) for data in events]


def dispatch(database: Database) -> None:
    async def run() -> None:
        async with db.Database(database.url_as("worker_login"), size=1) as opened:
            link = MonitoredLink(opened.create_link(), Outage())
            dispatcher = Dispatcher()
            while await dispatcher.dispatch(link):
                pass
            await link.close()

    asyncio.run(run())


def payloads(conn: Connection) -> list[Json]:
    rows = conn.execute("select payload from jobforge.jobs order by id").fetchall()
    return [row["payload"] for row in rows]


def outcomes(conn: Connection, event: UUID) -> list[tuple[DeliveryOutcome, str | None]]:
    found = db.run(conn, calls.get_event(event, tenant_id=TENANT_A))
    return [(each.outcome, each.reason) for each in found.deliveries]


def test_a_declared_event_trigger_follows_the_code(conn: Connection) -> None:
    where = [{"path": "event.total", "op": "gt", "value": 100}]
    register(conn, an_app(on_event="invoice.paid", where=where))
    created = declared(conn)["book"]
    assert (created.type, created.event, created.definition) == (
        TriggerType.EVENT,
        "invoice.paid",
        "book",
    )
    assert (created.filter, created.dedupe_window_s, created.dedupe_key) == (where, 0, None)
    register(conn, an_app(on_event="invoice.paid", where=where))
    assert declared(conn)["book"] == created

    settings = {"dedupe": 60, "dedupe_key": "{{event.invoice}}", "payload": {"invoice": "x"}}
    register(conn, an_app(on_event="invoice.*", **settings))
    changed = declared(conn)["book"]
    assert (changed.id, changed.event, changed.filter) == (created.id, "invoice.*", [])
    assert (changed.dedupe_window_s, changed.dedupe_key) == (60, "{{event.invoice}}")
    assert changed.payload == {"invoice": "x"}

    register(conn, an_app())
    assert declared(conn) == {}
    register(conn, an_app(on_event="invoice.paid"))
    again = declared(conn)["book"]
    assert (again.id, again.dedupe_window_s, again.dedupe_key) == (created.id, 0, None)


def test_a_schedule_can_become_an_event_trigger_and_back(
    database: Database, conn: Connection
) -> None:
    register(conn, an_app(cron="@daily"))
    schedule = declared(conn)["book"]
    db.run(conn, calls.run_trigger(schedule.id, tenant_id=TENANT_A))
    register(conn, an_app(on_event="invoice.paid"))
    [event] = db.run(conn, calls.list_triggers(tenant_id=TENANT_A))
    assert event.type is TriggerType.EVENT
    [asked] = db.run(conn, calls.list_firings(schedule.id, tenant_id=TENANT_A))
    assert (asked.outcome, asked.reason) == ("skipped", "the trigger was deleted")

    register(conn, an_app(cron="@daily"))
    [back] = db.run(conn, calls.list_triggers(tenant_id=TENANT_A))
    assert (back.id, back.type) == (schedule.id, TriggerType.SCHEDULE)
    emit(conn, {"invoice": "I-1"})
    dispatch(database)
    assert payloads(conn) == []


def test_an_event_trigger_for_all_tenants_includes_later_tenants(conn: Connection) -> None:
    engine.call(conn, "put_tenant", tenant_id=TENANT_A, settings={})
    register(conn, an_app(on_event="invoice.paid", tenant="*"))
    assert "book" in declared(conn, TENANT_A)
    assert "book" not in declared(conn, TENANT_B)
    engine.call(conn, "put_tenant", tenant_id=TENANT_B, settings={})
    assert declared(conn, TENANT_B)["book"].event == "invoice.paid"

    register(conn, an_app(cron="@daily", tenant="*"))
    later = uuid4()
    engine.call(conn, "put_tenant", tenant_id=later, settings={})
    assert [each.type for each in declared(conn, later).values()] == [TriggerType.SCHEDULE]
    register(conn, an_app())
    engine.call(conn, "put_tenant", tenant_id=uuid4(), settings={})
    rows = conn.execute("select from jobforge.triggers where deleted_at is null").fetchall()
    assert rows == []


def test_operators_can_only_disable_a_declared_event_trigger(
    database: Database, conn: Connection
) -> None:
    register(conn, an_app(on_event="invoice.paid"))
    created = declared(conn)["book"].id
    with pytest.raises(Conflict, match="declared in code"):
        db.run(conn, calls.edit_trigger(created, {"event": "x"}, tenant_id=TENANT_A))
    db.run(conn, calls.edit_trigger(created, {"enabled": False}, tenant_id=TENANT_A))
    register(conn, an_app(on_event="invoice.sent"))
    assert not declared(conn)["book"].enabled
    emit(conn, {"invoice": "I-1"}, name="invoice.sent")
    dispatch(database)
    assert payloads(conn) == []


def test_parameters_get_the_members_of_the_data_with_their_names(
    database: Database, conn: Connection
) -> None:
    register(conn, an_app(on_event="invoice.paid"))
    first, second, third = emit(
        conn,
        {"invoice": "I-1", "total": 7, "note": "thanks", "other": True},
        {"invoice": "I-2"},
        {"total": 9},
    )
    dispatch(database)
    assert payloads(conn) == [
        {"invoice": "I-1", "total": 7, "note": "thanks"},
        {"invoice": "I-2", "total": 0.5, "note": None},
    ]
    assert outcomes(conn, first) == outcomes(conn, second) == [(DeliveryOutcome.ENQUEUED, None)]
    [(outcome, reason)] = outcomes(conn, third)
    assert outcome is DeliveryOutcome.FAILED
    assert reason is not None
    assert "event.invoice not found" in reason


def test_the_fields_of_a_model_get_the_members_with_their_names(conn: Connection) -> None:
    class Invoice(BaseModel):
        number: str
        lines: list[str] = []

    app = JobForge("postgresql://unused", tenant=TENANT_A)

    @app.job(on_event="invoice.paid")
    def book(invoice: Invoice) -> None: ...

    register(conn, app)
    assert declared(conn)["book"].payload == {
        "number": "{{event.number}}",
        "lines": "{{event.lines | default([])}}",
    }


def test_parameters_without_names_require_a_payload() -> None:
    class Invoices(RootModel[list[str]]):
        pass

    app = JobForge("postgresql://unused", tenant=TENANT_A)

    @app.job(on_event="invoice.paid")
    def book(invoices: Invoices) -> None: ...

    with pytest.raises(Invalid, match="book requires a payload") as refused:
        app.build_trigger_declaration()
    assert refused.value.field == "payload"


def test_equal_events_create_separate_jobs_unless_code_sets_a_deduplication_window(
    database: Database, conn: Connection
) -> None:
    paid = {"invoice": "I-1", "total": 7.0}
    register(conn, an_app(on_event="invoice.paid"))
    emit(conn, paid, paid)
    dispatch(database)
    assert len(payloads(conn)) == 2

    register(conn, an_app(on_event="invoice.paid", dedupe=60))
    emit(conn, paid, paid)
    dispatch(database)
    assert len(payloads(conn)) == 3


def test_only_events_that_meet_all_conditions_create_jobs(
    database: Database, conn: Connection
) -> None:
    where = [{"path": "event.total", "op": "gt", "value": 100}]
    register(conn, an_app(on_event="invoice.paid", where=where))
    emit(conn, {"invoice": "I-1", "total": 7}, {"invoice": "I-2", "total": 700})
    dispatch(database)
    assert [each["invoice"] for each in payloads(conn)] == ["I-2"]


@pytest.mark.parametrize(
    ("settings", "field", "message"),
    [
        ({"on_event": "invoice paid"}, "on_event", "must be a name such as order.paid"),
        ({"on_event": "a", "cron": "@daily"}, "on_event", "cron and on_event cannot both be set"),
        ({"on_event": "a", "where": [{"path": "x"}]}, "where.0", "must have path, op and value"),
        ({"on_event": "a", "payload": {"a": "{{schedule.date}}"}}, "payload.a", "must start with"),
        ({"on_event": "a", "dedupe_key": "{{event.b}}"}, "dedupe_key", "set dedupe"),
        ({"on_event": "a", "dedupe": 1, "dedupe_key": "{{b}}"}, "dedupe_key", "must start with"),
        ({"on_event": "a", "dedupe": -1}, "dedupe", "not negative"),
        ({"on_event": "a", "overlap": "skip"}, "overlap", "requires a schedule; set cron or every"),
        ({"cron": "@daily", "dedupe": 1}, "dedupe", "requires an event trigger; set on_event"),
        ({"where": []}, "where", "requires an event trigger; set on_event"),
        ({"tenant": "*"}, "tenant", "requires a trigger; set cron, every"),
    ],
)
def test_invalid_settings_of_an_event_trigger_are_refused_at_declaration(
    settings: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(Invalid, match=message) as refused:
        an_app(**settings)
    assert refused.value.field == field

"""Events, from the transaction that emits them to the jobs that triggers create."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connection, Database, connect_to, fresh_database
from integration.test_sdk_connections import (
    ASYNC,
    Opener,
    RolledBack,
    asyncpg_connection,
    django_alias,
    psycopg_async,
    psycopg_connection,
    sqlalchemy_asyncpg_session,
    sqlalchemy_session,
)
from psycopg import sql
from sql import engine

from jobforge import JobForge, calls, db, errors
from jobforge.db.outage import MonitoredLink, Outage
from jobforge.embedded import PostgresServer
from jobforge.scheduler.dispatch import Dispatcher
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.events import DeliveryOutcome, Dispatched, Event, EventDelivery, Reaction
from jobforge.types.jobs import JobRequest
from jobforge.types.triggers import Trigger

pytestmark = pytest.mark.anyio

T = TypeVar("T")

ENQUEUED, DEDUPLICATED, FILTERED, FAILED = DeliveryOutcome


class EventTenant:
    """A tenant with its triggers, events and jobs, in a database that all tests here share."""

    def __init__(self, database: Database, conn: Connection) -> None:
        self.database = database
        self.conn = conn
        self.tenant_id = uuid4()

    def define(self, key: str, settings: dict[str, Any] | None = None) -> None:
        db.run(self.conn, calls.put_definition(key, 1, settings or {}))

    def trigger(self, **settings: Any) -> UUID:
        given = {"label": "a trigger", "definition": "ship", "event": "order.paid", **settings}
        with self._as_tenant():
            created = self.conn.execute(
                "select jobforge.create_trigger('event', %s) as id", [json.dumps(given)]
            ).fetchone()
        assert created
        return UUID(str(created["id"]))

    def emit(self, name: str = "order.paid", data: Any = None, **options: Any) -> UUID:
        return self._run(calls.emit_event(name, data, **options))

    def event(self, event_id: UUID) -> Event:
        return self._run(calls.get_event(event_id))

    def trigger_state(self, trigger_id: UUID) -> Trigger:
        return self._run(calls.get_trigger(trigger_id))

    def deliveries(
        self, trigger_id: UUID, outcome: DeliveryOutcome | None = None
    ) -> list[EventDelivery]:
        return self._run(calls.list_event_deliveries(trigger_id, outcome=outcome))

    def outcomes(self, event_id: UUID) -> list[DeliveryOutcome]:
        return [each.outcome for each in self.event(event_id).deliveries]

    def replay(self, event_id: UUID) -> int:
        return self._run(calls.replay_event(event_id))

    def jobs(self) -> list[dict[str, Any]]:
        return self.conn.execute(
            "select * from jobforge.jobs where tenant_id = %s order by id", [self.tenant_id]
        ).fetchall()

    def _as_tenant(self) -> Any:
        return db.tenant(self.conn, self.tenant_id)

    def _run(self, call: calls.Call[T]) -> T:
        with db.transaction(self.conn, self.tenant_id):
            return db.run(self.conn, call)


@pytest.fixture(scope="module")
def open_shop(server: PostgresServer) -> Iterator[tuple[Database, Connection]]:
    with fresh_database(server) as database, closing(connect_to(database.url)) as conn:
        db.run(conn, calls.put_definition("ship", 1, {}))
        yield database, conn


@pytest.fixture
def tenant_data(open_shop: tuple[Database, Connection]) -> EventTenant:
    return EventTenant(*open_shop)


@pytest.fixture(scope="module")
def clock(open_shop: tuple[Database, Connection]) -> Clock:
    """Move the time of the shared database, for all later tests too."""
    return Clock(open_shop[1])


@pytest.fixture
async def line(tenant_data: EventTenant) -> AsyncIterator[MonitoredLink]:
    async with db.Database(tenant_data.database.url_as("worker_login"), size=1) as opened:
        link = MonitoredLink(opened.create_link(), Outage())
        yield link
        await link.close()


async def dispatch_all(line: MonitoredLink) -> None:
    dispatcher = Dispatcher()
    while await dispatcher.dispatch(line):
        pass


async def test_an_event_creates_a_job_that_names_its_source(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    trigger = tenant_data.trigger(
        payload={"order": "{{event.id}}", "note": "of {{meta.name}}", "gift": "{{event.gift}}"},
        priority=3,
        queue="fast",
    )
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    event = tenant_data.emit(data={"id": 7, "gift": {"wrap": True}}, traceparent=trace)
    assert tenant_data.event(event).is_pending
    await dispatch_all(line)
    (job,) = tenant_data.jobs()
    assert job["payload"] == {"order": 7, "note": "of order.paid", "gift": {"wrap": True}}
    assert (job["source"], job["source_ref"]) == ("event", str(event))
    assert (job["correlation_id"], job["traceparent"]) == (str(event), trace)
    assert (job["priority"], job["queue"]) == (3, "fast")
    assert job["created_by"] == f"trigger:{trigger}"
    found = tenant_data.event(event)
    (delivery,) = found.deliveries
    assert (delivery.trigger_id, delivery.outcome, delivery.job_id) == (
        trigger,
        ENQUEUED,
        job["id"],
    )
    assert not found.is_pending


async def test_a_failing_trigger_does_not_affect_the_others(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    tenant_data.define("strict", {"parameters": {"type": "object", "required": ["to"]}})
    tenant_data.define("gone", {"is_active": False})
    reasons = {
        tenant_data.trigger(
            payload={"x": "{{event.missing}}"}
        ): "payload.x: event.missing not found",
        tenant_data.trigger(payload={"x": "{{"}): "payload.x: expected a path at character 3",
        tenant_data.trigger(
            filter=[{"path": "event.id", "op": "like"}]
        ): "filter.0.op must be one of",
        tenant_data.trigger(definition="strict", payload={"from": "us"}): "payload: ",
        tenant_data.trigger(definition="gone"): "Definition 'gone' is not active",
    }
    good = tenant_data.trigger(payload={"order": "{{event.id}}"})
    event = tenant_data.emit(data={"id": 7})
    await dispatch_all(line)
    assert [job["payload"] for job in tenant_data.jobs()] == [{"order": 7}]
    by_trigger = {each.trigger_id: each for each in tenant_data.event(event).deliveries}
    assert by_trigger.pop(good).outcome is ENQUEUED
    for trigger, reason in reasons.items():
        assert by_trigger[trigger].outcome is FAILED
        assert (by_trigger[trigger].reason or "").startswith(reason)


async def test_a_full_queue_fails_the_deliveries_that_exceed_it(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    db.run(tenant_data.conn, calls.put_tenant(tenant_data.tenant_id, {"max_pending": 2}))
    tenant_data.trigger(payload={"order": "{{event.id}}"})
    events = [tenant_data.emit(data={"id": number}) for number in range(3)]
    await dispatch_all(line)
    assert len(tenant_data.jobs()) == 2
    assert [tenant_data.outcomes(event) for event in events] == [[ENQUEUED], [ENQUEUED], [FAILED]]


async def test_only_matching_triggers_of_the_tenant_react(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    other = EventTenant(tenant_data.database, tenant_data.conn)
    other.trigger()
    tenant_data.trigger(event="order")
    tenant_data.trigger(event="order.paid.late")
    tenant_data.trigger(enabled=False)
    listening = [
        tenant_data.trigger(event="order.*"),
        tenant_data.trigger(event="*"),
        tenant_data.trigger(filter=[{"path": "event.total", "op": "gt", "value": 100}]),
    ]
    event = tenant_data.emit(data={"total": 99})
    await dispatch_all(line)
    created = {each.trigger_id: each.outcome for each in tenant_data.event(event).deliveries}
    assert created == dict(zip(listening, [ENQUEUED, ENQUEUED, FILTERED], strict=True))
    assert other.jobs() == []


async def test_a_duplicate_within_the_window_is_left_out(
    tenant_data: EventTenant, line: MonitoredLink, clock: Clock
) -> None:
    tenant_data.trigger(payload={"folder": "{{event.folder}}"})
    first, same, another = (tenant_data.emit(data={"folder": name}) for name in ("a", "a", "b"))
    await dispatch_all(line)
    (job, _) = tenant_data.jobs()
    assert [tenant_data.outcomes(each) for each in (first, same, another)] == [
        [ENQUEUED],
        [DEDUPLICATED],
        [ENQUEUED],
    ]
    assert tenant_data.event(same).deliveries[0].job_id == job["id"]
    clock.travel(seconds=301)
    later = tenant_data.emit(data={"folder": "a"})
    await dispatch_all(line)
    assert tenant_data.outcomes(later) == [ENQUEUED]


async def test_events_with_different_keys_create_a_job_each_although_their_payloads_are_equal(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    tenant_data.trigger(payload={"amount": "{{event.amount}}"})
    tenant_data.trigger(payload={"amount": "{{event.amount}}"}, dedupe_key="{{event.amount}}")
    payments = [
        tenant_data.emit(data={"amount": 20}, key=key) for key in ("payment-1", "payment-2")
    ]
    await dispatch_all(line)
    assert [tenant_data.outcomes(each) for each in payments] == [[ENQUEUED, ENQUEUED]] * 2
    assert len({job["id"] for job in tenant_data.jobs()}) == 4


async def test_events_with_the_same_key_create_one_job_even_long_after_the_window(
    tenant_data: EventTenant, line: MonitoredLink, clock: Clock
) -> None:
    tenant_data.trigger(payload={"try": "{{event.try}}"})
    tenant_data.trigger(payload={"try": "{{event.try}}"}, dedupe_window_s=0)
    tenant_data.trigger(event="*", payload={})
    first = tenant_data.emit(data={"try": 1}, key="payment-1")
    await dispatch_all(line)
    clock.travel(days=2)
    again = tenant_data.emit(data={"try": 2}, key="payment-1")
    other = tenant_data.emit("order.sent", data={"try": 1}, key="payment-1")
    await dispatch_all(line)
    covering = {each.trigger_id: each.job_id for each in tenant_data.event(first).deliveries}
    for delivery in tenant_data.event(again).deliveries:
        assert (delivery.outcome, delivery.job_id) == (
            DEDUPLICATED,
            covering[delivery.trigger_id],
        )
    assert tenant_data.outcomes(other) == [ENQUEUED]
    assert tenant_data.event(again).key == "payment-1"


async def test_a_replay_of_an_event_with_a_key_creates_its_job_again(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    tenant_data.trigger()
    event = tenant_data.emit(key="payment-1")
    await dispatch_all(line)
    tenant_data.replay(event)
    await dispatch_all(line)
    assert tenant_data.outcomes(event) == [ENQUEUED, ENQUEUED]
    assert len(tenant_data.jobs()) == 2


async def test_a_trigger_counts_and_lists_the_events_that_it_deduplicated(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    trigger = tenant_data.trigger(payload={"folder": "{{event.folder}}"})
    events = [tenant_data.emit(data={"folder": name}) for name in "aabaa"]
    await dispatch_all(line)
    first, third = (str(job["id"]) for job in tenant_data.jobs())
    assert first != third
    assert tenant_data.trigger_state(trigger).deduplicated == 3
    listed = tenant_data.deliveries(trigger, DEDUPLICATED)
    assert [each.event_id for each in listed] == [events[4], events[3], events[1]]
    assert {str(each.job_id) for each in listed} == {first}
    assert len(tenant_data.deliveries(trigger, ENQUEUED)) == 2
    assert len(tenant_data.deliveries(trigger)) == 5


def test_an_event_key_is_one_line_of_text(tenant_data: EventTenant) -> None:
    for key in ("", "a\nb", "x" * 256):
        with pytest.raises(errors.Invalid) as caught:
            tenant_data.emit(key=key)
        assert caught.value.field == "key"


async def test_the_key_template_of_a_trigger_defines_duplicates(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    tenant_data.trigger(payload={"n": "{{event.n}}"}, dedupe_key="{{event.customer}}")
    tenant_data.trigger(dedupe_window_s=0)
    events = [
        tenant_data.emit(data={"n": n, "customer": customer}) for n, customer in enumerate("aab")
    ]
    await dispatch_all(line)
    assert [tenant_data.outcomes(event) for event in events] == [
        [ENQUEUED, ENQUEUED],
        [DEDUPLICATED, ENQUEUED],
        [ENQUEUED, ENQUEUED],
    ]


async def test_a_replay_creates_the_jobs_again_and_marks_them(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    tenant_data.trigger()
    event = tenant_data.emit()
    await dispatch_all(line)
    assert [tenant_data.replay(event), tenant_data.replay(event)] == [1, 2]
    await dispatch_all(line)
    deliveries = tenant_data.event(event).deliveries
    assert [(each.replay, each.outcome) for each in deliveries] == [
        (0, ENQUEUED),
        (1, ENQUEUED),
        (2, ENQUEUED),
    ]
    assert len({each.job_id for each in deliveries}) == len(tenant_data.jobs()) == 3


async def test_the_process_that_takes_an_event_from_the_outbox_dispatches_it(
    tenant_data: EventTenant, line: MonitoredLink, clock: Clock
) -> None:
    trigger = tenant_data.trigger()
    tenant_data.emit()
    slow = await line.run(calls.pending_events())
    assert (await line.run(calls.pending_events())).events == []
    clock.travel(seconds=6)
    quick = await line.run(calls.pending_events())
    assert slow == quick
    job = {"definition": "ship", "payload": {}}
    dispatched = [Dispatched(slow.events[0].id, [Reaction(trigger, ENQUEUED, job=job)])]
    counts = [await line.run(calls.record_deliveries(dispatched)) for _ in range(2)]
    assert counts == [{"events": 1, "enqueued": 1}, {"events": 0}]
    assert len(tenant_data.jobs()) == 1


async def test_a_delivery_that_the_engine_refuses_fails_alone(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    trigger = tenant_data.trigger()
    good, bad = tenant_data.emit(), tenant_data.emit()
    pending = await line.run(calls.pending_events())
    job = {"definition": "ship"}
    dispatched = [
        Dispatched(pending.events[0].id, [Reaction(trigger, ENQUEUED, job=job)]),
        Dispatched(pending.events[1].id, [Reaction(trigger, "lost")]),  # type: ignore[arg-type]
    ]
    await Dispatcher()._record(line, dispatched)  # noqa: SLF001 - no known input reaches this code
    assert (tenant_data.outcomes(good), tenant_data.outcomes(bad)) == ([ENQUEUED], [FAILED])


async def test_an_event_whose_failure_cannot_be_stored_does_not_block_others(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    tenant_data.trigger(dedupe_window_s=0)
    bad, good = tenant_data.emit(), tenant_data.emit()
    tenant_data.conn.execute(
        sql.SQL(
            "alter table jobforge.event_deliveries add constraint c check (event_id <> {})"
        ).format(sql.Literal(bad))
    )
    await dispatch_all(line)
    assert (tenant_data.outcomes(good), tenant_data.event(bad).is_pending) == ([ENQUEUED], True)
    tenant_data.conn.execute("alter table jobforge.event_deliveries drop constraint c")
    tenant_data.conn.execute("update jobforge.outbox set reserved_until = null")
    await dispatch_all(line)
    assert tenant_data.outcomes(bad) == [ENQUEUED]


async def test_an_event_for_a_locked_job_does_not_block_others(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    tenant_data.trigger()
    job = engine.enqueue_one(
        tenant_data.conn, tenant_data.tenant_id, definition="ship", queue="waiting"
    )
    worker = engine.new_worker()
    held = engine.claim(tenant_data.conn, worker, "waiting")
    wait = {"kind": "event", "name": "arrived", "index": 0}
    engine.complete(tenant_data.conn, worker, held, "snoozed", wait=wait, retry_in_s=3600)
    arrived, paid = tenant_data.emit("arrived"), tenant_data.emit()
    with closing(connect_to(tenant_data.database.url, autocommit=False)) as holder:
        holder.execute("select from jobforge.jobs where id = %s for update", [job])
        await dispatch_all(line)
        assert (tenant_data.event(arrived).is_pending, tenant_data.outcomes(paid)) == (
            True,
            [ENQUEUED],
        )
    tenant_data.conn.execute("update jobforge.outbox set reserved_until = null")
    await dispatch_all(line)
    assert engine.state_of(tenant_data.conn, tenant_data.tenant_id, job) == "queued"


async def test_an_event_whose_partition_is_gone_leaves_the_outbox(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    tenant_data.trigger()
    event = tenant_data.emit()
    tenant_data.conn.execute("delete from jobforge.events where id = %s", [event])
    await dispatch_all(line)
    assert tenant_data.conn.execute("select * from jobforge.outbox").fetchall() == []
    assert tenant_data.jobs() == []


async def test_a_backlog_and_a_late_commit_are_all_dispatched(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    tenant_data.trigger(payload={"n": "{{event.n}}"})
    dispatcher = Dispatcher()
    with closing(connect_to(tenant_data.database.url, autocommit=False)) as late:
        late.execute("select set_config('app.tenant_id', %s, true)", [str(tenant_data.tenant_id)])
        late.execute("select jobforge.emit_event('order.paid', '{\"n\": -1}')")
        tenant_data.conn.execute(
            "select jobforge.emit_event('order.paid', jsonb_build_object('n', n), '{}', %s)"
            " from generate_series(1, 700) as n",
            [tenant_data.tenant_id],
        )
        while await dispatcher.dispatch(line):
            pass
        assert {job["payload"]["n"] for job in tenant_data.jobs()} == {*range(1, 701)}
        late.commit()
    async with asyncio.timeout(30):
        while not await dispatcher.dispatch(line):
            pass
    assert {job["payload"]["n"] for job in tenant_data.jobs()} == {-1, *range(1, 701)}


async def test_a_tenant_that_emits_many_events_does_not_hold_up_the_others(
    tenant_data: EventTenant, line: MonitoredLink
) -> None:
    quiet = EventTenant(tenant_data.database, tenant_data.conn)
    quiet.trigger()
    tenant_data.conn.execute(
        "select jobforge.emit_event('order.paid', '{}', '{}', %s) from generate_series(1, 1200)",
        [tenant_data.tenant_id],
    )
    event = quiet.emit()
    dispatcher = Dispatcher()
    assert await dispatcher.dispatch(line)
    assert quiet.outcomes(event) == [ENQUEUED]
    while await dispatcher.dispatch(line):
        pass
    assert tenant_data.conn.execute("select * from jobforge.outbox").fetchall() == []


@pytest.mark.parametrize(
    "opener",
    [
        psycopg_connection,
        sqlalchemy_session,
        django_alias,
        psycopg_async,
        asyncpg_connection,
        sqlalchemy_asyncpg_session,
    ],
    ids=lambda opener: opener.__name__,
)
async def test_an_event_is_part_of_the_transaction_of_its_connection(
    tenant_data: EventTenant, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    url = tenant_data.database.url_as("service_login")
    jf = JobForge("postgresql://nobody@127.0.0.1:1/none", tenant=tenant_data.tenant_id)
    kept = await _emit(jf, opener, url)
    with pytest.raises(RolledBack):
        await _emit(jf, opener, url, then=RolledBack())
    stored = [
        tenant_data.conn.execute(
            f"select id from jobforge.{table} where tenant_id = %s", [tenant_data.tenant_id]
        ).fetchall()
        for table in ("events", "outbox")
    ]
    assert stored == [[{"id": kept}]] * 2


async def _emit(jf: JobForge, opener: Opener, url: str, *, then: Exception | None = None) -> UUID:
    if opener in ASYNC:
        async with opener(url) as conn:
            event = await jf.aemit("order.paid", {"id": 7}, conn=conn)
            if then is not None:
                raise then
            return event
    with opener(url) as conn:
        event = jf.emit("order.paid", {"id": 7}, conn=conn)
        if then is not None:
            raise then
        return event


async def test_events_of_a_job_share_its_correlation(tenant_data: EventTenant) -> None:
    request = JobRequest(
        "ship", {}, correlation_id="order-7", queue=str(tenant_data.tenant_id)[:30]
    )
    db.run(tenant_data.conn, calls.enqueue_job(request, tenant_id=tenant_data.tenant_id))
    (job,) = db.run(
        tenant_data.conn, calls.claim_jobs(uuid4(), {str(tenant_data.tenant_id)[:30]: 1})
    )
    jf = JobForge("postgresql://nobody@127.0.0.1:1/none")
    token = CURRENT_JOB.set(job)
    try:
        event = jf.emit("order.sent", conn=tenant_data.conn, tenant=tenant_data.tenant_id)
    finally:
        CURRENT_JOB.reset(token)
    assert tenant_data.event(event).correlation_id == "order-7"


@pytest.mark.parametrize("login", ["service_login", "client_login"])
async def test_an_app_can_emit_on_its_own_connections(tenant_data: EventTenant, login: str) -> None:
    jf = JobForge(tenant_data.database.url_as(login), tenant=tenant_data.tenant_id)
    first = jf.emit("order.paid", {"id": 7}, correlation_id="order-7")
    second = await jf.aemit("order.paid")
    with pytest.raises(errors.Invalid) as refusal:
        jf.emit("order paid")
    await jf.aclose()
    assert tenant_data.event(first).data == {"id": 7}
    assert (tenant_data.event(first).correlation_id, tenant_data.event(second).data) == (
        "order-7",
        {},
    )
    assert refusal.value.field == "name"

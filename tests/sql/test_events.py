"""Events in SQL: validation, wake-ups, lists, and retention."""

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from cluster import Connect, Connection
from psycopg.types.json import Jsonb
from sql.engine import call, call_for_value, definition, erase, refused
from unit.test_event_filter import PATTERNS

from jobforge.scheduler import event_filter

REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("JF002", "name", {"name": None}),
    ("JF002", "name", {"name": ""}),
    ("JF002", "name", {"name": "order paid"}),
    ("JF002", "name", {"name": "order.*"}),
    ("JF002", "name", {"name": "x" * 201}),
    ("JF002", "data", {"data": Jsonb([])}),
    ("JF002", "data", {"data": None}),
    ("JF007", "data", {"data": {"x": "x" * 262_145}}),
    ("JF002", "options", {"options": Jsonb([])}),
    ("JF002", "options", {"options": None}),
    ("JF002", "key", {"options": {"key": "two\nlines"}}),
    ("JF002", "priority", {"options": {"priority": 1}}),
    ("JF002", "correlation_id", {"options": {"correlation_id": 7}}),
    ("JF002", "correlation_id", {"options": {"correlation_id": "x" * 256}}),
    ("JF002", "traceparent", {"options": {"traceparent": "not one"}}),
]


@pytest.fixture
def tenant() -> UUID:
    return uuid4()


@pytest.fixture
def listening(connect: Connect) -> Iterator[Connection]:
    conn = connect("worker_login")
    conn.execute("listen jobforge_scheduler")
    yield conn
    conn.execute("unlisten *")


@pytest.mark.parametrize(("code", "field", "given"), REFUSED)
def test_an_invalid_event_is_refused(
    shared_conn: Connection, tenant: UUID, code: str, field: str, given: dict[str, Any]
) -> None:
    arguments = {"name": "order.paid", "data": {}, "options": {}, **given}
    with pytest.raises(psycopg.Error) as refusal:
        call(shared_conn, "emit_event", **arguments, tenant_id=tenant)
    assert refusal.value.sqlstate == code
    assert f'"field": "{field}"' in (refusal.value.diag.message_detail or "")


def test_data_nested_too_deeply_is_refused(shared_conn: Connection, tenant: UUID) -> None:
    deep: Any = {}
    for _ in range(65):
        deep = {"a_name_that_takes_some_room": deep}
    with pytest.raises(psycopg.Error) as refusal:
        call(shared_conn, "emit_event", name="order.paid", data=deep, tenant_id=tenant)
    assert refusal.value.sqlstate == "JF007"


def test_compressed_data_from_a_table_has_the_same_limit(conn: Connection, tenant: UUID) -> None:
    conn.execute(
        "create table public.kept as select jsonb_build_object('text', repeat('x', 1000000)) as it"
    )
    # The sixth execution uses a generic plan.
    for _ in range(7):
        with refused("JF007", field="data", limit=262_144):
            conn.execute(
                "select jobforge.emit_event('order.paid', k.it, '{}', %s) from public.kept as k",
                [tenant],
            )


def test_the_engine_and_python_agree_on_pattern_matches(shared_conn: Connection) -> None:
    for pattern, name, fits in PATTERNS:
        found = call_for_value(
            shared_conn, "jobforge_private.matches_event", pattern=pattern, name=name
        )
        assert found is event_filter.matches_pattern(pattern, name) is fits


def test_schedulers_are_woken_once_and_not_while_a_recent_event_is_pending(
    conn: Connection, listening: Connection, tenant: UUID
) -> None:
    with conn.transaction():
        for _ in range(3):
            _emit(conn, tenant)
    conn.execute(
        "insert into jobforge.outbox (tenant_id, id, event_id, event_at)"
        " values (%s, 'ffffffff-ffff-ffff-ffff-ffffffffffff', gen_random_uuid(), now())",
        [tenant],
    )
    _emit(conn, tenant)
    conn.execute("notify jobforge_scheduler, 'the end'")
    heard = []
    for notice in listening.notifies(timeout=10):
        heard.append(notice.payload)
        if notice.payload:
            break
    assert heard == ["", "the end"]


def test_an_event_after_the_previous_were_dispatched_wakes_schedulers_again(
    conn: Connection, listening: Connection, tenant: UUID
) -> None:
    for _ in range(2):
        event = _emit(conn, tenant)
        assert next(listening.notifies(timeout=10)).payload == ""
        call(conn, "record_deliveries", deliveries=[{"id": str(event), "deliveries": []}])


def test_events_are_listed_newest_first_by_page_and_filter(
    shared_conn: Connection, tenant: UUID
) -> None:
    names = ["order.paid", "order.sent", "user.new", "order.paid"]
    paid, sent, new, again = (_emit(shared_conn, tenant, name) for name in names)

    def listed(limit: int = 50, before: UUID | None = None, **which: Any) -> list[UUID]:
        rows = shared_conn.execute(
            "select id from jobforge.list_events(%s, %s, %s, %s)",
            [Jsonb(which), limit, before, tenant],
        )
        return [row["id"] for row in rows]

    assert listed() == [again, new, sent, paid]
    assert listed(2) == [again, new]
    assert listed(2, new) == [sent, paid]
    assert listed(name="order.*") == [again, sent, paid]
    assert listed(name="order.sent") == [sent]
    assert listed(correlation_id=str(new)) == [new]
    assert listed(after="2100-01-01T00:00:00Z") == []
    assert listed(2, sent, after="2000-01-01T00:00:00Z") == [paid]


def test_a_deleted_tenant_has_no_events(conn: Connection, tenant: UUID) -> None:
    definition(conn, "ship")
    settings = {"label": "ship", "definition": "ship", "event": "*"}
    trigger = call_for_value(
        conn, "create_trigger", type="event", settings=settings, tenant_id=tenant
    )
    first, _ = _emit(conn, tenant), _emit(conn, tenant)
    reaction = {"trigger_id": str(trigger), "outcome": "filtered"}
    call(conn, "record_deliveries", deliveries=[{"id": str(first), "deliveries": [reaction]}])
    tables = ("events", "outbox", "event_deliveries")
    assert [_count(conn, table) for table in tables] == [2, 1, 1]
    erase(conn, tenant)
    assert [_count(conn, table) for table in tables] == [0, 0, 0]


def test_events_are_dropped_with_their_day(conn: Connection, tenant: UUID) -> None:
    event = _emit(conn, tenant)
    days = conn.execute(
        "select tableoid::regclass::text as day from jobforge.events where id = %s", [event]
    ).fetchall()
    assert re.fullmatch(r"jobforge\.events_\d{8}", days[0]["day"])
    partitions = conn.execute(
        "select inhparent::regclass::text as parent, count(*) as n from pg_inherits"
        " where inhparent in ('jobforge.events'::regclass, 'jobforge.event_deliveries'::regclass)"
        " group by 1 order by 1"
    ).fetchall()
    assert [row["n"] for row in partitions] == [10, 10]


def test_reading_the_outbox_starts_at_its_position(conn: Connection, tenant: UUID) -> None:
    """Earlier rows, dead or live, are not read."""
    conn.execute(
        "select jobforge.emit_event('order.paid', '{}', '{}', %s) from generate_series(1, 5000)",
        [tenant],
    )
    [last] = conn.execute("select id from jobforge.outbox order by id desc limit 1").fetchall()
    conn.execute("analyze jobforge.outbox")
    before = _blocks(conn)
    found = call_for_value(conn, "pending_events", limit=500, after=last["id"])
    assert found["events"] == []
    assert _blocks(conn) - before < 20


def _emit(conn: Connection, tenant: UUID, name: str = "order.paid") -> UUID:
    event = call_for_value(conn, "emit_event", name=name, tenant_id=tenant)
    assert isinstance(event, UUID)
    return event


def _count(conn: Connection, table: str) -> int:
    [row] = conn.execute(f"select count(*) as n from jobforge.{table}").fetchall()
    return int(row["n"])


def _blocks(conn: Connection) -> int:
    """Return the number of blocks of the outbox and its indexes that were read since the start."""
    conn.execute("select pg_stat_force_next_flush()")
    [row] = conn.execute(
        "select heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read as n"
        "  from pg_statio_all_tables where relid = 'jobforge.outbox'::regclass"
    ).fetchall()
    return int(row["n"])

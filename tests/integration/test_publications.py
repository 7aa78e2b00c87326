"""Logical replication: a publication of all tables breaks no function, and a subscriber gets all
rows.
"""

from collections.abc import Iterator
from datetime import UTC

import pytest
from cluster import Clock, Connection
from integration.replicas import (
    Subscription,
    cluster,
    drop_slots,
    install,
    open_installed_database,
    prepare_target,
)
from integration.test_postgres15 import PARTS, CallRecorder
from sql.engine import TENANT_A, TENANT_B, call_for_value, count, definition, enqueue, erase

from jobforge.embedded import PostgresServer

EVERYTHING = "create publication everything for all tables"
VIA_ROOT = " with (publish_via_partition_root = true)"

# The last part of the calls deletes history by age and erases the tenant.
*DAY, MAINTENANCE = PARTS


@pytest.fixture(scope="module")
def publisher() -> Iterator[PostgresServer]:
    with cluster() as server:
        install(server)
        yield server


@pytest.fixture
def source(publisher: PostgresServer) -> Iterator[Connection]:
    with open_installed_database(publisher) as conn:
        yield conn


@pytest.fixture
def target(publisher: PostgresServer) -> Iterator[Connection]:
    with open_installed_database(publisher) as conn:
        prepare_target(conn)
        yield conn


@pytest.fixture
def engine(source: Connection) -> CallRecorder:
    engine = CallRecorder(source, Clock(source))
    source.execute("alter table public.test_clock replica identity full")
    return engine


@pytest.fixture
def subscriptions(source: Connection) -> Iterator[list[Subscription]]:
    """Drop the test's subscriptions at its end; their slots would prevent dropping the source."""
    created: list[Subscription] = []
    yield created
    for each in created:
        each.drop()
    drop_slots(source)


def subscribe(
    engine: CallRecorder,
    target: Connection,
    subscriptions: list[Subscription],
    *,
    options: str = "",
) -> Subscription:
    engine.conn.execute((EVERYTHING + options).encode())
    target.execute("create table public.test_clock (offset_interval interval)")
    run_as_owner = ", run_as_owner = true" if target.info.server_version >= 160000 else ""
    created = Subscription.create(engine.conn, target, options=run_as_owner)
    subscriptions.append(created)
    return created


def finish(engine: CallRecorder) -> str:
    """Complete a failed and a succeeded attempt of one job; return their day."""
    engine.end("failed")
    engine.end("succeeded")
    return f"{engine.clock.now().astimezone(UTC):%Y%m%d}"


def test_every_function_works_with_a_publication_of_all_tables(engine: CallRecorder) -> None:
    engine.conn.execute(EVERYTHING.encode())
    for part in (*DAY, MAINTENANCE):
        part(engine)


def test_a_subscriber_receives_existing_rows_and_a_day_of_work(
    engine: CallRecorder, target: Connection, subscriptions: list[Subscription]
) -> None:
    first, *others = DAY
    first(engine)
    definition(engine.conn)
    enqueue(engine.conn, TENANT_B, 10, queue="apart")
    subscription = subscribe(engine, target, subscriptions)
    for part in others:
        part(engine)
    subscription.wait()
    assert subscription.differences() == {}
    assert min(count(target, table) for table in ("attempts", "finished_jobs", "job_events")) > 0
    erase(engine.conn, TENANT_A)
    subscription.wait()
    assert subscription.differences() == {}
    assert count(target, "finished_jobs", TENANT_A) == 0
    assert count(target, "jobs", TENANT_B) == 10


def test_a_subscriber_by_table_needs_no_partitions_of_later_days(
    engine: CallRecorder, target: Connection, subscriptions: list[Subscription]
) -> None:
    first, *_ = DAY
    first(engine)
    subscription = subscribe(engine, target, subscriptions, options=VIA_ROOT)
    engine.clock.travel(days=9)
    assert call_for_value(engine.conn, "ensure_partitions") > 0
    day = finish(engine)
    assert count(engine.conn, f"attempts_{day}") > 0
    subscription.wait()
    assert subscription.differences() == {}
    assert count(target, "attempts_default") == count(engine.conn, "attempts")


def test_rows_moved_out_of_the_default_partition_stay_with_a_subscriber_by_table(
    engine: CallRecorder, target: Connection, subscriptions: list[Subscription]
) -> None:
    first, *_ = DAY
    first(engine)
    subscription = subscribe(engine, target, subscriptions, options=VIA_ROOT)
    engine.clock.travel(days=20)
    day = finish(engine)
    assert count(engine.conn, "attempts_default") > 0
    assert call_for_value(engine.conn, "ensure_partitions") > 0
    assert count(engine.conn, f"attempts_{day}") > 0
    subscription.wait()
    assert subscription.differences() == {}


def test_a_subscriber_by_partition_receives_later_days_if_it_has_their_partitions(
    engine: CallRecorder, target: Connection, subscriptions: list[Subscription]
) -> None:
    first, *_ = DAY
    first(engine)
    subscription = subscribe(engine, target, subscriptions)
    for conn in (engine.conn, target):
        assert call_for_value(conn, "ensure_partitions", days=20) > 0
    subscription.refresh()
    engine.clock.travel(days=15)
    day = finish(engine)
    subscription.wait()
    assert subscription.differences() == {}
    assert count(target, f"attempts_{day}") == count(engine.conn, "attempts") > 0

"""Enqueue through the API, on the app's own connections."""

import asyncio
import os
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from cluster import Connection, Database, wait_until
from integration.call_setup import TENANT_A, TENANT_B, count_jobs

from jobforge import Context, JobForge, db, errors
from jobforge.types.jobs import EnqueueStatus

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["service_login", "client_login"])
def jf(request: pytest.FixtureRequest, database: Database) -> Iterator[JobForge]:
    """Return an app whose login may name tenants by argument, and one whose login may not."""
    app = make_app(database.url_as(request.param))
    register(app, database)
    yield app
    app.close()


@pytest.fixture
async def ajf(jf: JobForge) -> AsyncIterator[JobForge]:
    yield jf
    await jf.aclose()


def make_app(url: str, **settings: Any) -> JobForge:
    app = JobForge(url, **settings)

    @app.job(queue="mail")
    async def send(ctx: Context, to: str, copies: int = 1) -> str:
        return f"{ctx.job_id}{to}{copies}"

    @app.job
    def add(left: int, right: int) -> int:
        return left + right

    return app


def register(app: JobForge, database: Database) -> None:
    with db.connect(database.url_as("worker_login")) as conn:
        for call in app.registrations():
            db.run(conn, call)


def jobs(conn: Connection) -> list[dict[str, Any]]:
    return conn.execute("select * from jobforge.jobs order by id").fetchall()


def test_a_job_is_stored_when_enqueue_returns(jf: JobForge, conn: Connection) -> None:
    handle = jf.definitions["send"].using(tenant=TENANT_A).enqueue("ada", copies=2)
    (job,) = jobs(conn)
    assert (job["id"], job["tenant_id"], job["queue"]) == (handle.id, TENANT_A, "mail")
    assert (job["definition"], job["version"]) == ("send", 1)
    assert job["payload"] == {"to": "ada", "copies": 2}
    assert (handle.tenant_id, handle.status) == (TENANT_A, EnqueueStatus.CREATED)


async def test_aenqueue_does_the_same(ajf: JobForge, conn: Connection) -> None:
    handle = await ajf.definitions["send"].using(tenant=TENANT_A).aenqueue(to="ada")
    (job,) = jobs(conn)
    assert (job["id"], job["tenant_id"], job["payload"]) == (handle.id, TENANT_A, {"to": "ada"})


def test_every_option_is_stored_with_the_job(jf: JobForge, conn: Connection) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    jf.definitions["send"].using(
        tenant=TENANT_A,
        at=soon,
        key="k",
        priority=7,
        queue="slow",
        tags=["a", "b"],
        max_attempts=2,
        timeout=timedelta(minutes=2),
        expires_at=soon + timedelta(hours=1),
        limit_key="customer",
        correlation_id="c",
    ).enqueue("ada")
    (job,) = jobs(conn)
    assert (job["state"], job["run_at"], job["expires_at"]) == (
        "scheduled",
        soon,
        soon + timedelta(hours=1),
    )
    assert (job["priority"], job["queue"], job["tags"]) == (7, "slow", ["a", "b"])
    assert (job["max_attempts"], job["timeout_s"]) == (2, 120)
    assert (job["limit_key"], job["correlation_id"]) == ("customer", "c")
    assert job["idempotency_key"] == "k"


def test_more_than_a_year_ahead_is_allowed_by_far_future(jf: JobForge, conn: Connection) -> None:
    add = jf.definitions["add"].using(tenant=TENANT_A)
    later = datetime.now(UTC) + timedelta(days=800)
    options: list[dict[str, Any]] = [{"at": later}, {"delay": timedelta(days=800)}]
    for option in options:
        late = add.using(**option)
        with pytest.raises(errors.Invalid, match="far_future"):
            late.enqueue(1, 2)
        late.using(far_future=True).enqueue(1, 2)
    assert [job["run_at"].date() for job in jobs(conn)] == [later.date()] * 2


WRONG: dict[str, dict[str, Any]] = {
    "timeout": {"timeout": 10**9},
    "delay": {"delay": 2e9},
    "at": {"at": datetime.now(UTC) + timedelta(days=800)},
    "expires_in": {"expires_in": timedelta(days=30_000)},
    "dedupe": {"key": "k", "dedupe": 2e9},
}


@pytest.mark.parametrize("option", WRONG)
async def test_an_invalid_option_is_reported_under_the_name_that_the_caller_used(
    ajf: JobForge, option: str
) -> None:
    add = ajf.definitions["add"]
    wrong = add.using(**WRONG[option])
    mine = wrong.using(tenant=TENANT_A)
    with pytest.raises(errors.Invalid) as refusal:
        mine.enqueue(1, 2)
    _check_named(refusal.value, option)
    with pytest.raises(errors.Invalid) as refusal:
        await add.using(tenant=TENANT_A).aenqueue_many([wrong.args(1, 2), add.args(1, 2)])
    _check_named(refusal.value, option)
    batch = ajf.batch(tenant=TENANT_A, open=True).enqueue()
    with pytest.raises(errors.Invalid) as refusal:
        batch.add(wrong.args(1, 2))
    _check_named(refusal.value, option)


def _check_named(refusal: errors.Invalid, option: str) -> None:
    assert (refusal.field, refusal.detail["field"]) == (option, option)
    assert str(refusal).startswith(f"{option} ")


@pytest.mark.parametrize("huge", [10**400, 10**5000, float("inf"), float("nan"), -1], ids=range(5))
def test_an_extreme_duration_is_invalid(jf: JobForge, huge: float) -> None:
    for option in ("delay", "timeout", "expires_in", "dedupe"):
        with pytest.raises(errors.Invalid) as refusal:
            jf.definitions["add"].using(**cast("Any", {"key": "k", option: huge}))
        assert refusal.value.field == option


def test_an_event_without_a_tenant_is_refused_with_the_ways_to_name_one(
    jf: JobForge, conn: Connection
) -> None:
    with pytest.raises(errors.TenantRequired) as refusal:
        jf.emit("paid", conn=conn)
    assert "grant" not in str(refusal.value)


def test_a_used_key_returns_the_existing_job(jf: JobForge) -> None:
    keyed = jf.definitions["send"].using(tenant=TENANT_A, key="k")
    first, second = keyed.enqueue("ada"), keyed.enqueue("ada")
    assert (second.id, second.status) == (first.id, EnqueueStatus.EXISTING)
    assert keyed.using(on_conflict="replace").enqueue("bob").status is EnqueueStatus.REPLACED
    with pytest.raises(errors.DuplicateKey):
        keyed.using(on_conflict="raise").enqueue("ada")


def test_window_and_active_mode_are_passed_to_the_engine(
    jf: JobForge, conn: Connection, clock: Any
) -> None:
    keyed = jf.definitions["send"].using(tenant=TENANT_A, key="k", dedupe=timedelta(minutes=1))
    first = keyed.enqueue("ada")
    clock.travel(seconds=61)
    assert keyed.enqueue("ada").id != first.id
    active = jf.definitions["send"].using(tenant=TENANT_A, key="a", dedupe="active")
    assert active.enqueue("ada").id == active.enqueue("ada").id
    assert count_jobs(conn) == 3


def test_many_jobs_are_enqueued_in_one_transaction_and_in_order(
    jf: JobForge, conn: Connection
) -> None:
    add = jf.definitions["add"]
    before = xids(conn)
    handles = add.using(tenant=TENANT_A).enqueue_many([add.args(n, right=1) for n in range(12_001)])
    payloads = {job["id"]: job["payload"] for job in jobs(conn)}
    assert [payloads[handle.id]["left"] for handle in handles] == list(range(12_001))
    assert xids(conn) - before == 1


def xids(conn: Connection) -> int:
    """Return the transactions that have written something, including those of this query."""
    distinct = conn.execute("select count(distinct xmin::text) as n from jobforge.jobs").fetchone()
    assert distinct
    return int(distinct["n"])


async def test_async_enqueue_many_stores_all_or_none(ajf: JobForge, conn: Connection) -> None:
    add = ajf.definitions["add"]
    jobs_to_do = [add.args(n, 1) for n in range(6_000)]
    too_high = add.using(priority=40_000).args(1, 1)
    with pytest.raises(errors.Invalid) as refusal:
        await add.using(tenant=TENANT_A).aenqueue_many([*jobs_to_do, too_high])
    assert refusal.value.field == "priority"
    assert count_jobs(conn) == 0
    assert len(await add.using(tenant=TENANT_A).aenqueue_many(jobs_to_do)) == 6_000


def test_a_job_among_many_can_have_its_own_options(jf: JobForge, conn: Connection) -> None:
    add = jf.definitions["add"]
    one = add.using(key="one", priority=5).args(1, 1)
    add.using(tenant=TENANT_A, priority=1, tags=["all"]).enqueue_many([one, add.args(2, 2)])
    found = {
        job["payload"]["left"]: (job["priority"], job["idempotency_key"], job["tags"])
        for job in jobs(conn)
    }
    assert found == {1: (5, "one", ["all"]), 2: (1, None, ["all"])}


def test_an_empty_list_enqueues_nothing(jf: JobForge, conn: Connection) -> None:
    assert jf.definitions["add"].using(tenant=TENANT_A).enqueue_many([]) == []
    assert count_jobs(conn) == 0


def test_arguments_of_another_definition_are_refused(jf: JobForge) -> None:
    send, add = jf.definitions["send"], jf.definitions["add"]
    with pytest.raises(errors.Invalid, match=r"add\.args"):
        add.using(tenant=TENANT_A).enqueue_many([send.args("ada")])


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a missing argument": ({}, "to"),
    "another name": ({"to": "ada", "cc": "bob"}, "cc"),
    "a wrong type": ({"to": 5}, "to"),
    "NUL": ({"to": "a\0b"}, "to"),
    "a lone surrogate": ({"to": "\ud800"}, "to"),
    "an integer beyond 64 bits": ({"to": "ada", "copies": 2**64}, "copies"),
    "5,000 digits": ({"to": "ada", "copies": 10**5000}, "copies"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_arguments_are_refused_with_their_field(
    jf: JobForge, conn: Connection, case: str
) -> None:
    arguments, field = BAD[case]
    with pytest.raises(errors.InvalidPayload) as refusal:
        jf.definitions["send"].using(tenant=TENANT_A).enqueue(**arguments)
    assert refusal.value.field == field
    assert count_jobs(conn) == 0


def test_a_refusal_does_not_repeat_the_value(jf: JobForge) -> None:
    with pytest.raises(errors.InvalidPayload) as refusal:
        jf.definitions["send"].using(tenant=TENANT_A).enqueue(to="x", copies="hunter2")
    assert "hunter2" not in f"{refusal.value}{refusal.value.detail}"


def test_an_unknown_definition_says_what_to_do(database: Database) -> None:
    app = make_app(database.url_as("service_login"))
    with pytest.raises(errors.UnknownDefinition, match=r"jf\.register\(\)"):
        app.definitions["add"].using(tenant=TENANT_A).enqueue(1, 2)
    app.close()


def test_the_tenant_is_the_named_one_then_the_ambient_one_then_the_default(
    database: Database, conn: Connection
) -> None:
    app = make_app(database.url_as("service_login"), tenant=TENANT_A)
    register(app, database)
    add = app.definitions["add"]
    default = add.enqueue(1, 1)
    with app.tenant(TENANT_B):
        ambient = add.enqueue(1, 1)
        named = add.using(tenant=str(UUID(int=3))).enqueue(1, 1)
    again = add.enqueue(1, 1)
    tenants = [each.tenant_id for each in (default, ambient, named, again)]
    assert tenants == [TENANT_A, TENANT_B, UUID(int=3), TENANT_A]
    stored = {job["id"]: job["tenant_id"] for job in jobs(conn)}
    assert [stored[each.id] for each in (default, ambient, named, again)] == tenants
    app.close()


def test_a_missing_tenant_is_an_error_with_the_ways_to_name_one(jf: JobForge) -> None:
    with pytest.raises(errors.TenantRequired) as refusal:
        jf.definitions["add"].enqueue(1, 1)
    for way in ("using(tenant=", "jf.tenant(", "JobForge(tenant="):
        assert way in str(refusal.value)


async def test_the_ambient_tenant_is_that_of_the_task(ajf: JobForge) -> None:
    add = ajf.definitions["add"]
    gate = asyncio.Barrier(2)

    async def enqueue_as(tenant: UUID) -> UUID:
        with ajf.tenant(tenant):
            await gate.wait()
            return (await add.aenqueue(1, 1)).tenant_id

    found = tuple(await asyncio.gather(enqueue_as(TENANT_A), enqueue_as(TENANT_B)))
    assert found == (TENANT_A, TENANT_B)


async def test_one_ambient_tenant_can_apply_to_many_tasks_at_once(ajf: JobForge) -> None:
    add, ambient = ajf.definitions["add"], ajf.tenant(TENANT_A)
    second_entered, first_left = asyncio.Event(), asyncio.Event()

    async def first() -> UUID:
        with ambient:
            await second_entered.wait()
        first_left.set()
        return (await add.using(tenant=TENANT_B).aenqueue(1, 1)).tenant_id

    async def second() -> UUID:
        with ambient:
            second_entered.set()
            await first_left.wait()
            return (await add.aenqueue(1, 1)).tenant_id

    assert tuple(await asyncio.gather(first(), second())) == (TENANT_B, TENANT_A)
    with pytest.raises(errors.TenantRequired):
        await add.aenqueue(1, 1)


def test_an_empty_tenant_does_not_mean_the_default(database: Database) -> None:
    app = make_app(database.url_as("service_login"), tenant=TENANT_A)
    with pytest.raises(errors.Invalid, match="UUID or a slug"):
        app.definitions["add"].using(tenant="").enqueue(1, 1)
    with pytest.raises(errors.Invalid, match="UUID or a slug"):
        app.tenant("")


def test_a_slug_names_its_tenant_and_is_looked_up_once(
    database: Database, conn: Connection
) -> None:
    app = make_app(database.url_as("service_login"), tenant="acme")
    register(app, database)
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    assert app.definitions["add"].enqueue(1, 1).tenant_id == TENANT_A
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "other"}'])
    assert app.definitions["add"].enqueue(1, 1).tenant_id == TENANT_A
    app.close()


def test_an_unknown_slug_is_not_found(jf: JobForge) -> None:
    with pytest.raises((errors.NotFound, errors.Denied)) as refusal:
        jf.definitions["add"].using(tenant="nobody").enqueue(1, 1)
    assert refusal.value.field == "tenant"


def test_a_rolled_back_transaction_stores_neither_row_nor_job(
    database: Database, conn: Connection
) -> None:
    app = make_app(database.url_as("service_login"))
    register(app, database)
    conn.execute("create table notes (note text); grant all on notes to public")
    add = app.definitions["add"]
    with suppress(ZeroDivisionError), app.transaction(tenant=TENANT_A) as tx:
        tx.execute("insert into notes values ('one')")
        add.using(conn=tx).enqueue(1, 1)
        raise ZeroDivisionError
    assert count_jobs(conn) == 0
    with app.transaction(tenant=TENANT_A) as tx:
        tx.execute("insert into notes values ('two')")
        handle = add.using(conn=tx).enqueue(1, 1)
    assert [job["id"] for job in jobs(conn)] == [handle.id]
    assert conn.execute("select note from notes").fetchall() == [{"note": "two"}]
    app.close()


async def test_an_async_transaction_commits_row_and_job_together(
    ajf: JobForge, conn: Connection
) -> None:
    add = ajf.definitions["add"]
    with suppress(ZeroDivisionError):
        async with ajf.transaction(tenant=TENANT_A) as tx:
            await add.using(conn=tx).aenqueue(1, 1)
            raise ZeroDivisionError
    assert count_jobs(conn) == 0
    async with ajf.transaction(TENANT_A) as tx:
        row = await (await tx.execute("select current_setting('app.tenant_id')")).fetchone()
        await add.using(conn=tx).aenqueue(1, 1)
    assert row == (str(TENANT_A),)
    assert count_jobs(conn) == 1


def test_register_stores_the_definitions(database: Database, conn: Connection) -> None:
    app = make_app(database.url_as("worker_login"))
    app.register()
    rows = conn.execute("select key, queue, parameters from jobforge.definitions").fetchall()
    assert {row["key"]: row["queue"] for row in rows} == {"send": "mail", "add": "default"}
    assert all(row["parameters"]["type"] == "object" for row in rows)
    app.close()


async def test_the_lifespan_of_a_web_app_registers_if_allowed_and_closes(
    database: Database, conn: Connection
) -> None:
    async with make_app(database.url_as("client_login")).lifespan():
        pass
    async with make_app(database.url_as("worker_login")).lifespan():
        pass
    row = conn.execute("select count(*) as n from jobforge.definitions").fetchone()
    assert row == {"n": 2}


def test_a_cut_connection_is_replaced_without_an_error(
    database: Database, conn: Connection
) -> None:
    app = make_app(database.url_as("service_login"), tenant=TENANT_A, pool_size=1)
    register(app, database)
    app.definitions["add"].enqueue(1, 1)
    conn.execute(
        """
        select pg_terminate_backend(pid, 30000) from pg_stat_activity
         where datname = current_database() and usename = 'service_login'
        """
    )
    app.definitions["add"].enqueue(1, 1)
    assert count_jobs(conn) == 2
    app.close()


def test_a_forked_process_opens_its_own_connections(database: Database, conn: Connection) -> None:
    app = make_app(database.url_as("service_login"), tenant=TENANT_A)
    register(app, database)
    add = app.definitions["add"]
    add.enqueue(1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the threads of the pool
        child = os.fork()
    if child == 0:
        try:
            add.enqueue(2, 2)
            app.close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    add.enqueue(3, 3)
    assert [job["payload"]["left"] for job in jobs(conn)] == [1, 2, 3]
    app.close()


FORKING = """
import os, sys
from uuid import UUID
from jobforge import JobForge

url, tenant, end = sys.argv[1:]
app = JobForge(url, tenant=UUID(tenant))

@app.job
def add(left: int, right: int) -> int: ...

add.enqueue(1, 1)
wait, let_go = os.pipe()
child = os.fork()
if child == 0:
    os.read(wait, 1)
    if end == "by close":
        app.close()
        os._exit(0)
    sys.exit()
with app.transaction() as tx:
    add.using(conn=tx).enqueue(2, 2)
    os.write(let_go, b"!")
    os.waitpid(child, 0)
    add.using(conn=tx).enqueue(3, 3)
"""


@pytest.mark.parametrize("end", ["by exit", "by close"])
def test_a_forked_process_ends_no_session_of_its_parent(
    database: Database, conn: Connection, end: str
) -> None:
    url = database.url_as("service_login")
    register(make_app(url), database)
    given = [sys.executable, "-W", "ignore", "-c", FORKING, url, str(TENANT_A), end]
    assert subprocess.run(given, capture_output=True, text=True, check=False).stderr == ""
    assert [job["payload"]["left"] for job in jobs(conn)] == [1, 2, 3]


def test_a_closed_loop_leaves_no_connection(database: Database, conn: Connection) -> None:
    app = make_app(database.url_as("service_login"), tenant=TENANT_A)
    register(app, database)
    for _ in range(3):
        asyncio.run(_enqueue(app))
    query = "select from pg_stat_activity where usename = 'service_login'"
    wait_until(lambda: conn.execute(query).rowcount <= 1)
    asyncio.run(_enqueue(app, close=True))


async def _enqueue(app: JobForge, *, close: bool = False) -> None:
    await app.definitions["add"].aenqueue(1, 1)
    if close:
        await app.aclose()


def test_connected_to_uses_another_database(jf: JobForge, conn: Connection) -> None:
    add = jf.definitions["add"]
    with jf.connected_to("postgresql://nobody@127.0.0.1:1/none"), pytest.raises(errors.Unavailable):
        add.using(tenant=TENANT_A).enqueue(1, 1)
    add.using(tenant=TENANT_A).enqueue(1, 1)
    assert count_jobs(conn) == 1


def test_a_single_enqueue_is_one_round_trip(jf: JobForge, folder: Path) -> None:
    add = jf.definitions["add"].using(tenant=TENANT_A)
    add.enqueue(1, 1)
    trace = folder / "trace"
    with trace.open("w") as file:
        with jf.client.pools.database().connection() as only:
            only.pgconn.trace(file.fileno())
        add.enqueue(1, 1)
        with jf.client.pools.database().connection() as only:
            only.pgconn.untrace()
    messages = [line.split("\t")[3] for line in trace.read_text().splitlines()]
    assert messages.count("Sync") == 1
    assert "Execute" in messages

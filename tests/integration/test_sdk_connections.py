"""Enqueue on the application's connections: a job is part of the caller's transaction."""

import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import asyncpg  # type: ignore[import-untyped] # it has no types
import django  # type: ignore[import-untyped] # it has no types
import django.conf  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy
from cluster import Connection, Database
from django.db import connections, transaction  # type: ignore[import-untyped]
from django.db.backends.base.base import BaseDatabaseWrapper  # type: ignore[import-untyped]
from integration.call_setup import TENANT_A, TENANT_B, count_jobs
from integration.test_sdk_enqueue import jobs, make_app, register
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from jobforge import JobForge, errors
from jobforge.types.jobs import EnqueueStatus

pytestmark = pytest.mark.anyio

# Opens a connection for a URL, in a transaction that commits unless the block raises.
Opener = Callable[[str], Any]


class RolledBack(Exception):
    """Raised to roll a transaction back."""


@contextmanager
def psycopg_connection(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as conn:
        yield conn


@contextmanager
def psycopg_cursor(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as conn, conn.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        yield cursor


@contextmanager
def sqlalchemy_connection(url: str) -> Iterator[Any]:
    with _engine(url) as engine, engine.begin() as conn:
        yield conn


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[Any]:
    with _engine(url) as engine, Session(engine) as session, session.begin():
        yield session


@contextmanager
def sqlalchemy_scoped_session(url: str) -> Iterator[Any]:
    with _engine(url) as engine:
        sessions = scoped_session(sessionmaker(engine))
        with sessions.begin():
            yield sessions
        sessions.remove()


@contextmanager
def django_connection(url: str) -> Iterator[Any]:
    with _django(url) as alias, transaction.atomic(using=alias):
        yield connections[alias]


@contextmanager
def django_alias(url: str) -> Iterator[Any]:
    with _django(url) as alias, transaction.atomic(using=alias):
        yield alias


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as conn:
        yield conn


@asynccontextmanager
async def psycopg_async_cursor(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as conn, conn.cursor() as cursor:
        yield cursor


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(url)
    # As many applications configure it; the payload must not be encoded twice.
    await conn.set_type_codec("jsonb", encoder=repr, decoder=str, schema="pg_catalog")
    try:
        async with conn.transaction():
            yield conn
    finally:
        await conn.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as conn,
        conn.transaction(),
    ):
        yield conn


@asynccontextmanager
async def sqlalchemy_async_connection(url: str) -> AsyncIterator[Any]:
    async with _async_engine(url, "psycopg") as engine, engine.begin() as conn:
        yield conn


@asynccontextmanager
async def sqlalchemy_async_session(url: str) -> AsyncIterator[Any]:
    async with (
        _async_engine(url, "psycopg") as engine,
        AsyncSession(engine) as session,
        session.begin(),
    ):
        yield session


@asynccontextmanager
async def sqlalchemy_asyncpg_session(url: str) -> AsyncIterator[Any]:
    async with (
        _async_engine(url, "asyncpg") as engine,
        AsyncSession(engine) as session,
        session.begin(),
    ):
        yield session


@asynccontextmanager
async def sqlalchemy_asyncpg_connection(url: str) -> AsyncIterator[Any]:
    async with _async_engine(url, "asyncpg") as engine, engine.begin() as conn:
        yield conn


SYNC = [
    psycopg_connection,
    psycopg_cursor,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_scoped_session,
    django_connection,
    django_alias,
]
ASYNC = [
    psycopg_async,
    psycopg_async_cursor,
    asyncpg_connection,
    asyncpg_pool,
    sqlalchemy_async_connection,
    sqlalchemy_async_session,
    sqlalchemy_asyncpg_session,
    sqlalchemy_asyncpg_connection,
]


@dataclass(frozen=True)
class LibraryTransaction:
    """Enqueues within a transaction of one library, sync or async, and ends the transaction."""

    app: JobForge
    opener: Opener
    is_async: bool

    async def enqueue(self, url: str, *, then: Exception | None = None, **options: Any) -> Any:
        add = self.app.definitions["add"]
        if self.is_async:
            async with self.opener(url) as conn:
                handle = await add.using(conn=conn, **options).aenqueue(1, 2)
                if then is not None:
                    raise then
                return handle
        with self.opener(url) as conn:
            handle = add.using(conn=conn, **options).enqueue(1, 2)
            if then is not None:
                raise then
            return handle

    async def enqueue_many(self, url: str, **options: Any) -> Any:
        add = self.app.definitions["add"]
        jobs = [add.args(n, right=n) for n in range(3)]
        if self.is_async:
            async with self.opener(url) as conn:
                return await add.using(conn=conn, **options).aenqueue_many(jobs)
        with self.opener(url) as conn:
            return add.using(conn=conn, **options).enqueue_many(jobs)

    async def fail_and_go_on(self, url: str) -> None:
        good = self.app.definitions["add"].using(tenant=TENANT_A)
        bad = good.using(priority=40_000)
        if self.is_async:
            async with self.opener(url) as conn:
                with pytest.raises(errors.Invalid):
                    await bad.using(conn=conn).aenqueue(1, 2)
                with pytest.raises(errors.Conflict):
                    await good.using(conn=conn).aenqueue(1, 2)
                raise RolledBack
        with self.opener(url) as conn:
            with pytest.raises(errors.Invalid):
                bad.using(conn=conn).enqueue(1, 2)
            with pytest.raises(errors.Conflict):
                good.using(conn=conn).enqueue(1, 2)
            raise RolledBack


@pytest.fixture(params=[*SYNC, *ASYNC], ids=lambda opener: opener.__name__)
def way(request: pytest.FixtureRequest, app: JobForge) -> LibraryTransaction:
    return LibraryTransaction(app, request.param, request.param in ASYNC)


@pytest.fixture
def app(database: Database) -> JobForge:
    """Return an app without connections of its own: its URL has no server."""
    created = make_app("postgresql://nobody@127.0.0.1:1/none")
    register(created, database)
    return created


@pytest.fixture(autouse=True)
def _sync_django_in_async_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    # These tests are async for all libraries; Django refuses to block a loop unless it is allowed.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")


async def test_a_committed_transaction_stores_the_job(
    way: LibraryTransaction, database: Database, conn: Connection
) -> None:
    url = database.url_as("service_login")
    handle = await way.enqueue(url, tenant=TENANT_A)
    (job,) = jobs(conn)
    assert (job["id"], job["tenant_id"], job["payload"]) == (
        handle.id,
        TENANT_A,
        {"left": 1, "right": 2},
    )
    assert handle.status is EnqueueStatus.CREATED
    handles = await way.enqueue_many(url, tenant=TENANT_A, tags=["many"])
    payloads = {job["id"]: job["payload"] for job in jobs(conn) if job["tags"] == ["many"]}
    assert payloads == {handle.id: {"left": n, "right": n} for n, handle in enumerate(handles)}
    assert {handle.status for handle in handles} == {EnqueueStatus.CREATED}


async def test_a_rolled_back_transaction_stores_no_job(
    way: LibraryTransaction, database: Database, conn: Connection
) -> None:
    with pytest.raises(RolledBack):
        await way.enqueue(database.url_as("service_login"), then=RolledBack(), tenant=TENANT_A)
    assert count_jobs(conn) == 0


async def test_a_refusal_is_an_error_of_jobforge(
    way: LibraryTransaction, database: Database, conn: Connection
) -> None:
    with pytest.raises(errors.Invalid) as refusal:
        await way.enqueue(database.url_as("service_login"), tenant=TENANT_A, priority=40_000)
    assert refusal.value.field == "priority"
    assert count_jobs(conn) == 0


async def test_a_login_that_may_not_name_a_tenant_gets_the_statement_that_grants_it(
    way: LibraryTransaction, database: Database
) -> None:
    with pytest.raises(errors.TenantRequired, match="Grant jobforge_service"):
        await way.enqueue(database.url_as("client_login"), tenant=TENANT_A)


async def test_a_login_without_rights_gets_the_statement_that_grants_them(
    way: LibraryTransaction, database: Database, conn: Connection
) -> None:
    role = f"stranger_{uuid4().hex[:8]}"
    conn.execute(f"create role {role} login")
    try:
        with pytest.raises(errors.Denied, match="Grant jobforge_client"):
            await way.enqueue(database.url_as(role), tenant=TENANT_A)
    finally:
        conn.execute(f"drop role {role}")


async def test_a_slug_is_looked_up_on_the_same_connection(
    way: LibraryTransaction, database: Database, conn: Connection
) -> None:
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_B, '{"slug": "acme"}'])
    handle = await way.enqueue(database.url_as("service_login"), tenant="acme")
    assert handle.tenant_id == TENANT_B


def test_the_settings_of_the_connection_are_unchanged(app: JobForge, database: Database) -> None:
    """A tenant that is set for one job would also apply to the caller's own statements."""
    with psycopg.connect(database.url_as("service_login")) as own:
        app.definitions["add"].using(conn=own, tenant=TENANT_A).enqueue(1, 2)
        row = own.execute("select nullif(current_setting('app.tenant_id', true), '')").fetchone()
    assert row == (None,)


def test_a_client_that_has_set_its_tenant_may_enqueue_only_for_it(
    app: JobForge, database: Database, conn: Connection
) -> None:
    add = app.definitions["add"]
    with psycopg.connect(database.url_as("client_login")) as own:
        own.execute("select set_config('app.tenant_id', %s, true)", [str(TENANT_A)])
        add.using(conn=own, tenant=TENANT_A).enqueue(1, 2)
        own.commit()
        own.execute("select set_config('app.tenant_id', %s, true)", [str(TENANT_A)])
        with pytest.raises(errors.Denied):
            add.using(conn=own, tenant=TENANT_B).enqueue(1, 2)
    assert count_jobs(conn) == 1


async def test_a_failed_transaction_accepts_no_job(
    way: LibraryTransaction, database: Database
) -> None:
    with pytest.raises(RolledBack):
        await way.fail_and_go_on(database.url_as("service_login"))


async def test_a_connection_of_the_wrong_kind_is_refused(
    way: LibraryTransaction, database: Database
) -> None:
    url = database.url_as("service_login")
    add = way.app.definitions["add"]
    if way.is_async:
        async with way.opener(url) as conn:
            with pytest.raises(errors.Invalid, match="use aenqueue"):
                add.using(conn=conn, tenant=TENANT_A).enqueue(1, 2)
    elif way.opener is not django_alias:
        with way.opener(url) as conn, pytest.raises(errors.Invalid, match="use enqueue"):
            await add.using(conn=conn, tenant=TENANT_A).aenqueue(1, 2)


def test_an_object_that_is_not_a_connection_is_refused(app: JobForge) -> None:
    with pytest.raises(errors.Invalid) as refusal:
        app.definitions["add"].using(conn=object(), tenant=TENANT_A).enqueue(1, 2)
    assert refusal.value.field == "conn"


@contextmanager
def _savepoint(conn: Any) -> Iterator[Any]:
    """Open a savepoint of the library, and return the object to enqueue on."""
    if isinstance(conn, str):
        with transaction.atomic(using=conn):
            yield conn
    elif isinstance(conn, BaseDatabaseWrapper):
        with transaction.atomic(using=conn.alias):
            yield conn
    elif isinstance(conn, psycopg.Connection | psycopg.Cursor):
        own: Any = getattr(conn, "connection", conn)
        with own.transaction():
            yield conn
    else:
        with conn.begin_nested():
            yield conn


@asynccontextmanager
async def _async_savepoint(conn: Any) -> AsyncIterator[Any]:
    library = type(conn).__module__.partition(".")[0]
    if library == "sqlalchemy":
        async with conn.begin_nested():
            yield conn
    else:
        async with getattr(conn, "connection", conn).transaction():
            yield conn


async def test_a_rolled_back_savepoint_removes_its_jobs(
    way: LibraryTransaction, database: Database, conn: Connection
) -> None:
    add = way.app.definitions["add"].using(tenant=TENANT_A)
    wrong = add.using(priority=40_000)
    if way.is_async:
        async with way.opener(database.url_as("service_login")) as own:
            kept = [await add.using(conn=own).aenqueue(1, 2)]
            with suppress(RolledBack):
                async with _async_savepoint(own) as inner:
                    await add.using(conn=inner).aenqueue(1, 2)
                    raise RolledBack
            with suppress(errors.Invalid):
                async with _async_savepoint(own) as inner:
                    await wrong.using(conn=inner).aenqueue(1, 2)
            kept.append(await add.using(conn=own).aenqueue(1, 2))
    else:
        with way.opener(database.url_as("service_login")) as own:
            kept = [add.using(conn=own).enqueue(1, 2)]
            with suppress(RolledBack), _savepoint(own) as inner:
                add.using(conn=inner).enqueue(1, 2)
                raise RolledBack
            with suppress(errors.Invalid), _savepoint(own) as inner:
                wrong.using(conn=inner).enqueue(1, 2)
            kept.append(add.using(conn=own).enqueue(1, 2))
    assert [job["id"] for job in jobs(conn)] == [handle.id for handle in kept]


async def test_in_autocommit_a_job_is_stored_at_once(
    app: JobForge, database: Database, conn: Connection
) -> None:
    add = app.definitions["add"].using(tenant=TENANT_A)
    url = database.url_as("service_login")
    autocommit = {"isolation_level": "AUTOCOMMIT"}
    with psycopg.connect(url, autocommit=True) as own:
        add.using(conn=own).enqueue(1, 2)
        assert count_jobs(conn) == 1
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as aown:
        await add.using(conn=aown).aenqueue(1, 2)
        assert count_jobs(conn) == 2
    with _engine(url) as engine, engine.connect() as plain:
        add.using(conn=plain.execution_options(**autocommit)).enqueue(1, 2)
        assert count_jobs(conn) == 3
    for number, driver in enumerate(("psycopg", "asyncpg"), 4):
        async with _async_engine(url, driver) as engine, AsyncSession(engine) as session:
            await session.connection(execution_options=autocommit)
            await add.using(conn=session).aenqueue(1, 2)
            assert count_jobs(conn) == number
    with _django(url) as alias:
        add.using(conn=alias).enqueue(1, 2)
        assert count_jobs(conn) == 6


def test_many_jobs_can_use_a_given_connection_too(
    app: JobForge, database: Database, conn: Connection
) -> None:
    add = app.definitions["add"]
    with psycopg.connect(database.url_as("service_login")) as own:
        many = [add.args(n, n) for n in range(5_001)]
        assert len(add.using(conn=own, tenant=TENANT_A).enqueue_many(many)) == 5_001
        assert count_jobs(conn) == 0
    assert count_jobs(conn) == 5_001


def test_an_app_on_a_django_database_joins_its_transactions(
    database: Database, conn: Connection
) -> None:
    with _django(database.url_as("service_login")) as alias:
        app = make_app("postgresql://nobody@127.0.0.1:1/none", django=alias, tenant=TENANT_A)
        register(app, database)
        add = app.definitions["add"]
        with suppress(RolledBack), transaction.atomic(using=alias):
            add.enqueue(1, 2)
            raise RolledBack
        assert count_jobs(conn) == 0
        with transaction.atomic(using=alias):
            add.enqueue(1, 2)
            assert count_jobs(conn) == 0
        assert count_jobs(conn) == 1
        outside = add.enqueue(3, 4)
        assert outside.job().payload == {"left": 3, "right": 4}
        with pytest.raises(errors.Conflict, match="atomic"), app.transaction():
            pass


async def test_async_django_code_enqueues_in_its_thread(
    database: Database, conn: Connection
) -> None:
    with _django(database.url_as("service_login")) as alias:
        app = make_app("postgresql://nobody@127.0.0.1:1/none", django=alias, tenant=TENANT_A)
        register(app, database)
        handle = await app.definitions["add"].aenqueue(1, 2)
        assert (await handle.ajob()).payload == {"left": 1, "right": 2}
        await _in_thread_of_django(lambda: connections[alias].close())  # noqa: PLW0108 - of there
    assert [job["id"] for job in jobs(conn)] == [handle.id]


async def test_async_code_may_name_a_django_database(
    app: JobForge, database: Database, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = app.definitions["add"].using(tenant=TENANT_A)
    with _django(database.url_as("service_login")) as alias:
        monkeypatch.delenv("DJANGO_ALLOW_ASYNC_UNSAFE")
        with pytest.raises(errors.Conflict, match="await aenqueue"):
            add.using(conn=alias).enqueue(1, 2)
        handle = await add.using(conn=alias).aenqueue(1, 2)
        await _in_thread_of_django(lambda: connections[alias].close())  # noqa: PLW0108 - of there
        monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    assert [job["id"] for job in jobs(conn)] == [handle.id]


async def test_an_unknown_database_alias_is_refused_and_not_repeated(
    app: JobForge, database: Database
) -> None:
    wrong = app.definitions["add"].using(tenant=TENANT_A, conn="postgresql://me:hunter2@db/app")
    with _django(database.url_as("service_login")):
        for enqueue in (wrong.aenqueue, _run_async(wrong.enqueue)):
            with pytest.raises(errors.Invalid) as refusal:
                await enqueue(1, 2)
            reported = "".join(traceback.format_exception(refusal.value))
            assert (refusal.value.field, "hunter2" in reported) == ("conn", False)


def _run_async(function: Callable[..., object]) -> Callable[..., Awaitable[object]]:
    async def call(*args: object) -> object:
        return function(*args)

    return call


async def _in_thread_of_django(function: Callable[[], object]) -> None:
    from asgiref.sync import sync_to_async  # noqa: PLC0415 - for one test only

    run: Callable[[], Awaitable[object]] = sync_to_async(function)
    await run()


@contextmanager
def _engine(url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(_url_of(url, "psycopg"))
    try:
        yield engine
    finally:
        engine.dispose()


@asynccontextmanager
async def _async_engine(url: str, driver: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_url_of(url, driver))
    try:
        yield engine
    finally:
        await engine.dispose()


def _url_of(url: str, driver: str) -> sqlalchemy.URL:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    query = {"host": str(parts["host"]), "port": str(parts["port"])}
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        username=str(parts["user"]),
        database=str(parts["dbname"]),
        query=query,
    )


@contextmanager
def _django(url: str) -> Iterator[str]:
    """Configure a Django database for each test, under an alias that no other test has."""
    if not django.conf.settings.configured:
        default = {"ENGINE": "django.db.backends.postgresql", "NAME": "none"}
        django.conf.settings.configure(
            DATABASES={"default": default}, USE_TZ=True, LOGGING_CONFIG=None
        )
        django.setup()
    parts = psycopg.conninfo.conninfo_to_dict(url)
    alias = f"db_{uuid4().hex}"
    connections.settings[alias] = connections.configure_settings(
        {
            "default": {},
            alias: {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": parts["dbname"],
                "USER": parts["user"],
                "HOST": parts["host"],
                "PORT": parts["port"],
            },
        }
    )[alias]
    try:
        yield alias
    finally:
        connections[alias].close()

"""Create the database of one test: a clone of a migrated template, with an adjustable clock.

Contains the SQL of the kit: creating and dropping databases, moving the clock, reading all tenants'
jobs. Applications connect as the role `jf_test`, which has the rights of a trusted back end:
row-level security applies to it. It may also create the application's tables.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from jobforge.db.migrate import migrate
from jobforge.db.schema_files import read_scripts
from jobforge.errors import Json
from jobforge.testing.cluster import Postgres
from jobforge.types.jobs import State

APP_ROLE = "jf_test"
KIT_ROLE = "jobforge_admin"

_CLOCK = """
create schema jobforge_kit;
grant usage on schema jobforge_kit to public;
create table jobforge_kit.clock as select interval '0' as ahead;
grant select on jobforge_kit.clock to public;
create or replace function jobforge_private.now() returns timestamptz
language sql volatile
as $$ select pg_catalog.clock_timestamp() + c.ahead from jobforge_kit.clock as c $$;
"""

_EVERY_JOB = """
select j.id, j.tenant_id, t.slug as tenant, j.definition, j.version, j.queue, j.priority, j.state,
       j.run_at, j.idempotency_key as key, j.tags, j.correlation_id, j.source, j.payload
  from jobforge.all_jobs as j
  left join jobforge.tenants as t on t.id = j.tenant_id
 order by j.id
"""


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """A job in the test's database, in any state."""

    id: UUID
    tenant_id: UUID
    tenant: str | None
    definition: str
    version: int
    queue: str
    priority: int
    state: State
    run_at: datetime
    key: str | None
    tags: list[str] | None
    correlation_id: str | None
    source: str
    payload: dict[str, Json]


class KitDatabase:
    """The test's database, with a connection that sees all tenants."""

    def __init__(self, postgres: Postgres, name: str, conn: "psycopg.Connection[Any]") -> None:
        self.url = postgres.url_of(name)
        self.kit_url = postgres.url_of(name, role=KIT_ROLE)
        self._conn = conn

    def jobs(self) -> list[EnqueuedJob]:
        """Return the jobs of all tenants in every state, in the order of creation."""
        rows = self._conn.execute(_EVERY_JOB).fetchall()
        return [EnqueuedJob(**{**row, "state": State(row["state"])}) for row in rows]

    def now(self) -> datetime:
        now = self._value("select jobforge_private.now() as value")
        assert isinstance(now, datetime)  # noqa: S101 - narrows the type for mypy
        return now

    def travel(self, ahead: timedelta) -> None:
        self._conn.execute("update jobforge_kit.clock set ahead = ahead + %s", [ahead])
        # The reaper must not take the skipped time for an outage and give leases a grace period.
        self._conn.execute("update jobforge.reaper set reaped_at = reaped_at + %s", [ahead])

    def next_due(self, served: Sequence[str]) -> datetime | None:
        """Return when the next scheduled job of the served definitions is due, or None."""
        due = self._value(
            """
            select min(j.run_at) as value from jobforge.jobs as j
             where j.state = 'scheduled' and j.definition || '@' || j.version = any (%s)
            """,
            list(served),
        )
        return due if isinstance(due, datetime) else None

    def queued_jobs(self, served: Sequence[str]) -> list[tuple[UUID, UUID]]:
        """Return tenant and ID of one queued job for each set of limits that can delay jobs."""
        rows = self._conn.execute(
            """
            select distinct on (j.queue, j.tenant_id, j.definition, j.limit_key) j.tenant_id, j.id
              from jobforge.jobs as j
             where j.state = 'queued' and j.definition || '@' || j.version = any (%s)
            """,
            [list(served)],
        )
        return [(row["tenant_id"], row["id"]) for row in rows]

    def state_of(self, job_id: UUID) -> State:
        query = "select j.state as value from jobforge.all_jobs as j where j.id = %s"
        return State(str(self._value(query, job_id)))

    def waiting_queues(self) -> list[str]:
        """Return the queues with scheduled or queued jobs."""
        rows = self._conn.execute(
            """
            select distinct j.queue from jobforge.jobs as j
             where j.state in ('scheduled', 'queued') order by j.queue
            """
        )
        return [str(row["queue"]) for row in rows]

    def _value(self, query: LiteralString, *parameters: object) -> object:
        row = self._conn.execute(query, parameters).fetchone()
        return row["value"] if row else None


@contextmanager
def fresh_database(postgres: Postgres) -> Iterator[KitDatabase]:
    """Yield a migrated database without jobs; drop it at the end."""
    name = f"jobforge_test_{uuid4().hex[:16]}"
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        _clone(admin, _ensure_template(postgres, admin), name, postgres)
        try:
            _connect_as_app(admin, name)
            url = postgres.url_of(name, role="none")
            with psycopg.connect(url, autocommit=True, row_factory=dict_row) as conn:
                yield KitDatabase(postgres, name, conn)
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _clone(admin: "psycopg.Connection[Any]", template: str, name: str, postgres: Postgres) -> None:
    # file_copy takes half the time of wal_log, unless its checkpoint needs an fsync.
    strategy = sql.SQL("wal_log" if postgres.is_durable else "file_copy")
    admin.execute(
        sql.SQL("create database {} template {} strategy {}").format(
            sql.Identifier(name), sql.Identifier(template), strategy
        )
    )
    admin.execute(
        sql.SQL("grant create, temporary on database {} to {}").format(
            sql.Identifier(name), sql.Identifier(APP_ROLE)
        )
    )


def _connect_as_app(admin: "psycopg.Connection[Any]", name: str) -> None:
    """Let sessions start in the role of applications, unless their URL names another role.

    A role in the URL would need the parameter `options`, which SQLAlchemy does not pass to asyncpg.
    """
    admin.execute(
        sql.SQL("alter database {} set role to {}").format(
            sql.Identifier(name), sql.Identifier(APP_ROLE)
        )
    )


def _ensure_template(postgres: Postgres, admin: "psycopg.Connection[Any]") -> str:
    """Return the name of this release's template database; create it if it is missing."""
    name = f"jobforge_template_{_hash_schema()}"
    if _database_exists(admin, name):
        return name
    admin.execute("select pg_advisory_lock(hashtext(%s))", [name])
    try:
        if not _database_exists(admin, name):
            _make_template(postgres, admin, name)
    finally:
        admin.execute("select pg_advisory_unlock(hashtext(%s))", [name])
    return name


def _hash_schema() -> str:
    """Return a hash of the schema. A permanent server may have templates of other releases."""
    texts = "".join(script.checksum for script in read_scripts()) + _CLOCK
    return hashlib.sha256(texts.encode()).hexdigest()[:16]


def _database_exists(admin: "psycopg.Connection[Any]", name: str) -> bool:
    return admin.execute("select from pg_database where datname = %s", [name]).rowcount > 0


def _make_template(postgres: Postgres, admin: "psycopg.Connection[Any]", name: str) -> None:
    # Use a draft name until it is complete: a failed migration must not look like a template.
    draft = f"{name}_draft"
    admin.execute(sql.SQL("drop database if exists {}").format(sql.Identifier(draft)))
    admin.execute(sql.SQL("create database {}").format(sql.Identifier(draft)))
    with psycopg.connect(postgres.url_of(draft), autocommit=True) as conn:
        migrate(conn)
        _make_role(conn)
        conn.execute(_CLOCK)
        conn.execute(f"grant create on schema public to {APP_ROLE}".encode())
    admin.execute(
        sql.SQL("alter database {} rename to {}").format(
            sql.Identifier(draft), sql.Identifier(name)
        )
    )


def _make_role(conn: "psycopg.Connection[Any]") -> None:
    role = sql.Identifier(APP_ROLE)
    if not conn.execute("select from pg_roles where rolname = %s", [APP_ROLE]).rowcount:
        groups = sql.SQL("jobforge_client, jobforge_service")
        conn.execute(sql.SQL("create role {} in role {}").format(role, groups))

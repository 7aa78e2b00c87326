"""Typed wrappers of the functions in schema jobforge, without rules of their own.

The connection is the superuser's, or that of a role that may call the function. Rows are returned
as dicts. Tests read other facts about a job from the tables, bypassing row-level security.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from cluster import Connection
from psycopg import sql
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

Json = Any
Row = DictRow

TENANT_A = UUID("aaaaaaaa-0000-4000-8000-000000000001")
TENANT_B = UUID("bbbbbbbb-0000-4000-8000-000000000002")


def new_worker() -> UUID:
    """Return the ID of a new worker process; claiming needs no registration."""
    return uuid4()


def call(conn: Connection, function: str, **arguments: Any) -> list[Row]:
    """`call(conn, "cancel_job", job_id=id)`: dicts and lists of dicts are passed as JSON.

    A function of a schema other than jobforge is named with its schema.
    """
    given = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(f"p_{name}"), sql.Placeholder())
        for name in arguments
    )
    query = sql.SQL("select * from {}({})").format(qualified(function), given)
    return conn.execute(query, [_adapted(value) for value in arguments.values()]).fetchall()


def qualified(function: str) -> sql.Identifier:
    """Return the name with its schema: `jobforge`, unless the name has one."""
    return sql.Identifier(*["jobforge", *function.split(".")][-2:])


def call_for_value(conn: Connection, function: str, **arguments: Any) -> Any:
    """Return the single value that a function returns."""
    [row] = call(conn, function, **arguments)
    [value] = row.values()
    return value


def definition(conn: Connection, key: str = "test", version: int = 1, **settings: Json) -> str:
    call(conn, "put_definition", key=key, version=version, settings=settings)
    return key


def enqueue(
    conn: Connection,
    tenant: UUID = TENANT_A,
    n: int = 1,
    *,
    definition: str = "test",
    payload: Json = None,
    **options: Json,
) -> list[UUID]:
    """Enqueue n jobs with identical options in one call, and return their IDs in order."""
    job = {"definition": definition, "payload": payload or {}, **options}
    rows = call(conn, "enqueue_jobs", jobs=[job] * n, tenant_id=tenant)
    return [row["job_id"] for row in sorted(rows, key=lambda row: row["index"])]


def enqueue_one(
    conn: Connection,
    tenant: UUID = TENANT_A,
    *,
    definition: str = "test",
    payload: Json = None,
    **options: Json,
) -> UUID:
    [job] = enqueue(conn, tenant, definition=definition, payload=payload, **options)
    return job


def claim(
    conn: Connection,
    worker: UUID,
    queue: str = "default",
    limit: int = 1,
    *,
    lease_s: float = 30,
    definitions: list[str] | None = None,
    registered: bool = False,
    tenants: list[UUID] | None = None,
) -> list[Row]:
    """Return up to `limit` jobs, running under new leases of this worker."""
    return call(
        conn,
        "claim_jobs",
        worker_id=worker,
        queues=[queue],
        limits=[limit],
        definitions=definitions,
        registered=registered,
        tenants=tenants,
        lease_s=lease_s,
    )


def heartbeat(
    conn: Connection, worker: UUID, jobs: Sequence[Row], lease_s: float = 30
) -> list[Row]:
    """Return the answers for the jobs; the last row is about the worker."""
    tokens = [token(job) for job in jobs]
    return call(conn, "heartbeat_jobs", worker_id=worker, jobs=Jsonb(tokens), lease_s=lease_s)


def complete(
    conn: Connection, worker: UUID, jobs: Sequence[Row], outcome: str = "succeeded", **fields: Json
) -> list[Row]:
    """Settle claimed jobs, all with the same outcome and fields such as error={...}, final=True."""
    outcomes = [token(job) | {"outcome": outcome} | fields for job in jobs]
    return call(conn, "complete_jobs", worker_id=worker, outcomes=Jsonb(outcomes))


def succeed(
    conn: Connection, worker: UUID, jobs: Sequence[Row], results: Sequence[Json] | None = None
) -> list[Row]:
    """Settle claimed jobs as plain successes; return those that were not settled."""
    return call(
        conn,
        "succeed_jobs",
        worker_id=worker,
        tenants=[job["tenant_id"] for job in jobs],
        jobs=[job["job_id"] for job in jobs],
        leases=[job["lease"] for job in jobs],
        results=None if results is None else [value and Jsonb(value) for value in results],
    )


def release(conn: Connection, worker: UUID, jobs: Sequence[Row]) -> list[Row]:
    return call(conn, "release_jobs", worker_id=worker, jobs=Jsonb([token(job) for job in jobs]))


def note(
    conn: Connection, worker: UUID, jobs: Sequence[Row], kind: str = "log", **data: Json
) -> list[Row]:
    """Add the same note to each claimed job."""
    notes = [token(job) | {"kind": kind, "data": data} for job in jobs]
    return call(conn, "note_jobs", worker_id=worker, notes=Jsonb(notes))


def reap(conn: Connection, limit: int = 500) -> list[Row]:
    return call(conn, "reap_jobs", limit=limit)


def token(job: Row) -> Json:
    """Return the proof that a claimed job is held; the worker's ID is passed separately."""
    return {
        "tenant_id": str(job["tenant_id"]),
        "job_id": str(job["job_id"]),
        "lease": job["lease"],
    }


def job_of(conn: Connection, tenant: UUID, job: UUID) -> Row:
    """Return the job's row, live or finished, with every column of the view all_jobs."""
    [row] = conn.execute(
        "select * from jobforge.all_jobs where tenant_id = %s and id = %s", [tenant, job]
    ).fetchall()
    return row


def state_of(conn: Connection, tenant: UUID, job: UUID) -> str:
    """Return the state as the API names it: `canceling` for a running job that was asked to
    stop."""
    row = job_of(conn, tenant, job)
    if row["state"] == "running" and row["cancel_requested_at"] is not None:
        return "canceling"
    state = row["state"]
    assert isinstance(state, str)
    return state


def attempts_of(conn: Connection, tenant: UUID, job: UUID) -> list[Row]:
    """Return the ended leases of a job, oldest first."""
    return conn.execute(
        "select * from jobforge.all_attempts where tenant_id = %s and job_id = %s order by lease",
        [tenant, job],
    ).fetchall()


def erase(conn: Connection, tenant: UUID = TENANT_A, *, limit: int = 1000) -> dict[str, int]:
    """Erase a tenant completely; return the number of rows deleted from each table."""
    operation: UUID = call_for_value(conn, "delete_tenant", tenant_id=tenant)
    row = erasure_step(conn, operation, limit=limit)
    for _ in range(200):
        if row["state"] == "done":
            return erased_rows(conn, tenant)
        row = erasure_step(conn, operation, limit=limit)
    raise AssertionError(f"the erasure does not end: {row}")


def erasure_step(conn: Connection, operation: UUID, *, limit: int = 1000) -> Row:
    """Run one step of an erasure, even if it is not yet due; return the operation's row."""
    conn.execute(
        "update jobforge.operations set due_at = jobforge_private.now() where id = %s"
        " and finished_at is null",
        [operation],
    )
    call(conn, "advance_operations", limit=limit)
    for found in call(conn, "next_erasure"):
        call(conn, "confirm_erasure", **found)
    row = conn.execute("select * from jobforge.operations where id = %s", [operation]).fetchone()
    assert row is not None
    return row


def erased_rows(conn: Connection, tenant: UUID) -> dict[str, int]:
    """Return what the audit log records about the last erasure of a tenant."""
    [row, *_] = conn.execute(
        "select detail from jobforge.audit_log where action = 'tenant.erased' and target = %s"
        " order by id desc",
        [str(tenant)],
    ).fetchall()
    rows: dict[str, int] = row["detail"]["rows"]
    return rows


def wipe(conn: Connection, tenant: UUID) -> None:
    """Delete the rows of a tenant that later tests use again; an erased tenant cannot be reused."""
    for table in conn.execute(
        "select distinct root as name from jobforge_private.tenant_tables()"
    ).fetchall():
        conn.execute(
            sql.SQL("delete from jobforge.{} where tenant_id = %s").format(
                sql.Identifier(table["name"])
            ),
            [tenant],
        )
    conn.execute("delete from jobforge.tenants where id = %s", [tenant])


def count(conn: Connection, table: str, tenant: UUID | None = None) -> int:
    """Return the number of rows in a table of the schema, in total or of one tenant."""
    query = sql.SQL("select count(*) as n from jobforge.{} where %s::uuid is null").format(
        sql.Identifier(table)
    )
    if tenant is not None:
        query += sql.SQL(" or tenant_id = %s")
    [row] = conn.execute(query, [tenant] if tenant is None else [tenant, tenant]).fetchall()
    n = row["n"]
    assert isinstance(n, int)
    return n


@contextmanager
def refused(code: str, **detail: Json) -> Iterator[None]:
    """Expect the block to be refused with this SQLSTATE and these fields in its detail."""
    with pytest.raises(psycopg.Error) as caught:
        yield
    assert caught.value.sqlstate == code, caught.value
    if detail:
        found = json.loads(caught.value.diag.message_detail or "{}")
        assert {name: found.get(name) for name in detail} == detail


@contextmanager
def as_tenant(conn: Connection, tenant: UUID) -> Iterator[Connection]:
    """Open a transaction with app.tenant_id set, as clients without the service role do."""
    with conn.transaction():
        conn.execute("select set_config('app.tenant_id', %s, true)", [str(tenant)])
        yield conn


def _adapted(value: Any) -> Any:
    if isinstance(value, dict) or (
        isinstance(value, list) and value and isinstance(value[0], dict)
    ):
        return Jsonb(value)
    return value

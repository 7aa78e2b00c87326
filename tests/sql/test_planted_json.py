"""Rows with JSON that is too long as text, which only a superuser or a restore can store.

Functions refuse such values. If a row has one anyway, it must not fail a function that reads the
row, and the value must not be returned.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import pytest
from attacks import Attempts
from cluster import Clock, Connection, connect_to, fresh_database, wait_until
from psycopg import sql
from sql.attack_arguments import Arguments, Function, functions
from sql.engine import TENANT_A, call_for_value, definition
from sql.long_json import (
    fill_remaining_columns,
    is_public,
    json_columns,
    plant_long_values,
    unbounded_columns,
    valid_calls,
)
from sql.planted_tenants import plant
from sql.tenancy_attack import World

from jobforge.embedded import PostgresServer

LONGEST_ANSWER = 16 * 1024**2

# Columns with the functions that a long value makes fail, or that return it.
EXCEPTIONS = {
    ("claim_jobs", "jobs.payload"): "does not check, for speed; then workers call"
    " claim_readable_jobs",
    ("advance_operations", "operations.options"): "fails the operation, and says why in its reason",
}

# Run each query, undo what it did, and return its SQLSTATE (null if it succeeded) and its result.
# It runs on the server, because a savepoint for each query would take four round trips.
TRY = """
create function pg_temp.try(query text, out error text, out length bigint) language plpgsql as $$
begin
    begin
        execute query into length;
        raise sqlstate 'UNDO0';
    exception when others then
        error := nullif(sqlstate, 'UNDO0');
    end;
end $$
"""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The end of a call: its SQLSTATE, if it failed, and the length of its result."""

    error: str | None
    length: int | None


@pytest.fixture(scope="module")
def world(server: PostgresServer) -> Iterator[World]:
    """One database for all calls: each is rolled back."""
    with fresh_database(server) as database, closing(connect_to(database.url)) as conn:
        world = World.make(database, conn)
        fill_remaining_columns(conn)
        conn.execute(TRY)
        yield world


@pytest.mark.attack("payloads")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("inside", [False, True], ids=["one more field", "in each field"])
def test_a_long_value_in_any_column_fails_no_function(
    world: World,
    attempts: Attempts,
    inside: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    calls = {
        what: (function.name, query_of(function, arguments))
        for function in functions(world.conn)
        if is_public(world.conn, function)
        for what, arguments in valid_calls(function, world.a, world.b)
    }
    before = answers(world.conn, calls)
    assert all(each.error is None or each.error.startswith("JF") for each in before.values())
    # An invalid call reads nothing.
    calls = {what: each for what, each in calls.items() if before[what].error != "JF002"}
    found = []
    for column in json_columns(world.conn):
        made = {
            what: each for what, each in calls.items() if (each[0], str(column)) not in EXCEPTIONS
        }
        with world.conn.transaction(force_rollback=True):
            planted = plant_long_values(world.conn, column, inside=inside)
            assert planted or inside, f"no row of {column.table} to plant a value in"
            for what, answer in answers(world.conn, made).items():
                attempts(1)
                is_short = (answer.length or 0) <= LONGEST_ANSWER
                if answer.error != before[what].error or not is_short:
                    found.append(f"{what}, {column}: {before[what]}, then {answer}")
    assert not found, "\n".join(found)


@pytest.mark.attack("payloads")
def test_retention_removes_rows_with_long_values(conn: Connection, clock: Clock) -> None:
    definition(conn)
    plant(conn, TENANT_A, "amberword")
    before = _count_minutes(conn)
    for column in json_columns(conn):
        if column.name != "progress":
            plant_long_values(conn, column)
    wait_until(lambda: call_for_value(conn, "roll_up_statistics") > 0)
    assert _count_minutes(conn) > before
    clock.travel(days=800)
    gone = call_for_value(conn, "apply_retention")
    assert "failed" not in gone
    assert gone["dead_jobs"] > 0
    history = {"attempts.error", "finished_jobs.payload", "job_events.data", "audit_log.detail"}
    assert not history & set(unbounded_columns(conn))


def _count_minutes(conn: Connection) -> int:
    row = conn.execute("select count(*) as n from jobforge.minute_statistics").fetchone()
    assert row is not None
    return int(row["n"])


def answers(conn: Connection, calls: Mapping[str, tuple[str, str]]) -> dict[str, _Answer]:
    rows = conn.execute(
        "select t.error, t.length from unnest(%s::text[]) with ordinality as q(query, place),"
        " pg_temp.try(q.query) as t order by q.place",
        [[query for _, query in calls.values()]],
    ).fetchall()
    return {
        what: _Answer(row["error"], row["length"]) for what, row in zip(calls, rows, strict=True)
    }


def query_of(function: Function, arguments: Arguments) -> str:
    """Return the call as a query for the length of the function's whole result."""
    given = sql.SQL(", ").join(
        sql.SQL("{} => {}::{}").format(
            sql.Identifier(parameter.name),
            sql.Literal(arguments[parameter.name]),
            sql.SQL(parameter.type),
        )
        for parameter in function.parameters
    )
    query = sql.SQL("select sum(octet_length(r::text)) from jobforge.{}({}) as r")
    return query.format(sql.Identifier(function.name), given).as_string()

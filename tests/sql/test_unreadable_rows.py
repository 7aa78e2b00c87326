"""find_unreadable names rows with JSON that is too long as text; doctor says how to repair them."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import LiteralString

import psycopg
import pytest
from attacks import Attempts
from cluster import Connection, connect_to, fresh_database
from sql.engine import TENANT_A, call, definition
from sql.long_json import (
    Column,
    fill_remaining_columns,
    json_columns,
    plant_long_values,
    unbounded_columns,
)
from sql.planted_tenants import plant
from unit.test_doctor import HEALTHY

from jobforge.db.doctor.checks import diagnose
from jobforge.embedded import PostgresServer
from jobforge.types.diagnostics import InstallationProblem


@pytest.fixture(scope="module")
def conn(server: PostgresServer) -> Iterator[Connection]:
    """A database with a value in each JSON column, for all tests: each rolls back."""
    with fresh_database(server) as database, closing(connect_to(database.url)) as conn:
        definition(conn)
        plant(conn, TENANT_A, "amberword")
        fill_remaining_columns(conn)
        yield conn


@pytest.mark.attack("payloads")
@pytest.mark.timeout(300)
def test_doctor_names_the_row_and_a_statement_that_repairs_it(
    conn: Connection, attempts: Attempts
) -> None:
    found = []
    for column in json_columns(conn):
        if column.table == "jobs":  # repaired by commands: test_long_json
            continue
        attempts(1)
        with conn.transaction(force_rollback=True):
            plant_long_values(conn, column)
            rounds = 0
            while problems := _problems(conn):
                rounds += 1
                assert rounds < 5, f"{column} is not repaired"
                assert {(each.kind, each.detail) for each in problems} == {
                    (column.table, column.name)
                }
                for statement in _repairs(conn):
                    conn.execute(statement.encode())
            found += [] if rounds else [f"{column} was not found"]
            found += [f"{each} is still long" for each in unbounded_columns(conn)]
    assert not found, "\n".join(found)


def test_a_dump_fails_until_the_row_is_repaired(conn: Connection) -> None:
    copy = "copy (select * from jobforge.attempts) to stdout"
    with conn.transaction(force_rollback=True):
        plant_long_values(conn, Column("attempts", "error"))
        with pytest.raises(psycopg.errors.ProgramLimitExceeded), conn.transaction():
            _read(conn, copy)
        for statement in _repairs(conn):
            conn.execute(statement.encode())
        assert 0 < _read(conn, copy) < 1_000_000


def test_a_repaired_operation_acts_on_no_job(conn: Connection) -> None:
    """An empty filter would select all jobs."""
    with conn.transaction(force_rollback=True):
        plant_long_values(conn, Column("operations", "filter"))
        for statement in _repairs(conn):
            conn.execute(statement.encode())
        for _ in range(3):  # each call advances one operation
            call(conn, "advance_operations")
        operations = conn.execute(
            "select state, done from jobforge.operations where kind <> 'erase'"
        ).fetchall()
        assert {(row["state"], row["done"]) for row in operations} == {("failed", 0)}


def _repairs(conn: Connection) -> list[str]:
    """Return the statements that doctor suggests."""
    findings = diagnose(replace(HEALTHY, unreadable=_problems(conn)))
    return [each.fix for each in findings if each.check == "values" and each.fix is not None]


def _problems(conn: Connection) -> list[InstallationProblem]:
    return [InstallationProblem(**row) for row in call(conn, "find_unreadable")]


def _read(conn: Connection, copy: LiteralString) -> int:
    """Return the length of what a COPY sends."""
    with conn.cursor().copy(copy) as rows:
        return sum(len(block) for block in rows)

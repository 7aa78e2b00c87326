"""The catalog audit: every object of the schema, including future ones, obeys the rules."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cluster import Connect, Connection, connect_to, fresh_database
from sql.catalog_rules import INSTALLATION, NULLABLE, OWNERS, RULES, UNIQUE, Rule, offenders
from sql.engine import call

from jobforge.db.schema_files import function_files
from jobforge.embedded import PostgresServer

DOCS = Path(__file__).parents[2] / "docs"

each_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])


@pytest.fixture(scope="module")
def installed(server: PostgresServer) -> Iterator[Connection]:
    """One database for all rules; a test rolls back what it changes."""
    with fresh_database(server) as database, closing(connect_to(database.url)) as conn:
        yield conn


@each_rule
def test_no_object_breaks_a_rule(installed: Connection, rule: Rule) -> None:
    assert offenders(installed, rule) == []


@each_rule
def test_the_audit_finds_a_breach(installed: Connection, rule: Rule) -> None:
    with installed.transaction(force_rollback=True):
        installed.execute(rule.breach.encode())
        assert offenders(installed, rule) != []


def test_every_exception_is_needed(installed: Connection) -> None:
    relations = {row["relname"] for row in installed.execute("select relname from pg_class")}
    assert {*INSTALLATION, *NULLABLE, *UNIQUE} - relations == set()
    assert _functions(installed, "true") >= OWNERS


def test_partitions_created_later_obey_the_same_rules(conn: Connection, connect: Connect) -> None:
    made = call(connect("worker_login"), "ensure_partitions", days=40)
    assert made != [{"ensure_partitions": 0}]
    assert {rule.name: offenders(conn, rule) for rule in RULES} == {rule.name: [] for rule in RULES}


@pytest.mark.parametrize("owner", ["jobforge_owner", "jobforge_engine"])
def test_a_function_created_later_is_not_executable_by_public(
    installed: Connection, owner: str
) -> None:
    with installed.transaction(force_rollback=True):
        installed.execute(f"set local role {owner}".encode())
        installed.execute("create function jobforge.later() returns int language sql return 1")
        installed.execute("reset role")
        [row] = installed.execute(
            """
            select has_function_privilege('public', 'jobforge.later()', 'execute') as "by public"
            """
        ).fetchall()
    assert row == {"by public": False}


# The correct state is defined in access.sql, next to the block that applies it.
IN_ACCESS = {"wanted_owners", "granted_functions", "wanted_policies", "wanted_grants"}


def test_every_function_has_a_file_with_its_name(installed: Connection) -> None:
    files = [path.stem for path in function_files()]
    assert sorted(_functions(installed, "true")) == sorted([*files, *IN_ACCESS])


def test_every_function_has_a_header_that_describes_its_purpose() -> None:
    headless = [
        path.stem for path in function_files() if not re.match(r"-- \w.{20,}", path.read_text())
    ]
    assert headless == []


def test_every_public_function_is_documented(installed: Connection) -> None:
    public = _functions(
        installed,
        """
        has_function_privilege('jobforge_client', p.oid, 'execute')
        or has_function_privilege('jobforge_worker', p.oid, 'execute')
        or has_function_privilege('jobforge_admin', p.oid, 'execute')
        or has_function_privilege('jobforge_server', p.oid, 'execute')
        """,
    )
    words = set(re.findall(r"\w+", (DOCS / "sql.md").read_text()))
    assert public - words == set()


def _functions(conn: Connection, condition: str) -> set[str]:
    rows = conn.execute(
        f"""
        select p.proname as name from pg_proc as p
         where p.pronamespace = any ('{{jobforge,jobforge_private}}'::regnamespace[])
           and ({condition})
        """.encode()
    )
    return {row["name"] for row in rows}

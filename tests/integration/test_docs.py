"""The documentation is correct: its SQL runs, and its lists are complete."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sql_page
import tables_page
from cluster import Connect, Connection, Database
from integration.call_setup import TENANT_A
from sql.test_lifecycle import HELD, WAITING_AND_ENDED

from jobforge import errors
from jobforge.errors import JobForgeError

ROOT = Path(__file__).parent.parent.parent


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", _read(name), re.MULTILINE | re.DOTALL)


def test_the_sql_of_readme_and_reference_runs_from_top_to_bottom(
    database: Database, folder: Path
) -> None:
    script = folder / "examples.sql"
    examples = _blocks("README.md", "sql") + _blocks("docs/sql.md", "sql")
    script.write_text("\n".join(examples), encoding="utf-8")
    assert len(examples) > 8
    database.run_file(script)


# What a page expects before its SQL. It is rolled back, because all tests share the roles.
BEFORE = {
    "docs/backup.md": "",
    "docs/deploy.md": "",
    "docs/doctor.md": "",
    "docs/howto/multi-tenant.md": "",
    "docs/howto/supabase.md": """
        create role authenticator; create role authenticated;
        select jobforge.put_definition('send_welcome', 1)""",
    "docs/howto/transactional-enqueue.md": """
        create role app; create table users (email text);
        select jobforge.put_definition('send_welcome', 1)""",
    "docs/install.md": "create role authenticator",
    "docs/limits.md": "select jobforge.put_definition('sync_account', 1)",
    "docs/pgbouncer.md": "create role app",
    "docs/statistics.md": "",
    "docs/tenancy.md": "create role authenticator; create role authenticated",
}


def test_the_sql_of_every_other_page_runs(connect: Connect) -> None:
    pages = [page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert {page for page in pages if _blocks(page, "sql")} == {*BEFORE, "docs/sql.md"}
    conn = connect(autocommit=False)
    for page, before in BEFORE.items():
        for block in (before, *_blocks(page, "sql")):
            conn.execute(_in_database(block, conn.info.dbname).encode())
        conn.rollback()


def _in_database(block: str, database: str) -> str:
    """Return a psql block inside a transaction of the test, for this database and an existing
    tenant.
    """
    block = re.sub(r"^(begin|commit);$", "", block, flags=re.MULTILINE)
    block = re.sub(r"'<id>'|:'tenant'", f"'{TENANT_A}'", block)
    return block.replace("on database app ", f"on database {database} ")


def test_the_reference_has_every_function_with_its_arguments(conn: Connection) -> None:
    granted = conn.execute(
        """
        select p.proname, pg_get_function_arguments(p.oid) as arguments from pg_proc as p
         where p.pronamespace = 'jobforge'::regnamespace
           and has_function_privilege('jobforge_server', p.oid, 'execute')
        """
    )
    functions = {row["proname"]: _arguments(row["arguments"]) for row in granted}
    assert dict(_signatures()) == functions


@pytest.mark.parametrize("script", [sql_page, tables_page], ids=lambda each: each.__name__)
def test_a_page_that_is_generated_from_the_database_is_current(
    script: Any, conn: Connection
) -> None:
    assert script.PAGE.read_text(encoding="utf-8") == script.page(conn), "run: make pages"


def _signatures() -> Iterator[tuple[str, list[str]]]:
    text = "\n".join(_blocks("docs/sql.md", "text"))
    for name, arguments in re.findall(r"^(\w+)\((.*?)\)(?= →|\n)", text, re.MULTILINE | re.DOTALL):
        yield name, _arguments(arguments)


def _arguments(text: str) -> list[str]:
    """Return name and type of each input argument, with a mark on arguments that have a default."""
    text = text.replace("timestamp with time zone", "timestamptz")
    texts = [part.strip() for part in re.split(r",\s+(?=(?:INOUT |OUT )?\w+ \w)", text)]
    taken = [re.sub(r"^INOUT ", "", part) for part in texts if part and not part.startswith("OUT ")]
    return [re.sub(r" (?:DEFAULT|=) .*", " =", part) for part in taken]


def test_the_reference_has_every_error() -> None:
    table = set(
        re.findall(r"^\| `(JF\d+)` \| `(\w+)` \| `(\w+)` \|", _read("docs/sql.md"), re.MULTILINE)
    )
    classes = [error for error in vars(errors).values() if _is_refusal(error)]
    assert table == {(error.sqlstate, error.__name__, error.code) for error in classes}


def _is_refusal(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, JobForgeError) and bool(value.sqlstate)


@pytest.mark.parametrize("table", [WAITING_AND_ENDED, HELD])
def test_the_documented_table_of_states_is_the_tested_one(table: str) -> None:
    assert table.strip("\n") in _read("docs/lifecycle.md")

"""Writes docs/tables.md, the reference of tables, indexes and policies, from a fresh database.

What a table is for is the comment above it in its migration; all else is the catalogue's.
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from jobforge.db.migrate import migrate
from jobforge.db.schema_files import SQL
from jobforge.embedded import Embedded
from jobforge.testing.cluster import SETTINGS

PAGE = Path(__file__).parent.parent / "docs" / "tables.md"

Connection = psycopg.Connection[dict[str, Any]]

_HEAD = """\
# Tables, indexes and policies

Written by `scripts/tables_page.py` from a fresh database. Tables are read under row-level security
and written by the [functions](sql.md) alone. What functions answer is stable; tables are not: a
column may come or go with a release. Read them for a look, and build on the functions.

Tables of the history have a partition for each day and one for strays, named
`<table>_<yyyymmdd>`; indexes and policies are those of the table itself.

Row-level security is enabled and forced on all of them. A role that has no policy on a table sees
none of its rows:

| policy | role | rows |
|---|---|---|
| `engine_all` | `jobforge_engine`, which owns the functions | all, to read and write |
| `admin_reads` | `jobforge_admin` | all, to read |
| `client_reads` | `jobforge_client` | to read: those of its tenant; of the installation, all |
| `owner_all` | `jobforge_owner` | all of `migrations` |

The view `all_jobs` joins `jobs` and `finished_jobs`, the view `all_attempts` has `attempts` and
those that `finished_jobs` tells, both with the rights of whoever reads them.
"""

_TABLES = """
select c.oid, c.relname as name, c.relkind = 'p' as is_history
  from pg_class as c
 where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
   and not c.relispartition
 order by c.relname
"""
_COLUMNS = """
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
       a.attnotnull as is_required, pg_get_expr(d.adbin, d.adrelid) as default
  from pg_attribute as a
  left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
 where a.attrelid = %s and a.attnum > 0 and not a.attisdropped
 order by a.attnum
"""
_CONSTRAINTS = """
select conname as name, pg_get_constraintdef(oid) as rule
  from pg_constraint where conrelid = %s and contype in ('c', 'p', 'u', 'f')
 order by contype = 'p' desc, conname
"""
_INDEXES = """
select pg_get_indexdef(i.indexrelid) as definition
  from pg_index as i join pg_class as c on c.oid = i.indexrelid
 where i.indrelid = %s
   and not exists (select from pg_constraint as k where k.conindid = i.indexrelid)
 order by c.relname
"""
_POLICIES = """
select polname as name from pg_policy where polrelid = %s order by polname
"""


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="jobforge-tables-"))
    folder.chmod(0o755)
    embedded = Embedded(folder / "pg", settings=SETTINGS)
    try:
        with psycopg.connect(embedded.start(), row_factory=dict_row) as conn:
            migrate(conn)
            PAGE.write_text(page(conn), encoding="utf-8")
    finally:
        embedded.stop()
        shutil.rmtree(folder)
    print(f"{PAGE.name} written")
    return 0


def page(conn: Connection) -> str:
    words = _words()
    tables = conn.execute(_TABLES).fetchall()
    return "\n".join([_HEAD, *(part for table in tables for part in _table(conn, table, words))])


def _words() -> dict[str, str]:
    """The comment above each table in the migrations."""
    found: dict[str, str] = {}
    for path in sorted((SQL / "migrations").glob("*.sql")):
        text = path.read_text(encoding="utf-8")
        for comment, name in re.findall(
            r"((?:^--.*\n)+)create (?:unlogged )?table jobforge\.(\w+) ", text, re.MULTILINE
        ):
            found[name] = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
    return found


def _table(conn: Connection, table: dict[str, Any], words: dict[str, str]) -> Iterator[str]:
    yield f"## {table['name']}\n"
    if table["name"] in words:
        yield f"{words[table['name']]}\n"
    policies = [f"`{row['name']}`" for row in _rows(conn, _POLICIES, table)]
    kind = "Of the history. " if table["is_history"] else ""
    yield f"{kind}Policies: {', '.join(policies) or 'none'}.\n"
    yield "| column | type | |\n|---|---|---|"
    yield from map(_column, _rows(conn, _COLUMNS, table))
    yield ""
    rules = [f"{row['name']}  {row['rule']}" for row in _rows(conn, _CONSTRAINTS, table)]
    indexes = [_index(row["definition"]) for row in _rows(conn, _INDEXES, table)]
    yield "\n".join(["```text", *rules, *indexes, "```", ""])


def _rows(conn: Connection, query: str, table: dict[str, Any]) -> list[dict[str, Any]]:
    return conn.execute(query.encode(), [table["oid"]]).fetchall()


def _column(column: dict[str, Any]) -> str:
    kind = column["type"].replace("timestamp with time zone", "timestamptz")
    notes = ["required"] if column["is_required"] else []
    if column["default"] is not None:
        notes.append(f"default `{column['default']}`")
    return f"| `{column['name']}` | {kind} | {', '.join(notes)} |"


def _index(definition: str) -> str:
    """`create unique index x on only jobforge.y using btree (…)`, as short as it can be read."""
    kind, name, rest = re.findall(r"^CREATE (.*?)INDEX (\w+) ON .*? USING (.*)$", definition)[0]
    return f"{name}  {kind}INDEX {rest.removeprefix('btree ')}"


if __name__ == "__main__":
    sys.exit(main())

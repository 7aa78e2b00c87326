"""Write docs/tables.md, the reference of tables, indexes and policies, from a fresh database.

A table's description is the comment above it in its migration, and column_descriptions.py describes
its columns; everything else comes from the catalog.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from column_descriptions import describe_column
from fresh_database import Connection

from jobforge.db.schema_files import SQL

PAGE = Path(__file__).parent.parent / "docs" / "tables.md"

_HEAD = """\
# Tables, indexes and policies

This reference describes the tables of the schema `jobforge`, for readers who inspect the data with
SQL. In programs, use the [functions](sql.md) instead: their results are stable, but a release may
add or remove columns of a table.

You can query the tables, subject to row-level security. Only the functions write to them.

History tables have a partition for each day, named `<table>_<yyyymmdd>`, and a default partition.
The audit log has a partition for each month. This page lists the indexes and policies of the
tables, and leaves out those of the partitions.

Row-level security is enabled and forced on all tables. A role without a policy on a table sees none
of its rows:

| Policy | Role | Rows |
|---|---|---|
| `engine_all` | `jobforge_engine`, which owns the functions | read and write all rows |
| `admin_reads` | `jobforge_admin` | read all rows |
| `backup_reads` | `jobforge_backup`, for `pg_dump` | read all rows |
| `client_reads` | `jobforge_client` | read its tenant's rows, and tables without a tenant |
| `owner_all` | `jobforge_owner` | read and write all rows of `migrations` |

The view `all_jobs` combines `jobs` and `finished_jobs`. The view `all_attempts` combines `attempts`
with the attempts recorded in `finished_jobs`. Both run with the rights of the role that queries
them.
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


def page(conn: Connection) -> str:
    descriptions = _words()
    tables = conn.execute(_TABLES).fetchall()
    return "\n".join(
        [
            _HEAD,
            *_subjects(),
            *(part for table in tables for part in _table(conn, table, descriptions)),
        ]
    )


def _subjects() -> Iterator[str]:
    """Yield a list of the tables by the sections of the migrations."""
    yield "## Tables by subject\n\n| Subject | Tables |\n|---|---|"
    table = re.compile(r"^create (?:unlogged )?table jobforge\.(\w+) \(", re.MULTILINE)
    for path in sorted((SQL / "migrations").glob("*.sql")):
        text = path.read_text(encoding="utf-8")
        sections = re.split(r"^-- \d+ (.+?) -+$", text, flags=re.MULTILINE)
        for subject, content in zip(sections[1::2], sections[2::2], strict=True):
            if names := table.findall(content):
                yield f"| {subject} | {', '.join(f'[`{name}`](#{name})' for name in names)} |"
    yield ""


def _words() -> dict[str, str]:
    """Return the comment above each table in the migrations."""
    found: dict[str, str] = {}
    for path in sorted((SQL / "migrations").glob("*.sql")):
        text = path.read_text(encoding="utf-8")
        for comment, name in re.findall(
            r"((?:^--.*\n)+)create (?:unlogged )?table jobforge\.(\w+) ", text, re.MULTILINE
        ):
            found[name] = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
    return found


def _table(conn: Connection, table: dict[str, Any], descriptions: dict[str, str]) -> Iterator[str]:
    yield f"## {table['name']}\n"
    if table["name"] in descriptions:
        first, stop, rest = descriptions[table["name"]].partition(". ")
        yield f"{first}{stop.strip()}\n"
        if rest:
            yield f"{rest.replace('docs/query-plans.md', '[Query plans](query-plans.md)')}\n"
    policies = [f"`{row['name']}`" for row in _rows(conn, _POLICIES, table)]
    kind = "History table. " if table["is_history"] else ""
    yield f"{kind}Policies: {', '.join(policies) or 'none'}.\n"
    yield "| Column | Type | Constraints | Description |\n|---|---|---|---|"
    yield from (_column(row, table["name"]) for row in _rows(conn, _COLUMNS, table))
    yield ""
    rules = [f"{row['name']}  {row['rule']}" for row in _rows(conn, _CONSTRAINTS, table)]
    indexes = [_index(row["definition"]) for row in _rows(conn, _INDEXES, table)]
    yield "\n".join(["```text", *rules, *indexes, "```", ""])


def _rows(conn: Connection, query: str, table: dict[str, Any]) -> list[dict[str, Any]]:
    return conn.execute(query.encode(), [table["oid"]]).fetchall()


def _column(column: dict[str, Any], table: str) -> str:
    kind = column["type"].replace("timestamp with time zone", "timestamptz")
    notes = ["required"] if column["is_required"] else []
    if column["default"] is not None:
        notes.append(f"default `{column['default']}`")
    name = column["name"]
    return f"| `{name}` | {kind} | {', '.join(notes)} | {describe_column(table, name)} |"


def _index(definition: str) -> str:
    """Shorten `create unique index x on only jobforge.y using btree (…)`."""
    kind, name, rest = re.findall(r"^CREATE (.*?)INDEX (\w+) ON .*? USING (.*)$", definition)[0]
    return f"{name}  {kind}INDEX {rest.removeprefix('btree ')}"

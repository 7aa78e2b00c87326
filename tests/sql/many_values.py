"""Many rows of each table, with the longest JSON text that functions accept."""

from cluster import Connection
from psycopg import sql
from sql.long_json import Column, json_columns
from sql.planted_tenants import Planted

# Forty values of 2 MiB exceed the 64 MiB limit of a list; 40 steps stay below 32 MiB.
ROWS = 40

# Zeros with many decimals: 12 bytes each, and 16 KiB of text.
_ZEROS_IN_2_MIB = 127
_ZEROS = {
    Column("finished_jobs", "result"): 4 * _ZEROS_IN_2_MIB,
    Column("job_events", "data"): _ZEROS_IN_2_MIB // 8,
    Column("steps", "result"): _ZEROS_IN_2_MIB // 3,
}

# Values that distinguish the copies of a row, as expressions of the number n; `id` is a new one in
# most tables.
_KEYS = {
    "attempts": {"lease": "t.lease - n", "ended_at": "t.ended_at - n * interval '1 ms'"},
    "audit_log": {"id": "jobforge_private.uuid7()"},
    "connector_configs": {"id": "gen_random_uuid()", "name": "t.name || n"},
    "declared_triggers": {"name": "t.name || n"},
    "definitions": {"version": "t.version + n"},
    "events": {"id": "jobforge_private.nth_id(t.id, n)"},
    "finished_jobs": {"id": "jobforge_private.nth_id(t.id, n)"},
    "job_events": {"at": "t.at + n * interval '1 us'"},
    "jobs": {
        "id": "jobforge_private.nth_id(t.id, n)",
        "fingerprint": "case when t.fingerprint is not null then md5(n::text) end",
    },
    "operations": {"id": "jobforge_private.nth_id(t.id, n)"},
    "steps": {"index": "t.index + n"},
    "triggers": {
        "id": "jobforge_private.nth_id(t.id, n)",
        "declared": "case when t.declared is not null then t.declared || n end",
    },
    "waits": {"job_id": "gen_random_uuid()"},
    "webhook_deliveries": {"id": "jobforge_private.nth_id(t.id, n)"},
    "workflows": {"id": "jobforge_private.nth_id(t.id, n)"},
}


def plant_many_values(conn: Connection, of: Planted) -> None:
    """Set each JSON column to a long value that is permitted, then copy the tenant's rows."""
    columns = json_columns(conn)
    tables = {column.table for column in columns}
    assert tables == _KEYS.keys(), "add the columns that distinguish the copies of a row"
    with conn.transaction():
        conn.execute("set local session_replication_role = replica")
        for column in columns:
            _lengthen(conn, column)
        conn.execute("update jobforge.steps set bytes = octet_length(result::text)")
        for table in sorted(tables):
            _copy_rows(conn, table, of)


def _lengthen(conn: Connection, column: Column) -> None:
    zeros = _ZEROS.get(column, _ZEROS_IN_2_MIB)
    conn.execute(
        sql.SQL(
            "update jobforge.{table} set {column} = case"
            " when jsonb_typeof({column}) = 'object'"
            " then {column} || jsonb_build_object('x', v.value)"
            " when jsonb_typeof({column}) = 'array' then {column} || jsonb_build_array(v.value)"
            " else v.value end"
            " from (select jsonb_agg(0e-16383) as value from generate_series(1, {zeros})) as v"
            " where {column} is not null"
        ).format(
            table=sql.Identifier(column.table), column=sql.Identifier(column.name), zeros=zeros
        )
    )


def _copy_rows(conn: Connection, table: str, of: Planted) -> None:
    keys = _KEYS[table]
    has_tenant = table not in {"definitions", "declared_triggers"}
    conn.execute(
        sql.SQL(
            "insert into jobforge.{table} select r.*"
            "  from jobforge.{table} as t"
            " cross join generate_series(1, {rows}) as n"
            " cross join lateral jsonb_populate_record(t, jsonb_build_object({keys})) as r"
            " where {condition} on conflict do nothing"
        ).format(
            table=sql.Identifier(table),
            keys=sql.SQL(", ").join(
                sql.SQL("{}, {}").format(sql.Literal(name), sql.SQL(expression))
                for name, expression in keys.items()
            ),
            condition=sql.SQL("t.tenant_id = {}").format(of.tenant)
            if has_tenant
            else sql.SQL("true"),
            rows=ROWS,
        )
    )

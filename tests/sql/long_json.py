"""JSON that is short as jsonb and very long as text, in every position of every public function."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

import psycopg
from cluster import Connection
from psycopg import sql
from sql.attack_arguments import Arguments, Function, Parameter, Value, own_argument
from sql.engine import Json, call
from sql.planted_tenants import Planted

MARK = "<here>"
TENANT_C = UUID("cccccccc-0000-4000-8000-000000000001")
ROLES = ("jobforge_client", "jobforge_worker", "jobforge_admin", "jobforge_server")

# An object of 81 kB, and of more than 1 GB as text.
LONG = '{"x": [' + ",".join(["1e131071"] * 9000) + "]}"

# The JSON texts that replace a value. The second takes 3 kB as jsonb and 39 MB as text.
POISONS = {
    "one long number": "1e131071",
    "many long numbers": "[" + ",".join(["1e131071"] * 300) + "]",
    "many zeros with long fractions": "[" + ",".join(["0e-16383"] * 300) + "]",
    "a negative long number": '{"x": {"y": [-1e4000]}}',
    "300 levels": "[" * 300 + "]" * 300,
}

_JOB = {"definition": "planted", "payload": {"x": 1}, "tags": ["t"], "priority": 1, "delay_s": 1}
_NODE = {"name": "new", "definition": "planted", "payload": {"x": 1}}
_HOOKS = {"on_success": {"definition": "planted", "payload": {"x": 1}}}
_SCHEDULE = {"label": "one", "definition": "planted", "cron": "@daily", "payload": {"x": 1}}
_FILTER = {"state": "dead", "queue": "q", "tag": "t", "created_after": "2026-01-01T00:00:00Z"}


@dataclass(frozen=True, slots=True)
class Column:
    table: str
    name: str

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


def long_arguments(function: Function, a: Planted, b: Planted) -> Iterator[tuple[str, Arguments]]:
    """Return calls that are valid except for one value in a JSON argument."""
    own: Arguments = {
        parameter.name: "{}" if _is_json(parameter) else own_argument(function, parameter, a, b)
        for parameter in function.parameters
    }
    for parameter in filter(_is_json, function.parameters):
        for document in _documents(function, parameter, a):
            for place in ["$", *_places(document)]:
                for name, poison in POISONS.items():
                    text = _as_text(parameter, _put(document, place), poison)
                    what = f"{function.name}({parameter.name}), {name} at {place}"
                    yield what, own | {parameter.name: text}


def valid_calls(function: Function, a: Planted, b: Planted) -> Iterator[tuple[str, Arguments]]:
    """Return valid calls for tenant a: with jobs in several states, and with JSON documents."""
    own: Arguments = {
        parameter.name: "{}" if _is_json(parameter) else own_argument(function, parameter, a, b)
        for parameter in function.parameters
    }
    documents: list[tuple[str, Value]] = [
        (parameter.name, _as_text(parameter, document))
        for parameter in filter(_is_json, function.parameters)
        for document in _documents(function, parameter, a)
    ]
    # Filters and options may be empty; the other arguments are required.
    own |= dict(each for each in reversed(documents) if each[0] not in {"p_filter", "p_options"})
    yield function.name, own
    if function.takes("p_job_id"):
        for state in ("dead", "running", "succeeded", "waiting"):
            yield f"{function.name} of a {state} job", own | {"p_job_id": str(a.jobs[state])}
    for number, (name, document) in enumerate(documents):
        yield f"{function.name} with document {number}", own | {name: document}


def is_concerned(function: Function) -> bool:
    return any(map(_is_json, function.parameters))


def _as_text(parameter: Parameter, document: Json, poison: str = "") -> str:
    text = json.dumps(document).replace(f'"{MARK}"', poison)
    return '{"' + text.replace('"', '\\"') + '"}' if parameter.type == "jsonb[]" else text


def _is_json(parameter: Parameter) -> bool:
    return parameter.type in {"json", "jsonb", "json[]", "jsonb[]"}


def unbounded_columns(conn: Connection) -> list[str]:
    """Return the JSON columns of all tables that contain a value whose text is too long."""
    found = []
    for column in json_columns(conn):
        query = sql.SQL(
            "select 1 from jobforge.{} as t"
            " where not jobforge_private.is_bounded(t.{}, 16777216) limit 1"
        )
        table, name = sql.Identifier(column.table), sql.Identifier(column.name)
        if conn.execute(query.format(table, name)).fetchone():
            found.append(str(column))
    return found


def json_columns(conn: Connection) -> list[Column]:
    """Return all JSON columns of all tables."""
    rows = conn.execute(
        """
        select c.relname as table, a.attname as name
          from pg_attribute as a
          join pg_class as c on c.oid = a.attrelid
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
           and not c.relispartition and a.atttypid in ('json'::regtype, 'jsonb'::regtype)
         order by 1, 2
        """
    ).fetchall()
    return [Column(row["table"], row["name"]) for row in rows]


def plant_long_values(conn: Connection, column: Column, *, inside: bool = False) -> int:
    """Store a long value in all rows of the table, as a superuser can; return their number.

    If `inside`, it replaces each field of the objects that are stored there, else it is one more
    field. Rows that have null stay so unless all have it. Return 0 if Postgres cannot store the
    value, because a constraint of the table reads it as text.
    """
    value = sql.SQL(
        """case when {inside} and jsonb_typeof({column}) = 'object' and {column} <> '{{}}'
                then (select jsonb_object_agg(key, {long}) from jsonb_object_keys({column}) as key)
                when jsonb_typeof({column}) = 'object' then {column} || {long}
                when jsonb_typeof({column}) = 'array' then {column} || jsonb_build_array({long})
                else {long} end"""
    ).format(
        column=sql.Identifier(column.name), inside=inside, long=sql.SQL("{}::jsonb").format(LONG)
    )
    query = sql.SQL(
        """update jobforge.{table} set {column} = {value}
            where {column} is not null
               or not exists (select from jobforge.{table} where {column} is not null)"""
    ).format(table=sql.Identifier(column.table), column=sql.Identifier(column.name), value=value)
    try:
        with conn.transaction():
            conn.execute("set local session_replication_role = replica")
            planted = conn.execute(query).rowcount
            conn.execute("set local session_replication_role = origin")
    except psycopg.errors.ProgramLimitExceeded:
        return 0
    return planted


def fill_remaining_columns(conn: Connection) -> None:
    """Insert rows into the tables that planted_tenants.plant leaves empty, for tests of all
    columns.

    The rows are a schedule that code declares for all tenants, and the erasure of a third tenant.
    """
    schedule = {"label": "one", "definition": "planted", "cron": "@daily"}
    declared = [{"name": "planted", "type": "schedule", "tenant": "*", "settings": schedule}]
    call(conn, "declare_triggers", declared=declared, definitions=["planted"])
    call(conn, "put_tenant", tenant_id=TENANT_C, settings={"slug": "third", "name": "Third"})
    call(conn, "delete_tenant", tenant_id=TENANT_C)


def is_public(conn: Connection, function: Function) -> bool:
    """Return whether a login may call the function."""
    query = "select bool_or(has_function_privilege(r, %s, 'execute')) from unnest(%s::text[]) as r"
    row = conn.execute(query, [function.signature, list(ROLES)]).fetchone()
    return row is not None and bool(row["bool_or"])


def _documents(function: Function, parameter: Parameter, a: Planted) -> Iterator[Json]:
    """Return valid arguments for the function that together contain each of its fields."""
    token = a.token("running")
    delivery = {"trigger_id": str(a.things["listener"]), "outcome": "enqueued", "job": _JOB}
    firing = {"fire_at": "2026-01-01T00:00:00Z", "kind": "manual", "payload": {"x": 1}}
    by_name: dict[str, list[Json]] = {
        "p_payload": [{"x": 1}],
        "p_payloads": [[{"x": 1}, {"y": "1"}]],
        "p_data": [{"x": 1}],
        "p_options": [{"priority": 1, "tags": ["t"]}, {"key": "k"}, {"reason": "r"}],
        "p_filter": [_FILTER, {"name": "n", "after": "2026-01-01T00:00:00Z"}, {"type": "event"}],
        "p_outcomes": [
            [{**token, "outcome": "succeeded", "result": {"x": 1}}],
            [{**token, "outcome": "failed", "error": {"type": "t", "message": "m"}}],
            [{**token, "outcome": "failed", "error": "e", "reason": "r", "retry_in_s": 1}],
            [{**token, "outcome": "snoozed", "wait": {
                "kind": "event", "name": "n", "index": 0, "match": {"x": 1}}}],
        ],
        "p_outcome": [
            {"outcome": "succeeded", "result": {"x": 1}},
            {"outcome": "failed", "error": {"type": "t", "message": "m"}},
        ],
        "p_results": [{"x": 1}],
        "p_notes": [[{**token, "kind": "event", "data": {"x": 1}}]],
        "p_steps": [[{**token, "name": "s", "index": 7, "result": {"x": 1}}]],
        "p_workflow": [{"name": "n", "input": {"x": 1}, "nodes": [_NODE], **_HOOKS}],
        "p_batch": [{"name": "n", "input": {"x": 1}, **_HOOKS}],
        "p_nodes": [[_NODE]],
        "p_config": [{"name": "new", "connector": "http.request", "settings": {"url": "u"},
                      "secrets": {"token": {"from": "env:T"}}}],
        "p_overrides": [{"timeout_s": 1, "is_active": True}],
        "p_attempt": [{"status": 200, "error": "e", "response": "r"}],
        "p_deliveries": [[{"id": str(a.things["waiting_event"]), "deliveries": [delivery]}]],
        "p_plans": [[{"tenant_id": str(a.tenant), "id": str(a.things["schedule"]),
                      "updated_at": "2026-01-01T00:00:00Z", "firings": [firing]}]],
        "p_declared": [[{"name": "planted", "type": "schedule", "tenant": str(a.tenant),
                         "settings": _SCHEDULE}]],
    }  # fmt: skip
    by_function: dict[str, list[Json]] = {
        "annotate_failure": [{"note": "n", "snoozed_until": "2026-12-01T00:00:00Z"}],
        "create_trigger": [_SCHEDULE],
        "edit_job": [{"payload": {"x": 1}, "priority": 1}],
        "edit_trigger": [{"payload": {"x": 1}, "enabled": False}],
        "put_definition": [{"parameters": {"x": 1}, "description": "d", "timeout_s": 5}],
        "put_queue": [{"max_running": 1}],
        "put_tenant": [{"name": "n", "weight": 1}],
        "edit_webhook": [{"description": "d", "events": ["dead"]}],
        "create_webhook": [{"url": "https://example.com/", "description": "d"}],
        "heartbeat_jobs": [[token]],
        "release_jobs": [[token]],
    }
    if parameter.name in by_name:
        yield from by_name[parameter.name]
    elif function.name in by_function:
        yield from by_function[function.name]
    else:
        assert parameter.name == "p_jobs", f"{function.name} {parameter}: add a valid call"
        yield [_JOB]


def _places(value: Json, path: str = "$") -> Iterator[str]:
    members = (
        ((f".{key}", inner) for key, inner in value.items())
        if isinstance(value, dict)
        else ((f"[{index}]", inner) for index, inner in enumerate(value))
        if isinstance(value, list)
        else ()
    )
    for step, inner in members:
        yield path + step
        yield from _places(inner, path + step)


def _put(value: Json, place: str, path: str = "$") -> Json:
    """Return the value with the mark at this position."""
    if path == place:
        return MARK
    if isinstance(value, dict):
        return {key: _put(inner, place, f"{path}.{key}") for key, inner in value.items()}
    if isinstance(value, list):
        return [_put(inner, place, f"{path}[{index}]") for index, inner in enumerate(value)]
    return copy.copy(value)

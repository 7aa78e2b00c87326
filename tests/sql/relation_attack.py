"""The attack on tables, partitions, views and sequences: statements that bypass all functions."""

import json
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from attacks import Attempts
from cluster import Connection
from psycopg import sql
from sql.catalog_rules import INSTALLATION
from sql.planted_tenants import checksum_rows, find_changed_tables
from sql.tenancy_attack import DENIED, REFUSED, Answer, Attacker, Session, Tenancy, World

# Objects of the installation that no client may read.
HIDDEN = {
    "migrations",
    "workers",
    "rate_limits",
    "api_keys",
    "request_rates",
    "ended_sessions",
    "declared_triggers",
    "artifact_stores",
    "artifact_sweeps",
    "tenant_keys",
    "connector_configs",
    "webhook_endpoints",
    "statistics_position",
    "maintenance",
    "reaper",
    "bound_logins",
    "locks",
    "signing_key",
}

# "Wrong kind of relation" counts as "permission denied".
REFUSALS = {DENIED, "42809", "55000", "0A000"}

READS: dict[str, tuple[LiteralString, ...]] = {
    "rpvm": (
        "select * from {relation}",
        "select to_jsonb(r) from {relation} as r",
        "table {relation}",
    ),
    "rp": ("select tableoid::regclass, ctid, * from {relation} tablesample system (100)",),
    "S": ("select * from {relation}", "select pg_sequence_last_value({name}::regclass)"),
}
WRITES: dict[str, tuple[LiteralString, ...]] = {
    "rpvm": (
        "insert into {relation} default values",
        "insert into {relation} select * from {relation}",
        "update {relation} set {column} = {column}",
        "delete from {relation}",
        "select * from {relation} for update",
        "select * from {relation} for key share",
        "truncate {relation}",
        "truncate {relation} cascade",
        "lock table {relation} in row exclusive mode",
        "lock table {relation} in access exclusive mode",
        "copy {relation} from stdin",
        "alter table {relation} disable row level security",
        "alter table {relation} owner to current_user",
        "create policy mine on {relation} using (true)",
        "create rule mine as on insert to {relation} do also select 1",
        "create trigger mine before insert on {relation} execute function lo_manage()",
        "create index on {relation} ({column})",
        "drop table {relation}",
    ),
    "S": ("select nextval({name})", "select setval({name}, 1)"),
}


@dataclass(frozen=True, slots=True)
class Relation:
    name: str
    kind: str
    column: str
    is_partition: bool


def relations(conn: Connection) -> list[Relation]:
    rows = conn.execute(
        """
        select c.relname as name, c.relkind::text as kind, c.relispartition as is_partition,
               coalesce(a.attname, '') as column
          from pg_class as c left join pg_attribute as a on a.attrelid = c.oid and a.attnum = 1
         where c.relnamespace = 'jobforge'::regnamespace
           and c.relkind not in ('i', 'I', 'c', 't')
         order by c.relname
        """
    )
    return [Relation(**row) for row in rows]


def attack_relations(
    world: World, attacker: Attacker, among: str = "", count: Attempts = lambda _: None
) -> list[str]:
    """Try to read, copy, lock and change all relations, or only those with the given names."""
    before = checksum_rows(world.conn, apart_from=world.a.tenant)
    found: list[str] = []
    with world.session(attacker, count) as session:
        for relation in relations(world.conn):
            if among not in relation.name:
                continue
            for statement in _statements(READS, relation):
                found += _read(session, relation, statement)
            for statement in _statements(WRITES, relation):
                answer = session.run(statement, {}, keep=True)
                if answer.code not in REFUSALS:
                    found.append(f"{_text(statement)} is not refused: {answer}")
            if relation.kind in "rpvm":
                copy = sql.SQL("copy (table {}) to stdout").format(_identifier(relation))
                found += _judged(session, relation, copy, _copied(session, copy))
    touched = find_changed_tables(before, checksum_rows(world.conn, apart_from=world.a.tenant))
    return found + [f"{table} of others changed or were locked" for table in touched]


def _read(session: Session, relation: Relation, statement: sql.Composed) -> list[str]:
    return _judged(session, relation, statement, session.run(statement, {}))


def _judged(
    session: Session, relation: Relation, statement: sql.Composed, answer: Answer
) -> list[str]:
    prefix = f"{_text(statement)} answered {answer.code} {answer.text[:300]}"
    if not _is_readable(session, relation):
        return [] if answer.code == DENIED else [f"{prefix} instead of a refusal"]
    leaked = session.world.b.found_in(answer.text)
    if leaked:
        return [f"{prefix}: reveals {sorted(leaked)}"]
    is_shared = relation.name in INSTALLATION and relation.name != "tenants"
    if session.attacker.tenancy is Tenancy.FORGED:
        is_refused = is_shared or answer.code == REFUSED
        return [] if is_refused else [f"{prefix} instead of a refusal"]
    if session.attacker.tenancy in (Tenancy.OWN, Tenancy.BOUND):
        # The attack proves nothing if the attacker sees no rows at all.
        own = session.world.a.found_in(answer.text)
        return [] if own or is_shared else [f"{prefix}: a tenant does not see its own rows"]
    return [] if is_shared or answer.text in ("[]", "") else [f"{prefix}: rows without a tenant"]


def _is_readable(session: Session, relation: Relation) -> bool:
    is_client = session.attacker.kind in ("client_login", "service_login")
    return is_client and not relation.is_partition and relation.name not in HIDDEN


def _copied(session: Session, statement: sql.Composed) -> Answer:
    try:
        with session.transaction() as conn, conn.cursor().copy(statement) as copy:
            return Answer(None, "".join(bytes(line).decode() for line in copy))
    except psycopg.Error as error:
        return Answer(error.sqlstate, json.dumps(error.diag.message_primary))


def _statements(
    templates: dict[str, tuple[LiteralString, ...]], relation: Relation
) -> list[sql.Composed]:
    matching = [
        text for kinds, texts in templates.items() if relation.kind in kinds for text in texts
    ]
    assert matching, f"there is no statement for relations of kind {relation.kind!r} in {__name__}"
    return [
        sql.SQL(text).format(
            relation=_identifier(relation),
            name=sql.Literal(f"jobforge.{relation.name}"),
            column=sql.Identifier(relation.column),
        )
        for text in matching
    ]


def _identifier(relation: Relation) -> sql.Identifier:
    return sql.Identifier("jobforge", relation.name)


def _text(statement: sql.Composed) -> str:
    return statement.as_string(None)

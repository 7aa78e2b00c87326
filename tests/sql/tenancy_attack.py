"""The attack on tenancy: every login that could try uses every object of the schema.

No statement of an attacker may read or change data of the victim (tenant b), or distinguish it from
data that does not exist. An attack returns its findings: a list of sentences, empty when the
tenants are isolated.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Self
from uuid import UUID

import psycopg
from attacks import Attempts
from cluster import Connection, Database, connect_to
from psycopg import sql
from sql.attack_arguments import (
    Arguments,
    Function,
    foreign_arguments,
    functions,
    masked,
    other_arguments,
    with_unused_values,
)
from sql.engine import TENANT_A, TENANT_B, call, qualified
from sql.planted_tenants import Planted, checksum_rows, find_changed_tables, plant

DENIED = "42501"
REFUSED = "JF006"

# Checking all tables takes longer than ten calls; a finding names at most this many functions.
_LOOKED_AT_ONCE = 20

# Workers serve all tenants, unless app.tenant_id confines them. These functions then act for that
# tenant only; the others act on the installation for every caller.
CONFINED = {
    "advance_operations",
    "claim_jobs",
    "claim_readable_jobs",
    "complete_job",
    "complete_jobs",
    "count_states",
    "declare_triggers",
    "due_schedules",
    "record_firings",
    "add_workflow_jobs",
    "enqueue_children",
    "load_parents",
    "load_steps",
    "save_steps",
    "succeed_jobs",
    "unused_artifacts",
    "next_erasure",
    "confirm_erasure",
    "find_tenant",
    "find_worker",
    "keep_tenant_key",
    "open_connector_config",
    "get_job",
    "list_jobs",
    "heartbeat_job",
    "heartbeat_jobs",
    "note_jobs",
    "open_delivery",
    "emit_event",
    "pending_events",
    "record_deliveries",
    "reap_jobs",
    "record_delivery",
    "release_jobs",
}
# Their p_tenant_id is a part of the proof that a worker holds a job. A foreign value gives the same
# answer as a lost lease.
OF_TOKENS = {
    "add_workflow_jobs",
    "complete_job",
    "enqueue_children",
    "heartbeat_job",
    "load_parents",
    "load_steps",
    "save_steps",
}
INSTALLATION_WIDE = {
    "free_blocked_jobs": "frees waiting jobs that wait for nothing",
    "regate_jobs": "re-marks waiting jobs after limits changed",
    "access_faults": "rights of the schema, as the catalogue has them",
    "apply_retention": "maintenance of the tables",
    "ensure_partitions": "maintenance of the tables",
    "roll_up_statistics": "adds up what has ended, of all tenants",
    "start_maintenance": "one task for all tenants",
    "start_artifact_sweep": "one sweep for all artifacts",
    "record_artifact_store": "stores belong to the installation",
    "list_artifact_stores": "stores belong to the installation",
    "put_definition": "definitions belong to the installation",
    "register_worker": "workers belong to the installation",
    "unregister_worker": "workers belong to the installation",
}
# Tables of the installation to which a login of jobforge_service may add a row.
RECORDED = {
    "artifact_stores": "which store the app uses; it names no tenant",
    "locks": "claims lock rows that stand for limits of the installation, and change none",
}
# The server acts for all tenants. For one tenant it sets app.tenant_id, which every function that
# takes a tenant then obeys, except for these functions: the server calls them for operators only.
OF_OPERATORS = {"put_tenant", "delete_tenant", "pause_tenant", "resume_tenant"}


class Tenancy(StrEnum):
    """The state of app.tenant_id on the attacker's connection."""

    OWN = "own"  # set to tenant a
    NEVER = "never set"
    EARLIER = "set earlier"  # set to the victim by a transaction that has ended: now ''
    BOUND = "bound"  # the login is bound to tenant a; app.tenant_id is not set
    FORGED = "set to the victim"  # set, while the login is bound to tenant a


@dataclass(frozen=True, slots=True)
class Attacker:
    login: str
    tenancy: Tenancy

    def __str__(self) -> str:
        return f"{self.login} ({self.tenancy})"

    @property
    def kind(self) -> str:
        """The unbound login with the same roles."""
        return self.login.removeprefix("bound_")

    @property
    def has_tenant(self) -> bool:
        return self.tenancy in (Tenancy.OWN, Tenancy.BOUND, Tenancy.FORGED)


ATTACKERS = [
    Attacker("client_login", Tenancy.OWN),
    Attacker("client_login", Tenancy.NEVER),
    Attacker("client_login", Tenancy.EARLIER),
    Attacker("service_login", Tenancy.OWN),
    Attacker("service_login", Tenancy.NEVER),
    Attacker("service_login", Tenancy.EARLIER),
    Attacker("worker_login", Tenancy.OWN),
    Attacker("worker_login", Tenancy.NEVER),
    Attacker("server_login", Tenancy.OWN),
    Attacker("outsider_login", Tenancy.NEVER),
    Attacker("bound_client_login", Tenancy.BOUND),
    Attacker("bound_client_login", Tenancy.FORGED),
    Attacker("bound_service_login", Tenancy.BOUND),
    Attacker("bound_service_login", Tenancy.FORGED),
    Attacker("bound_worker_login", Tenancy.BOUND),
    Attacker("bound_worker_login", Tenancy.FORGED),
]
BOUND_LOGINS = sorted({each.login for each in ATTACKERS if each.tenancy is Tenancy.BOUND})


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a statement: a SQLSTATE, or None and the rows."""

    code: str | None
    text: str


@dataclass(frozen=True, slots=True)
class World:
    """A database with the attacker's tenant and the victim's in it."""

    database: Database
    conn: Connection
    a: Planted
    b: Planted

    @classmethod
    def make(cls, database: Database, conn: Connection) -> Self:
        conn.execute(
            """
            do $$ begin create role outsider_login login;
            exception when duplicate_object or unique_violation then null; end $$
            """
        )
        for login in BOUND_LOGINS:
            call(conn, "bind_login", login=login, tenants=[TENANT_A])
        return cls(
            database, conn, plant(conn, TENANT_A, "amberword"), plant(conn, TENANT_B, "birchword")
        )

    @contextmanager
    def session(self, attacker: Attacker, count: Attempts = lambda _: None) -> Iterator["Session"]:
        with connect_to(self.database.url_as(attacker.login)) as conn:
            if attacker.tenancy is Tenancy.EARLIER:
                with conn.transaction():
                    _set_tenant(conn, self.b.tenant)
            yield Session(conn, attacker, self, self._executable(attacker), count)

    def _executable(self, attacker: "Attacker") -> frozenset[str]:
        """Return the signatures of all functions that the attacker may execute."""
        rows = self.conn.execute(
            "select p.oid::regprocedure::text as signature from pg_proc as p "
            "where p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[]) "
            "  and has_schema_privilege(%(login)s, p.pronamespace, 'usage') "
            "  and has_function_privilege(%(login)s, p.oid, 'execute')",
            {"login": attacker.login},
        )
        return frozenset(row["signature"] for row in rows)


@dataclass(frozen=True, slots=True)
class Session:
    """The attacker's connection."""

    conn: Connection
    attacker: Attacker
    world: World
    executable: frozenset[str]
    count: Attempts = lambda _: None  # called with each statement that is tried

    @contextmanager
    def transaction(self, *, keep: bool = False) -> Iterator[Connection]:
        """Open a transaction with the attacker's tenant set, and roll it back unless `keep`
        is set."""
        with self.conn.transaction(force_rollback=not keep):
            if self.attacker.tenancy is Tenancy.OWN:
                _set_tenant(self.conn, self.world.a.tenant)
            elif self.attacker.tenancy is Tenancy.FORGED:
                _set_tenant(self.conn, self.world.b.tenant)
            yield self.conn

    def run(self, query: sql.Composed, values: Arguments, *, keep: bool = False) -> Answer:
        """Run one statement in a separate transaction."""
        self.count(1)
        try:
            with self.transaction(keep=keep) as conn:
                cursor = conn.execute(query, list(values.values()))
                rows = cursor.fetchall() if cursor.description else []
                return Answer(None, json.dumps(rows, default=str))
        except psycopg.Error as error:
            message = (
                error.diag.message_primary,
                error.diag.message_detail,
                error.diag.message_hint,
            )
            return Answer(error.sqlstate, json.dumps(message))

    def may_execute(self, function: Function) -> bool:
        return function.signature in self.executable


def attack_functions(world: World, attacker: Attacker, count: Attempts) -> list[str]:
    """Call every function with all objects of the victim that its parameters can carry."""
    targets = functions(world.conn)
    with world.session(attacker, count) as session:
        found = [finding for function in targets for finding in _answers(session, function)]
        # Repeat the calls and commit them: a change then persists. Refused calls change nothing.
        open_ones = [function for function in targets if session.may_execute(function)]
        before = checksum_rows(world.conn, apart_from=world.a.tenant)
        for start in range(0, len(open_ones), _LOOKED_AT_ONCE):
            some = open_ones[start : start + _LOOKED_AT_ONCE]
            for function in some:
                for arguments in _attempts(session, function):
                    session.run(_call(function), arguments, keep=True)
            after = checksum_rows(world.conn, apart_from=world.a.tenant)
            names = " or ".join(function.name for function in some)
            found += [
                f"{names} changed or locked {table} of others"
                for table in find_changed_tables(before, after)
                if table not in RECORDED
            ]
            before = after
    return found


def attack_function(world: World, attacker: Attacker, name: str) -> list[str]:
    """Check the answers of one function, and roll everything back."""
    [target] = [function for function in functions(world.conn) if function.name == name]
    with world.session(attacker) as session:
        return _answers(session, target)


def _answers(session: Session, function: Function) -> list[str]:
    """Return what is wrong with the answers; roll back, so that each call finds the same rows."""
    return [
        finding
        for arguments in _attempts(session, function)
        for finding in _judged(session, function, arguments)
    ]


def _attempts(session: Session, function: Function) -> list[Arguments]:
    if not session.may_execute(function):
        return [{parameter.name: None for parameter in function.parameters}]
    if session.attacker.kind == "worker_login" and not _is_confined(session, function):
        return []
    if session.attacker.login == "server_login" and not _is_for_a_tenant(function):
        return []
    a, b = session.world.a, session.world.b
    attempts = [*other_arguments(function, a, b), *foreign_arguments(function, a, b)]
    return [arguments for arguments in attempts if not _is_trusted(session, arguments)]


def _is_confined(session: Session, function: Function) -> bool:
    assert (function.name in CONFINED) != (function.name in INSTALLATION_WIDE), (
        f"workers may call {function.signature}: add it to a list in {__name__}"
    )
    return function.name in CONFINED and session.attacker.has_tenant


def _is_for_a_tenant(function: Function) -> bool:
    takes_tenant = function.takes("p_tenant_id") and function.name not in OF_OPERATORS
    return takes_tenant or function.name in CONFINED


def _judged(session: Session, function: Function, arguments: Arguments) -> list[str]:
    b = session.world.b
    unused = with_unused_values(arguments, b)
    expected = session.run(_call(function), unused)
    answer = session.run(_call(function), arguments)

    prefix = f"{function.name}({_shown(arguments)}) answered {answer.code} {answer.text[:300]}"
    revealed = b.found_in(answer.text) - b.found_in(json.dumps(arguments))
    found = [f"{prefix}: reveals {sorted(revealed)}"] if revealed else []
    if unused != arguments and _masked(expected, b) != _masked(answer, b):
        found.append(
            f"{prefix}; for values that do not exist: {expected.code} {expected.text[:300]}"
        )
    if answer.code is not None and answer.code != DENIED and not answer.code.startswith("JF"):
        found.append(f"{prefix}: an error that is not JobForge's")
    due = _due_code(session, function, arguments)
    if due is not None and answer.code != due:
        found.append(f"{prefix} instead of {due}")
    return found


def _is_trusted(session: Session, arguments: Arguments) -> bool:
    """A trusted back end without a setting acts for the tenant that it names: naming b is no
    attack.
    """
    is_service = session.attacker.kind == "service_login"
    b = session.world.b
    names_b = arguments.get("p_tenant_id") == str(b.tenant) or arguments.get("p_slug") == b.word
    return is_service and not session.attacker.has_tenant and names_b


def _due_code(session: Session, function: Function, arguments: Arguments) -> str | None:
    """Return the required error code, where the tenancy rules alone determine it."""
    if not session.may_execute(function):
        return DENIED
    if not function.takes("p_tenant_id") or function.name in OF_TOKENS:
        return None
    named = arguments["p_tenant_id"]
    is_service = session.attacker.kind == "service_login"
    if not session.attacker.has_tenant and (named is None or not is_service):
        return "JF001"
    if session.attacker.tenancy is Tenancy.FORGED or named == str(session.world.b.tenant):
        return REFUSED
    if function.name in CONFINED:
        return None
    b = session.world.b
    foreign = {str(b.operation), str(b.key), *map(str, (*b.jobs.values(), *b.things.values()))}
    is_foreign = foreign & {arguments.get(name) for name in ("p_job_id", "p_id", "p_delivery_id")}
    return "JF004" if is_foreign else None


def _masked(answer: Answer, b: Planted) -> tuple[str | None, str]:
    return answer.code, masked(answer.text, b)


def _call(function: Function) -> sql.Composed:
    given = sql.SQL(", ").join(
        sql.SQL("{} => {}::{}").format(
            sql.Identifier(parameter.name), sql.Placeholder(), sql.SQL(parameter.type)
        )
        for parameter in function.parameters
    )
    return sql.SQL("select * from {}({})").format(qualified(function.qualified), given)


def _shown(arguments: Arguments) -> str:
    return ", ".join(f"{name} => {value}" for name, value in arguments.items())


def _set_tenant(conn: Connection, tenant: UUID) -> None:
    conn.execute("select set_config('app.tenant_id', %s, true)", [str(tenant)])

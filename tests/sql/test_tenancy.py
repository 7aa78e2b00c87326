"""No tenant can read, change or detect data of another: every object, with every login."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from uuid import UUID

import pytest
from attacks import Attempts
from cluster import Connect, Connection, Database, connect_to, fresh_database
from psycopg import sql
from sql.engine import (
    TENANT_A,
    TENANT_B,
    as_tenant,
    call,
    call_for_value,
    claim,
    complete,
    enqueue,
    enqueue_one,
    new_worker,
    refused,
)
from sql.relation_attack import HIDDEN, attack_relations, relations
from sql.tenancy_attack import (
    ATTACKERS,
    BOUND_LOGINS,
    DENIED,
    Attacker,
    Tenancy,
    World,
    attack_function,
    attack_functions,
)

from jobforge.embedded import PostgresServer

CLIENT = Attacker("client_login", Tenancy.OWN)
NOBODYS = Attacker("client_login", Tenancy.NEVER)
WORKER = Attacker("worker_login", Tenancy.OWN)
SERVICE = Attacker("service_login", Tenancy.OWN)
SERVER = Attacker("server_login", Tenancy.OWN)
BOUND_WORKER = Attacker("bound_worker_login", Tenancy.BOUND)
FORGED = Attacker("bound_client_login", Tenancy.FORGED)

INVALID_TEXT = "22P02"

each_attacker = pytest.mark.parametrize("attacker", ATTACKERS, ids=str)
# For functions, a tenant that was set by an earlier transaction is none: one such attacker
# suffices.
each_caller = pytest.mark.parametrize(
    "attacker",
    [
        each
        for each in ATTACKERS
        if each.tenancy is not Tenancy.EARLIER or each.login == "client_login"
    ],
    ids=str,
)


@pytest.fixture
def world(database: Database, conn: Connection) -> World:
    return World.make(database, conn)


@pytest.fixture(scope="module")
def shared_world(server: PostgresServer) -> Iterator[World]:
    """One world for attempts that change nothing unless they succeed."""
    with fresh_database(server) as database, closing(connect_to(database.url)) as conn:
        yield World.make(database, conn)


@pytest.mark.attack("tables and views, by another tenant")
@each_attacker
def test_no_relation_leaks_another_tenant(
    shared_world: World, attacker: Attacker, attempts: Attempts
) -> None:
    assert attack_relations(shared_world, attacker, count=attempts) == []


@pytest.mark.attack("SQL functions, by another tenant")
@each_caller
def test_no_function_leaks_another_tenant(
    world: World, attacker: Attacker, attempts: Attempts
) -> None:
    assert attack_functions(world, attacker, attempts) == []


@pytest.mark.parametrize(
    ("relation", "breach", "finding"),
    [
        ("jobs", "alter table jobforge.jobs disable row level security", "reveals"),
        ("attempts", "alter policy client_reads on jobforge.attempts using (true)", "reveals"),
        ("jobs", "drop policy client_reads on jobforge.jobs", "does not see its own rows"),
        ("all_jobs", "alter view jobforge.all_jobs set (security_invoker = false)", "reveals"),
        (
            "attempts_default",
            "grant select on jobforge.attempts_default to jobforge_client",
            "instead of a refusal",
        ),
        ("workers", "grant select on jobforge.workers to public", "instead of a refusal"),
        (
            "jobs",
            "grant insert, update, delete on jobforge.jobs to jobforge_client",
            "is not refused",
        ),
        (
            "job_events",
            "grant truncate on jobforge.job_events to jobforge_client",
            "is not refused",
        ),
        (
            "numbers",
            "create sequence jobforge.numbers; grant all on jobforge.numbers to jobforge_client",
            "is not refused",
        ),
    ],
)
def test_the_attack_detects_an_unprotected_relation(
    world: World, relation: str, breach: str, finding: str
) -> None:
    world.conn.execute(breach.encode())
    found = attack_relations(world, CLIENT, among=relation)
    assert any(finding in sentence for sentence in found), found


@dataclass(frozen=True, slots=True)
class MissingCheck:
    """A comparison that is removed from a function, and the attackers that then find a leak."""

    function: str
    comparison: str
    written: str
    attacker: Attacker = CLIENT
    through: str | None = None
    also: tuple["MissingCheck", ...] = ()  # that make the same comparison a second time


_SETTLES = (
    MissingCheck("settle_finished_jobs", "o.tenant_id = v_tenant", "true"),
    MissingCheck("settle_unfinished_jobs", "o.tenant_id = v_tenant", "true"),
)

MISSING_CHECKS = [
    MissingCheck("get_job", "a.tenant_id = v_tenant and ", ""),
    MissingCheck("explain_job", "a.tenant_id = v_tenant and ", ""),
    MissingCheck("cancel_job", "j.tenant_id = v_tenant and ", ""),
    MissingCheck("edit_job", "j.tenant_id = v_tenant and ", ""),
    MissingCheck(
        "retry_finished_job",
        "f.tenant_id = p_tenant_id and f.id = p_job_id;",
        "f.id = p_job_id;",
        through="retry_job",
    ),
    MissingCheck("summarize", "j.tenant_id = v_tenant", "true"),
    MissingCheck("matching_jobs", "j.tenant_id = p_tenant_id and ", "", through="retry_jobs"),
    MissingCheck("refuse_job_action", "a.tenant_id = p_tenant_id and ", "", through="cancel_job"),
    MissingCheck("resolve_tenant", "p_tenant_id = v_setting", "true", through="list_jobs"),
    MissingCheck("resolve_tenant", "pg_has_role(", "true or pg_has_role(", NOBODYS, "enqueue_job"),
    MissingCheck("claimable_tenants", "v_tenant is null", "true", WORKER, through="claim_jobs"),
    MissingCheck("tenant", "v_bound is null", "true", BOUND_WORKER, through="claim_jobs"),
    MissingCheck("resolve_tenant", "v_bound is not null and", "false and", FORGED, "list_jobs"),
    MissingCheck(
        "settle_free_jobs", "g.tenant_id = v_tenant", "true", WORKER, "complete_jobs", _SETTLES
    ),
    MissingCheck(
        "settle_free_jobs", "g.tenant_id = v_tenant", "true", WORKER, "succeed_jobs", _SETTLES
    ),
    MissingCheck("complete_jobs", "h.tenant_id = v_tenant", "true", WORKER),
    MissingCheck(
        "lock_expired_rows", "j.tenant_id = v_tenant", "true", WORKER, through="reap_jobs"
    ),
    MissingCheck("heartbeat_jobs", "j.tenant_id = v_tenant", "true", WORKER),
    MissingCheck("note_jobs", "j.tenant_id = v_tenant", "true", WORKER),
    MissingCheck("list_notes", "n.tenant_id = v_tenant and ", ""),
    MissingCheck("list_notes", "a.tenant_id = v_tenant and ", ""),
    MissingCheck("list_steps", "a.tenant_id = v_tenant and ", ""),
    MissingCheck("save_steps", "j.tenant_id = v_tenant", "true", WORKER),
    MissingCheck("load_steps", "coalesce(v_tenant, j.tenant_id)", "j.tenant_id", WORKER),
    MissingCheck("find_tenant", "t.id = v_tenant", "true", WORKER),
    MissingCheck("read_stream", "h.tenant_id = v_tenant", "true", SERVER),
    MissingCheck("find_tenant", "t.id = v_tenant", "true", SERVICE),
    MissingCheck("get_operation", "o.tenant_id = v_tenant and ", ""),
    MissingCheck("list_operations", "o.tenant_id = v_tenant", "true"),
    MissingCheck("cancel_operation", "o.tenant_id = v_tenant and ", ""),
    MissingCheck("find_operation_jobs", "j.tenant_id = p_tenant_id and ", "", through="count_jobs"),
    MissingCheck("annotate_failure", "j.tenant_id = v_tenant and ", ""),
    MissingCheck("tenant_queue_depths", "w.tenant_id = p_tenant_id", "true", through="list_queues"),
    MissingCheck("get_connector_config", "c.tenant_id = v_tenant and ", ""),
    MissingCheck("edit_connector_config", "c.tenant_id = v_tenant and ", ""),
    MissingCheck("delete_connector_config", "c.tenant_id = v_tenant and ", ""),
    MissingCheck("list_connector_configs", "c.tenant_id = v_tenant", "true"),
    MissingCheck("open_connector_config", "c.tenant_id = v_tenant and ", "", WORKER),
    MissingCheck("keep_tenant_key", "k.tenant_id = v_tenant", "true", WORKER),
    MissingCheck("list_tenant_keys", "k.tenant_id = v_tenant", "true", SERVER),
    MissingCheck("get_webhook", "w.tenant_id = v_tenant and ", ""),
    MissingCheck("list_webhooks", "w.tenant_id = v_tenant", "true"),
    MissingCheck("lock_webhook", "w.tenant_id = p_tenant_id and ", "", through="edit_webhook"),
    MissingCheck("open_delivery", "w.tenant_id = v_tenant and ", "", WORKER),
    MissingCheck("list_audit", "a.tenant_id = v_tenant", "true"),
    MissingCheck("list_api_keys", "k.tenant_id = v_tenant", "true", SERVER),
    MissingCheck("lock_api_key", "k.tenant_id = p_tenant_id", "true", SERVER, "revoke_api_key"),
]


@pytest.mark.parametrize(
    "missing", MISSING_CHECKS, ids=lambda f: f"{f.function}: {f.comparison} by {f.attacker}"
)
def test_the_attack_detects_a_missing_comparison(
    shared_world: World, missing: MissingCheck
) -> None:
    with ExitStack() as rewritten:
        for each in (missing, *missing.also):
            rewritten.enter_context(_rewritten(shared_world.conn, each))
        found = attack_function(shared_world, missing.attacker, missing.through or missing.function)
    assert found != []


def test_a_function_granted_to_clients_needs_a_generator(world: World) -> None:
    world.conn.execute("grant usage on schema jobforge_private to jobforge_client")
    world.conn.execute("grant execute on function jobforge_private.insert_jobs to jobforge_client")
    with pytest.raises(AssertionError, match="p_first_id uuid has no generator"):
        attack_function(world, CLIENT, "insert_jobs")


def test_a_function_granted_to_workers_must_be_listed_as_confined_or_not(world: World) -> None:
    world.conn.execute("grant usage on schema jobforge_private to jobforge_worker")
    world.conn.execute("grant execute on function jobforge_private.promote_jobs to jobforge_worker")
    with pytest.raises(AssertionError, match=r"workers may call .*: add it to a list"):
        attack_function(world, WORKER, "promote_jobs")


@pytest.mark.attack("tenancy")
def test_row_security_cannot_be_switched_off(shared_world: World, attempts: Attempts) -> None:
    for relation in relations(shared_world.conn):
        attempts(1)
        with (
            shared_world.session(CLIENT) as session,
            refused(DENIED),
            session.transaction() as conn,
        ):
            conn.execute("set local row_security = off")
            conn.execute(sql.SQL("table {}").format(sql.Identifier("jobforge", relation.name)))


@pytest.mark.attack("tenancy")
def test_a_leaky_function_in_a_filter_sees_only_own_rows(
    shared_world: World, attempts: Attempts
) -> None:
    notices: list[str] = []
    with shared_world.session(CLIENT) as session, session.transaction() as conn:
        conn.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        # So cheap that the planner would run it before any other condition, if it were allowed to.
        conn.execute(
            """
            create function pg_temp.leak(text) returns boolean language plpgsql cost 0.0000001
            as $$ begin raise notice '%', $1; return true; end $$
            """
        )
        for relation in relations(shared_world.conn):
            if relation.is_partition or relation.name in HIDDEN:
                continue
            query = sql.SQL("select from {} as r where pg_temp.leak(to_jsonb(r)::text)")
            conn.execute(query.format(sql.Identifier("jobforge", relation.name)))
            attempts(1)
    assert shared_world.a.found_in(" ".join(notices))
    assert shared_world.b.found_in(" ".join(notices)) == set()


@pytest.mark.attack("tenancy")
def test_the_catalog_reveals_nothing_about_rows(shared_world: World, attempts: Attempts) -> None:
    shared_world.conn.execute("analyze")
    with shared_world.session(CLIENT) as session:
        for view in ("pg_stats", "pg_stats_ext", "pg_stat_activity", "pg_settings", "pg_locks"):
            answer = session.run(sql.SQL("table {}").format(sql.Identifier(view)), {})
            attempts(1)
            assert answer.code is None
            assert shared_world.b.found_in(answer.text) == set()


ESCALATIONS = """
    set role jobforge_owner;
    set role jobforge_engine;
    set role jobforge_admin;
    set session authorization admin_login;
    grant jobforge_admin to current_user;
    create table jobforge.mine (id int);
    create function jobforge.mine() returns int language sql return 1;
    create or replace function jobforge.tenant() returns uuid language sql return null;
    alter function jobforge.tenant() owner to current_user;
    alter function jobforge.get_job security invoker;
    drop function jobforge_private.require_tenant;
    alter schema jobforge owner to current_user;
    alter role current_user bypassrls
"""


@pytest.mark.attack("tenancy")
@pytest.mark.parametrize(
    "login", ["client_login", "service_login", "worker_login", "server_login", *BOUND_LOGINS]
)
def test_no_login_can_raise_its_own_privileges(
    connect: Connect, login: str, attempts: Attempts
) -> None:
    conn = connect(login)
    for statement in ESCALATIONS.split(";"):
        with refused(DENIED):
            conn.execute(statement.encode())
        attempts(1)


@pytest.mark.attack("tenancy")
def test_a_setting_that_is_not_a_tenant_gives_no_access(
    shared_world: World, attempts: Attempts
) -> None:
    with shared_world.session(NOBODYS) as session:
        for setting in ("not-a-uuid", "*", "null"):
            for query in ("select * from jobforge.jobs", "select * from jobforge.list_jobs()"):
                with refused(INVALID_TEXT), session.transaction() as conn:
                    conn.execute("select set_config('app.tenant_id', %s, true)", [setting])
                    conn.execute(query.encode())
                attempts(1)


def test_the_same_key_works_in_both_tenants(conn: Connection, connect: Connect) -> None:
    client = connect("client_login")
    call(conn, "put_definition", key="test", version=1)
    answers = []
    for tenant in (TENANT_A, TENANT_B, TENANT_A):
        with as_tenant(client, tenant):
            [row] = call(client, "enqueue_job", definition="test", options={"key": "invoice-1"})
            answers.append(row)
    assert [row["status"] for row in answers] == ["created", "created", "existing"]
    assert answers[0]["job_id"] == answers[2]["job_id"] != answers[1]["job_id"]


@pytest.mark.attack("tenancy")
def test_a_duplicate_key_names_only_the_tenants_own_job(conn: Connection, connect: Connect) -> None:
    client = connect("client_login")
    call(conn, "put_definition", key="test", version=1)
    options = {"key": "invoice-1", "on_conflict": "raise"}
    made = []
    for tenant in (TENANT_B, TENANT_A):
        with as_tenant(client, tenant):
            made += call(client, "enqueue_job", definition="test", options=options)
    with refused("JF011", job_id=str(made[-1]["job_id"])), as_tenant(client, TENANT_A):
        call(client, "enqueue_job", definition="test", options=options)


@pytest.mark.attack("tenancy")
def test_a_worker_confined_to_a_tenant_claims_only_its_jobs(
    conn: Connection, connect: Connect
) -> None:
    call(conn, "put_definition", key="test", version=1)
    for tenant in (TENANT_B, TENANT_A, TENANT_B):
        enqueue(conn, tenant, 3)
    worker = connect("worker_login")
    with as_tenant(worker, TENANT_A):
        claimed = claim(worker, new_worker(), limit=100)
    assert {row["tenant_id"] for row in claimed} == {TENANT_A}
    assert len(claimed) == 3


@pytest.mark.attack("tenancy")
def test_a_worker_confined_to_a_tenant_may_not_name_another(connect: Connect) -> None:
    worker = connect("worker_login")
    with refused("JF006"), as_tenant(worker, TENANT_A):
        claim(worker, new_worker(), tenants=[TENANT_B])


def test_a_back_end_completes_a_job_in_the_transaction_of_its_work(
    conn: Connection, connect: Connect
) -> None:
    call(conn, "put_definition", key="test", version=1)
    job, worker = enqueue_one(conn), new_worker()
    [held] = claim(conn, worker)
    service = connect("service_login")
    with service.transaction():
        service.execute("create temporary table work as select 'done' as what")
        state = call_for_value(
            service,
            "complete_job",
            tenant_id=TENANT_A,
            job_id=job,
            worker_id=worker,
            lease=held["lease"],
        )
    assert state == "succeeded"
    with refused(DENIED):
        complete(connect("client_login"), worker, [held])


def test_a_back_end_and_a_worker_find_a_tenant_by_its_slug_and_a_client_does_not(
    conn: Connection, connect: Connect
) -> None:
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"slug": "acme"})
    for login in ("service_login", "worker_login", "admin_login"):
        assert call_for_value(connect(login), "find_tenant", slug="acme") == TENANT_A
    with refused(DENIED):
        call(connect("client_login"), "find_tenant", slug="acme")


def test_an_unknown_slug_is_not_found(conn: Connection) -> None:
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"slug": "acme"})
    for slug in ("ACME", "acm", "", None):
        with refused("JF004", slug=slug):
            call(conn, "find_tenant", slug=slug)


@pytest.mark.attack("tenancy")
def test_within_a_tenant_only_its_own_slug_is_found(conn: Connection, connect: Connect) -> None:
    for tenant, slug in ((TENANT_A, "acme"), (TENANT_B, "globex")):
        call(conn, "put_tenant", tenant_id=tenant, settings={"slug": slug})
    service = connect("service_login")
    with as_tenant(service, TENANT_A):
        assert call_for_value(service, "find_tenant", slug="acme") == TENANT_A
    with refused("JF004"), as_tenant(service, TENANT_A):
        call(service, "find_tenant", slug="globex")


@pytest.mark.attack("tenancy")
def test_notifications_contain_no_data_of_tenants(world: World, connect: Connect) -> None:
    """Any login may LISTEN to any channel whose name it guesses."""
    channels = {f"jobforge:{world.b.queue}", f"jobforge:worker:{world.b.worker}"}
    listener = connect("outsider_login")
    for channel in {*channels, "over"}:
        listener.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
    _act_noisily(world)
    world.conn.execute("notify over")
    heard = list(takewhile(lambda n: n.channel != "over", listener.notifies(timeout=30)))
    assert {notice.channel for notice in heard} == channels
    assert {notice.payload for notice in heard} == {""}


def _act_noisily(world: World) -> None:
    conn, b = world.conn, world.b
    enqueue(conn, b.tenant, definition="planted", queue=b.queue, priority=5)
    own: dict[str, UUID] = {"tenant_id": b.tenant}
    call(conn, "cancel_job", job_id=b.jobs["running"], **own)
    call(conn, "edit_job", job_id=b.jobs["scheduled"], changes={"run_at": None}, **own)
    call(conn, "retry_job", job_id=b.jobs["dead"], **own)
    call(conn, "cancel_jobs", filter={}, **own)
    call(conn, "register_worker", worker_id=b.worker, queues=[b.queue], slots=1)
    call(conn, "drain_worker", worker_id=b.worker)
    call(conn, "resume_queue", queue=b.queue)
    call(conn, "resume_tenant", tenant_id=b.tenant)


@contextmanager
def _rewritten(conn: Connection, missing: MissingCheck) -> Iterator[None]:
    [row] = conn.execute(
        "select pg_get_functiondef(p.oid) as text from pg_proc as p where p.proname = %s"
        " and p.pronamespace = any ('{jobforge,jobforge_private}'::regnamespace[])",
        [missing.function],
    ).fetchall()
    original = row["text"]
    assert missing.comparison in original, "the comparison has changed; update MISSING_CHECKS"
    conn.execute(original.replace(missing.comparison, missing.written).encode())
    try:
        yield
    finally:
        conn.execute(original.encode())

"""A login that is bound to tenants acts for no other tenant, whatever it sets or names."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import UUID, uuid4

import psycopg
import pytest
from attacks import Attempts
from cluster import Connect, Connection, wait_until
from sql.engine import (
    TENANT_A,
    TENANT_B,
    as_tenant,
    call,
    call_for_value,
    claim,
    definition,
    enqueue,
    enqueue_one,
    heartbeat,
    new_worker,
    refused,
    state_of,
    succeed,
)

TENANT_C = UUID("cccccccc-0000-4000-8000-000000000003")
CLIENT, SERVICE, WORKER = "bound_client_login", "bound_service_login", "bound_worker_login"

attack = pytest.mark.attack("tenancy")


@pytest.fixture(autouse=True)
def jobs_of_both_tenants(conn: Connection) -> None:
    definition(conn)
    for tenant, slug in ((TENANT_A, "acme"), (TENANT_B, "globex"), (TENANT_C, "initech")):
        call(conn, "put_tenant", tenant_id=tenant, settings={"slug": slug})
        enqueue_one(conn, tenant, payload={"of": slug})


def bind(conn: Connection, login: str, *tenants: UUID) -> None:
    call(conn, "bind_login", login=login, tenants=list(tenants))


def tenants_seen(conn: Connection) -> set[UUID]:
    return {row["tenant_id"] for row in conn.execute("select tenant_id from jobforge.jobs")}


def listed(conn: Connection) -> dict[str, list[str]]:
    return {row["login"]: row["slugs"] for row in call(conn, "list_bound_logins")}


def fault(conn: Connection) -> str | None:
    [row] = call(conn, "list_bound_logins")
    assert row["fault"] is None or isinstance(row["fault"], str)
    return row["fault"]


@contextmanager
def role(conn: Connection, definition: str) -> Iterator[str]:
    """Create a separate login: roles belong to the cluster, which tests share."""
    name = f"login_{uuid4().hex[:16]}"
    conn.execute(f"create role {name} login {definition}".encode())
    try:
        yield name
    finally:
        conn.execute(f"drop role if exists {name}".encode())


def test_the_only_tenant_of_a_login_is_implied(conn: Connection, connect: Connect) -> None:
    bind(conn, CLIENT, TENANT_A)
    client = connect(CLIENT)
    [made] = call(client, "enqueue_job", definition="test")
    assert state_of(conn, TENANT_A, made["job_id"]) == "queued"
    assert tenants_seen(client) == {TENANT_A}
    with as_tenant(client, TENANT_A):
        assert len(call(client, "list_jobs")) == 2


SETTERS = (
    "select set_config('app.tenant_id', '{b}', false)",
    "select set_config('app.tenant_id', '{b}', true)",
    "set app.tenant_id = '{b}'",
    "set local app.tenant_id = '{b}'",
    """
    select set_config('request.jwt.claims', '{{"tenant_id": "{b}"}}', true),
           jobforge.pre_request()
    """,
)
BECOMING = (
    "set role jobforge_client",
    "set role jobforge_service",
    "set local role jobforge_client",
    "select set_config('role', 'jobforge_service', false)",
    "set session authorization default",
    "reset session authorization",
    "set jobforge.bound_logins = ''",
    """
    set search_path = pg_temp, public;
    create function pg_temp.pg_has_role(name, text, text) returns boolean language sql return true;
    create temp table bound_logins (login name, tenants uuid[])
    """,
)
READS = (
    "select * from jobforge.jobs",
    "select * from jobforge.all_jobs",
    "select * from jobforge.audit_log",
    "select * from jobforge.list_jobs()",
    "select * from jobforge.list_jobs(p_tenant_id => '{b}')",
    "select * from jobforge.enqueue_job('test')",
    "select jobforge.enqueue_payloads('test', '[{{}}]')",
    "select jobforge.enqueue_payloads('test', '[{{}}]', p_tenant_id => '{b}')",
    "select * from jobforge.enqueue_jobs('[{{\"definition\": \"test\"}}]', '{b}')",
    "select * from jobforge.emit_event('order.paid', '{{}}', p_tenant_id => '{b}')",
    "select jobforge.tenant()",
)


@attack
def test_no_setting_and_no_role_gives_access_to_another_tenant(
    conn: Connection, connect: Connect, attempts: Attempts
) -> None:
    bind(conn, SERVICE, TENANT_A)
    before = conn.execute("select count(*) as n from jobforge.all_jobs").fetchone()
    client = connect(SERVICE)
    tried = 0
    for becoming in ("", *BECOMING):
        for setter in SETTERS:
            for read in READS:
                script = f"{becoming};{setter};{read}".format(b=TENANT_B)
                with pytest.raises(psycopg.Error) as caught, client.transaction():
                    client.execute(script.encode())
                # Some roles may not call or read anything.
                assert caught.value.sqlstate in ("JF006", "42501")
                client.execute("reset all")
                client.execute("reset role")
                client.execute("discard temp")
                tried += 1
    attempts(tried)
    assert conn.execute("select count(*) as n from jobforge.all_jobs").fetchone() == before


@attack
def test_a_bound_back_end_cannot_name_another_tenant_by_argument(
    conn: Connection, connect: Connect
) -> None:
    bind(conn, SERVICE, TENANT_A)
    service = connect(SERVICE)
    assert state_of(conn, TENANT_A, enqueue_one(service, TENANT_A)) == "queued"
    for tenant in (TENANT_B, TENANT_C):
        with refused("JF006"):
            enqueue_one(service, tenant)


@attack
def test_only_a_superuser_can_change_the_login_of_a_session(
    conn: Connection, connect: Connect
) -> None:
    bind(conn, CLIENT, TENANT_A)
    client = connect(CLIENT)
    for login in ("client_login", "service_login", "admin_login", "jobforge_engine"):
        with refused("42501"):
            client.execute(f"set session authorization {login}".encode())


@attack
def test_a_setting_that_changes_within_a_query_gives_no_access(
    conn: Connection, connect: Connect
) -> None:
    bind(conn, CLIENT, TENANT_A)
    client = connect(CLIENT)
    query = """
        with changed as materialized (
            select set_config('app.tenant_id', %s, true) as tenant
        )
        select j.tenant_id from changed as c, jobforge.jobs as j where c.tenant is not null
    """
    with client.transaction(force_rollback=True), refused("JF006"), client.transaction():
        client.execute(query, [str(TENANT_B)])
        call(client, "list_jobs")
    with client.transaction():
        client.execute("declare own cursor for select tenant_id from jobforge.jobs")
        assert client.execute("fetch 0 own").fetchall() == []
        client.execute("select set_config('app.tenant_id', %s, true)", [str(TENANT_B)])
        with refused("JF006"):
            client.execute("fetch all own")


def test_an_open_session_is_confined_from_its_next_statement(
    conn: Connection, connect: Connect
) -> None:
    client = connect(CLIENT)
    with as_tenant(client, TENANT_B):
        for _ in range(6):
            client.execute("select tenant_id from jobforge.jobs", prepare=True)
    bind(conn, CLIENT, TENANT_A)
    assert tenants_seen(client) == {TENANT_A}
    with refused("JF006"), as_tenant(client, TENANT_B):
        client.execute("select tenant_id from jobforge.jobs", prepare=True)
    call(conn, "unbind_login", login=CLIENT)
    assert tenants_seen(client) == set()
    with as_tenant(client, TENANT_B):
        assert tenants_seen(client) == {TENANT_B}


@attack
def test_a_login_of_several_tenants_must_name_one_of_them(
    conn: Connection, connect: Connect
) -> None:
    bind(conn, SERVICE, TENANT_A, TENANT_B)
    service = connect(SERVICE)
    for tenant in (TENANT_A, TENANT_B):
        assert state_of(conn, tenant, enqueue_one(service, tenant)) == "queued"
        with as_tenant(service, tenant):
            assert tenants_seen(service) == {tenant}
            call(service, "enqueue_job", definition="test")
    with refused("JF006"), as_tenant(service, TENANT_C):
        tenants_seen(service)
    with refused("JF006"):
        enqueue_one(service, TENANT_C)


@attack
def test_a_login_of_several_tenants_has_none_until_it_names_one(
    conn: Connection, connect: Connect
) -> None:
    for login in (CLIENT, SERVICE):
        bind(conn, login, TENANT_A, TENANT_B)
        client = connect(login)
        for read in ("select * from jobforge.jobs", "select * from jobforge.list_jobs()"):
            with refused("JF001"):
                client.execute(read.encode())
    with refused("JF001"):
        enqueue_one(connect(CLIENT), TENANT_A)


def test_a_login_finds_only_the_slugs_of_its_own_tenants(
    conn: Connection, connect: Connect
) -> None:
    bind(conn, SERVICE, TENANT_A, TENANT_B)
    service = connect(SERVICE)
    assert call_for_value(service, "find_tenant", slug="acme") == TENANT_A
    assert call_for_value(service, "find_tenant", slug="globex") == TENANT_B
    with refused("JF004"):
        call(service, "find_tenant", slug="initech")
    with refused("JF004"), as_tenant(service, TENANT_A):
        call(service, "find_tenant", slug="globex")
    bind(conn, SERVICE, TENANT_A)
    with refused("JF004"):
        call(service, "find_tenant", slug="globex")


@attack
def test_a_bound_worker_claims_jobs_of_its_tenant_only(conn: Connection, connect: Connect) -> None:
    foreign_worker, own_worker = new_worker(), new_worker()
    [foreign] = claim(conn, foreign_worker, tenants=[TENANT_B])
    bind(conn, WORKER, TENANT_A)
    worker = connect(WORKER)
    held = claim(worker, own_worker, limit=100)
    assert {row["tenant_id"] for row in held} == {TENANT_A}
    assert next(row["status"] for row in heartbeat(worker, own_worker, held)) == "ok"
    succeed(worker, own_worker, held)
    with refused("JF006"):
        claim(worker, own_worker, tenants=[TENANT_B])
    with refused("JF006"), as_tenant(worker, TENANT_B):
        claim(worker, own_worker)
    beats = heartbeat(worker, foreign_worker, [foreign])
    assert beats[0]["status"] == "lost"
    assert state_of(conn, TENANT_B, foreign["job_id"]) == "running"


@pytest.mark.parametrize(
    ("login", "why"),
    [
        ("admin_login", "is a member of jobforge_admin, which acts for all tenants"),
        ("server_login", "is a member of jobforge_server, which acts for all tenants"),
        ("jobforge_client", "cannot log in"),
    ],
)
def test_a_login_that_a_binding_cannot_confine_is_refused(
    conn: Connection, login: str, why: str
) -> None:
    with pytest.raises(psycopg.Error, match=why) as caught:
        bind(conn, login, TENANT_A)
    assert caught.value.sqlstate == "JF002"


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ("superuser", "is a superuser"),
        ("bypassrls", "bypasses row-level security"),
        ("noinherit in role jobforge_admin", "is a member of jobforge_admin"),
        ("in role jobforge_owner", "is a member of jobforge_owner"),
    ],
)
def test_a_login_with_more_rights_than_its_roles_show_is_refused(
    conn: Connection, definition: str, why: str
) -> None:
    with role(conn, definition) as name, pytest.raises(psycopg.Error, match=why):
        bind(conn, name, TENANT_A)


def test_a_worker_is_bound_to_one_tenant(conn: Connection) -> None:
    with refused("JF002"):
        bind(conn, WORKER, TENANT_A, TENANT_B)
    bind(conn, WORKER, TENANT_A)


@pytest.mark.parametrize("tenants", [[], [None], [UUID(int=2**128 - 1)], [uuid4(), None]])
def test_a_binding_must_name_tenants(conn: Connection, tenants: Sequence[UUID | None]) -> None:
    with refused("JF002"):
        call(conn, "bind_login", login=CLIENT, tenants=list(tenants))


def test_a_login_has_at_most_1000_tenants(conn: Connection) -> None:
    bind(conn, CLIENT, *(UUID(int=n + 1) for n in range(1000)))
    with refused("JF002"):
        bind(conn, CLIENT, *(UUID(int=n + 1) for n in range(1001)))


def test_a_login_that_does_not_exist_is_not_found(conn: Connection) -> None:
    for function in ("bind_login", "unbind_login"):
        arguments = {"tenants": [TENANT_A]} if function == "bind_login" else {}
        with refused("JF004"):
            call(conn, function, login="nobodys_login", **arguments)


@attack
def test_only_operators_can_bind_logins(conn: Connection, connect: Connect) -> None:
    bind(conn, CLIENT, TENANT_A)
    for login in (CLIENT, "client_login", "service_login", "worker_login"):
        with refused("42501"):
            call(connect(login), "unbind_login", login=CLIENT)
        with refused("42501"):
            call(connect(login), "bind_login", login=CLIENT, tenants=[TENANT_B])
        with refused("42501"):
            connect(login).execute("select * from jobforge.bound_logins")
    admin = connect("admin_login")
    with refused("JF006"), as_tenant(admin, TENANT_A):
        call(admin, "unbind_login", login=CLIENT)
    call(admin, "unbind_login", login=CLIENT)


def test_a_binding_replaces_the_previous_one_and_is_audited(conn: Connection) -> None:
    bind(conn, CLIENT, TENANT_A)
    bind(conn, CLIENT, TENANT_C, TENANT_B)
    assert listed(conn) == {CLIENT: ["globex", "initech"]}
    call(conn, "unbind_login", login=CLIENT)
    assert listed(conn) == {}
    rows = conn.execute(
        "select action, target from jobforge.audit_log where action like 'login.%' order by id"
    ).fetchall()
    assert [(row["action"], row["target"]) for row in rows] == [
        ("login.bind", CLIENT),
        ("login.bind", CLIENT),
        ("login.unbind", CLIENT),
    ]


@attack
def test_the_erasure_of_its_last_tenant_does_not_free_a_login(
    conn: Connection, connect: Connect
) -> None:
    bind(conn, CLIENT, TENANT_A)
    bind(conn, SERVICE, TENANT_A, TENANT_B)
    client = connect(CLIENT)
    call(conn, "delete_tenant", tenant_id=TENANT_A)
    assert listed(conn) == {CLIENT: [], SERVICE: ["globex"]}
    for setting in (None, TENANT_A, TENANT_B):
        with refused("JF006"), client.transaction():
            if setting is not None:
                client.execute("select set_config('app.tenant_id', %s, true)", [str(setting)])
            client.execute("select * from jobforge.jobs")
    with refused("JF014"):
        bind(conn, CLIENT, TENANT_A)


def test_a_concurrent_binding_and_erasure_leave_no_trace(
    conn: Connection, connect: Connect
) -> None:
    erasing, binding = connect(autocommit=False), connect(autocommit=False)
    bind(binding, CLIENT, TENANT_A, TENANT_B)
    with ThreadPoolExecutor() as threads:
        pid = erasing.info.backend_pid
        erased = threads.submit(call, erasing, "delete_tenant", tenant_id=TENANT_B)
        wait_until(lambda: _is_waiting(conn, pid))
        binding.commit()
        erased.result()
        pid = binding.info.backend_pid
        bound = threads.submit(bind, binding, CLIENT, TENANT_B)
        wait_until(lambda: _is_waiting(conn, pid))
        erasing.commit()
        with refused("JF014"):
            bound.result()
    binding.rollback()
    assert listed(conn) == {CLIENT: ["acme"]}


def _is_waiting(conn: Connection, pid: int) -> bool:
    rows = conn.execute("select from pg_locks where pid = %s and not granted", [pid])
    return rows.rowcount > 0


def test_a_binding_that_no_longer_confines_is_reported(conn: Connection) -> None:
    with role(conn, "in role jobforge_client") as name:
        bind(conn, name, TENANT_A, TENANT_B)
        assert fault(conn) is None
        conn.execute(f"grant jobforge_worker to {name}".encode())
        assert "one tenant only" in (fault(conn) or "")
        conn.execute(f"grant jobforge_admin to {name}".encode())
        assert "jobforge_admin" in (fault(conn) or "")
        conn.execute(f"alter role {name} rename to {name}_new".encode())
        assert fault(conn) == "does not exist"
        conn.execute(f"drop role {name}_new".encode())


def test_jobs_of_other_tenants_are_unchanged(conn: Connection, connect: Connect) -> None:
    bind(conn, CLIENT, TENANT_A)
    [job] = enqueue(conn, TENANT_B)
    with refused("JF004"):
        call(connect(CLIENT), "cancel_job", job_id=job)
    assert state_of(conn, TENANT_B, job) == "queued"

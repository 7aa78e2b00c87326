"""Install and work without a superuser: logins, groups, and sessions that change their role."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from cluster import BINARIES, Connection, connect_to, make_folder, run_program
from psycopg.types.json import Jsonb

from jobforge.db.migrate import check, migrate
from jobforge.db.schema_files import SQL
from jobforge.embedded import Embedded, PostgresServer
from jobforge.errors import MigrationError
from jobforge.testing.cluster import SETTINGS

POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")

TENANT_A = UUID("aaaaaaaa-0000-4000-8000-000000000001")
TENANT_B = UUID("bbbbbbbb-0000-4000-8000-000000000002")


@dataclass(frozen=True, slots=True)
class InstalledCluster:
    """A cluster whose database `app` was migrated by a login that may only create roles."""

    server: PostgresServer

    def connect(self, user: str, database: str = "app") -> Connection:
        return connect_to(self.server.url(database, user=user))

    def run_file(self, path: Path, user: str) -> str:
        url = self.server.url("app", user=user)
        return run_program("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", str(path))


# Each version once, also when the whole suite runs on the oldest one.
VERSIONS = {"default": BINARIES} | ({} if BINARIES == POSTGRES_15 else {"15": POSTGRES_15})


@pytest.fixture(scope="module", params=VERSIONS)
def installed(request: pytest.FixtureRequest) -> Iterator[InstalledCluster]:
    binaries = VERSIONS[request.param]
    if binaries is not None and not binaries.exists():
        pytest.skip(f"Postgres not found in {binaries}: run `make system-deps` as root on Debian")
    folder = make_folder("jobforge-roles-")
    embedded = Embedded(folder / "pg", bin_dir=binaries, settings=SETTINGS)
    embedded.start()
    server = embedded.running()
    assert server is not None
    try:
        with connect_to(server.url()) as admin:
            admin.execute("create role migrator login createrole")
            admin.execute("create database app owner migrator")
        with connect_to(server.url("app", user="migrator")) as conn:
            migrate(conn)
            conn.execute("create role client login in role jobforge_client")
            conn.execute("select jobforge.put_definition('mail', 1)")
        yield InstalledCluster(server)
    finally:
        embedded.stop()
        shutil.rmtree(folder)


def test_the_installing_login_is_no_superuser(installed: InstalledCluster) -> None:
    with installed.connect("migrator") as conn:
        check(conn)
        assert _one(conn, "select rolsuper or rolbypassrls from pg_roles where rolname = user") is (
            False
        )


def test_a_member_of_the_owner_installs_a_second_database(installed: InstalledCluster) -> None:
    with connect_to(installed.server.url()) as admin:
        admin.execute("create role second login")
        admin.execute("create database second owner second")
    with installed.connect("migrator") as conn:
        conn.execute("grant jobforge_owner to second")
    with installed.connect("second", "second") as conn:
        migrate(conn)
        check(conn)
        conn.execute("select jobforge.put_definition('mail', 1)")
    with installed.connect("client", "second") as conn:
        assert _enqueue_job(conn, TENANT_A) == "created"


def test_a_member_of_the_owner_upgrades_an_installation_of_another_login(
    installed: InstalledCluster,
) -> None:
    with connect_to(installed.server.url()) as admin:
        admin.execute("create role upgrader login in role jobforge_owner")
    with installed.connect("migrator") as conn:
        conn.execute("set role jobforge_owner")
        conn.execute("update jobforge.migrations set checksum = '' where name like 'functions/c%'")
    with installed.connect("upgrader") as conn:
        assert "access.sql" in migrate(conn)
        check(conn)


def test_a_login_of_another_database_gets_an_error_with_the_missing_right(
    installed: InstalledCluster,
) -> None:
    with connect_to(installed.server.url()) as admin:
        admin.execute("create role stranger login")
        admin.execute("create database stranger owner stranger")
    with installed.connect("stranger", "stranger") as conn:
        with pytest.raises(MigrationError, match=r"roles\.sql.*stranger") as caught:
            migrate(conn)
        assert "grant jobforge_owner to stranger" in str(caught.value.hint)
        assert _one(conn, "select to_regnamespace('jobforge')") is None


def test_the_isolation_script_passes_and_leaves_no_rows(installed: InstalledCluster) -> None:
    with installed.connect("migrator") as conn:
        before = _everything(conn)
    output = installed.run_file(SQL / "rls_test.sql", "migrator")
    assert "tenant isolation holds" in output
    with installed.connect("migrator") as conn:
        assert _everything(conn) == before


def test_the_isolation_script_fails_where_isolation_is_broken(installed: InstalledCluster) -> None:
    with installed.connect("migrator") as conn:
        conn.execute("set role jobforge_owner")
        conn.execute("alter policy client_reads on jobforge.jobs using (true)")
        try:
            with pytest.raises(AssertionError, match="Tenant b sees 2 jobs"):
                installed.run_file(SQL / "rls_test.sql", "migrator")
        finally:
            conn.execute(
                "alter policy client_reads on jobforge.jobs "
                "using (tenant_id = (select jobforge.tenant()))"
            )


@pytest.mark.parametrize(
    ("claims", "tenant"),
    [
        ({"tenant_id": str(TENANT_A)}, TENANT_A),
        ({"app_metadata": {"tenant_id": str(TENANT_A)}}, TENANT_A),
        ({"tenant_id": str(TENANT_A), "app_metadata": {"tenant_id": str(TENANT_B)}}, TENANT_A),
        ({"tenant_id": None, "app_metadata": {"tenant_id": str(TENANT_B)}}, TENANT_B),
        # Claims that users can write themselves are ignored.
        ({"user_metadata": {"tenant_id": str(TENANT_A)}}, None),
        ({"sub": "ada"}, None),
        ({"tenant_id": ""}, None),
        ([], None),
        ("text", None),
        (7, None),
    ],
)
def test_a_request_has_the_tenant_of_its_token(
    installed: InstalledCluster, claims: Any, tenant: UUID | None
) -> None:
    with installed.connect("client") as conn, _request(conn, json.dumps(claims)):
        assert _one(conn, "select jobforge.tenant()") == tenant


@pytest.mark.parametrize(
    "claims",
    [
        '{"tenant_id": "not-a-uuid"}',
        '{"tenant_id": {"a": 1}}',
        '{"tenant_id": 5}',
        '{"tenant_id": ["aaaaaaaa-0000-4000-8000-000000000001"]}',
        "not json",
        "{",
    ],
)
def test_a_malformed_token_is_an_error_and_grants_nothing(
    installed: InstalledCluster, claims: str
) -> None:
    with (
        installed.connect("client") as conn,
        pytest.raises(psycopg.errors.InvalidTextRepresentation),
        _request(conn, claims),
    ):
        _one(conn, "select count(*) from jobforge.all_jobs")


def test_a_tenant_ends_with_its_request(installed: InstalledCluster) -> None:
    with installed.connect("client") as conn:
        with _request(conn, json.dumps({"tenant_id": str(TENANT_A)})):
            assert _one(conn, "select jobforge.tenant()") == TENANT_A
        assert _one(conn, "select jobforge.tenant()") is None
        # The next request on this connection has a token without a user.
        with _request(conn, "{}"):
            assert _one(conn, "select count(*) from jobforge.all_jobs") == 0


def test_the_audit_names_the_user_of_the_token(installed: InstalledCluster) -> None:
    token = json.dumps({"tenant_id": str(TENANT_A), "sub": "ada"})
    with installed.connect("client") as conn, _request(conn, token):
        job = _one(conn, "select job_id from jobforge.enqueue_job('mail')")
        _one(conn, "select jobforge.cancel_job(%s)", job)
        assert (
            _one(conn, "select actor from jobforge.audit_log where target = %s", str(job)) == "ada"
        )


@pytest.fixture(scope="module")
def gateway(installed: InstalledCluster) -> InstalledCluster:
    """Return a gateway like PostgREST: a login without rights that takes on a role per request."""
    with installed.connect("migrator") as conn:
        conn.execute("create role web_user nologin in role jobforge_client")
        conn.execute("create role web_anon nologin")
        conn.execute("create role web_service nologin in role jobforge_client, jobforge_service")
        conn.execute("create role gateway login noinherit in role web_user, web_anon, web_service")
    return installed


def test_a_gateway_serves_each_tenant_only_its_own_rows(gateway: InstalledCluster) -> None:
    seen = {}
    with gateway.connect("gateway") as conn:
        for tenant in (TENANT_A, TENANT_B):
            with _request(conn, json.dumps({"tenant_id": str(tenant)}), "web_user"):
                job = _one(conn, "select job_id from jobforge.enqueue_job('mail')")
                listed = conn.execute("select id from jobforge.list_jobs()").fetchall()
                tenants = conn.execute("select distinct tenant_id from jobforge.jobs").fetchall()
            assert {row["tenant_id"] for row in tenants} == {tenant}
            seen[tenant] = {row["id"] for row in listed}
            assert job in seen[tenant]
    assert seen[TENANT_A].isdisjoint(seen[TENANT_B])


@pytest.mark.parametrize("role", ["gateway", "web_anon"])
@pytest.mark.parametrize("query", ["select * from jobforge.jobs", "select jobforge.list_jobs()"])
def test_a_gateway_has_no_rights_without_a_role(
    gateway: InstalledCluster, role: str, query: str
) -> None:
    with gateway.connect("gateway") as conn:
        conn.execute(f"set role {role}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(query.encode())


def test_a_login_that_can_become_a_service_role_cannot_name_a_tenant(
    gateway: InstalledCluster,
) -> None:
    """session_user is the gateway in every request, whatever role the gateway takes on."""
    with (
        gateway.connect("gateway") as conn,
        pytest.raises(psycopg.Error) as caught,
        _request(conn, '{"sub": "mallory"}', "web_user"),
    ):
        conn.execute("select * from jobforge.list_jobs(p_tenant_id => %s)", [TENANT_B])
    assert caught.value.sqlstate == "JF001"


@contextmanager
def _request(conn: Connection, claims: str, role: str = "client") -> Iterator[None]:
    """Run a request as PostgREST does: role, claims, pre-request, then the statements."""
    with conn.transaction():
        conn.execute(f"set local role {role}".encode())
        conn.execute("select set_config('request.jwt.claims', %s, true)", [claims])
        conn.execute("select jobforge.pre_request()")
        yield


def _enqueue_job(conn: Connection, tenant: UUID) -> Any:
    with conn.transaction():
        conn.execute("select set_config('app.tenant_id', %s, true)", [str(tenant)])
        return _one(conn, "select status from jobforge.enqueue_job('mail', %s)", Jsonb({}))


def _everything(conn: Connection) -> dict[str, Any]:
    """Return the number of rows of each table, and all role memberships."""
    tables = conn.execute(
        "select oid::regclass::text as name from pg_class where relkind in ('r', 'p') "
        "and relnamespace = 'jobforge'::regnamespace"
    ).fetchall()
    with conn.transaction():
        conn.execute("set local role jobforge_owner")
        counts = {row["name"]: _one(conn, f"select count(*) from {row['name']}") for row in tables}
    members = conn.execute("select roleid, member from pg_auth_members order by 1, 2").fetchall()
    return {**counts, "members": members}


def _one(conn: Connection, query: str, *values: Any) -> Any:
    row = conn.execute(query.encode(), values).fetchone()
    assert row is not None
    [value] = row.values()
    return value

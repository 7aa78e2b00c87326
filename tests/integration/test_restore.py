"""A logical backup, restored into a new cluster by the commands of docs/backup.md."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cluster import BINARIES, Clock, Connection, connect_to, make_folder, wait_until
from rights import rights
from sql.engine import TENANT_A, call, call_for_value, claim, complete, definition, enqueue
from sql.engine import new_worker as make_worker

from jobforge.db.migrate import check, migrate, repair
from jobforge.embedded import Embedded, PostgresServer
from jobforge.embedded.binaries import find_binaries
from jobforge.errors import MigrationError
from jobforge.testing.cluster import SETTINGS

POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")
VERSIONS = {"default": BINARIES} | ({} if BINARIES == POSTGRES_15 else {"15": POSTGRES_15})
PAGE = Path(__file__).parents[2] / "docs" / "backup.md"

# How many more transactions the first cluster has had than a new one: a restore takes a few
# thousand.
AHEAD = 30_000


@dataclass(frozen=True, slots=True)
class Postgres:
    """A separate cluster with its programs."""

    server: PostgresServer
    programs: Path

    def connect(self, database: str, user: str = "postgres") -> Connection:
        return connect_to(self.server.url(database, user=user))

    def run(
        self, command: str, folder: Path, *, database: str, user: str, fails: bool = False
    ) -> str:
        """Run a command line of the documentation in a folder, for one database and login."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={
                "PATH": f"{self.programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(folder),
                "PGHOST": str(self.server.socket_dir),
                "PGPORT": str(self.server.port),
                "PGDATABASE": database,
                "PGUSER": user,
                "JOBFORGE_DATABASE_URL": self.server.url(database, user=user),
            },
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stdout + done.stderr


@dataclass(frozen=True, slots=True)
class Backup:
    """The jobs of the dump: finished jobs, and a running one."""

    postgres: Postgres
    folder: Path
    running: Any


def _commands(heading: str) -> list[str]:
    """Return the commands of the first console block under a heading of the page."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1]
    block = re.findall(r"^ *```console\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)[0]
    return [line.strip()[2:] for line in block.splitlines()]


def _login(heading: str) -> str:
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1]
    return str(re.findall(r"^```sql\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[0])


def _start_cluster(folder: Path, binaries: Path | None) -> Iterator[Postgres]:
    if binaries is not None and not binaries.exists():
        pytest.skip(f"Postgres not found in {binaries}: run `make system-deps` as root on Debian")
    embedded = Embedded(folder / "pg", bin_dir=binaries, settings=SETTINGS)
    embedded.start()
    server = embedded.running()
    assert server is not None
    try:
        yield Postgres(server, find_binaries(binaries).folder)
    finally:
        embedded.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def former(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    version: str = getattr(request, "param", "default")
    yield from _start_cluster(make_folder("jobforge-former-"), VERSIONS[version])


@pytest.fixture(scope="module")
def backup(former: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Backup:
    """Dump a database in use, with a login that is a member of jobforge_backup only."""
    folder = tmp_path_factory.mktemp("backup")
    with former.connect("postgres") as admin:
        admin.execute("create database app")
    with former.connect("app") as conn:
        migrate(conn)
        conn.execute(_login("Back up with pg_dump").encode())
        conn.execute(
            f"do $$ begin for i in 1..{AHEAD} loop "
            "perform pg_current_xact_id(); commit; end loop; end $$".encode()
        )
        definition(conn)
        _run_jobs(conn, 3)
        assert call_for_value(conn, "roll_up_statistics") == 3
        _run_jobs(conn, 2)  # not yet in the statistics
        enqueue(conn, n=2)
        [running] = claim(conn, make_worker())
    for command in _commands("Back up with pg_dump"):
        former.run(command, folder, database="app", user="backup")
    return Backup(former, folder, running)


def _run_jobs(conn: Connection, n: int) -> None:
    worker = make_worker()
    enqueue(conn, n=n)
    complete(conn, worker, claim(conn, worker, limit=n), result={"is": "not a plain success"})


@pytest.fixture
def fresh(former: Postgres) -> Iterator[Postgres]:
    """Return a cluster of the same version that has never contained JobForge."""
    version = None if former.programs == find_binaries(BINARIES).folder else former.programs
    yield from _start_cluster(make_folder("jobforge-fresh-"), version or BINARIES)


def _restore(backup: Backup, fresh: Postgres, user: str) -> None:
    for command in _commands("Restore a dump"):
        fresh.run(command, backup.folder, database="app", user=user)


def _make_admin(fresh: Postgres) -> str:
    """Create an admin like that of a managed service: neither superuser nor BYPASSRLS."""
    with fresh.connect("postgres") as superuser:
        superuser.execute("create role admin login createrole createdb")
    return "admin"


def _install(fresh: Postgres, user: str) -> set[str]:
    with fresh.connect("postgres", user) as conn:
        conn.execute("create database installed")
    with fresh.connect("installed", user) as conn:
        migrate(conn)
        return rights(conn)


@pytest.mark.parametrize("former", VERSIONS, indirect=True)
@pytest.mark.parametrize("login", ["superuser", "admin"])
def test_a_dump_is_restored_by_the_documented_commands(
    backup: Backup, fresh: Postgres, login: str
) -> None:
    user = "postgres" if login == "superuser" else _make_admin(fresh)
    _restore(backup, fresh, user)
    with fresh.connect("app", user) as conn:
        assert rights(conn) == _install(fresh, user)
        # An operation of every application, with an application's rights.
        conn.execute("create role client login in role jobforge_client")
        conn.execute("create role worker login in role jobforge_worker")
    with fresh.connect("app", "client") as client, fresh.connect("app", "worker") as worker:
        client.execute("select set_config('app.tenant_id', %s, false)", [str(TENANT_A)])
        [job] = enqueue(client)
        me = make_worker()
        claimed = claim(worker, me, limit=10)
        assert job in {each["job_id"] for each in claimed}
        assert {row["status"] for row in complete(worker, me, claimed)} == {"ok"}
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            client.execute("select * from jobforge.api_keys")


def test_statistics_and_the_stream_continue_in_a_cluster_with_fewer_transactions(
    backup: Backup, fresh: Postgres
) -> None:
    _restore(backup, fresh, _make_admin(fresh))
    with fresh.connect("app") as conn:
        oldest = "select min(txid::text::bigint) > %s as is_ahead from jobforge.all_attempts"
        assert conn.execute(oldest, [AHEAD]).fetchone() == {"is_ahead": True}
        assert _next_transaction(conn) < AHEAD
        assert _count_attempts(conn) == 5
        position = call(conn, "read_stream")[-1]["place"]
        _run_jobs(conn, 4)
        wait_until(lambda: _roll_up(conn) == 9)
        # The new cluster reuses the transaction IDs of the former one.
        conn.execute(
            f"do $$ begin for i in 1..{2 * AHEAD} loop "
            "perform pg_current_xact_id(); commit; end loop; end $$".encode()
        )
        _run_jobs(conn, 1)
        wait_until(lambda: _roll_up(conn) == 10)
        wait_until(lambda: _attempts_after(conn, position) == 5)


def _roll_up(conn: Connection) -> int:
    """Add up the attempts behind the oldest open transaction, and return how many are counted."""
    call(conn, "roll_up_statistics")
    return _count_attempts(conn)


def _attempts_after(conn: Connection, position: str) -> int:
    rows = call(conn, "read_stream", after=position)
    return sum(row["kind"] == "attempt" for row in rows)


def test_maintenance_alone_detects_that_the_history_is_of_another_cluster(
    backup: Backup, fresh: Postgres
) -> None:
    """A superuser's complete restore needs no repair."""
    for command in _commands("Restore a dump"):
        if "--repair" not in command and "check" not in command:
            fresh.run(command.replace("--no-owner --no-privileges", ""), backup.folder,
                      database="app", user="postgres")  # fmt: skip
    with fresh.connect("app") as conn:
        _run_jobs(conn, 4)
        wait_until(lambda: _roll_up(conn) == 9)


def test_a_job_that_was_running_runs_again_under_a_greater_lease(
    backup: Backup, fresh: Postgres
) -> None:
    _restore(backup, fresh, "postgres")
    lost = backup.running
    with fresh.connect("app") as conn:
        Clock(conn).travel(minutes=5)
        call(conn, "reap_jobs")
        call(conn, "retry_job", job_id=lost["job_id"], tenant_id=TENANT_A)
        worker = make_worker()
        claimed = {job["job_id"]: job for job in claim(conn, worker, limit=10)}
        assert claimed[lost["job_id"]]["lease"] > lost["lease"]
        [late] = complete(conn, worker, [lost])
        assert late["status"] == "lost"


def test_a_restore_without_the_roles_is_repaired(backup: Backup, fresh: Postgres) -> None:
    """pg_restore alone leaves hundreds of errors, no policy, and functions owned by a superuser."""
    user = "postgres"
    fresh.run("createdb", backup.folder, database="app", user=user)
    output = fresh.run(
        "pg_restore --dbname=app jobforge.dump",
        backup.folder,
        database="app",
        user=user,
        fails=True,
    )
    assert 'role "jobforge_engine" does not exist' in output
    for command in ("migrate", "check", "status"):
        output = fresh.run(
            f"jobforge db {command}", backup.folder, database="app", user=user, fails=True
        )
        assert "jobforge db migrate --repair" in output
    output = fresh.run("jobforge doctor", backup.folder, database="app", user=user, fails=True)
    assert "jobforge db migrate --repair" in output
    fresh.run("jobforge db migrate --repair", backup.folder, database="app", user=user)
    with fresh.connect("app") as conn:
        assert rights(conn) == _install(fresh, user)
        assert _count_attempts(conn) == 5


def test_a_restore_by_a_login_that_cannot_change_owners_is_repaired(
    backup: Backup, fresh: Postgres
) -> None:
    """pg_restore changes the owner of a function before it grants CREATE on the schema."""
    user = _make_admin(fresh)
    fresh.run("createdb", backup.folder, database="app", user=user)
    fresh.run("jobforge db migrate --roles-only", backup.folder, database="app", user=user)
    output = fresh.run(
        "pg_restore --dbname=app jobforge.dump",
        backup.folder,
        database="app",
        user=user,
        fails=True,
    )
    assert "permission denied for schema jobforge" in output
    with fresh.connect("app", user) as conn:
        with pytest.raises(MigrationError) as caught:
            check(conn)
        assert "--repair" in str(caught.value.hint)
        repair(conn)
        assert rights(conn) == _install(fresh, user)


def _count_attempts(conn: Connection) -> int:
    """Return the number of attempts in the statistics."""
    query = "select coalesce(sum(succeeded), 0)::integer as n from jobforge.minute_statistics"
    [row] = conn.execute(query.encode()).fetchall()
    count: int = row["n"]
    return count


def _next_transaction(conn: Connection) -> int:
    query = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as n"
    [row] = conn.execute(query.encode()).fetchall()
    return int(row["n"])

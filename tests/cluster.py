"""The Postgres of a test run: one server, one migrated template database, a clone for each test.

The run's first process creates the folder and a watchdog; the first process that needs the server
starts it. The watchdog stops the server when the run ends, even if the run is killed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import sql
from psycopg.rows import DictRow, dict_row

from jobforge.db.migrate import migrate
from jobforge.embedded import Embedded, PostgresServer
from jobforge.embedded.binaries import find_binaries
from jobforge.testing.cluster import SETTINGS

TEMPLATE = "jobforge_template"

# The folder of other Postgres binaries for the whole suite, if set.
BINARIES = (
    Path(os.environ["JOBFORGE_TEST_PG_BIN"]) if "JOBFORGE_TEST_PG_BIN" in os.environ else None
)

# The folder in which Linux keeps files in memory, and the free space that a run needs there.
MEMORY_FOLDER, FREE_BYTES = Path("/dev/shm"), 4 << 30

_SETTINGS = SETTINGS | {"max_prepared_transactions": "10"}

# A login for each kind of caller, with its group roles.
LOGINS = {
    "client_login": ["jobforge_client"],
    "service_login": ["jobforge_client", "jobforge_service"],
    "worker_login": ["jobforge_worker"],
    "admin_login": ["jobforge_admin"],
    "server_login": ["jobforge_server"],
    # A test that uses these logins binds them to tenants.
    "bound_client_login": ["jobforge_client"],
    "bound_service_login": ["jobforge_client", "jobforge_service"],
    "bound_worker_login": ["jobforge_worker"],
}

Connection = psycopg.Connection[DictRow]


class Connect(Protocol):
    """Opens another connection to the test's database; without a role, as superuser."""

    def __call__(self, role: str | None = None, *, autocommit: bool = True) -> Connection: ...


@dataclass(frozen=True, slots=True)
class Database:
    """The database of one test."""

    name: str
    server: PostgresServer

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    def url_as(self, role: str) -> str:
        return self.server.url(self.name, user=role)

    def dump(self) -> str:
        """Return the schema as pg_dump prints it, owners and grants included."""
        text = run_program("pg_dump", "--schema-only", "-d", self.url)
        # Leave out lines that differ from dump to dump by design.
        return "\n".join(line for line in text.splitlines() if "restrict " not in line)

    def definitions(self) -> set[str]:
        """Return the entries of `dump` for schema jobforge, without triggers of the tests.

        Partitions of all days count as one.
        """
        text = re.sub(r"_\d{8}(?!\d)", "_DAY", self.dump())
        text = re.sub(r"'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d'", "'DAY'", text)
        entries = text.split("\n--\n-- Name: ")
        return {
            _sorted_grants(entry)
            for entry in entries
            if "; Schema: jobforge;" in entry and "EXECUTE FUNCTION public." not in entry
        }

    def run_file(self, path: Path) -> None:
        run_program("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.url, "-f", str(path))


def _sorted_grants(entry: str) -> str:
    """Return the entry with its grants sorted: pg_dump prints them in the order of their
    creation."""
    lines = entry.rstrip("-\n").splitlines()
    grants = [line for line in lines if line.startswith(("GRANT ", "REVOKE "))]
    return "\n".join([line for line in lines if line not in grants] + sorted(grants))


class Clock:
    """Time travel in one database: `jobforge_private.now()` is the real time plus an offset."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        conn.execute(
            """
            create table public.test_clock as select interval '0' as offset_interval;
            grant select on public.test_clock to public;
            create or replace function jobforge_private.now() returns timestamptz
            language sql volatile
            as $$
                select pg_catalog.clock_timestamp() + c.offset_interval from public.test_clock as c
            $$;
            """
        )

    def travel(self, **amount: float) -> None:
        """Move the clock, as in `travel(seconds=30)`; any argument of timedelta.

        The time of the last reap moves too, as if other workers had reaped all the time.
        """
        self.pass_without_reaping(**amount)
        self._conn.execute(
            "update jobforge.reaper set reaped_at = reaped_at + %s where ctid = any (array("
            "select ctid from jobforge.reaper for update skip locked))",
            [timedelta(**amount)],
        )

    def pass_without_reaping(self, **amount: float) -> None:
        """Move the clock as in an outage: no worker has called reap_jobs in that time."""
        self._conn.execute(
            "update public.test_clock set offset_interval = offset_interval + %s",
            [timedelta(**amount)],
        )

    def now(self) -> datetime:
        row = self._conn.execute("select jobforge_private.now() as now").fetchone()
        assert row is not None
        now = row["now"]
        assert isinstance(now, datetime)
        return now


@dataclass(frozen=True, slots=True)
class Cluster:
    """The folder of a run, shared by all its processes."""

    folder: Path

    @classmethod
    def create(cls) -> "Cluster":
        return cls(make_folder("jobforge-tests-"))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Remove the cluster at the end. The watchdog's stdin closes however this process ends."""
        with subprocess.Popen(
            [sys.executable, __file__, str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C in the terminal must not reach the watchdog
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ):
            yield

    def embedded(self) -> Embedded:
        return Embedded(self.folder / "pg", bin_dir=BINARIES, settings=_SETTINGS)

    def start(self) -> PostgresServer:
        """Return the running server, with the template database in it."""
        embedded = self.embedded()
        embedded.start()
        server = embedded.running()
        assert server is not None
        _create_template(server)
        return server

    def remove(self) -> None:
        self.embedded().stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def make_folder(prefix: str) -> Path:
    """Create a folder for data of Postgres that other users can enter: root cannot run Postgres
    itself.

    The folder is in memory if possible: copying a database is five times as fast there.
    """
    has_room = MEMORY_FOLDER.is_dir() and shutil.disk_usage(MEMORY_FOLDER).free >= FREE_BYTES
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY_FOLDER if has_room else None))
    folder.chmod(0o755)
    return folder


# Databases whose tests have ended.
_unused: list[Database] = []


@contextmanager
def fresh_database(server: PostgresServer, template: str = TEMPLATE) -> Iterator[Database]:
    """Yield a clone of the template.

    It is dropped when the next clone is created, or with the server: Postgres sleeps for 100 ms
    when it drops a database while one of its sessions is ending.
    """
    fresh = Database(f"test_{uuid.uuid4().hex[:16]}", server)
    with psycopg.connect(server.url(), autocommit=True) as admin:
        # file_copy takes half the time of wal_log when nothing is synced.
        admin.execute(
            sql.SQL("create database {} template {} strategy file_copy").format(
                sql.Identifier(fresh.name), sql.Identifier(template)
            )
        )
        for left in [left for left in _unused if left.server == server]:
            _unused.remove(left)
            admin.execute(
                sql.SQL("drop database {} with (force)").format(sql.Identifier(left.name))
            )
    try:
        yield fresh
    finally:
        _unused.append(fresh)


def connect_to(url: str, *, autocommit: bool = True) -> Connection:
    return psycopg.connect(url, autocommit=autocommit, row_factory=dict_row)


def run_program(program: str, *arguments: str) -> str:
    """Run one of Postgres's own programs; if it fails, show its error output."""
    command = [str(find_binaries(BINARIES).folder / program), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def wait_until(
    condition: Callable[[], bool],
    *,
    within_s: float = 30,
    poll_s: float = 0.005,
    why: Callable[[], str] = lambda: "the condition did not become true",
) -> None:
    """Return as soon as the condition is true; fail if it is not true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(poll_s)


def _create_template(server: PostgresServer) -> None:
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("select pg_advisory_lock(hashtext(%s))", [TEMPLATE])
        if _exists(admin, "select from pg_database where datname = %s", TEMPLATE):
            return
        # The template gets its name when it is complete: a failed migration must not look like one.
        admin.execute("drop database if exists unfinished_template")
        admin.execute("create database unfinished_template")
        with psycopg.connect(server.url("unfinished_template"), autocommit=True) as conn:
            migrate(conn)
        for login, groups in LOGINS.items():
            _create_login(admin, login, groups)
        admin.execute(f"alter database unfinished_template rename to {TEMPLATE}")


def _create_login(admin: psycopg.Connection[Any], login: str, groups: list[str]) -> None:
    if _exists(admin, "select from pg_roles where rolname = %s", login):
        return
    admin.execute(
        sql.SQL("create role {} login in role {}").format(
            sql.Identifier(login), sql.SQL(", ").join(map(sql.Identifier, groups))
        )
    )


def _exists(admin: psycopg.Connection[Any], query: str, name: str) -> bool:
    return admin.execute(query.encode(), [name]).rowcount > 0


if __name__ == "__main__":
    sys.stdin.read()
    Cluster(Path(sys.argv[1])).remove()

"""The Postgres of a test run: one server, one migrated template database, a clone for each test.

The run's first process makes the folder and a watchdog; whichever process needs the server first
starts it. The watchdog stops it when the run ends, also when the run is killed.
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

# The whole suite runs on other binaries when this names their folder.
BINARIES = (
    Path(os.environ["JOBFORGE_TEST_PG_BIN"]) if "JOBFORGE_TEST_PG_BIN" in os.environ else None
)

# Where Linux keeps files in memory, and how much room a run must find there.
MEMORY, ROOM = Path("/dev/shm"), 4 << 30

_SETTINGS = SETTINGS | {"max_prepared_transactions": "10"}

# A login for each kind of caller, and the group roles that it is in.
LOGINS = {
    "client_login": ["jobforge_client"],
    "service_login": ["jobforge_client", "jobforge_service"],
    "worker_login": ["jobforge_worker"],
    "admin_login": ["jobforge_admin"],
    "server_login": ["jobforge_server"],
    # A test that uses these binds them to tenants.
    "bound_client_login": ["jobforge_client"],
    "bound_service_login": ["jobforge_client", "jobforge_service"],
    "bound_worker_login": ["jobforge_worker"],
}

Connection = psycopg.Connection[DictRow]


class Connect(Protocol):
    """Opens one more connection to the test's database; without a role, as superuser."""

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
        """The schema as pg_dump tells it, owners and grants included."""
        text = run_program("pg_dump", "--schema-only", "-d", self.url)
        # Lines that differ from dump to dump by design.
        return "\n".join(line for line in text.splitlines() if "restrict " not in line)

    def definitions(self) -> set[str]:
        """The entries of `dump` for schema jobforge, without triggers of the tests.

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
    """The entry with its grants sorted: their order is that in which they were given."""
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
        """`travel(seconds=30)`; any argument of timedelta.

        The time of the last reap moves too, as if other workers had reaped all the time.
        """
        self.pass_without_reaping(**amount)
        self._conn.execute(
            "update jobforge.reaper set reaped_at = reaped_at + %s where ctid = any (array("
            "select ctid from jobforge.reaper for update skip locked))",
            [timedelta(**amount)],
        )

    def pass_without_reaping(self, **amount: float) -> None:
        """Travel as through an outage: no worker has called reap_jobs in that time."""
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
    """The folder of a run, known to all its processes."""

    folder: Path

    @classmethod
    def make(cls) -> "Cluster":
        return cls(make_folder("jobforge-tests-"))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Removes the cluster at the end. The watchdog's stdin closes however this process ends."""
        with subprocess.Popen(
            [sys.executable, __file__, str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C in the terminal is for the run, not for it
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ):
            yield

    def embedded(self) -> Embedded:
        return Embedded(self.folder / "pg", bin_dir=BINARIES, settings=_SETTINGS)

    def start(self) -> PostgresServer:
        """The running server, with the template database in it."""
        embedded = self.embedded()
        embedded.start()
        server = embedded.running()
        assert server is not None
        _make_template(server)
        return server

    def remove(self) -> None:
        self.embedded().stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def make_folder(prefix: str) -> Path:
    """A folder for data of Postgres that other users can enter: as root we are not who runs it.

    In memory if we can: copying a database takes a fifth of the time that it takes on a disk.
    """
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY if has_room else None))
    folder.chmod(0o755)
    return folder


# Databases whose tests have ended.
_left: list[Database] = []


@contextmanager
def fresh_database(server: PostgresServer, template: str = TEMPLATE) -> Iterator[Database]:
    """A clone of the template. It is dropped when the next one is made, or else with the server:
    Postgres sleeps for 100 ms when it is to drop a database while a session there is ending."""
    fresh = Database(f"test_{uuid.uuid4().hex[:16]}", server)
    with psycopg.connect(server.url(), autocommit=True) as admin:
        # file_copy: half the time of wal_log when nothing is synced.
        admin.execute(
            sql.SQL("create database {} template {} strategy file_copy").format(
                sql.Identifier(fresh.name), sql.Identifier(template)
            )
        )
        for left in [left for left in _left if left.server == server]:
            _left.remove(left)
            admin.execute(
                sql.SQL("drop database {} with (force)").format(sql.Identifier(left.name))
            )
    try:
        yield fresh
    finally:
        _left.append(fresh)


def connect_to(url: str, *, autocommit: bool = True) -> Connection:
    return psycopg.connect(url, autocommit=autocommit, row_factory=dict_row)


def run_program(program: str, *arguments: str) -> str:
    """Runs one of Postgres's own programs, and shows what it said when it fails."""
    command = [str(find_binaries(BINARIES).folder / program), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def wait_until(
    condition: Callable[[], bool],
    *,
    within_s: float = 30,
    poll_s: float = 0.005,
    why: Callable[[], str] = lambda: "the condition did not come true",
) -> None:
    """Returns as soon as the condition holds; fails when it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(poll_s)


def _make_template(server: PostgresServer) -> None:
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute("select pg_advisory_lock(hashtext(%s))", [TEMPLATE])
        if _exists(admin, "select from pg_database where datname = %s", TEMPLATE):
            return
        # Under another name until it is complete: a failed migration must not look like a template.
        admin.execute("drop database if exists template_in_the_making")
        admin.execute("create database template_in_the_making")
        with psycopg.connect(server.url("template_in_the_making"), autocommit=True) as conn:
            migrate(conn)
        for login, groups in LOGINS.items():
            _make_login(admin, login, groups)
        admin.execute(f"alter database template_in_the_making rename to {TEMPLATE}")


def _make_login(admin: psycopg.Connection[Any], login: str, groups: list[str]) -> None:
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

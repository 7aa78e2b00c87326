"""Servers of a benchmark: one durable Postgres and one Redis, which all sides share.

This module starts the servers and creates a fresh database for each measurement. It also locks the
table of jobs while workers start: when all workers wait for their first jobs, the lock is released
and the measurement starts. So the start of a program does not count, and several processes start to
work at the same moment.
"""

import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import process_usage
import psycopg
import rival_environments

from jobforge.embedded import Embedded

SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "max_connections": "400",  # sixteen clients, some of which keep pools
}
QUICK_SETTINGS = {**SETTINGS, "shared_buffers": "64MB", "fsync": "off"}  # for --quick
_STABLE_S = 0.5  # how long the number of waiting workers must not have changed
_LONGEST_S = 60
_PAUSE_S = 0.005
_WAITING = """
select count(*) from pg_stat_activity
 where datname = %s and wait_event_type = 'Lock' and wait_event = 'relation'
"""
_AUTOVACUUM_WORKERS = (
    "select count(*) from pg_stat_activity where backend_type = 'autovacuum worker'"
)
_USED = """
select format('vacuum analyze %s', c.oid::regclass)
  from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
 where c.relkind = 'r' and c.relpersistence = 'p' and pg_relation_size(c.oid) > 0
   and n.nspname not in ('pg_catalog', 'information_schema')
"""

Connection = psycopg.Connection[tuple[Any, ...]]
Check = Callable[[], None]


class BenchError(Exception):
    """A benchmark could not go on: a process failed, or a condition was not met in time."""


class BenchServers:
    """A context manager that starts the servers, and stops them at its end."""

    def __init__(self, settings: Mapping[str, str] = SETTINGS) -> None:
        self.settings = settings
        self._stack = ExitStack()
        self._redis: Redis | None = None
        self._created = 0
        self._reusable: dict[str, str] = {}

    def __enter__(self) -> Self:
        folder = tempfile.TemporaryDirectory(prefix="jobforge-bench-")
        self.folder = Path(self._stack.enter_context(folder))
        self.folder.chmod(0o755)
        embedded = Embedded(self.folder / "pg", settings=self.settings)
        embedded.start()
        self._stack.callback(embedded.stop)
        server = embedded.running()
        if server is None:
            raise BenchError("Postgres does not respond")
        self._server = server
        self.admin = self._stack.enter_context(psycopg.connect(server.url(), autocommit=True))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def redis(self) -> "Redis":
        if self._redis is None:
            self._redis = self._stack.enter_context(start_redis(self.folder))
        return self._redis

    def create_database(self, name: str, template: str = "template1") -> str:
        self.admin.execute(f'create database "{name}" template "{template}"'.encode())
        return self._server.url(name)

    @contextmanager
    def fresh_database(self, template: str) -> Iterator[str]:
        """Create a clone of the template; at the end, drop it and disconnect its clients."""
        self._created += 1
        name = f"bench_{self._created}"
        try:
            yield self.create_database(name, template)
        finally:
            self.admin.execute(f"drop database if exists {name} with (force)".encode())

    def reusable_database(
        self, name: str, template: str, fill: Callable[[Connection], None]
    ) -> str:
        """Return a database that all rounds share; create and fill it at the first call."""
        if name not in self._reusable:
            url = self.create_database(name, template)
            with psycopg.connect(url, autocommit=True) as conn:
                fill(conn)
                analyze_and_checkpoint(conn)
            self._reusable[name] = url
        return self._reusable[name]

    @contextmanager
    def without_autovacuum(self) -> Iterator[None]:
        """Disable autovacuum in all databases, so that its work does not count as the jobs'."""
        self._set_autovacuum("set autovacuum = off")
        try:
            deadline = time.monotonic() + _LONGEST_S
            while self._count(_AUTOVACUUM_WORKERS) and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)
            yield
        finally:
            self._set_autovacuum("reset autovacuum")

    def _set_autovacuum(self, setting: str) -> None:
        self.admin.execute(f"alter system {setting}".encode())
        self.admin.execute("select pg_reload_conf()")

    def server_cpu_s(self) -> float:
        """Return the CPU time of all Postgres processes."""
        return process_usage.cpu_s(process_usage.parent_pid(self._count("select pg_backend_pid()")))

    def transactions(self, database: str) -> int:
        return self._count(
            "select coalesce(sum(xact_commit + xact_rollback), 0) from pg_stat_database"
            f" where datname = '{database}'"
        )

    def transactions_per_s(self, database: str, seconds: float) -> float:
        before, start = self.transactions(database), time.monotonic()
        time.sleep(seconds)
        return (self.transactions(database) - before) / (time.monotonic() - start)

    def wal_bytes(self) -> int:
        return self._count("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")

    def _count(self, query: str) -> int:
        (count,) = self.admin.execute(query.encode()).fetchone() or (0,)
        return int(count)


def analyze_and_checkpoint(conn: Connection) -> None:
    """After a bulk load, update the statistics as autovacuum would, and write out all pages."""
    gather_statistics(conn)
    conn.execute("checkpoint")


def gather_statistics(conn: Connection) -> None:
    for (statement,) in conn.execute(_USED).fetchall():
        conn.execute(statement)


@contextmanager
def locked_table(url: str, table: str) -> Iterator[Connection]:
    """Lock the table, so that its rows can be read, but neither locked nor written."""
    with psycopg.connect(url) as lock:
        lock.execute(f"lock table {table} in exclusive mode".encode())
        yield lock


def wait_for_workers(count: Callable[[], int], processes: int, check: Check) -> float:
    """Wait until all processes wait for the lock; return the time when the last one came."""
    deadline = time.monotonic() + _LONGEST_S
    waiting, last = 0, time.time()
    while waiting < processes or time.time() - last < _STABLE_S:
        check()
        if time.monotonic() > deadline:
            raise BenchError(
                f"{waiting} of {processes} workers asked for jobs within {_LONGEST_S} s"
            )
        if (now := count()) > waiting:
            waiting, last = now, time.time()
        time.sleep(_PAUSE_S)
    return last


def count_waiting(conn: Connection) -> int:
    (count,) = conn.execute(_WAITING, [conn.info.dbname]).fetchone() or (0,)
    return int(count)


class Redis:
    """A connection to Redis with the few commands that the benchmarks need."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path}"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_LONGEST_S)
        self._socket.connect(str(path))

    def run_command(self, *arguments: str) -> str:
        self._socket.sendall((" ".join(arguments) + "\r\n").encode())
        return self._socket.recv(65536).decode()

    def count_blocked(self) -> int:
        """Return the number of clients that wait for an element of a list."""
        lines = self.run_command("info", "clients").splitlines()
        return next(int(line.split(":")[1]) for line in lines if "blocked_clients" in line)

    def count_polling(self) -> int:
        """Return the number of clients whose last command was a script: those poll for jobs."""
        return self.run_command("client", "list").count(" cmd=evalsha ")

    def close(self) -> None:
        self._socket.close()


@contextmanager
def start_redis(folder: Path) -> Iterator[Redis]:
    """Start Redis in memory only: it writes nothing to disk, as is usual for these systems."""
    path = folder / "redis.sock"
    arguments = ["--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    with subprocess.Popen(
        [str(rival_environments.redis_server()), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            deadline = time.monotonic() + _LONGEST_S
            while not path.exists():
                if server.poll() is not None or time.monotonic() > deadline:
                    raise BenchError("redis-server did not start")
                time.sleep(_PAUSE_S)
            redis = Redis(path)
            yield redis
            redis.close()
        finally:
            server.terminate()

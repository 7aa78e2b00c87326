"""Run one Postgres server for all processes of a test run.

Each process holds a shared file lock; the first one starts the server. The last holder to release
the lock removes the server. If that process was killed, a watchdog removes the server. database.py
manages the databases.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote, urlencode

from psycopg.conninfo import conninfo_to_dict

from jobforge.config import load
from jobforge.embedded import Embedded, PostgresServer

# The data does not outlive the run, so durability is off. Autovacuum is off: it would block copying
# the template, and would change plans and statistics during a test.
SETTINGS = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_locks_per_transaction": "256",
    "max_wal_senders": "0",
    "shared_buffers": "128MB",
    "synchronous_commit": "off",
    "timezone": "UTC",
    "wal_level": "minimal",
}

# Forks before it imports anything, so that subprocess.run returns at once.
_WATCHDOG = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
from jobforge.testing.cluster import run_watchdog
run_watchdog(*sys.argv[1:])
"""


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server, with the URL of a user who may create databases and roles."""

    url: str
    is_durable: bool = True

    def url_of(self, database: str, *, role: str | None = None) -> str:
        """Return the URL of a database. Its sessions use the role, if one is given."""
        parameters = conninfo_to_dict(self.url)
        if role is not None:
            parameters["options"] = f"{parameters.get('options') or ''} -c role={role}".strip()
        return _url(parameters, database)


@dataclass(frozen=True, slots=True)
class Cluster:
    """An embedded server in a folder whose name is derived from the run ID."""

    folder: Path
    bin_dir: Path | None = None

    @classmethod
    def for_run(cls, run: str, bin_dir: Path | None = None) -> Self:
        return cls(Path(tempfile.gettempdir()) / f"jobforge-tests-{run[:12]}", bin_dir)

    @contextmanager
    def hold(self) -> Iterator[Postgres]:
        """Yield the running server; remove it at the end if no other process holds it."""
        with self._shared_lock() as lock:
            try:
                self._start_watchdog()
                yield Postgres(self._embedded().start(), is_durable=False)
            finally:
                if _is_last_holder(lock):
                    self.remove()

    def find_server(self) -> PostgresServer | None:
        """Return the running server, or None."""
        return self._embedded().running()

    def remove(self) -> None:
        self._embedded().stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_after_run(self) -> None:
        """Wait until no process holds the cluster, and remove it if it still exists."""
        with suppress(FileNotFoundError), self._lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._is_current(lock):
                self.remove()

    def _shared_lock(self) -> IO[str]:
        while True:
            self.folder.mkdir(exist_ok=True)
            self.folder.chmod(0o755)  # if we are root, the server runs as another user
            lock = self._lock.open("a")
            fcntl.flock(lock, fcntl.LOCK_SH)
            if self._is_current(lock):
                return lock
            lock.close()  # the folder was removed while we waited

    def _is_current(self, lock: IO[str]) -> bool:
        """Return whether the lock file is still the one in the folder."""
        return self._lock.exists() and os.path.samestat(os.fstat(lock.fileno()), self._lock.stat())

    @property
    def _lock(self) -> Path:
        return self.folder / "run.lock"

    def _embedded(self) -> Embedded:
        return Embedded(self.folder / "pg", bin_dir=self.bin_dir, settings=SETTINGS)

    def _start_watchdog(self) -> None:
        try:
            (self.folder / "watchdog").touch(exist_ok=False)
        except FileExistsError:
            return
        arguments = [self.folder] if self.bin_dir is None else [self.folder, self.bin_dir]
        subprocess.run(
            [sys.executable, "-c", _WATCHDOG, *map(str, arguments)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@contextmanager
def hold_postgres(run: str) -> Iterator[Postgres]:
    """Yield the server of the settings, or else the embedded server of this run."""
    settings = load()
    if settings.test_database_url:
        yield Postgres(settings.test_database_url)
        return
    with Cluster.for_run(run, settings.pg_bin).hold() as postgres:
        yield postgres


def run_watchdog(folder: str, bin_dir: str | None = None) -> None:
    """Remove the cluster when all its holders have exited. Runs in a separate process."""
    Cluster(Path(folder), Path(bin_dir) if bin_dir else None).remove_after_run()


def _is_last_holder(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _url(parameters: dict[str, str | int | None], database: str) -> str:
    """Convert libpq parameters to a URL, which every driver can read."""
    rest = {name: str(value) for name, value in parameters.items() if value is not None}
    user, password = rest.pop("user", ""), rest.pop("password", None)
    rest.pop("dbname", None)
    credentials = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    address = ""
    if rest.get("host", "/")[0] not in "/@" and "," not in rest["host"]:
        host = rest.pop("host")
        address = f"[{host}]" if ":" in host else host
        address += f":{rest.pop('port')}" if "port" in rest else ""
    query = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    user_part = f"{credentials}@" if credentials else ""
    return f"postgresql://{user_part}{address}/{quote(database, safe='')}{query}"

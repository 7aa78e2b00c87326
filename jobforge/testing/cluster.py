"""The Postgres of a test run: one server for all its processes.

Every process of the run that uses the cluster holds it; the first of them starts the server. The
last one to end removes it, or else a watchdog does when all are gone, also those that were killed.
What is in the server is database.py's.
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

from jobforge.embedded import Embedded, PostgresServer

# Nothing here outlives the run, so nothing needs to be durable. Autovacuum is off: it would hold up
# the copying of the template, and plans and statistics are those that the test made.
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

# It leaves its starter before it imports anything, so that nobody waits for it.
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
    """A server, and a user there who may create databases and roles."""

    url: str
    is_durable: bool = True

    def url_of(self, database: str, *, role: str | None = None) -> str:
        """The URL of a database. Its sessions act as the role, when one is given."""
        given = conninfo_to_dict(self.url)
        if role is not None:
            given["options"] = f"{given.get('options') or ''} -c role={role}".strip()
        return _url(given, database)


@dataclass(frozen=True, slots=True)
class Cluster:
    """An embedded server in a folder whose name all processes of the run know."""

    folder: Path
    bin_dir: Path | None = None

    @classmethod
    def for_run(cls, run: str, bin_dir: Path | None = None) -> Self:
        return cls(Path(tempfile.gettempdir()) / f"jobforge-tests-{run[:12]}", bin_dir)

    @contextmanager
    def hold(self) -> Iterator[Postgres]:
        """The running server; at the end it is removed, if nobody else of the run needs it."""
        with self._shared_lock() as lock:
            try:
                self._start_watchdog()
                yield Postgres(self._embedded().start(), is_durable=False)
            finally:
                if _is_last_holder(lock):
                    self.remove()

    def find_server(self) -> PostgresServer | None:
        """The server of a cluster that is held."""
        return self._embedded().running()

    def remove(self) -> None:
        self._embedded().stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_after_run(self) -> None:
        """Waits until nobody holds the cluster, and removes what they left."""
        with suppress(FileNotFoundError), self._lock.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._is_current(lock):
                self.remove()

    def _shared_lock(self) -> IO[str]:
        while True:
            self.folder.mkdir(exist_ok=True)
            self.folder.chmod(0o755)  # when we are root, another user runs the server in it
            lock = self._lock.open("a")
            fcntl.flock(lock, fcntl.LOCK_SH)
            if self._is_current(lock):
                return lock
            lock.close()  # it was removed while we waited

    def _is_current(self, lock: IO[str]) -> bool:
        """Whether the lock is that of the folder as it is now."""
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
        places = [self.folder] if self.bin_dir is None else [self.folder, self.bin_dir]
        subprocess.run(
            [sys.executable, "-c", _WATCHDOG, *map(str, places)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def run_watchdog(folder: str, bin_dir: str | None = None) -> None:
    """The watchdog's life."""
    Cluster(Path(folder), Path(bin_dir) if bin_dir else None).remove_after_run()


def _is_last_holder(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _url(given: dict[str, str | int | None], database: str) -> str:
    """libpq's words as a URL, which every driver reads."""
    rest = {name: str(value) for name, value in given.items() if value is not None}
    user, password = rest.pop("user", ""), rest.pop("password", None)
    rest.pop("dbname", None)
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    where = ""
    if rest.get("host", "/")[0] not in "/@" and "," not in rest["host"]:
        host = rest.pop("host")
        where = f"[{host}]" if ":" in host else host
        where += f":{rest.pop('port')}" if "port" in rest else ""
    query = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    return f"postgresql://{who}{'@' if who else ''}{where}/{quote(database, safe='')}{query}"

"""A `jobforge server` process on a fresh database, with the default settings.

The server listens on loopback, writes its access log to a file, and counts requests against limits
that are out of reach. Its login is a member of jobforge_server only.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

from bench_servers import BenchError, BenchServers
from compared_side import Side
from psycopg.conninfo import make_conninfo

from jobforge import calls, db
from jobforge.security.api_keys import generate_api_key
from jobforge.types.api_keys import Role

_LOGIN = "bench_server"
_LIMITS = {"JOBFORGE_REQUEST_RATE": "1000000", "JOBFORGE_TENANT_REQUEST_RATE": "1000000"}
_LONGEST_S = 60
_PAUSE_S = 0.01


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A running server. `database` is the superuser's URL, `login` the server's URL."""

    database: str
    login: str
    address: tuple[str, int]
    process: "subprocess.Popen[bytes]"
    log: Path

    def create_key(self, tenant_id: UUID, role: Role) -> str:
        key = generate_api_key()
        call = calls.create_api_key(
            "bench", role, lookup=key.lookup, hash=key.hash, tenant_id=tenant_id
        )
        with db.connect(self.database) as conn:
            db.run(conn, call)
        return key.text

    @property
    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def open_files(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        _wait_until(self.process, self.log, condition, what)


def install_template(servers: BenchServers, side: Side) -> None:
    """Create the template of all databases and the login of all servers. Call this once."""
    side.install(servers)
    servers.admin.execute(f"create role {_LOGIN} login in role jobforge_server".encode())


@contextmanager
def start_server(servers: BenchServers, side: Side) -> Iterator[RunningServer]:
    with (
        side.fresh_store(servers) as database,
        tempfile.NamedTemporaryFile(dir=servers.folder) as file,
    ):
        login = make_conninfo(database, user=_LOGIN)
        process = subprocess.Popen(
            [sys.executable, "-m", "jobforge", "server", "--port", "0", "--log-format", "json"],
            env=_environment(login),
            cwd=servers.folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        log = Path(file.name)
        try:
            _wait_until(process, log, lambda: _address(log) is not None, "listen")
            yield RunningServer(database, login, _address(log) or ("", 0), process, log)
        finally:
            _stop(process)


def _environment(login: str) -> dict[str, str]:
    inherited = {
        name: text for name, text in os.environ.items() if not name.startswith("JOBFORGE_")
    }
    return {**inherited, **_LIMITS, "JOBFORGE_DATABASE_URL": login}


def _address(log: Path) -> tuple[str, int] | None:
    """Return the address from the server's log, or None before the server listens."""
    for line in log.read_text().splitlines(keepends=True):
        if '"server.listening"' in line and line.endswith("\n"):
            parts = urlsplit(json.loads(line)["url"])
            return str(parts.hostname), int(parts.port or 0)
    return None


def _wait_until(
    process: "subprocess.Popen[bytes]", log: Path, condition: Callable[[], bool], what: str
) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not condition():
        if process.poll() is not None:
            raise BenchError(f"the server exited: {log.read_text()[-1000:]}")
        if time.monotonic() > deadline:
            raise BenchError(f"the server did not {what} within {_LONGEST_S} s")
        time.sleep(_PAUSE_S)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_LONGEST_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

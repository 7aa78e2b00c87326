"""The embedded Postgres for `jobforge dev` and the tests.

Manages one data directory: creates it, starts and stops its server, and returns URLs for it. It
does not manage the contents of databases.

Next to the data directory `pg` are `pg.lock` (so that one process at a time starts or stops the
server) and `pg.password` (of the user postgres, for TCP). The socket is inside the data directory,
which only its owner can enter, so it needs no password.
"""

import fcntl
import hashlib
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import quote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import PGconn, Ping

from jobforge.embedded.binaries import Account, Binaries, account_for, find_binaries, make_folders
from jobforge.errors import EmbeddedError

SUPERUSER = "postgres"

# Default location if the account cannot enter the configured directory, such as root's home.
FALLBACK_DIR = Path("/var/lib/jobforge")

# macOS allows 103 bytes, Linux 107; one limit gives the same result on both.
_SOCKET_PATH_LIMIT = 103
_START_SECONDS = 60
_DEFAULT_PORT = 5432
_CRASH_RETRIES, _RETRIES, _RETRY_PAUSE = 60, 3, 0.25


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A running server, from the postmaster.pid in its data directory."""

    pid: int
    port: int
    socket_dir: Path
    tcp_host: str | None

    def url(self, database: str = "postgres", *, user: str = SUPERUSER) -> str:
        host = quote(str(self.socket_dir), safe="")
        return f"postgresql://{user}@/{database}?host={host}&port={self.port}"

    @classmethod
    def read(cls, data: Path) -> Self | None:
        try:
            lines = (data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return None
        if len(lines) < 6 or not lines[4]:
            return None
        return cls(int(lines[0]), int(lines[3]), Path(lines[4]), lines[5] or None)


@dataclass(slots=True)
class Embedded:
    """One embedded server. `start()` also connects to a server that is already running."""

    data_dir: Path
    bin_dir: Path | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    tcp: bool = False
    started_here: bool = field(default=False, init=False)

    def start(self) -> str:
        """Start the server unless it is running; return its URL."""
        with self._lock_folder() as (data, binaries):
            if not (data / "PG_VERSION").exists():
                self._create(data, binaries)
            _check_same_major(data, binaries)
            server = _wait_until_ready(data)
            if server is None:
                server = self._launch(data, binaries)
                self.started_here = True
        return server.url()

    def stop(self) -> None:
        """Stop the server if it is running, even if another process started it."""
        with self._lock_folder() as (data, binaries):
            server = PostgresServer.read(data)
            if server is None or not _is_alive(server.pid):
                return
            stop = ("pg_ctl", "-D", str(data), "-w", "-t", "30", "stop", "-m")
            if binaries.run(*stop, "fast").returncode != 0:
                binaries.run_checked(*stop, "immediate")
            if server.socket_dir != data:
                shutil.rmtree(server.socket_dir, ignore_errors=True)

    def running(self) -> PostgresServer | None:
        """Return the server if it is running and accepts connections."""
        server = PostgresServer.read(_locate_data(self.data_dir)[0])
        return server if server and _is_alive(server.pid) and _ping(server) == Ping.OK else None

    def is_at(self, url: str) -> bool:
        """Return whether the URL leads to this server, by its socket or by TCP."""
        server = PostgresServer.read(_locate_data(self.data_dir)[0])
        if server is None:
            return False
        try:
            given = conninfo_to_dict(url)
            port = int(given.get("port") or _DEFAULT_PORT)
        except (ProgrammingError, ValueError):  # several hosts, or not a valid URL
            return False
        host = given.get("host")
        if port != server.port:
            return False
        return host == str(server.socket_dir) or (host is not None and host == server.tcp_host)

    def tcp_url(self, database: str = "postgres") -> str:
        """Return the running server's TCP URL on loopback, with the password."""
        server = self.running()
        if server is None or server.tcp_host is None:
            raise EmbeddedError(
                f"The Postgres in {self.data_dir} does not listen on TCP",
                hint="Stop it, and start it with TCP enabled",
            )
        password = _password_file(_locate_data(self.data_dir)[0]).read_text().strip()
        return f"postgresql://{SUPERUSER}:{password}@{server.tcp_host}:{server.port}/{database}"

    @contextmanager
    def _lock_folder(self) -> Iterator[tuple[Path, Binaries]]:
        data, account = _locate_data(self.data_dir)
        _refuse_shell_characters(data)
        try:
            make_folders(data.parent)
            lock = data.with_name(data.name + ".lock").open("a")
        except OSError as error:
            raise EmbeddedError(f"Cannot use the folder {data.parent}: {error.strerror}") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield data, find_binaries(self.bin_dir).for_account(account)

    def _create(self, data: Path, binaries: Binaries) -> None:
        # A killed initdb leaves an incomplete directory, so create another one and rename it.
        staging = data.with_name(data.name + ".initdb")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=0o700)
        password_file = _password_file(data)
        password_file.unlink(missing_ok=True)
        password_file.touch(mode=0o600)
        password_file.write_text(secrets.token_urlsafe(24) + "\n")
        if binaries.account:
            binaries.account.take_ownership(staging, password_file)
        binaries.run_checked(
            *("initdb", "-D", str(staging), "-U", SUPERUSER, "--pwfile", str(password_file)),
            *("--auth-local=trust", "--auth-host=scram-sha-256"),
            *("--encoding=UTF8", "--no-locale", "--data-checksums", "--no-instructions"),
            *(["--no-sync"] if self.settings.get("fsync") == "off" else []),
        )
        try:
            staging.rename(data)
        except OSError as error:
            raise EmbeddedError(f"{data} already exists and contains no Postgres data") from error
        _create_symlink(self.data_dir, data)

    def _launch(self, data: Path, binaries: Binaries) -> PostgresServer:
        # After a crash, the lock file remains, and orphaned backends keep the shared memory for a
        # second or two; Postgres refuses to start until they have exited.
        crashed = (data / "postmaster.pid").exists()
        _drop_lock_of_zombie(data)
        output = ""
        for _ in range(_CRASH_RETRIES if crashed else _RETRIES):
            started = self._start_once(data, binaries)
            server = PostgresServer.read(data)
            if started.returncode == 0 and server is not None:
                return server
            output = started.stdout
            time.sleep(_RETRY_PAUSE)
        raise EmbeddedError(
            f"Postgres did not start in {data}: {_last_error(_log(data), output)}",
            hint=f"See the log in {_log(data)}",
        )

    def _start_once(self, data: Path, binaries: Binaries) -> "subprocess.CompletedProcess[str]":
        socket_dir = _socket_dir(data, binaries.account)
        options = {
            **self.settings,
            "unix_socket_directories": '"' + str(socket_dir).replace('"', '""') + '"',
            "listen_addresses": "127.0.0.1" if self.tcp else "",
            "port": str(_free_port() if self.tcp else _DEFAULT_PORT),
        }
        arguments = [
            argument for name, value in options.items() for argument in ("-c", f"{name}={value}")
        ]
        started = binaries.run(
            *("pg_ctl", "-D", str(data), "-l", str(_log(data)), "-w", "-t", str(_START_SECONDS)),
            *("-o", shlex.join(arguments), "start"),
        )
        if started.returncode != 0 and socket_dir != data:
            shutil.rmtree(socket_dir, ignore_errors=True)
        return started


def _locate_data(data_dir: Path) -> tuple[Path, Account | None]:
    """Return the actual data directory, and the account that runs the server."""
    data = data_dir.expanduser().resolve()
    account = account_for(data)
    if account is None or account.can_enter(data.parent):
        return data, account
    elsewhere = FALLBACK_DIR / hashlib.sha256(str(data).encode()).hexdigest()[:16] / data.name
    return elsewhere, account_for(elsewhere)


def _refuse_shell_characters(data: Path) -> None:
    # pg_ctl starts the server through a shell, with paths in double quotes.
    if set(str(data)) & set('"$`\\\n'):
        raise EmbeddedError(f'The path {data} must not contain " $ ` \\ or a line break')


def _create_symlink(data_dir: Path, data: Path) -> None:
    link = data_dir.expanduser().absolute()
    if link.resolve() == data:
        return
    make_folders(link.parent)
    link.symlink_to(data)


def _check_same_major(data: Path, binaries: Binaries) -> None:
    made_by, now = int((data / "PG_VERSION").read_text()), binaries.major()
    if made_by != now:
        raise EmbeddedError(
            f"{data} was created by Postgres {made_by}, but the binaries have version {now}",
            hint="Use the previous version, or choose another folder with JOBFORGE_DATA_DIR",
        )


def _wait_until_ready(data: Path) -> PostgresServer | None:
    """Return the server if it is already running; wait while it is recovering."""
    server = PostgresServer.read(data)
    deadline = time.monotonic() + _START_SECONDS
    while server and _is_alive(server.pid) and time.monotonic() < deadline:
        status = _ping(server)
        if status != Ping.REJECT:
            return server if status == Ping.OK else None
        time.sleep(_RETRY_PAUSE)
    return None


def _ping(server: PostgresServer) -> Ping:
    return Ping(PGconn.ping(server.url().encode()))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state == "Z"


def _drop_lock_of_zombie(data: Path) -> None:
    # In a container whose init process does not reap children, a killed server remains a zombie,
    # and Postgres believes that the process in its lock file is alive.
    server = PostgresServer.read(data)
    if server and _is_zombie(server.pid):
        (data / "postmaster.pid").unlink()


def _socket_dir(data: Path, account: Account | None) -> Path:
    # libpq reads a comma in the host as a separator of hosts.
    if len(os.fsencode(data / ".s.PGSQL.65535")) <= _SOCKET_PATH_LIMIT and "," not in str(data):
        return data
    short = Path(tempfile.mkdtemp(prefix="jobforge-", dir="/tmp"))
    if account:
        account.take_ownership(short)
    return short


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _password_file(data: Path) -> Path:
    return data.with_name(data.name + ".password")


def _log(data: Path) -> Path:
    return data / "server.log"


def _last_error(log: Path, otherwise: str) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    errors = [line for line in lines if "FATAL" in line or "PANIC" in line]
    return errors[-1] if errors else otherwise.strip()

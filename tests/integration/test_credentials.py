"""The credentials of surrounding processes that an isolated job can find.

The tests cover every kind of process with every way to configure it. The processes run as an
unprivileged user, as jobs do, because root may read everything. When the tests run as root, that
user may read all files, because the interpreter may be in root's home. One test runs a worker as
root, at the level `user`.

Files are not tested with `jobforge dev`: it keeps its keys in a folder that its user can write to,
and docs/credentials.md says that its jobs can read them.
"""

import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
import pytest
from attacks import Attempts
from cluster import Connection, Database, wait_until
from contract.typescript_sdk import worker_command
from integration.terminal import InProcessTerminal, RunningProgram, Terminal, environment

from jobforge import calls, db
from jobforge.db.migrate import migrate
from jobforge.embedded import Embedded
from jobforge.worker.isolation import landlock

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc"),
    pytest.mark.skipif(
        os.getuid() == 0 and shutil.which("setpriv") is None,
        reason="root needs setpriv to start a process as another user",
    ),
]
needs_landlock = pytest.mark.skipif(
    os.getuid() != 0 or not landlock.is_available(),
    reason="needs Landlock, and root to make a folder that the worker's user cannot write to",
)

APP = Path(__file__).with_name("scanning_app.py")
RIGHT = "+dac_read_search"
WORKER = ["worker", "--no-scheduler", "--no-connectors", "--queues", "default:1"]
# Each kind of process, and its output, with its number of repetitions, after it has started.
COMMANDS = [
    (WORKER, '"worker.started"', 1),
    ([*WORKER[:-1], "fleet:1", "--processes", "2"], '"worker.started"', 2),
    (["scheduler"], '"scheduler.started"', 1),
    (["server", "--port", "0"], '"server.listening"', 1),
]


# Its processes cannot hide their memory from others of the same user, so no scan reads it.
TYPESCRIPT = "scanning_app.ts"


@dataclass
class Setting:
    """The places where one kind of process finds its credentials."""

    variables: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)  # contents, by file name


Configure = Callable[[str, str, Path], Setting]


def _by_variables(url: str, canary: str, _folder: Path) -> Setting:
    return Setting(
        {
            "JOBFORGE_DATABASE_URL": url,
            "JOBFORGE_LISTEN_URL": url,
            "JOBFORGE_SECRET_KEY": f"{canary}{'0' * 42}"[:64],
            "JOBFORGE_SECRET_API": canary,
            "JOBFORGE_SESSION_SECRET": canary * 2,
            "JOBFORGE_METRICS_TOKEN": canary * 2,
            "PGPASSWORD": canary,
        }
    )


def _by_flag(url: str, _canary: str, _folder: Path) -> Setting:
    return Setting(arguments=["--database-url", url])


def _by_flag_in_one_word(url: str, _canary: str, _folder: Path) -> Setting:
    return Setting(arguments=[f"--database-url={url}"])


def _by_pgpassword(url: str, canary: str, _folder: Path) -> Setting:
    return Setting({"JOBFORGE_DATABASE_URL": url.replace(f":{canary}", ""), "PGPASSWORD": canary})


def _by_files(url: str, canary: str, folder: Path) -> Setting:
    files = {
        "database_url": url,
        "listen_url": url,
        "secret_key": f"{canary}{'0' * 42}"[:64],
        "secret_key_previous": f"{canary}{'1' * 42}"[:64],
        "session_secret": canary * 2,
        "metrics_token": canary * 2,
        "jwt_secret": canary * 2,
        "artifacts_secret_key": canary,
        "key": f"jf_{canary}",
    }
    variables = {f"JOBFORGE_{name.upper()}_FILE": str(folder / name) for name in files}
    return Setting(variables, files=files)


def _by_config_file(url: str, _canary: str, _folder: Path) -> Setting:
    return Setting(files={"jobforge.toml": f'database_url = "{url}"'})


def _by_profile(url: str, _canary: str, folder: Path) -> Setting:
    return Setting(
        {"XDG_CONFIG_HOME": str(folder), "JOBFORGE_PROFILE": "production"},
        files={"jobforge/config.toml": f'[profiles.production]\ndatabase_url = "{url}"'},
    )


def _by_passfile(url: str, canary: str, folder: Path) -> Setting:
    return Setting(
        {
            "JOBFORGE_DATABASE_URL": url.replace(f":{canary}", ""),
            "PGPASSFILE": str(folder / "passwords"),
        },
        files={"passwords": f"*:*:*:*:{canary}"},
    )


def _by_service(url: str, canary: str, folder: Path) -> Setting:
    return Setting(
        {
            "JOBFORGE_DATABASE_URL": url.replace(f":{canary}", ""),
            "PGSERVICEFILE": str(folder / "services"),
            "JOBFORGE_SECRETS_DIR": str(folder / "secrets"),
        },
        files={"services": f"[main]\npassword={canary}", "secrets/api": canary},
    )


FILES: list[Configure] = [_by_files, _by_config_file, _by_profile, _by_passfile, _by_service]


def _by_all_files(url: str, canary: str, folder: Path) -> Setting:
    """Set all of these at once: a process reads each of them, whichever it then uses."""
    found = [configure(url, canary, folder) for configure in FILES]
    variables = {name: value for each in found for name, value in each.variables.items()}
    del variables["JOBFORGE_DATABASE_URL"]  # excludes the setting of the corresponding file
    return Setting(
        variables, files={name: text for each in found for name, text in each.files.items()}
    )


@pytest.fixture
def unwritable() -> Iterator[Path]:
    """Return a folder for the app that the processes cannot write to, nor to its parent folders."""
    around = Path("/run") if os.getuid() == 0 and Path("/run").is_dir() else None
    created = Path(tempfile.mkdtemp(prefix="jobforge-tests-", dir=around))
    created.chmod(0o755)
    yield created
    shutil.rmtree(created)


@dataclass
class Site:
    """Processes of one installation with the same source of credentials."""

    database: Database
    conn: Connection
    folder: Path
    canary: str = field(default_factory=lambda: f"kanari{secrets.token_hex(8)}")

    @property
    def url(self) -> str:
        """Return a URL with the canary as password, which this server does not ask for."""
        return self.database.url.replace("postgres@", f"postgres:{self.canary}@", 1)

    def shell(self, setting: Setting, prefix: Sequence[str] | None = None) -> Terminal:
        shutil.copy(APP, self.folder / "app.py")
        for name, content in setting.files.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
            path.chmod(0o600)
        shell = Terminal(
            self.folder,
            **{"HOME": str(self.folder), "JOBFORGE_TENANT": "acme", **setting.variables},
        )
        shell.prefix = [*(_as_user() if prefix is None else prefix)]
        return shell

    @property
    def operator(self) -> Terminal:
        return InProcessTerminal(
            self.folder, JOBFORGE_DATABASE_URL=self.database.url, JOBFORGE_TENANT="acme"
        )

    def scan(self, job: str, pids: list[int], files: Sequence[Path] = ()) -> "Scan":
        """Return where such a job finds this site's canary."""
        paths = json.dumps([str(file) for file in files])
        job_id = self.operator.read("enqueue", job, f"pids:={pids}", f"files:={paths}")
        self.operator.read("jobs", "wait", job_id)
        shown = self.operator.read_json("jobs", "show", job_id)
        assert shown["job"]["state"] == "succeeded", shown
        return self._parse_findings(shown["job"]["result"])

    def scan_from_outside(self, pids: list[int]) -> "Scan":
        """Return where a process finds the canary that has the same user but is not a job."""
        said = subprocess.run(
            [*_as_user(), sys.executable, str(self.folder / "app.py"), json.dumps(pids)],
            capture_output=True,
            text=True,
            check=True,
            env=environment(),
        )
        return self._parse_findings(json.loads(said.stdout))

    def _parse_findings(self, result: dict[str, Any]) -> "Scan":
        hits = {place for place, hit in result["found"] if hit in {"", self.canary[::-1]}}
        return Scan(sorted(hits), result["tried"])


class Scan(NamedTuple):
    places: list[str]
    tried: int


@pytest.fixture
def site(database: Database, conn: Connection, unwritable: Path) -> Site:
    db.run(conn, calls.put_tenant(uuid4(), {"slug": "acme"}))
    return Site(database, conn, unwritable)


def _as_user() -> list[str]:
    if os.getuid() != 0:
        return []
    # The server's user, who may use its socket.
    user = pwd.getpwnam("nobody")
    return [
        *("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"),
        *(f"--inh-caps={RIGHT}", f"--ambient-caps={RIGHT}"),
    ]


def _as_root() -> list[str]:
    """At the level `user`, jobs have other users, who must be able to read this Python."""
    code = (
        "import os, sys; from integration.attack_runner import show_code; show_code(); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", code]


def _start_all(running: ExitStack, shell: Terminal, setting: Setting) -> list[RunningProgram]:
    """Start one process of each kind."""
    programs = [
        running.enter_context(shell.start(*command, *setting.arguments))
        for command, _, _ in COMMANDS
    ]
    for program, (_, words, times) in zip(programs, COMMANDS, strict=True):
        program.wait_for(words, times=times)
    return programs


def _tree(pid: int) -> list[int]:
    """Return the process and its descendants."""
    found = [pid]
    for known in found:
        children = Path(f"/proc/{known}/task/{known}/children").read_text(encoding="ascii")
        found += map(int, children.split())
    return found


@pytest.mark.attack("credentials")
@pytest.mark.parametrize(
    "configure", [_by_variables, _by_flag, _by_flag_in_one_word, _by_pgpassword]
)
def test_a_job_finds_no_credentials_in_any_process(
    site: Site, configure: Configure, attempts: Attempts
) -> None:
    setting = configure(site.url, site.canary, site.folder)
    shell = site.shell(setting)
    with ExitStack() as running:
        programs = _start_all(running, shell, setting)
        programs.append(_waiting_command(running, site, shell, setting))
        typescript = _typescript_worker(running, shell, setting)
        pids = [pid for program in programs for pid in _tree(program.process.pid)]
        scans = [
            site.scan("scan", pids),
            site.scan("scan_in_fleet", pids),
            site.scan_from_outside(pids),
            site.scan("scan_in_typescript", [typescript.process.pid]),
        ]
        typescript_said = typescript.output
    attempts(sum(scan.tried for scan in scans))
    assert [scan.places for scan in scans] == [[], [], [], []]
    assert "Debugger" not in typescript_said
    assert site.canary not in typescript_said


def _typescript_worker(running: ExitStack, shell: Terminal, setting: Setting) -> RunningProgram:
    command = [*worker_command(TYPESCRIPT), "--queues", "typescript:1", *setting.arguments]
    program = running.enter_context(shell.start_program(*command))
    program.wait_for('"worker.started"')
    return program


def _waiting_command(
    running: ExitStack, site: Site, shell: Terminal, setting: Setting
) -> RunningProgram:
    """Start a long-running command of an operator."""
    job_id = site.operator.read("enqueue", "scan", "pids:=[]", "files:=[]", "--in", "1h")
    program = running.enter_context(shell.start("jobs", "wait", job_id, *setting.arguments))
    wait_until(lambda: _is_hidden(program.process.pid, site.canary))
    return program


def _is_hidden(pid: int, canary: str) -> bool:
    """Return whether the process has hidden its initial environment and arguments."""
    shown = Path(f"/proc/{pid}/cmdline").read_bytes()
    with suppress(PermissionError):
        shown += Path(f"/proc/{pid}/environ").read_bytes()
    return b"jobs\0wait" in shown and canary.encode() not in shown


@pytest.mark.attack("credentials")
def test_dev_and_its_worker_show_no_credentials(
    folder: Path, database: Database, conn: Connection, attempts: Attempts
) -> None:
    site = Site(database, conn, folder)
    shell = site.shell(_by_variables(site.url, site.canary, folder))
    # Started before `dev`, which joins it, because creating it takes long.
    with psycopg.connect(Embedded(folder / ".jobforge" / "pg").start(), autocommit=True) as own:
        migrate(own)
    if os.getuid() == 0:
        for path in (folder, folder / ".jobforge", *(folder / ".jobforge").glob("pg.*")):
            os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
    with shell.start("dev", "app.py") as dev:
        dev.wait_for("Postgres was already running.")
        dev.wait_for('"worker.started"')
        scan = site.scan_from_outside(_tree(dev.process.pid))
    attempts(scan.tried)
    assert scan.places == []


@needs_landlock
@pytest.mark.attack("credentials")
@pytest.mark.parametrize("configure", FILES)
def test_a_job_cannot_read_the_files_with_credentials(
    site: Site, configure: Configure, attempts: Attempts
) -> None:
    setting = configure(site.url, site.canary, site.folder)
    shell = site.shell(setting)
    with shell.start(*WORKER) as program:
        program.wait_for('"worker.started"')
        files = [site.folder / name for name in setting.files]
        scan = site.scan("scan", _tree(program.process.pid), files)
    attempts(scan.tried)
    assert scan.places == []


@needs_landlock
@pytest.mark.attack("credentials")
def test_no_process_shows_credentials_that_it_reads_from_files(
    site: Site, attempts: Attempts
) -> None:
    setting = _by_all_files(site.url, site.canary, site.folder)
    shell = site.shell(setting)
    files = [site.folder / name for name in setting.files]
    with ExitStack() as running:
        programs = _start_all(running, shell, setting)
        pids = [pid for program in programs for pid in _tree(program.process.pid)]
        scans = [site.scan(job, pids, files) for job in ("scan", "scan_in_fleet")]
    attempts(sum(scan.tried for scan in scans))
    assert [scan.places for scan in scans] == [[], []]


@pytest.mark.skipif(os.getuid() != 0, reason="the isolation level user needs root")
@pytest.mark.attack("credentials")
@pytest.mark.parametrize("configure", [_by_variables, _by_all_files])
def test_a_job_of_a_root_worker_finds_no_credentials(
    site: Site, configure: Configure, attempts: Attempts
) -> None:
    """Landlock protects no file here, because root can write to every folder."""
    setting = configure(site.url, site.canary, site.folder)
    setting.variables["JOBFORGE_ISOLATION_LEVEL"] = "user"
    shell = site.shell(setting, _as_root())
    files = [site.folder / name for name in setting.files]
    with shell.start(*WORKER) as program:
        program.wait_for('"worker.started"')
        scan = site.scan("scan", _tree(program.process.pid), files)
    attempts(scan.tried)
    assert scan.places == []

"""The commands over HTTP: with --server and a key they say what they say on a database."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from api.house import House, house
from cluster import fresh_database
from sql.engine import claim, complete, enqueue_one, new_worker

from jobforge.cli import main
from jobforge.embedded import Server

WORKER = new_worker()


class Said(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Shell:
    """`jobforge` in this process: a program takes a second to begin."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        variables: dict[str, str],
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self._variables = variables

    def run(self, *words: str) -> Said:
        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["jobforge", *words])
            for name, value in self._variables.items():
                patched.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main()
        return Said(int(ended.value.code or 0), *self._capsys.readouterr())

    def read(self, *words: str) -> str:
        said = self.run(*words)
        assert said.returncode == 0, said.stderr
        return said.stdout.strip()

    def read_json(self, *words: str) -> Any:
        return json.loads(self.read(*words, "--json"))


Open = Callable[..., Shell]


@pytest.fixture
def opened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Open:
    """Opens shells in a folder of their own, with JOBFORGE_* variables set."""
    monkeypatch.chdir(tmp_path)
    return lambda **variables: Shell(monkeypatch, capsys, variables)


@pytest.fixture(scope="module")
def api(server: Server) -> Iterator[House]:
    with fresh_database(server) as database, house(database) as opened:
        yield opened


def test_commands_say_over_http_what_they_say_on_the_database(api: House, opened: Open) -> None:
    shell = opened(JOBFORGE_SERVER=api.url, JOBFORGE_KEY=api.a.keys["tenant_admin"])
    direct = opened(
        JOBFORGE_DATABASE_URL=api.database.url_as("admin_login"),
        JOBFORGE_TENANT=str(api.a.tenant_id),
    )
    made = UUID(shell.read("enqueue", "plain", "n:=1", "--tag", "x", "--key", "k"))
    enqueue_one(api.conn, api.a.tenant_id, definition="plain", payload={"n": 2})
    [job] = claim(api.conn, WORKER, limit=1, tenants=[api.a.tenant_id])
    assert job["job_id"] == made
    complete(api.conn, WORKER, [job], "failed", error={"type": "Oops"}, final=True)
    for words in (
        ("jobs", "list", "--state", "dead"),
        ("jobs", "list", "--key", "k", "--quiet"),
        ("jobs", "show", str(made)[:20]),
        ("jobs", "explain", str(made)),
        ("jobs", "wait", str(made), "--timeout", "1s"),
        ("jobs", "list", "--state", "nonsense"),
        ("jobs", "show", "ffffffff"),
    ):
        over_http, on_database = shell.run(*words), direct.run(*words)
        assert over_http.stdout == on_database.stdout, words
        assert over_http.returncode == on_database.returncode, (words, over_http.stderr)
    again = UUID(shell.read("jobs", "retry", str(made)))
    assert again == made
    assert shell.read_json("jobs", "cancel", str(made)) == {
        "job_id": str(made),
        "state": "canceled",
    }


def test_an_operator_works_with_a_key_alone(api: House, opened: Open) -> None:
    shell = opened(JOBFORGE_DATABASE_URL="postgresql:///elsewhere")
    way = ("--server", api.url, "--api-key", api.super_key)
    guest = UUID(shell.read("tenants", "create", "guest", "--name", "A guest", *way))
    tenants = shell.read_json("tenants", "list", *way)
    assert {"guest", "tenant-a", "tenant-b"} <= {tenant["slug"] for tenant in tenants}
    assert shell.read_json("workers", "list", "--all", *way) == []
    assert shell.run("workers", "drain", str(guest), *way).returncode == 3

    made = shell.read_json("keys", "create", "own", "--tenant", "guest", "--role", "viewer", *way)
    guests = ("--server", api.url, "--key", made["key"])
    [listed] = shell.read_json("keys", "list", "--tenant", "guest", *way)
    assert (listed["id"], listed["role"]) == (made["id"], "viewer")
    assert shell.read("jobs", "list", "--server", api.url, "--api-key", made["key"]) == ""
    denied = shell.run("jobs", "cancel", str(guest), *guests)
    assert (denied.returncode, made["key"] in denied.stderr) == (4, False)
    foreign = shell.run("jobs", "show", str(guest), "--tenant", "tenant-a", *guests)
    assert (foreign.returncode, "hint: it has a tenant" in foreign.stderr) == (4, True)
    shell.read("keys", "revoke", made["id"], *way)
    revoked = shell.run("jobs", "show", str(guest), *guests)
    assert (revoked.returncode, "does not take this key" in revoked.stderr) == (4, True)

    tenantless = shell.run("enqueue", "plain", *way)
    assert (tenantless.returncode, "no tenant is named" in tenantless.stderr) == (4, True)


def test_a_server_and_a_database_exclude_each_other(api: House, opened: Open) -> None:
    both = ("--server", api.url, "--database-url", "postgresql:///none")
    for words in (("jobs", "list"), ("worker", "app.py")):
        result = opened().run(*words, *both)
        assert (result.returncode, "only one can be meant" in result.stderr) == (2, True)
        keyless = opened().run(*words, "--server", api.url)
        assert (keyless.returncode, "no key to it" in keyless.stderr) == (2, True)
    shell = opened(JOBFORGE_SERVER="http://127.0.0.1:1", JOBFORGE_KEY="jf_any")
    away = shell.run("jobs", "list", "--tenant", str(api.a.tenant_id))
    assert (away.returncode, "JOBFORGE_SERVER" in away.stderr) == (7, True)
    needy = shell.run("db", "status")
    assert (needy.returncode, "needs the database itself" in needy.stderr) == (2, True)

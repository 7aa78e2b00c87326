"""Commands over HTTP: with --server and a key they print the same as with a database."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from api.api_server import SECRET_KEY, ApiServer, open_api_server
from cluster import fresh_database
from sql.engine import claim, complete, enqueue_one, new_worker

from jobforge import calls, db
from jobforge.cli import main
from jobforge.cli.commands import events
from jobforge.embedded import PostgresServer
from jobforge.types.events import DeliveryOutcome, Dispatched, Reaction
from jobforge.types.triggers import TriggerType

WORKER = new_worker()


class CommandResult(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class ServerTerminal:
    """Run `jobforge` in this process, because a program takes a second to start."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        variables: dict[str, str],
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self._variables = variables

    def run(self, *words: str) -> CommandResult:
        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["jobforge", *words])
            for name, value in self._variables.items():
                patched.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main()
        return CommandResult(int(ended.value.code or 0), *self._capsys.readouterr())

    def read(self, *words: str) -> str:
        said = self.run(*words)
        assert said.returncode == 0, said.stderr
        return said.stdout.strip()

    def read_json(self, *words: str) -> Any:
        return json.loads(self.read(*words, "--json"))


OpenTerminal = Callable[..., ServerTerminal]


@pytest.fixture
def open_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> OpenTerminal:
    """Return a function that opens terminals in a new folder, with JOBFORGE_* variables set."""
    monkeypatch.chdir(tmp_path)
    return lambda **variables: ServerTerminal(monkeypatch, capsys, variables)


@pytest.fixture(scope="module")
def api(server: PostgresServer) -> Iterator[ApiServer]:
    with fresh_database(server) as database, open_api_server(database) as open_terminal:
        yield open_terminal


def test_commands_print_over_http_what_they_print_with_a_database(
    api: ApiServer, open_terminal: OpenTerminal
) -> None:
    shell = open_terminal(JOBFORGE_SERVER=api.url, JOBFORGE_KEY=api.a.keys["tenant_admin"])
    direct = open_terminal(
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


def test_an_operator_needs_only_a_key(api: ApiServer, open_terminal: OpenTerminal) -> None:
    shell = open_terminal(JOBFORGE_DATABASE_URL="postgresql:///elsewhere")
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
    assert (foreign.returncode, "not allowed to act for" in foreign.stderr) == (4, True)
    shell.read("keys", "revoke", made["id"], "--yes", *way)
    revoked = shell.run("jobs", "show", str(guest), *guests)
    assert (revoked.returncode, "Invalid API key" in revoked.stderr) == (4, True)

    checks = [each["check"] for each in json.loads(shell.run("doctor", "--json", *way).stdout)]
    assert {"server", "schema", "access", "workers"} <= set(checks)

    tenantless = shell.run("enqueue", "plain", *way)
    assert (tenantless.returncode, "No tenant specified" in tenantless.stderr) == (4, True)


@pytest.mark.parametrize("way", ["server", "database"])
def test_webhook_commands_are_the_same_over_http_and_with_a_database(
    api: ApiServer, open_terminal: OpenTerminal, way: str
) -> None:
    ways = {
        "server": {"JOBFORGE_SERVER": api.url, "JOBFORGE_KEY": api.a.keys["tenant_admin"]},
        "database": {
            "JOBFORGE_DATABASE_URL": api.database.url_as("admin_login"),
            "JOBFORGE_TENANT": str(api.a.tenant_id),
            "JOBFORGE_SECRET_KEY": SECRET_KEY,
        },
    }
    api.conn.execute("select jobforge.put_definition('connector.webhook.deliver', 1)")
    shell = open_terminal(**ways[way])
    refused = shell.run("webhooks", "create", "https://127.0.0.1/")
    assert (refused.returncode, "not allowed" in refused.stderr) == (2, True)
    made = shell.read_json("webhooks", "create", "https://example.com/", "--event", "end")
    webhook = made["id"]
    assert made["secret"].startswith("whsec_")
    assert shell.read("webhooks", "rotate", webhook, "--overlap", "1h").startswith("whsec_")
    shell.read("webhooks", "edit", webhook, "--disable", "--definition", "mail")
    shown = shell.read_json("webhooks", "show", webhook)
    assert (shown["enabled"], shown["definitions"]) == (False, ["mail"])
    assert shown["previous_secret_until"] is not None
    assert "disabled manually" in shell.read("webhooks", "list")
    assert webhook in shell.read("webhooks", "list", "-q").splitlines()
    delivery = shell.read("webhooks", "test", webhook)
    [sent] = shell.read_json("webhooks", "deliveries", webhook, "--state", "pending")
    assert (sent["id"], sent["event"]) == (delivery, "webhook.test")
    assert shell.run("webhooks", "redeliver", webhook, delivery).returncode == 5
    shell.read("webhooks", "edit", webhook, "--enable", "--all-definitions")
    shell.read("jobs", "cancel", sent["job_id"])
    assert shell.read("webhooks", "redeliver", webhook, delivery) != sent["job_id"]
    assert shell.read("webhooks", "deliveries", webhook, "-q") == delivery
    shell.read("webhooks", "delete", webhook, "--yes")
    assert shell.run("webhooks", "show", webhook).returncode == 3


def test_a_server_and_a_database_exclude_each_other(
    api: ApiServer, open_terminal: OpenTerminal
) -> None:
    both = ("--server", api.url, "--database-url", "postgresql:///none")
    for words in (("jobs", "list"), ("worker", "app.py")):
        result = open_terminal().run(*words, *both)
        assert (result.returncode, "can't be used together" in result.stderr) == (2, True)
        keyless = open_terminal().run(*words, "--server", api.url)
        assert (keyless.returncode, "A server requires an API key" in keyless.stderr) == (2, True)
    shell = open_terminal(JOBFORGE_SERVER="http://127.0.0.1:1", JOBFORGE_KEY="jf_any")
    away = shell.run("jobs", "list", "--tenant", str(api.a.tenant_id))
    assert (away.returncode, "JOBFORGE_SERVER" in away.stderr) == (7, True)
    needy = shell.run("db", "status")
    assert (needy.returncode, "needs a database" in needy.stderr) == (2, True)


@pytest.mark.parametrize("way", ["server", "database"])
def test_event_commands_are_the_same_over_http_and_with_a_database(
    api: ApiServer, open_terminal: OpenTerminal, way: str
) -> None:
    ways = {
        "server": {"JOBFORGE_SERVER": api.url, "JOBFORGE_KEY": api.a.keys["tenant_admin"]},
        "database": {
            "JOBFORGE_DATABASE_URL": api.database.url_as("admin_login"),
            "JOBFORGE_TENANT": str(api.a.tenant_id),
        },
    }
    shell = open_terminal(**ways[way])
    name = f"order.{way}"
    settings = {"label": "plain", "definition": "plain", "event": name}
    call = calls.create_trigger(
        TriggerType.EVENT,
        {**settings, "payload": {"n": "{{event.n}}"}},
        tenant_id=api.a.tenant_id,
    )
    trigger = db.run(api.conn, call)
    event = UUID(shell.read("events", "send", name, "n:=7", "--correlation-id", "c-7"))
    tried = shell.read_json("events", "test", str(event), str(trigger))
    assert (tried["outcome"], tried["job"]["payload"]) == ("enqueued", {"n": 7})
    assert shell.read("events", "list", "--name", name, "--quiet") == str(event)
    assert "pending" in shell.read("events", "list", "--name", name)

    reactions = [Reaction(trigger, DeliveryOutcome.FAILED, "full of errors")]
    db.run(api.conn, calls.record_deliveries([Dispatched(event, reactions)]))
    shown = shell.read_json("events", "show", str(event))
    assert (shown["data"], shown["correlation_id"]) == ({"n": 7}, "c-7")
    assert "plain  failed  full of errors" in shell.read("events", "show", str(event))
    [delivery] = shell.read_json("events", "deliveries", str(trigger))
    assert (delivery["event_id"], delivery["outcome"]) == (str(event), "failed")
    assert shell.read_json("events", "replay", str(event)) == {"id": str(event), "replay": 1}
    assert shell.run("events", "show", str(trigger)).returncode == 3
    assert shell.run("events", "send", "no name").returncode == 2


def test_events_are_printed_as_they_arrive(
    api: ApiServer, open_terminal: OpenTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = open_terminal(JOBFORGE_SERVER=api.url, JOBFORGE_KEY=api.a.keys["tenant_admin"])
    shell.read("events", "send", "tail.before")

    def emit_meanwhile(_: float) -> None:
        for number in range(2):
            call = calls.emit_event(f"tail.{number}", tenant_id=api.a.tenant_id)
            db.run(api.conn, call)

    monkeypatch.setattr(events, "sleep", emit_meanwhile)
    lines = shell.read("events", "tail", "--name", "tail.*", "--limit", "3", "--json").splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["tail.0", "tail.1", "tail.0"]
    table = shell.read("events", "tail", "--name", "tail.*", "--limit", "3").splitlines()
    assert [line.split("\t")[1] for line in table] == ["NAME", "tail.0", "tail.1", "tail.0"]

"""Fifty secrets pass through a worker in every possible way, and no sink contains one."""

import base64
import json
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database, wait_until
from integration.terminal import InProcessTerminal, RunningProgram, Terminal
from psycopg import sql

from jobforge import calls, db
from jobforge.types.jobs import JobRequest, State

APP = Path(__file__).with_name("leaky_app.py")
KINDS = ("inline", "isolated")
ENDS = ("return", "error", "dead", "cancel")
FINAL = (State.SUCCEEDED, State.CANCELED, State.DEAD)


class Canaries:
    """Secrets that occur nowhere else."""

    def __init__(self) -> None:
        self.all: dict[str, str] = {}

    def make(self, where: str, form: str = "{}") -> str:
        """Return a secret for that place within `form`; the search looks for the
        whole filled form.
        """
        assert where not in self.all
        secret = f"canary{len(self.all):02d}{secrets.token_hex(10)}"
        self.all[where] = secret
        return form.format(secret)

    def number(self, where: str) -> int:
        number = secrets.randbelow(10**15) + 10**15
        self.all[where] = str(number)
        return number

    def encoded(self, where: str, form: str) -> str:
        """Return a secret that appears only in base64."""
        secret = base64.b64encode(f"ada:{secrets.token_hex(12)}".encode()).decode()
        self.all[where] = secret
        return form.format(secret)

    def found_in(self, text: str) -> list[str]:
        return [where for where, secret in self.all.items() if secret in text]


@dataclass(frozen=True, slots=True)
class Seed:
    """The places of the canaries."""

    canaries: Canaries
    data: dict[str, Any]  # of the payload
    own: dict[str, str]  # one string for each kind of output
    strict: dict[str, str]
    word: str
    files: dict[str, str]
    variables: dict[str, str]


def _seed(url: str) -> Seed:
    canaries = Canaries()
    names = (
        *("password", "passwd", "DB_PASSWORD", "secret", "clientSecret", "token", "accessToken"),
        *("api_key", "X-Api-Key", "authorization", "cookie", "set-cookie", "private_key", "dsn"),
    )
    under_names: dict[str, Any] = {name: canaries.make(f"under {name}") for name in names}
    under_names["passcode"] = canaries.number("a number")
    under_names["tokens"] = [canaries.make("in a list")]
    under_names["credentials"] = {"user": "ada", "value": canaries.make("in an object")}
    headers = {
        "as_object": {"Authorization": canaries.make("header", "Bearer {}"), "Accept": "*/*"},
        "as_pairs": [["Cookie", canaries.make("header pair", "theme=dark; sid={}")]],
        "as_objects": [{"name": "X-Auth-Token", "value": canaries.make("named header")}],
    }
    texts = [
        canaries.make("assignment", "login with password={} failed"),
        canaries.make("quoted assignment", "connect(user='ada', password='{} x')"),
        canaries.make("json text", '{{"retry": 1, "client_secret": "{}"}}'),
        canaries.make("url", "cannot reach postgresql://ada:{}@db.example.com/app"),
        canaries.make("query", "GET https://api.example.com/v1?api_key={}&page=2"),
        canaries.make("header text", "Authorization: Token {}"),
        canaries.make("bearer", "sent Bearer {} and got 401"),
        canaries.encoded("basic", "sent Basic {} and got 401"),
        canaries.make("flag", "mysql --password {} --host db"),
        canaries.make("jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{}"),
        canaries.make("github", "ghp_{}"),
        canaries.make("stripe", "sk_" + "live_{}"),
        canaries.make("slack", "xoxb-" + "1234567890-{}"),
        canaries.make("google", "AIzaSyA1234567890123456789{}"),
        canaries.make("webhook", "whsec_{}"),
        canaries.make("pem", "-----BEGIN PRIVATE KEY-----\nMIIE\n{}\n-----END PRIVATE KEY-----"),
    ]
    ways = ("output", "log", "progress", "event", "error")
    return Seed(
        canaries,
        data={"deep": [under_names], "headers": headers, "texts": texts, "shown": "plain words"},
        own={way: canaries.make(f"only in {way}", "token={}") for way in ways},
        strict={"password": canaries.make("invalid payload")},
        word=canaries.make("command"),
        files={
            "file_a": canaries.make("secrets folder"),
            "file_b": canaries.make("secrets folder, quotes", '"{}"'),
            "file_c": canaries.make("secrets folder, lines", "first\n{}\nlast\n"),
            "file.d": canaries.make("secrets folder, signs", "ä/+ {} &"),
        },
        variables={
            "JOBFORGE_DATABASE_URL": canaries.make("database url", url + "&password={}"),
            "JOBFORGE_SECRET_VARIABLE_A": canaries.make("secret variable"),
            "JOBFORGE_SECRET_VARIABLE_B": canaries.make("another secret variable"),
            "SMTP_PASSWORD": canaries.make("environment"),
            "BILLING_API_TOKEN": canaries.make("environment, token"),
            "REPORT_DSN": canaries.make("environment, dsn", "https://{}@errors.example.com/1"),
            "PARTNER_CREDENTIALS": canaries.make("environment, credentials"),
        },
    )


@dataclass(frozen=True, slots=True)
class Sinks:
    """Everything that can be read afterwards, by place."""

    texts: dict[str, str]

    def leaks(self, canaries: Canaries) -> dict[str, list[str]]:
        found = {place: canaries.found_in(text) for place, text in self.texts.items()}
        return {place: names for place, names in found.items() if names}


@pytest.fixture
def tenant_id(conn: Connection) -> UUID:
    acme = uuid4()
    db.run(conn, calls.put_tenant(acme, {"slug": "acme"}))
    return acme


@pytest.fixture
def seed(database: Database) -> Seed:
    return _seed(database.url)


@contextmanager
def _worker(
    folder: Path, seed: Seed, **variables: str
) -> Iterator[tuple[Terminal, RunningProgram]]:
    vault = folder / "secrets"
    vault.mkdir()
    for name, value in seed.files.items():
        (vault / name).write_text(value)
    terminal = Terminal(
        folder,
        **seed.variables,
        **variables,
        JOBFORGE_TENANT="acme",
        JOBFORGE_SECRETS_DIR=str(vault),
        JOBFORGE_ALLOWED_COMMANDS="shout",
        JOBFORGE_JOB_ENVIRONMENT="SMTP_*,BILLING_API_TOKEN,REPORT_DSN,PARTNER_CREDENTIALS",
    )
    with terminal.start("worker", str(APP), "--log-level", "debug") as program:
        program.wait_for('"worker.started"')
        yield terminal, program


def _enqueue(conn: Connection, tenant_id: UUID, seed: Seed) -> list[UUID]:
    requests = [
        JobRequest(kind, {"end": end, "data": seed.data, "own": seed.own})
        for kind in KINDS
        for end in ENDS
    ]
    requests += [JobRequest("strict", seed.strict), JobRequest("shout", {"password": seed.word})]
    answers = db.run(conn, calls.enqueue_jobs(requests).for_tenant(tenant_id))
    return [answer.job_id for answer in answers]


def _wait_for_all(conn: Connection) -> None:
    """Wait until every job has finished, including hook jobs."""

    def have_ended() -> bool:
        rows = conn.execute("select state from jobforge.jobs").fetchall()
        return all(row["state"] in FINAL for row in rows)

    wait_until(have_ended)


def _tables(conn: Connection) -> dict[str, str]:
    """Return every row of every table, without the columns that handlers and callers need
    unredacted.
    """
    names = conn.execute(
        """
        select c.relname
        from pg_class as c
        where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')
        and not c.relispartition
        """
    ).fetchall()
    return {str(row["relname"]): _rows(conn, str(row["relname"])) for row in names}


def _rows(conn: Connection, table: str) -> str:
    query = sql.SQL(
        "select (to_jsonb(t) - 'payload' - 'result')::text as row from jobforge.{} as t"
    )
    rows = conn.execute(query.format(sql.Identifier(table))).fetchall()
    return "\n".join(str(row["row"]) for row in rows)


def _views(terminal: Terminal, jobs: list[UUID]) -> dict[str, str]:
    """Return the output of commands; the jobs alternate, because each command starts a program."""
    shown = [terminal.read("jobs", "show", str(job)) for job in jobs[::2]]
    documents = [terminal.read("jobs", "show", str(job), "--json") for job in jobs[1::2]]
    said = [terminal.read("jobs", "tail", str(job), "--json") for job in (jobs[0], jobs[5])]
    return {
        "jobs show": "\n".join(shown),
        "jobs show --json": "\n".join(documents),
        "jobs tail": "\n".join(said),
        "jobs list": terminal.read("jobs", "list"),
        "jobs list --json": terminal.read("jobs", "list", "--json"),
    }


def test_no_secret_reaches_any_sink(
    conn: Connection, tenant_id: UUID, seed: Seed, tmp_path: Path
) -> None:
    assert len(seed.canaries.all) >= 50
    with _worker(tmp_path, seed) as (terminal, program):
        jobs = _enqueue(conn, tenant_id, seed)
        _wait_for_all(conn)
        views = _views(terminal, jobs)
        program.signal(signal.SIGTERM)
        assert program.wait_for_exit() == 0
    sinks = Sinks({"worker": program.output, **_tables(conn), **views})
    assert sinks.leaks(seed.canaries) == {}
    _check_that_it_was_said(sinks)


def test_without_redaction_every_secret_is_found(
    conn: Connection, tenant_id: UUID, seed: Seed, tmp_path: Path
) -> None:
    with _worker(tmp_path, seed, LEAKY_APP="unredacted") as (_, program):
        _enqueue(conn, tenant_id, seed)
        _wait_for_all(conn)
        program.signal(signal.SIGTERM)
        program.wait_for_exit()
    sinks = Sinks({"worker": program.output, **_tables(conn)})
    found = {name for names in sinks.leaks(seed.canaries).values() for name in names}
    # The worker hides its database URL from the app before it loads the app.
    assert set(seed.canaries.all) - found == {"database url"}


def test_every_line_of_a_worker_is_a_json_object(
    conn: Connection, tenant_id: UUID, seed: Seed, tmp_path: Path
) -> None:
    with _worker(tmp_path, seed) as (_, program):
        _enqueue(conn, tenant_id, seed)
        _wait_for_all(conn)
        program.signal(signal.SIGTERM)
        program.wait_for_exit()
    assert [line for line in program.output.splitlines() if not _is_event(line)] == []


def _is_event(line: str) -> bool:
    try:
        return bool({"timestamp", "level", "event"} <= json.loads(line).keys())
    except (ValueError, AttributeError):
        return False


def _check_that_it_was_said(sinks: Sinks) -> None:
    """Check that the output reached the sinks, so that a clean sink means something."""
    for place in ("worker", "attempts", "job_events", "jobs show", "jobs tail"):
        assert sinks.texts[place].count("[redacted]") >= 10, place
        assert "plain words" in sinks.texts[place], place


@pytest.mark.parametrize("form", [[], ["--json"], ["--jsonl"], ["--fields", "detail"]], ids=str)
def test_the_audit_log_is_shown_without_secrets(
    database: Database, conn: Connection, tmp_path: Path, form: list[str]
) -> None:
    secret = Canaries().make("audit")
    conn.execute(
        "insert into jobforge.audit_log (id, at, actor, action, detail) "
        "values (%s, now(), 'ada', 'queue.pause', %s)",
        [uuid4(), json.dumps({"password": secret, "queue": "mail"})],
    )
    shell = InProcessTerminal(tmp_path, JOBFORGE_DATABASE_URL=database.url_as("admin_login"))
    said = shell.read("audit", "--tenant", "*", *form)
    assert "mail" in said
    assert secret not in said

"""Output and failures of every command: transcripts in snapshots/, one for each group.

To write them again: JOBFORGE_SNAPSHOTS=write pytest tests/integration/test_cli_snapshots.py
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import pytest
from api.api_server import SECRET_KEY, open_api_server
from cluster import Connection, Database, connect_to, fresh_database
from integration.terminal import COMMANDS, InProcessTerminal
from integration.transcripts import exit_codes, play

from jobforge import calls, db
from jobforge.db.outage import MonitoredLink, Outage
from jobforge.embedded import PostgresServer
from jobforge.scheduler.dispatch import Dispatcher
from jobforge.types.events import DeliveryOutcome, Dispatched, Reaction
from jobforge.types.jobs import ClaimedJob, JobRequest, Note, Outcome, OutcomeReport, Step
from jobforge.types.triggers import TriggerType
from jobforge.types.workflows import WorkflowRequest

FOLDER = Path(__file__).parent / "snapshots"
TRANSCRIPTS = sorted(FOLDER.glob("*.txt"))

ACME = UUID("aaaaaaaa-0000-4000-8000-000000000001")
WORKER = UUID("cccccccc-0000-4000-8000-000000000003")
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}
STATISTICS = """
insert into jobforge.minute_statistics
select %s, '2026-01-01 12:00Z', 1, 0, 0, 0, 0, 100, 3000, 1500, 4096, 'mail', 'post', h, h
  from (select array_fill(0, array[10]) || 1 || array_fill(0, array[21])) as g(h)
"""
NOWHERE = "postgresql://ada@127.0.0.1:1/app"

# These commands run until a signal, need a worker, or report problems of the tests' own server;
# other tests cover their success.
TESTED_ELSEWHERE = {
    *(("dev",), ("server",), ("worker",), ("scheduler",), ("psql",), ("doctor",)),
    *(("db", "reset"), ("bench",)),
    *(("events", "tail"), ("connectors", "test"), ("jobs", "artifact"), ("webhooks", "redeliver")),
}
# Commands that cannot fail.
WITHOUT_FAILURE = {("version",), ("openapi",), ("secrets", "key")}


@dataclass(frozen=True, slots=True)
class SampleDatabase:
    """A database with some of every object, and their IDs."""

    database: Database
    names: dict[str, str]


@pytest.fixture(scope="module")
def samples(server: PostgresServer) -> Iterator[SampleDatabase]:
    with fresh_database(server) as database:
        with connect_to(database.url) as conn:
            names = _fill_database(conn)
        yield SampleDatabase(database, {name: str(value) for name, value in names.items()})


def _fill_database(conn: Connection) -> dict[str, object]:
    db.run(conn, calls.put_tenant(ACME, {"slug": "acme", "name": "Acme"}))
    settings = {"queue": "post", "max_attempts": 1, "parameters": SCHEMA, "description": "Writes."}
    db.run(conn, calls.put_definition("mail", 1, settings))
    db.run(conn, calls.put_definition("report", 1))
    db.run(conn, calls.put_definition("connector.webhook.deliver", 1))
    for tenant_id in (ACME, UUID(int=8)):
        conn.execute(STATISTICS, [tenant_id])
    facts: dict[str, Any] = {"host": "host", "pid": 7, "isolation": "process"}
    db.run(conn, calls.register_worker(WORKER, ["post"], slots=4, **facts))
    # However long the tests take, this worker must not count as lost.
    conn.execute(
        "update jobforge.workers set heartbeat_at = heartbeat_at + interval '1 day', "
        "live_until = live_until + interval '1 day'"
    )
    return {
        "acme": ACME,
        "worker": WORKER,
        "nowhere": NOWHERE,
        "absent": UUID(int=7),
        "done": _finish_job(conn),
        "dead": _fail_job(conn),
        "group": db.run(conn, calls.list_failures(tenant_id=ACME))[0].fingerprint,
        "running": _claim_job(conn)[0],
        "scheduled": _enqueue_jobs(conn, delay_s=3600),
        "queued": _enqueue_jobs(conn, key="k", tags=["x"]),
        **_create_triggers(conn),
    }


def _enqueue_jobs(conn: Connection, **options: Any) -> UUID:
    request = JobRequest("mail", {"to": "ada", "password": "hunter2"}, **options)
    return db.run(conn, calls.enqueue_job(request, tenant_id=ACME)).job_id


def _claim_job(conn: Connection) -> tuple[UUID, ClaimedJob]:
    job_id = _enqueue_jobs(conn)
    [job] = db.run(conn, calls.claim_jobs(WORKER, {"post": 1}, lease_s=3600))
    assert job.job_id == job_id
    return job_id, job


def _finish_job(conn: Connection) -> UUID:
    job_id, job = _claim_job(conn)
    note = Note(*job.token, "log", {"level": "info", "message": "sending", "to": "ada"})
    db.run(conn, calls.note_jobs(WORKER, [note]))
    db.run(conn, calls.save_steps(WORKER, [Step(*job.token, "send", 0, {"id": 7})]))
    report = OutcomeReport(*job.token, Outcome.SUCCEEDED, job.started_at, result={"sent": True})
    db.run(conn, calls.complete_job(WORKER, report))
    return job_id


def _fail_job(conn: Connection) -> UUID:
    job_id, job = _claim_job(conn)
    error = {"type": "Timeout", "message": "no answer", "traceback": "Timeout: no answer"}
    report = OutcomeReport(*job.token, Outcome.FAILED, job.started_at, error=error)
    db.run(conn, calls.complete_job(WORKER, report))
    return job_id


def _create_triggers(conn: Connection) -> dict[str, UUID]:
    schedule = {"label": "nightly", "definition": "report", "cron": "0 3 * * *", "timezone": "UTC"}
    paid = {"label": "on paid", "definition": "report", "event": "order.paid"}
    nodes: list[dict[str, Any]] = [
        {"name": "extract", "definition": "report"},
        {"name": "load", "definition": "report", "after": ["extract"]},
    ]
    workflow = WorkflowRequest("nightly", nodes, {"token": "hunter2"})
    flow = db.run(conn, calls.enqueue_workflow(workflow, tenant_id=ACME))
    made = {
        "schedule": db.run(
            conn, calls.create_trigger(TriggerType.SCHEDULE, schedule, tenant_id=ACME)
        ),
        "trigger": db.run(conn, calls.create_trigger(TriggerType.EVENT, paid, tenant_id=ACME)),
        "workflow": flow.id,
        "load": flow.jobs["load"],
        "event": db.run(conn, calls.emit_event("order.paid", {"order": 7}, tenant_id=ACME)),
    }
    reaction = Reaction(made["trigger"], DeliveryOutcome.FAILED, "Definition not found")
    db.run(conn, calls.record_deliveries([Dispatched(made["event"], [reaction])]))
    return {**made, **_equal_events(conn)}


def _equal_events(conn: Connection) -> dict[str, UUID]:
    """Emit two events with equal data, which create one job."""

    async def dispatch() -> None:
        async with db.Database(conn.info.dsn, size=1) as opened:
            line = MonitoredLink(opened.create_link(), Outage())
            while await Dispatcher().dispatch(line):
                pass
            await line.close()

    emit = calls.emit_event("order.paid", {"order": 8}, tenant_id=ACME)
    first, second = (db.run(conn, emit) for _ in range(2))
    anyio.run(dispatch)
    [covering] = db.run(conn, calls.get_event(first, tenant_id=ACME)).deliveries
    assert covering.job_id
    return {"first": first, "second": second, "covering": covering.job_id}


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_commands_print_what_their_transcript_says(
    transcript: Path, samples: SampleDatabase, server: PostgresServer, folder: Path
) -> None:
    text = transcript.read_text(encoding="utf-8")
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database(server, template=samples.database.name))
        url = database.url_as("admin_login")
        names = {"url": url, **samples.names, "folder": str(folder)}
        settings = {"JOBFORGE_TENANT": "acme", "JOBFORGE_SECRET_KEY": SECRET_KEY}
        if "{server}" in text:
            api = stack.enter_context(open_api_server(database))
            keys = {role: api.create_key(role, ACME) for role in ("tenant_admin", "viewer")}
            names |= {"server": api.url, "super_admin": api.super_key, **keys}
            settings = {}
        shell = InProcessTerminal(folder, JOBFORGE_DATABASE_URL=url, **settings)
        said = play(transcript, shell, names)
    if os.environ.get("JOBFORGE_SNAPSHOTS") == "write":
        transcript.write_text(said, encoding="utf-8")
        return
    assert said == text


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Return every command with its options; a group that can run by itself counts as a command."""
    children = getattr(command, "commands", {})
    if not children or getattr(command, "invoke_without_command", False):
        yield path, {option for each in command.params for option in each.opts}
    for name, child in children.items():
        yield from _leaves(child, (*path, name))


LEAVES = dict(_leaves(COMMANDS))


def _command(words: list[str]) -> tuple[str, ...]:
    """Return the longest prefix of the words that is a command; () if none is."""
    starts = (tuple(words[:length]) for length in range(len(words), 0, -1))
    return next((start for start in starts if start in LEAVES), ())


def test_every_command_has_a_success_its_json_and_a_failure() -> None:
    shown, as_json, as_lines, failed = (set[tuple[str, ...]]() for _ in range(4))
    for transcript in TRANSCRIPTS:
        for case, code in exit_codes(transcript):
            command = _command(case.words)
            if code:
                failed.add(command)
            else:
                (as_json if "--json" in case.words else shown).add(command)
            if not code and "--jsonl" in case.words:
                as_lines.add(command)
    assert set(LEAVES) - shown - TESTED_ELSEWHERE == set()
    with_json = {command for command, options in LEAVES.items() if "--json" in options}
    assert with_json - as_json - TESTED_ELSEWHERE == set()
    with_lines = {command for command, options in LEAVES.items() if "--jsonl" in options}
    assert {command for command in with_json if command[-1] == "list"} - with_lines == set()
    assert with_lines - as_lines == set()
    assert set(LEAVES) - failed - WITHOUT_FAILURE == set()


def test_an_unknown_option_is_a_usage_error(tmp_path: Path) -> None:
    shell = InProcessTerminal(tmp_path)
    for command in set(LEAVES) - {("psql",)}:  # which passes it on to psql
        said = shell.run(*command, "--no-such-option")
        assert (said.returncode, said.stdout) == (2, ""), command
        assert "No such option: --no-such-option" in said.stderr, command


def test_a_command_without_a_database_says_how_to_specify_one(tmp_path: Path) -> None:
    needy = {
        _command(case.words): case.words
        for path in TRANSCRIPTS
        for case, code in exit_codes(path)
        if not code
        and "--database-url" in LEAVES[_command(case.words)]
        and not {"--database-url", "--server"} & set(case.words)
    }
    assert len(needy) > 60
    shell = InProcessTerminal(tmp_path, JOBFORGE_TENANT="acme", JOBFORGE_SECRET_KEY=SECRET_KEY)
    for words in needy.values():
        said = shell.run(*(word.replace("{made}", str(ACME)) for word in words))
        assert said.returncode == 2, (words, said.stderr)
        assert "JOBFORGE_DATABASE_URL" in said.stderr, words

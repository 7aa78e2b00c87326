"""Long lists and exports: pages, whole files, and pipes from one command to another."""

import csv
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from api.api_server import open_api_server
from cluster import Connection, Database
from integration.terminal import InProcessTerminal, Terminal, environment

from jobforge import calls, db
from jobforge.cli import export, listing_output, output
from jobforge.cli.context import TenantSession
from jobforge.cli.engine import DirectEngine
from jobforge.config import Config
from jobforge.types.jobs import JobRequest, Outcome, OutcomeReport

ACME = uuid4()
WORKER = uuid4()
MORE_THAN_A_PAGE = 201
PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
SECRET = "hunter2"
FORMULA = "=cmd|' /C calc'!A0"


@pytest.fixture
def shell(database: Database, conn: Connection, tmp_path: Path) -> Terminal:
    db.run(conn, calls.put_tenant(ACME, {"slug": "acme"}))
    db.run(conn, calls.put_definition("letter", 1, {"max_attempts": 1}))
    url = database.url_as("admin_login")
    return InProcessTerminal(tmp_path, JOBFORGE_DATABASE_URL=url, JOBFORGE_TENANT="acme")


@pytest.fixture
def remote(database: Database, shell: Terminal, tmp_path: Path) -> Iterator[Terminal]:  # noqa: ARG001
    with open_api_server(database) as api:
        key = api.create_key("viewer", ACME)
        yield InProcessTerminal(tmp_path, JOBFORGE_SERVER=api.url, JOBFORGE_KEY=key)


def _enqueue(conn: Connection, count: int, **payload: object) -> list[str]:
    """Enqueue jobs; return their IDs, newest first."""
    jobs = [JobRequest("letter", {"n": n, **payload}) for n in range(count)]
    made = db.run(conn, calls.enqueue_jobs(jobs, tenant_id=ACME))
    return sorted((str(job.job_id) for job in made), reverse=True)


def _end(conn: Connection, count: int, outcome: Outcome, result: object = None) -> None:
    for job in db.run(conn, calls.claim_jobs(WORKER, {"default": count})):
        report = OutcomeReport(*job.token, outcome, job.started_at, result=result)
        db.run(conn, calls.complete_job(WORKER, report))


def _states(conn: Connection) -> list[str]:
    listed = db.run(conn, calls.list_jobs(tenant_id=ACME))
    return [job.state for job in listed]


@pytest.mark.parametrize(
    "form", [["-q"], ["--fields", "id", "--no-header"], ["--jsonl"], ["--json"]], ids=str
)
def test_all_lists_every_page(shell: Terminal, conn: Connection, form: list[str]) -> None:
    ids = _enqueue(conn, MORE_THAN_A_PAGE)
    said = shell.read("jobs", "list", "--all", *form)
    found = {
        "--json": lambda: [job["id"] for job in json.loads(said)],
        "--jsonl": lambda: [json.loads(line)["id"] for line in said.splitlines()],
    }.get(form[0], said.splitlines)()
    assert found == ids
    assert len(shell.read("jobs", "list", "-q").splitlines()) == 50
    assert shell.read("jobs", "list", "-q", "--limit", str(MORE_THAN_A_PAGE)).split() == ids


@dataclass(frozen=True)
class Item:
    """An item to list."""

    id: UUID
    name: str


@pytest.mark.parametrize(
    "form",
    [
        listing_output.ListingFormat(as_json=False, as_json_lines=False, field_names=None),
        listing_output.ListingFormat(as_json=True, as_json_lines=False, field_names=None),
        listing_output.ListingFormat(as_json=False, as_json_lines=True, field_names="name"),
    ],
    ids=["table", "json", "jsonl"],
)
def test_a_page_is_printed_before_the_next_one_is_requested(
    capsys: pytest.CaptureFixture[str], form: listing_output.ListingFormat
) -> None:
    def pages() -> Iterator[list[Item]]:
        yield [Item(uuid4(), "first")]
        assert "first" in capsys.readouterr().out
        yield [Item(uuid4(), "second")]
        assert "second" in capsys.readouterr().out

    listing_output.print_listing(pages(), Item, form=form)


def test_pages_of_a_table_share_its_titles_and_their_widths(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    pages = [[{"name": "a long one", "n": 1}], [{"name": "b", "n": 2}], []]
    output.print_table(pages)
    assert capsys.readouterr().out == "NAME        N\na long one  1\nb           2\n"


def test_an_array_printed_in_pieces_equals_one_printed_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[list[output.OutputRow]] = [[], [{"a": [1, {"b": 2}]}, {"a": "x\ny"}]]
    for rows in listed:
        for indent in (None, 2):
            monkeypatch.setattr(output, "is_terminal", lambda indent=indent: indent is not None)
            output.print_array(rows)
            assert capsys.readouterr().out == json.dumps(rows, indent=indent) + "\n"


@pytest.fixture
def pipes(database: Database, shell: Terminal) -> Callable[[str], str]:
    """Return a function that runs a line in a real shell and returns its output."""
    jobforge = f"{shlex.quote(sys.executable)} -m jobforge "
    url = database.url_as("admin_login")

    def run(line: str) -> str:
        return subprocess.run(
            ["/bin/sh", "-ec", line.replace("jobforge ", jobforge)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=shell.folder,
            env=environment(JOBFORGE_DATABASE_URL=url, JOBFORGE_TENANT="acme"),
        ).stdout

    return run


def test_ids_from_a_list_can_be_piped_into_a_command(
    pipes: Callable[[str], str], conn: Connection
) -> None:
    _enqueue(conn, 3)
    _end(conn, 2, Outcome.FAILED)
    assert sorted(_states(conn)) == ["dead", "dead", "queued"]
    pipes("jobforge jobs list --where 'state:dead' -q | xargs -n1 jobforge jobs retry")
    assert _states(conn) == ["queued"] * 3
    assert pipes("jobforge jobs list --where 'state:dead' -q") == ""


def test_the_examples_of_the_page_run(
    pipes: Callable[[str], str], shell: Terminal, conn: Connection
) -> None:
    _enqueue(conn, 1)
    _end(conn, 1, Outcome.FAILED)
    (shell.folder / "jobs.jsonl").touch()
    _, section = PAGE.read_text(encoding="utf-8").split("### Job filters\n")
    section, _ = section.split("### IDs and secrets\n")
    lines = re.findall(r"^\$ (.*)$", section, re.MULTILINE)
    assert len(lines) == 7
    for line in lines:
        pipes(line)
    files = {file.name: file.read_text() for file in shell.folder.iterdir()}
    assert json.loads(files["dead.jsonl"])["state"] == "dead"
    assert files["welcome.csv"].startswith("id,state,definition,")
    assert set(json.loads(files["jobs.jsonl"])) == {"id", "state", "finished_at"}


@pytest.mark.parametrize("way", ["shell", "remote"])
def test_an_export_has_all_details_of_every_matching_job(
    way: str, conn: Connection, request: pytest.FixtureRequest
) -> None:
    terminal: Terminal = request.getfixturevalue(way)
    ids = _enqueue(conn, MORE_THAN_A_PAGE, password=SECRET)
    _end(conn, 1, Outcome.SUCCEEDED, {"sent": True})
    exported = [json.loads(line) for line in terminal.read("jobs", "export").splitlines()]
    assert [job["id"] for job in exported] == ids
    assert {job["payload"]["n"] for job in exported} == set(range(MORE_THAN_A_PAGE))
    assert {job["payload"]["password"] for job in exported} == {"[redacted]"}
    done = next(job for job in exported if job["state"] == "succeeded")
    assert done == terminal.read_json("jobs", "show", done["id"])["job"]
    assert done["result"] == {"sent": True}
    assert [json.loads(terminal.read("jobs", "export", "--where", "state:succeeded"))] == [done]


def test_fields_of_the_list_are_exported_without_a_request_per_job(
    shell: Terminal, conn: Connection
) -> None:
    (job_id,) = _enqueue(conn, 1)
    conn.execute("drop function jobforge.get_job(uuid, uuid)")
    said = shell.read("jobs", "export", "--fields", "state,id")
    assert json.loads(said) == {"state": "queued", "id": job_id}


@pytest.mark.usefixtures("shell")
def test_a_job_that_was_deleted_in_the_meantime_is_left_out(
    conn: Connection, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    there, gone = _enqueue(conn, 2)
    page = db.run(conn, calls.list_jobs(tenant_id=ACME))
    conn.execute("delete from jobforge.jobs where id = %s", [gone])
    session = TenantSession(DirectEngine(conn, Config()), ACME)
    fields = export.parse_job_fields("id,payload")
    assert export.export_jobs(session, [page], fields, export.write_json_lines, "-") == 1
    assert json.loads(capsysbinary.readouterr().out)["id"] == there


def test_a_csv_round_trips_through_a_reader(shell: Terminal, conn: Connection) -> None:
    payload = {"text": 'a "b",\r\nc', "long": 10**30}
    conn.execute(
        "select jobforge.enqueue_job('letter', %s, p_tenant_id => %s)", [json.dumps(payload), ACME]
    )
    _end(conn, 1, Outcome.SUCCEEDED, -7)
    _enqueue(conn, 1)
    _end(conn, 1, Outcome.SUCCEEDED, FORMULA)
    said = shell.run("jobs", "export", "--format", "csv").stdout
    second, first = csv.DictReader(io.StringIO(said, newline=""))
    assert (first["state"], first["attempt"], first["error"]) == ("succeeded", "1", "")
    assert json.loads(first["payload"]) == payload
    assert (first["result"], second["result"]) == ("-7", f"'{FORMULA}")
    job = shell.read_json("jobs", "show", first["id"])["job"]
    assert first["created_at"] == job["created_at"]


def test_a_file_is_replaced_only_on_request_and_only_by_a_complete_one(
    shell: Terminal, conn: Connection
) -> None:
    _enqueue(conn, 2)
    file = shell.folder / "jobs.jsonl"
    written = shell.run("jobs", "export", "--output", file.name)
    assert (written.stdout, written.stderr) == ("", "2 jobs written to jobs.jsonl\n")
    assert len(file.read_text().splitlines()) == 2
    assert shell.run("jobs", "export", "--output", file.name).returncode == 5
    _enqueue(conn, 1)
    shell.read("jobs", "export", "--output", file.name, "--force")
    whole = file.read_text()
    assert len(whole.splitlines()) == 3
    conn.execute("drop function jobforge.get_job(uuid, uuid)")
    assert shell.run("jobs", "export", "--output", file.name, "--force").returncode != 0
    assert file.read_text() == whole
    assert list(shell.folder.iterdir()) == [file]


@pytest.mark.parametrize("place", ["none/file", "folder", "pipe"])
def test_an_invalid_output_path_is_a_usage_error(shell: Terminal, place: str) -> None:
    (shell.folder / "folder").mkdir()
    os.mkfifo(shell.folder / "pipe")
    said = shell.run("jobs", "export", "--force", "--output", place)
    assert said.returncode == 2
    assert place in said.stderr


def test_an_export_shows_its_progress_on_a_terminal(
    database: Database, shell: Terminal, conn: Connection
) -> None:
    _enqueue(conn, 2)
    variables = {
        "JOBFORGE_DATABASE_URL": database.url_as("admin_login"),
        "JOBFORGE_TENANT": "acme",
    }
    ours, theirs = pty.openpty()
    with closing(os.fdopen(ours, "rb", buffering=0)) as watched:
        said = subprocess.run(
            [sys.executable, "-m", "jobforge", "jobs", "export"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=environment(**variables),
            cwd=shell.folder,
            check=True,
        )
        seen = watched.read(65_536).decode()
        os.close(theirs)
    assert len(said.stdout.splitlines()) == 2
    assert "exporting  2" in seen
    assert seen.endswith("\r\x1b[K")


def test_redrive_accepts_rates_like_limits(shell: Terminal, conn: Connection) -> None:
    _enqueue(conn, 1)
    _end(conn, 1, Outcome.FAILED)
    for rate, per_second in (("600/m", 10), ("2/s", 2), ("0.5", 0.5)):
        made = shell.read("failures", "redrive", "--all", "--rate", rate, "--yes", "--no-wait")
        operation = db.run(conn, calls.get_operation(UUID(made), tenant_id=ACME))
        assert operation.options["rate"] == per_second

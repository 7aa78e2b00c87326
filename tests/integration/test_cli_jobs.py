"""`jobforge enqueue`, `jobs`, `tenants` and `workers` against a database, without any worker."""

import json
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from integration.terminal import InProcessTerminal, Terminal

from jobforge import calls, db
from jobforge.types.jobs import ClaimedJob, Note, Outcome, OutcomeReport, Step

WORKER = uuid4()
NOWHERE = "postgresql://ada@127.0.0.1:1/app"
ESCAPE = "\x1b[31m"


@pytest.fixture
def tenant_id(conn: Connection) -> UUID:
    """Create the tenant acme and a definition; return the tenant's ID."""
    acme = uuid4()
    db.run(conn, calls.put_tenant(acme, {"slug": "acme"}))
    db.run(conn, calls.put_definition("mail", 1, {"max_attempts": 1}))
    return acme


@pytest.fixture
def shell(database: Database, tenant_id: UUID, tmp_path: Path) -> Terminal:  # noqa: ARG001
    return InProcessTerminal(
        tmp_path, JOBFORGE_DATABASE_URL=database.url_as("admin_login"), JOBFORGE_TENANT="acme"
    )


def _claim(conn: Connection) -> ClaimedJob:
    (job,) = db.run(conn, calls.claim_jobs(WORKER, {"default": 1}))
    return job


def _end(conn: Connection, outcome: Outcome, **more: object) -> ClaimedJob:
    job = _claim(conn)
    report = OutcomeReport(*job.token, outcome, job.started_at)._replace(**more)  # type: ignore[arg-type] # names are fields
    db.run(conn, calls.complete_job(WORKER, report))
    return job


def test_enqueue_prints_only_the_id_of_the_job(shell: Terminal, conn: Connection) -> None:
    job_id = UUID(shell.read("enqueue", "mail", "to=ada", "n:=3", "url=http://h/?a:=b"))
    job = _claim(conn)
    assert job.job_id == job_id
    assert job.payload == {"to": "ada", "n": 3, "url": "http://h/?a:=b"}


def test_the_options_of_enqueue_are_stored_with_the_job(shell: Terminal) -> None:
    words = [
        "enqueue",
        "mail",
        "--in",
        "15m",
        "--key",
        "k",
        "--priority",
        "7",
        "--queue",
        "slow",
        "--tag",
        "a",
        "--tag",
        "b",
    ]
    job_id = shell.read(*words)
    job = shell.read_json("jobs", "show", job_id)["job"]
    assert (job["state"], job["priority"], job["queue"]) == ("scheduled", 7, "slow")
    assert (job["idempotency_key"], job["tags"]) == ("k", ["a", "b"])


def test_show_lists_the_steps_of_a_job_and_explain_says_what_it_waits_for(
    shell: Terminal, conn: Connection
) -> None:
    job_id = shell.read("enqueue", "mail")
    job = _claim(conn)
    db.run(conn, calls.save_steps(WORKER, [Step(*job.token, "send", 0, {"password": "secret"})]))
    wait = {"kind": "event", "name": "paid", "index": 0, "match": {"order": 7}}
    report = OutcomeReport(*job.token, Outcome.SNOOZED, retry_in_s=60, wait=wait)
    db.run(conn, calls.complete_job(WORKER, report))
    done, waiting = shell.read_json("jobs", "show", job_id)["steps"]
    assert (done["name"], done["state"], done["result"]) == (
        "send",
        "done",
        {"password": "[redacted]"},
    )
    assert (waiting["name"], waiting["state"]) == ("paid", "waiting")
    assert "event\tpaid" in shell.read("jobs", "show", job_id).replace("  ", "\t")
    assert "for the event paid with" in shell.read("jobs", "explain", job_id)


def test_a_payload_can_be_read_from_a_file_and_changed(shell: Terminal, conn: Connection) -> None:
    (shell.folder / "mail.json").write_text('{"to": "ada", "n": 1}')
    shell.read("enqueue", "mail", "@mail.json", "n:=2")
    assert _claim(conn).payload == {"to": "ada", "n": 2}


@pytest.mark.usefixtures("tenant_id")
def test_an_argument_that_is_not_utf_8_is_a_usage_error(database: Database, tmp_path: Path) -> None:
    variables = {
        "JOBFORGE_DATABASE_URL": database.url_as("admin_login"),
        "JOBFORGE_TENANT": "acme",
    }
    quick, real = InProcessTerminal(tmp_path, **variables), Terminal(tmp_path, **variables)
    for shell, *arguments in (
        (real, b"enqueue", b"mail", b"to=\xff"),
        (quick, b"enqueue", b"\xff"),
        (quick, b"enqueue", b"mail", b"@\xff"),
        (quick, b"jobs", b"list", b"--tenant", b"\xff"),
        (quick, b"jobs", b"show", b"\xff\xff\xff\xff\xff\xff\xff\xff"),
        (quick, b"worker", b"\xff.py"),
        (real, b"\xff"),
    ):
        result = shell.run(*arguments)
        assert result.returncode in {2, 3}, (arguments, result.stderr)
        assert "Traceback" not in result.stderr


def test_without_a_tenant_the_error_lists_the_ways_to_specify_one(
    database: Database, tmp_path: Path
) -> None:
    shell = InProcessTerminal(tmp_path, JOBFORGE_DATABASE_URL=database.url_as("admin_login"))
    result = shell.run("jobs", "list")
    assert result.returncode == 4
    for way in ("--tenant", "JOBFORGE_TENANT", "jobforge.toml"):
        assert way in result.stderr


def test_a_tenant_is_specified_by_its_slug_or_its_id(shell: Terminal, tenant_id: UUID) -> None:
    job_id = shell.read("enqueue", "mail", "--tenant", str(tenant_id))
    assert shell.read("jobs", "list", "-q", "--tenant", "acme") == job_id


def test_a_client_login_specifies_its_tenant_by_id(
    database: Database, tenant_id: UUID, tmp_path: Path
) -> None:
    shell = InProcessTerminal(
        tmp_path,
        JOBFORGE_DATABASE_URL=database.url_as("client_login"),
        JOBFORGE_TENANT=str(tenant_id),
    )
    job_id = shell.read("enqueue", "mail")
    assert shell.read("jobs", "list", "-q") == job_id
    assert shell.run("jobs", "list", "--tenant", "acme").returncode == 4


def test_a_list_is_filtered_and_newest_first(shell: Terminal) -> None:
    first = shell.read("enqueue", "mail", "--queue", "a", "--tag", "x")
    second = shell.read("enqueue", "mail", "--queue", "a", "--key", "k")
    third = shell.read("enqueue", "mail", "--queue", "b", "--in", "1h")

    def ids(*options: str) -> list[str]:
        return shell.read("jobs", "list", "-q", *options).split()

    assert ids() == [third, second, first]
    assert ids("--limit", "2") == [third, second]
    assert ids("--queue", "a") == [second, first]
    assert ids("--tag", "x") == [first]
    assert ids("--key", "k") == [second]
    assert ids("--state", "scheduled") == [third]
    assert ids("--state", "scheduled", "--state", "queued") == [third, second, first]
    assert ids("--definition", "other") == []


def test_a_list_longer_than_a_page_is_complete(
    shell: Terminal, conn: Connection, tenant_id: UUID
) -> None:
    conn.execute(
        """
        select jobforge.enqueue_jobs((select jsonb_agg('{"definition": "mail"}'::jsonb)
                                        from generate_series(1, 450)), %s)
        """,
        [tenant_id],
    )
    assert len(set(shell.read("jobs", "list", "-q", "--limit", "1000").split())) == 450
    assert len(shell.read("jobs", "list", "-q", "--limit", "201").split()) == 201


def test_a_reader_that_closes_the_pipe_ends_the_command_silently(
    shell: Terminal, conn: Connection, tenant_id: UUID
) -> None:
    # More than a pipe holds, so that the command still writes when its reader exits.
    conn.execute(
        """
        select jobforge.enqueue_jobs((select jsonb_agg('{"definition": "mail"}'::jsonb)
                                        from generate_series(1, 2000)), %s)
        """,
        [tenant_id],
    )
    with shell.popen("jobs", "list", "--limit", "2000") as listing:
        assert listing.stdout
        assert listing.stderr
        listing.stdout.readline()
        listing.stdout.close()
        assert (listing.wait(timeout=60), listing.stderr.read()) == (1, "")


def test_a_unique_prefix_of_an_id_is_enough(shell: Terminal) -> None:
    job_id = shell.read("enqueue", "mail")
    assert shell.read_json("jobs", "show", job_id[:8])["job"]["id"] == job_id
    assert shell.read_json("jobs", "show", job_id[:18].upper())["job"]["id"] == job_id


def test_an_ambiguous_prefix_of_an_id_is_refused(
    shell: Terminal, conn: Connection, tenant_id: UUID
) -> None:
    conn.execute(
        """select jobforge.enqueue_jobs('[{"definition": "mail"}, {"definition": "mail"}]', %s)""",
        [tenant_id],
    )
    first, second = shell.read("jobs", "list", "-q").split()
    result = shell.run("jobs", "show", first[:8])
    assert result.returncode == 2
    assert first in result.stderr
    assert shell.read_json("jobs", "show", second)["job"]["id"] == second


def test_secrets_and_control_characters_are_not_printed(shell: Terminal, conn: Connection) -> None:
    secret = "correct-horse-battery"
    job_id = shell.read("enqueue", "mail", f"password={secret}", f"note={ESCAPE}red")
    error = {"type": "Failure", "message": f"password={secret} {ESCAPE}"}
    _end(conn, Outcome.FAILED, error=error, stderr_tail=f"{ESCAPE}\r\npassword={secret}")
    for command in (["jobs", "show", job_id], ["jobs", "list"], ["jobs", "wait", job_id]):
        for form in ([], ["--json"]):
            said = shell.run(*command, *form)
            assert secret not in said.stdout + said.stderr
            assert "\x1b" not in said.stdout + said.stderr
    assert "red" in shell.read("jobs", "show", job_id)


def test_a_waiting_job_is_canceled_and_a_running_one_gets_a_cancel_request(
    shell: Terminal, conn: Connection
) -> None:
    waiting = shell.read("enqueue", "mail", "--in", "1h")
    running = shell.read("enqueue", "mail")
    _claim(conn)
    canceled = shell.read_json("jobs", "cancel", waiting, "--reason", "not now")
    assert canceled == {"job_id": waiting, "state": "canceled"}
    assert shell.read("jobs", "cancel", running) == f"{running}\tcanceling"
    assert shell.read_json("jobs", "show", waiting)["job"]["cancel_reason"] == "not now"


def test_a_dead_job_is_retried_in_place_but_copied_for_a_new_payload(
    shell: Terminal, conn: Connection
) -> None:
    job_id = shell.read("enqueue", "mail", "to=ada")
    _end(conn, Outcome.FAILED, error={"type": "Failure", "message": "no"})
    assert shell.read("jobs", "retry", job_id) == job_id
    _end(conn, Outcome.FAILED, error={"type": "Failure", "message": "no"})
    made = shell.read("jobs", "retry", job_id, "to=bob")
    claimed = _claim(conn)
    assert (str(claimed.job_id), claimed.payload) == (made, {"to": "bob"})
    assert made != job_id


def test_waiting_for_a_success_prints_its_result(shell: Terminal, conn: Connection) -> None:
    job_id = shell.read("enqueue", "mail")
    with shell.start("jobs", "wait", job_id, "--json") as waiting:
        _end(conn, Outcome.SUCCEEDED, result={"sent": True})
        assert waiting.wait_for_exit() == 0
    ending = json.loads(waiting.output)
    assert (ending["state"], ending["result"]) == ("succeeded", {"sent": True})


def test_a_wait_that_times_out_exits_with_6(shell: Terminal) -> None:
    job_id = shell.read("enqueue", "mail")
    result = shell.run("jobs", "wait", job_id, "--timeout", "0", "--json")
    assert result.returncode == 6
    assert json.loads(result.stderr)["error"]["code"] == "wait_timeout"
    waited = shell.run("enqueue", "mail", "--wait", "--timeout", "0.1s")
    assert waited.returncode == 6
    assert shell.read("jobs", "list", "-q", "--limit", "1") == waited.stderr.split()[0]


def test_tail_prints_the_notes_of_a_job_until_it_ends(shell: Terminal, conn: Connection) -> None:
    job_id = shell.read("enqueue", "mail")
    job = _claim(conn)
    with shell.start("jobs", "tail", job_id) as tail:
        _note(conn, job, "log", {"level": "warning", "message": f"odd{ESCAPE}", "to": "ada"})
        tail.wait_for("odd")
        _note(conn, job, "progress", {"done": 2, "total": 5, "message": "half way"})
        tail.wait_for("progress 2/5 half way")
        _note(conn, job, "event", {"name": "paid", "data": {"amount": 3}})
        report = OutcomeReport(*job.token, Outcome.SUCCEEDED, job.started_at)
        db.run(conn, calls.complete_job(WORKER, report))
        assert tail.wait_for_exit() == 0
    assert 'event paid {"amount": 3}' in tail.output
    assert "warning odd" in tail.output
    assert "\x1b" not in tail.output
    assert f"{job_id} succeeded" in tail.output
    lines = [json.loads(line) for line in shell.read("jobs", "tail", job_id, "--json").splitlines()]
    assert [line["kind"] for line in lines] == ["log", "progress", "event"]


def _note(conn: Connection, job: ClaimedJob, kind: str, data: dict[str, object]) -> None:
    db.run(conn, calls.note_jobs(WORKER, [Note(*job.token, kind, data)]))


def test_a_tail_of_many_notes_is_complete(shell: Terminal, conn: Connection) -> None:
    job_id = shell.read("enqueue", "mail")
    job = _claim(conn)
    notes = [
        Note(*job.token, "log", {"level": "info", "message": f"line {number}."})
        for number in range(450)
    ]
    db.run(conn, calls.note_jobs(WORKER, notes))
    report = OutcomeReport(*job.token, Outcome.SUCCEEDED, job.started_at)
    db.run(conn, calls.complete_job(WORKER, report))
    lines = shell.read("jobs", "tail", job_id).splitlines()
    assert [line.split()[-1] for line in lines] == [f"{number}." for number in range(450)]

"""`jobforge jobs`: a tenant's jobs."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, cast

import typer

from jobforge.cli import following, output
from jobforge.cli.database import DatabaseUrl
from jobforge.cli.moment import parse_duration
from jobforge.cli.options import AsJson, Payload
from jobforge.cli.payload import parse_payload
from jobforge.cli.session import JobId, Tenant, session
from jobforge.cli.way import ApiKey, ApiKeyAlone, ServerUrl, Way
from jobforge.errors import Invalid, Json

if TYPE_CHECKING:
    from jobforge.artifacts.document import Of
    from jobforge.job import Attempt, Job, JobEvent, JobHistory, JobListing, StoredStep

app = typer.Typer(help="Look at jobs and change them.", no_args_is_help=True)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print ids only.")]

_MOST_IN_A_PAGE = 200


@app.command("list")
def list_(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only jobs in this state; failed: the last attempt failed. Repeatable."),
    ] = None,
    definition: Annotated[str | None, typer.Option(metavar="KEY")] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    tag: Annotated[str | None, typer.Option()] = None,
    key: Annotated[str | None, typer.Option(help="Only the job with this idempotency key.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, newest first.")] = 50,
    quiet: Quiet = False,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKeyAlone = None,
) -> None:
    """List jobs, newest first."""
    from jobforge import calls
    from jobforge.job import JobFilter

    which = JobFilter(state=state, definition=definition, queue=queue, tag=tag, key=key)
    jobs: list[JobListing] = []
    with session(Way(database_url, server, api_key), tenant) as scope:
        while len(jobs) < limit:
            size = min(limit - len(jobs), _MOST_IN_A_PAGE)
            before = jobs[-1].id if jobs else None
            page = scope.run(calls.list_jobs(which, limit=size, before=before))
            jobs += page
            if len(page) < size:
                break
    if quiet:
        output.print_ids(job.id for job in jobs)
        return
    rows = [_hidden(job, "error") if as_json else _line(job) for job in jobs]
    output.print_rows(rows, as_json=as_json)


@app.command()
def show(
    job: JobId,
    *,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Show a job, its attempts, its steps and its timeline. Secrets in it are hidden."""
    from jobforge import calls

    with session(Way(database_url, server, api_key), tenant) as scope:
        found = scope.find_job(job)
        history = scope.run(calls.get_job(found))
        steps = [_hidden(step, "result", "match") for step in scope.run(calls.list_steps(found))]
    if as_json:
        output.print_json({**_document(history), "steps": steps})
    else:
        _print_history(history, steps)


@app.command()
def tail(
    job: JobId,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each.")] = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Print what a job says (log lines, progress, events) until it ends."""
    say = following.note_said_as_json if as_json else following.note_said
    with session(Way(database_url, server, api_key), tenant) as scope:
        ended = following.wait(scope, scope.find_job(job), say=say)
    output.note(f"{ended.id} {ended.state}")


@app.command()
def explain(
    job: JobId,
    *,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Say why a job is not running, and what would change that."""
    from jobforge import calls

    with session(Way(database_url, server, api_key), tenant) as scope:
        reasons = scope.run(calls.explain_job(scope.find_job(job)))
    if as_json:
        output.print_json([asdict(reason) for reason in reasons])
        return
    for reason in reasons:
        typer.echo(output.clean(reason.message))
        if reason.remedy:
            typer.echo(f"  {output.clean(reason.remedy)}")


@app.command()
def cancel(
    job: JobId,
    *,
    reason: Annotated[str | None, typer.Option(help="Kept with the job.")] = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Cancel a job; a running one is asked to stop, and is canceling until it has."""
    from jobforge import calls

    with session(Way(database_url, server, api_key), tenant) as scope:
        job_id = scope.find_job(job)
        state = scope.run(calls.cancel_job(job_id, reason=reason))
    _print_one({"job_id": job_id, "state": state}, as_json=as_json)


@app.command()
def retry(
    job: JobId,
    payload: Payload = None,
    *,
    attempts: Annotated[int | None, typer.Option(help="How many more attempts it gets.")] = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Run a job again: a dead one itself, an ended one as a new job. Prints the job's id."""
    from jobforge import calls

    given = parse_payload(payload) if payload else None
    with session(Way(database_url, server, api_key), tenant) as scope:
        call = calls.retry_job(scope.find_job(job), payload=given, attempts=attempts)
        job_id = scope.run(call)
    _print_one({"job_id": job_id}, as_json=as_json)


@app.command()
def wait(
    job: JobId,
    *,
    timeout: following.Timeout = None,
    as_json: AsJson = False,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Wait until a job has ended. Exit code 1 unless it succeeded, 6 when the time is up."""
    timeout_s = None if timeout is None else parse_duration(timeout, "--timeout")
    with session(Way(database_url, server, api_key), tenant) as scope:
        ended = following.wait(scope, scope.find_job(job), timeout_s=timeout_s)
    following.print_ending(ended, as_json=as_json)


@app.command()
def artifact(
    job: JobId,
    *,
    to: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is stdout.")
    ],
    of: Annotated[
        str | None,
        typer.Option(metavar="payload|result", help="Its large payload, or its large result."),
    ] = None,
    tenant: Tenant = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Download what a job made, or its result or payload where these are too large for the job.

    Nothing in it is hidden.
    """
    from jobforge import calls

    if of not in {None, "payload", "result"}:
        raise Invalid("--of is payload or result")
    with session(Way(database_url, server, api_key), tenant) as scope:
        found = scope.run(calls.get_job(scope.find_job(job))).job
        with scope.engine.artifact(found, cast("Of | None", of)) as pieces:
            output.save(pieces, to)


def _print_one(row: output.Row, *, as_json: bool) -> None:
    if as_json:
        output.print_json(dict(row))
    else:
        output.print_rows([row], as_json=False)


def _line(job: "JobListing") -> dict[str, Json]:
    error = dict(_redacted(job.error or {}))
    cause = ": ".join(filter(None, (error.get("type"), error.get("message"))))
    return {
        "id": job.id,
        "state": job.state,
        "definition": f"{job.definition}@{job.version}",
        "queue": job.queue,
        "attempt": f"{job.attempt}/{job.max_attempts}",
        "created_at": job.created_at,
        "error": cause[:80] if output.is_terminal() else cause,
    }


def _document(history: "JobHistory") -> dict[str, Json]:
    """What get_job answers, with secrets hidden wherever a program's words may stand."""
    return {
        "job": _hidden(history.job, "payload", "result", "error", "cancel_reason"),
        "attempts": [
            _hidden(attempt, "error", "stdout_tail", "stderr_tail") for attempt in history.attempts
        ],
        "events": [_hidden(event, "data") for event in history.events],
        "parents": [asdict(parent) for parent in history.parents],
        "children": [asdict(child) for child in history.children],
        "workflow": history.workflow and asdict(history.workflow),
    }


def _hidden(
    thing: "Job | JobListing | Attempt | JobEvent | StoredStep", *names: str
) -> dict[str, Json]:
    return {**asdict(thing), **{name: _redacted(getattr(thing, name)) for name in names}}


def _print_history(history: "JobHistory", steps: list[dict[str, Json]]) -> None:
    document = _document(history)
    output.print_fields(document["job"])
    for attempt, shown in zip(history.attempts, document["attempts"], strict=True):
        _print_attempt(attempt, shown)
    for relation in ("parents", "children"):
        _print_section(relation, document[relation], ("job_id", "definition", "state"))
    if history.workflow is not None:
        typer.echo(f"\n{history.workflow.kind}")
        output.print_fields(document["workflow"], indent=2)
    _print_section("steps", steps, _STEP_FIELDS)
    _print_section("timeline", document["events"], ("at", "kind", "actor", "data"))


def _print_attempt(attempt: "Attempt", shown: dict[str, Json]) -> None:
    typer.echo(f"\nattempt {attempt.attempt}: {_attempt_words(attempt)}")
    output.print_fields({name: shown[name] for name in _ATTEMPT_FIELDS}, indent=2)
    for stream in ("stdout_tail", "stderr_tail"):
        if shown[stream]:
            typer.echo(f"  {stream}")
            output.print_block(shown[stream], indent=4)


def _print_section(title: str, rows: list[dict[str, Json]], names: tuple[str, ...]) -> None:
    if not rows:
        return
    typer.echo(f"\n{title}")
    for row in rows:
        words = (output.cell(row[name]) for name in names)
        typer.echo("  " + "  ".join(word for word in words if word))


_ATTEMPT_FIELDS = (
    *("worker_id", "started_at", "ended_at", "error", "exit_code", "pid"),
    *("peak_memory_bytes", "cpu_ms"),
)


_STEP_FIELDS = ("at", "kind", "name", "index", "state", "result", "match", "jobs", "until")


def _attempt_words(attempt: "Attempt") -> str:
    if attempt.ended_at is None:
        return "in progress"
    return f"{attempt.outcome} after {output.span(attempt.ended_at - attempt.started_at)}"


def _redacted(value: Json) -> Json:
    from jobforge.redact import redact

    return redact(value)

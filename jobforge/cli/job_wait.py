"""Wait for a job to finish; print its notes in the meantime and its outcome."""

import time
from collections.abc import Callable, Iterator
from typing import Annotated
from uuid import UUID

import typer

from jobforge import calls
from jobforge.calls.job_log import JobLogReader
from jobforge.cli import output
from jobforge.cli.context import TenantSession
from jobforge.errors import Json, WaitTimeout
from jobforge.redact import redact
from jobforge.timing.backoff import ExponentialBackoff
from jobforge.types.job_history import JobEvent, JobHistory
from jobforge.types.jobs import Job

TimeoutOption = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Maximum wait, such as 90s. Default: no limit."),
]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


def wait_for_job(
    session: TenantSession,
    job_id: UUID,
    *,
    timeout_s: float | None = None,
    on_note: Callable[["JobEvent"], None] | None = None,
) -> Job:
    """Poll until the job finishes and return it, calling `on_note` for each note of the job.

    Raises WaitTimeout, NotFound.
    """
    log = JobLogReader(job_id)
    for history in _poll_job(session, job_id, timeout_s):
        # Read notes after the state: the notes of a job are stored before its completion.
        while on_note is not None:
            for note in log.take_new(session.run(log.build_call())):
                on_note(note)
            if not log.has_more:
                break
        if history.job.state.is_final:
            return history.job
    raise WaitTimeout(f"Job {job_id} did not finish within {timeout_s:g} seconds")


def print_note(note: JobEvent) -> None:
    """Print a note as a line of text."""
    typer.echo(f"{note.at.astimezone():%H:%M:%S}  {output.clean(format_note(note))}")


def print_note_as_json(note: JobEvent) -> None:
    data = redact(note.data)
    output.print_json_line({"at": note.at, "kind": note.kind, "actor": note.actor, "data": data})


def to_finished_document(job: Job) -> dict[str, Json]:
    """Return the outcome of a job as a JSON object."""
    return {
        "job_id": job.id,
        "state": job.state,
        "attempt": job.attempt,
        "result": redact(job.result),
        "error": redact(job.error),
        "reason": job.cancel_reason,
    }


def print_finished_job(job: Job, *, as_json: bool) -> None:
    """Print the job's outcome; exit with code 1 unless the job succeeded."""
    if as_json:
        output.print_json(to_finished_document(job))
    else:
        typer.echo(_format_finished_job(job))
    if job.state != "succeeded":
        raise typer.Exit(1)


def _poll_job(
    session: TenantSession, job_id: UUID, timeout_s: float | None
) -> Iterator["JobHistory"]:
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    backoff = ExponentialBackoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, factor=1.5)
    while True:
        yield session.run(calls.get_job(job_id))
        pause = backoff.next_pause_s()
        left = pause if deadline is None else deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))


def format_note(note: JobEvent) -> str:
    data = {name: value for name, value in dict(redact(note.data)).items() if name != "lease"}
    if note.kind == "progress":
        return _format_progress(data)
    if note.kind == "event":
        return f"event {data.pop('name', '')} {output.format_cell(data.get('data'))}".rstrip()
    level, message = data.pop("level", "info"), data.pop("message", "")
    fields = " ".join(f"{name}={output.format_cell(value)}" for name, value in data.items())
    return f"{level:<8}{message} {fields}".rstrip()


def _format_progress(data: dict[str, Json]) -> str:
    total = data.get("total")
    amount = f"{data.get('done')}/{total}" if total is not None else f"{data.get('done')}"
    return f"progress {amount} {data.get('message') or ''}".rstrip()


def _format_finished_job(job: Job) -> str:
    took = output.format_duration((job.finished_at or job.created_at) - job.created_at)
    if job.state == "succeeded":
        result = "" if job.result is None else f"  {output.format_cell(redact(job.result))}"
        return f"✓ {job.id} succeeded in {took}{result}"
    error = dict(redact(job.error or {}))
    cause = error.get("message") or job.cancel_reason or ""
    words = ": ".join(filter(None, (error.get("type"), cause)))
    attempts = f"{job.attempt} attempt{'s' * (job.attempt != 1)}"
    return output.clean(f"✗ {job.id} {job.state} after {attempts}  {words}".rstrip())

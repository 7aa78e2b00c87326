"""Format a job and its history as JSON or text, with secrets redacted."""

from collections.abc import Sequence
from dataclasses import asdict

import typer

from jobforge.cli import output
from jobforge.errors import Json
from jobforge.redact import redact
from jobforge.types.job_history import Attempt, JobEvent, JobHistory, StoredStep
from jobforge.types.jobs import Job, JobListing

_ATTEMPT_FIELDS = (
    *("worker_id", "started_at", "ended_at", "error", "exit_code", "pid"),
    *("peak_memory_bytes", "cpu_ms"),
)
_STEP_FIELDS = ("at", "kind", "name", "index", "state", "result", "match", "jobs", "until")


def to_history_document(history: JobHistory, steps: Sequence[StoredStep]) -> dict[str, Json]:
    """Return the history as a JSON object. All values that programs write are redacted."""
    return {
        "job": to_job_document(history.job),
        "attempts": [
            _redact_fields(attempt, "error", "stdout_tail", "stderr_tail")
            for attempt in history.attempts
        ],
        "events": [_redact_fields(event, "data") for event in history.events],
        "parents": [asdict(parent) for parent in history.parents],
        "children": [asdict(child) for child in history.children],
        "workflow": history.workflow and asdict(history.workflow),
        "steps": [_redact_fields(step, "result", "match") for step in steps],
    }


def to_job_document(job: Job) -> dict[str, Json]:
    """Return all fields of a job as a JSON object."""
    return _redact_fields(job, "payload", "result", "error", "cancel_reason")


def to_listing_document(job: JobListing) -> dict[str, Json]:
    """Return the fields of a listed job as a JSON object."""
    return _redact_fields(job, "error")


def _redact_fields(
    thing: Job | JobListing | Attempt | JobEvent | StoredStep, *names: str
) -> dict[str, Json]:
    return {**asdict(thing), **{name: redact(getattr(thing, name)) for name in names}}


def print_history(history: JobHistory, steps: Sequence[StoredStep]) -> None:
    document = to_history_document(history, steps)
    output.print_fields(
        {name: document["job"][name] for name in document["job"] if name != "lease"}
    )
    for attempt, shown in zip(history.attempts, document["attempts"], strict=True):
        _print_attempt(attempt, shown)
    for relation in ("parents", "children"):
        _print_section(relation, document[relation], ("job_id", "definition", "state"))
    if history.workflow is not None:
        typer.echo(f"\n{history.workflow.kind}")
        output.print_fields(document["workflow"], indent=2)
    _print_section("steps", document["steps"], _STEP_FIELDS)
    _print_section("timeline", document["events"], ("at", "kind", "actor", "data"))


def _print_attempt(attempt: Attempt, shown: dict[str, Json]) -> None:
    typer.echo(f"\nattempt {attempt.attempt}: {_describe_attempt(attempt)}")
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
        words = (output.format_cell(row[name]) for name in names if row[name] != {})
        typer.echo("  " + "  ".join(word for word in words if word))


def _describe_attempt(attempt: Attempt) -> str:
    if attempt.ended_at is None:
        return "in progress"
    return (
        f"{attempt.outcome} after {output.format_duration(attempt.ended_at - attempt.started_at)}"
    )

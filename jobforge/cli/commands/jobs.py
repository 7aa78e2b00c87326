"""`jobforge jobs`: list, inspect and change a tenant's jobs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast

import typer

from jobforge import calls
from jobforge.artifacts.artifact_reference import ArtifactSource
from jobforge.cli import completions, export, filters, job_view, job_wait, output
from jobforge.cli.bulk import confirm
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.filters import (
    narrow_filter,
    run_filtered_operation,
)
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import (
    AsJson,
    FieldNames,
    NewAttemptsOption,
    PayloadArgument,
    ReasonOption,
    Yes,
    check_choice,
    omit_none,
)
from jobforge.cli.payload_args import parse_payload
from jobforge.cli.shared_options import BULK, FILTER, LISTING, QUIET, TENANT, IdArgument
from jobforge.cli.time_args import parse_duration, parse_moment
from jobforge.cli.top_data import to_job_row
from jobforge.errors import Conflict, Invalid
from jobforge.types.jobs import JobListing
from jobforge.types.operations import OperationKind, OperationOptions

app = CommandGroup(TENANT)

AllOption = Annotated[
    bool, typer.Option("--all", help="Select all jobs of the tenant instead of filtering.")
]
IdempotencyKeyOption = Annotated[
    str | None, typer.Option(metavar="KEY", help="Idempotency key to match.")
]

_DEFAULT_LIMIT = 50


@app.command("list", options=QUIET + LISTING + FILTER + TENANT)
def list_(
    context: CommandContext,
    *,
    key: IdempotencyKeyOption = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help=f"Maximum number of jobs. Default: {_DEFAULT_LIMIT}."
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="List all matching jobs, page by page.")
    ] = False,
) -> None:
    """List jobs, newest first."""
    if everything and limit is not None:
        raise Invalid("--all and --limit can't be used together")
    maximum = None if everything else limit or _DEFAULT_LIMIT
    pages = filters.list_pages(
        context.session, narrow_filter(context.job_filter, {"key": key}), maximum
    )
    print_listing(
        pages,
        JobListing,
        to_job_row,
        job_view.to_listing_document,
        form=context.listing_format,
    )


@app.command("export", options=FILTER + TENANT)
def export_(
    context: CommandContext,
    *,
    key: IdempotencyKeyOption = None,
    field_names: FieldNames = None,
    as_: Annotated[
        str, typer.Option("--format", metavar="jsonl|csv", help="Output format.")
    ] = "jsonl",
    to: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Output file; - is stdout.")
    ] = "-",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Export all matching jobs, newest first. Secrets are redacted.

    Includes payloads and results. The file appears only when it is complete.
    """
    write = export.WRITERS[check_choice("format", as_, export.WRITERS)]
    if to != "-" and not force and Path(to).exists():
        raise Conflict(f"{to} already exists", hint="Pass --force to replace it")
    names = export.parse_job_fields(field_names)
    pages = filters.list_pages(
        context.session, narrow_filter(context.job_filter, {"key": key}), None
    )
    count = export.export_jobs(context.session, pages, names, write, to)
    if to != "-":
        output.note(f"{count:,} job{'s' * (count != 1)} written to {to}")


@app.command()
def show(context: CommandContext, job: IdArgument, *, as_json: AsJson = False) -> None:
    """Show a job with its attempts, steps and timeline. Secrets are redacted."""
    found = context.session.find_id("job", job)
    whole = context.run(calls.get_job(found))
    steps = context.run(calls.list_steps(found))
    if as_json:
        output.print_json(job_view.to_history_document(whole, steps))
    else:
        job_view.print_history(whole, steps)


@app.command()
def tail(
    context: CommandContext,
    job: IdArgument,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
) -> None:
    """Print a job's log lines, progress and events as they arrive."""
    print_note = job_wait.print_note_as_json if as_json else job_wait.print_note
    ended = job_wait.wait_for_job(
        context.session, context.session.find_id("job", job), on_note=print_note
    )
    output.note(f"{ended.id} {ended.state}")


@app.command()
def explain(context: CommandContext, job: IdArgument, *, as_json: AsJson = False) -> None:
    """Explain why a job is not running and what would change that."""
    reasons = context.run(calls.explain_job(context.session.find_id("job", job)))
    if as_json:
        output.print_json([asdict(reason) for reason in reasons])
        return
    for reason in reasons:
        typer.echo(output.clean(reason.message))
        if reason.remedy:
            typer.echo(f"  {output.clean(reason.remedy)}")


@app.command()
def cancel(
    context: CommandContext,
    job: IdArgument,
    *,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Reason, stored with the job.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a job. A running job is asked to stop."""
    job_id = context.session.find_id("job", job)
    state = context.run(calls.cancel_job(job_id, reason=reason))
    _print_one({"job_id": job_id, "state": state}, as_json=as_json)


@app.command()
def erase(context: CommandContext, job: IdArgument, *, yes: Yes = False) -> None:
    """Erase the data of a finished job permanently.

    Erases payload, result, errors, output, steps and artifacts. If an event created the job, the
    event's data stays until retention drops it (history_days, default: 14).
    """
    job_id = context.session.find_id("job", job)
    if not yes:
        confirm(f"erase the data of job {job_id}")
    context.engine.erase_job(job_id, context.session.tenant_id)
    output.note(f"Data of job {job_id} erased; its ID, times and states remain")


@app.command()
def retry(
    context: CommandContext,
    job: IdArgument,
    payload: PayloadArgument = None,
    *,
    attempts: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of new attempts (default: the job's own number)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Retry a job and print its ID.

    A dead job is requeued under the same ID. For a succeeded or canceled
    job, or with a new payload, a new job is created.
    """
    changed = parse_payload(payload) if payload else None
    call = calls.retry_job(context.session.find_id("job", job), payload=changed, attempts=attempts)
    output.print_value("job_id", context.run(call), as_json=as_json)


@app.command("cancel-many", options=BULK + FILTER + TENANT)
def cancel_many(
    context: CommandContext,
    *,
    everything: AllOption = False,
    reason: ReasonOption = None,
) -> None:
    """Cancel all matching jobs. Print the operation's ID."""
    options = OperationOptions(reason=reason)
    run_filtered_operation(context, OperationKind.CANCEL, options, everything=everything)


@app.command("retry-many", options=BULK + FILTER + TENANT)
def retry_many(
    context: CommandContext,
    *,
    everything: AllOption = False,
    attempts: NewAttemptsOption = None,
) -> None:
    """Retry matching jobs that are dead or wait for a retry. Print the operation's ID."""
    options = OperationOptions(attempts=attempts)
    run_filtered_operation(context, OperationKind.RETRY, options, everything=everything)


@app.command()
def edit(
    context: CommandContext,
    job: IdArgument,
    payload: PayloadArgument = None,
    *,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="New priority; higher runs first.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(autocompletion=completions.complete_queues, metavar="NAME", help="New queue."),
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="New earliest start.")] = None,
    as_soon_as_possible: Annotated[
        bool, typer.Option("--now", help="Start as soon as possible.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Change a waiting job. Omitted settings are unchanged.

    A payload replaces the previous one.
    """
    changes = omit_none(
        payload=parse_payload(payload) if payload else None,
        priority=priority,
        queue=queue,
        run_at=None if at is None else parse_moment(at, "--at").isoformat(),
    )
    if as_soon_as_possible:
        changes["run_at"] = None
    if not changes:
        raise Invalid("No changes specified", hint="jobforge jobs edit --help")
    job_id = context.session.find_id("job", job)
    state = context.run(calls.edit_job(job_id, changes))
    _print_one({"job_id": job_id, "state": state}, as_json=as_json)


@app.command()
def wait(
    context: CommandContext,
    job: IdArgument,
    *,
    timeout: job_wait.TimeoutOption = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a job finishes. Exits with 1 unless it succeeded, 6 after the timeout."""
    timeout_s = None if timeout is None else parse_duration(timeout, "--timeout")
    ended = job_wait.wait_for_job(
        context.session, context.session.find_id("job", job), timeout_s=timeout_s
    )
    job_wait.print_finished_job(ended, as_json=as_json)


@app.command()
def artifact(
    context: CommandContext,
    job: IdArgument,
    *,
    to: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Output file; - is stdout.")
    ],
    of: Annotated[
        str | None,
        typer.Option(metavar="payload|result", help="Download the large payload or result."),
    ] = None,
) -> None:
    """Download a job's artifact. Secrets in it are not redacted.

    Also downloads a payload or result that is too large for the job's row.
    """
    if of not in {None, "payload", "result"}:
        raise Invalid("--of must be payload or result")
    found = context.run(calls.get_job(context.session.find_id("job", job))).job
    with context.engine.open_artifact(found, cast("ArtifactSource | None", of)) as pieces:
        output.save(pieces, to)


def _print_one(row: output.OutputRow, *, as_json: bool) -> None:
    if as_json:
        output.print_json(dict(row))
    else:
        output.print_rows([row], as_json=False, no_header=True)

"""`jobforge jobs`: list, inspect and change a tenant's jobs."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from jobforge.cli import completions, export, filters, job_view, job_wait, output
from jobforge.cli.bulk import BulkFlags, DryRun, WaitOption, Yes, confirm
from jobforge.cli.filters import (
    AllOption,
    IdempotencyKeyOption,
    narrow_filter,
    run_filtered_operation,
    with_filter,
)
from jobforge.cli.listing_output import FieldNames, ListingFormat, print_pages, with_listing_format
from jobforge.cli.options import AsJson, PayloadArgument, Quiet, check_choice, omit_none
from jobforge.cli.payload_args import parse_payload
from jobforge.cli.tenant_session import IdArgument, TenantSession, with_tenant_session
from jobforge.cli.time_args import parse_duration, parse_moment
from jobforge.cli.top_data import to_job_row
from jobforge.errors import Conflict, Invalid

if TYPE_CHECKING:
    from jobforge.artifacts.artifact_reference import ArtifactSource
    from jobforge.types.jobs import JobFilter

app = typer.Typer(help="List, inspect and change jobs.", no_args_is_help=True)

_DEFAULT_LIMIT = 50


@app.command("list")
@with_tenant_session
@with_filter
@with_listing_format
def list_(
    scope: TenantSession,
    which: "JobFilter",
    form: ListingFormat,
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
    quiet: Quiet = False,
) -> None:
    """List jobs, newest first."""
    from jobforge.types.jobs import JobListing

    if everything and limit is not None:
        raise Invalid("--all and --limit can't be used together")
    maximum = None if everything else limit or _DEFAULT_LIMIT
    pages = filters.list_pages(scope, narrow_filter(which, {"key": key}), maximum)
    print_pages(pages, JobListing, to_job_row, job_view.to_listing_document, form=form, quiet=quiet)


@app.command("export")
@with_tenant_session
@with_filter
def export_(
    scope: TenantSession,
    which: "JobFilter",
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
    pages = filters.list_pages(scope, narrow_filter(which, {"key": key}), None)
    count = export.export_jobs(scope, pages, names, write, to)
    if to != "-":
        output.note(f"{count:,} job{'s' * (count != 1)} written to {to}")


@app.command()
@with_tenant_session
def show(scope: TenantSession, job: IdArgument, *, as_json: AsJson = False) -> None:
    """Show a job with its attempts, steps and timeline. Secrets are redacted."""
    from jobforge import calls

    found = scope.find_id("job", job)
    whole = scope.run(calls.get_job(found))
    steps = scope.run(calls.list_steps(found))
    if as_json:
        output.print_json(job_view.to_history_document(whole, steps))
    else:
        job_view.print_history(whole, steps)


@app.command()
@with_tenant_session
def tail(
    scope: TenantSession,
    job: IdArgument,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
) -> None:
    """Print a job's log lines, progress and events as they arrive."""
    print_note = job_wait.print_note_as_json if as_json else job_wait.print_note
    ended = job_wait.wait_for_job(scope, scope.find_id("job", job), on_note=print_note)
    output.note(f"{ended.id} {ended.state}")


@app.command()
@with_tenant_session
def explain(scope: TenantSession, job: IdArgument, *, as_json: AsJson = False) -> None:
    """Explain why a job is not running and what would change that."""
    from jobforge import calls

    reasons = scope.run(calls.explain_job(scope.find_id("job", job)))
    if as_json:
        output.print_json([asdict(reason) for reason in reasons])
        return
    for reason in reasons:
        typer.echo(output.clean(reason.message))
        if reason.remedy:
            typer.echo(f"  {output.clean(reason.remedy)}")


@app.command()
@with_tenant_session
def cancel(
    scope: TenantSession,
    job: IdArgument,
    *,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Reason, stored with the job.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a job. A running job is asked to stop."""
    from jobforge import calls

    job_id = scope.find_id("job", job)
    state = scope.run(calls.cancel_job(job_id, reason=reason))
    _print_one({"job_id": job_id, "state": state}, as_json=as_json)


@app.command()
@with_tenant_session
def erase(scope: TenantSession, job: IdArgument, *, yes: Yes = False) -> None:
    """Erase the data of a finished job permanently.

    Erases payload, result, errors, output, steps and artifacts. If an event created the job, the
    event's data stays until retention drops it (history_days, default: 14).
    """
    job_id = scope.find_id("job", job)
    if not yes:
        confirm(f"erase the data of job {job_id}")
    scope.engine.erase_job(job_id, scope.tenant_id)
    output.note(f"Data of job {job_id} erased; its ID, times and states remain")


@app.command()
@with_tenant_session
def retry(
    scope: TenantSession,
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
    from jobforge import calls

    changed = parse_payload(payload) if payload else None
    call = calls.retry_job(scope.find_id("job", job), payload=changed, attempts=attempts)
    output.print_value("job_id", scope.run(call), as_json=as_json)


@app.command("cancel-many")
@with_tenant_session
@with_filter
def cancel_many(
    scope: TenantSession,
    which: "JobFilter",
    *,
    everything: AllOption = False,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Reason, stored with the jobs.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: WaitOption = True,
) -> None:
    """Cancel all matching jobs. Print the operation's ID."""
    from jobforge.types.operations import OperationKind, OperationOptions

    flags = BulkFlags(yes, dry_run, wait, everything)
    options = OperationOptions(reason=reason)
    run_filtered_operation(scope, OperationKind.CANCEL, which, options, flags)


@app.command("retry-many")
@with_tenant_session
@with_filter
def retry_many(
    scope: TenantSession,
    which: "JobFilter",
    *,
    everything: AllOption = False,
    attempts: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of new attempts per job (default: the job's own number).",
        ),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: WaitOption = True,
) -> None:
    """Retry matching jobs that are dead or wait for a retry. Print the operation's ID."""
    from jobforge.types.operations import OperationKind, OperationOptions

    flags = BulkFlags(yes, dry_run, wait, everything)
    options = OperationOptions(attempts=attempts)
    run_filtered_operation(scope, OperationKind.RETRY, which, options, flags)


@app.command()
@with_tenant_session
def edit(
    scope: TenantSession,
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
    from jobforge import calls

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
    job_id = scope.find_id("job", job)
    state = scope.run(calls.edit_job(job_id, changes))
    _print_one({"job_id": job_id, "state": state}, as_json=as_json)


@app.command()
@with_tenant_session
def wait(
    scope: TenantSession,
    job: IdArgument,
    *,
    timeout: job_wait.TimeoutOption = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a job finishes. Exit code 1 unless it succeeded, 6 after the timeout."""
    timeout_s = None if timeout is None else parse_duration(timeout, "--timeout")
    ended = job_wait.wait_for_job(scope, scope.find_id("job", job), timeout_s=timeout_s)
    job_wait.print_finished_job(ended, as_json=as_json)


@app.command()
@with_tenant_session
def artifact(
    scope: TenantSession,
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
    from jobforge import calls

    if of not in {None, "payload", "result"}:
        raise Invalid("--of must be payload or result")
    found = scope.run(calls.get_job(scope.find_id("job", job))).job
    with scope.engine.open_artifact(found, cast("ArtifactSource | None", of)) as pieces:
        output.save(pieces, to)


def _print_one(row: output.OutputRow, *, as_json: bool) -> None:
    if as_json:
        output.print_json(dict(row))
    else:
        output.print_rows([row], as_json=False, no_header=True)

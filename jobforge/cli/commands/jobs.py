"""`jobforge jobs`: a tenant's jobs."""

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

app = typer.Typer(help="Look at jobs and change them.", no_args_is_help=True)

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
        typer.Option(min=1, metavar="N", help=f"How many at most; else {_DEFAULT_LIMIT}."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="AllOption that match, page after page.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """List jobs, newest first."""
    from jobforge.types.jobs import JobListing

    if everything and limit is not None:
        raise Invalid("--all and --limit exclude each other")
    most = None if everything else limit or _DEFAULT_LIMIT
    pages = filters.list_pages(scope, narrow_filter(which, {"key": key}), most)
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
        str, typer.Option("--format", metavar="jsonl|csv", help="Lines of JSON, or CSV.")
    ] = "jsonl",
    to: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is stdout.")
    ] = "-",
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
) -> None:
    """Write all jobs that match, newest first. Payloads and results too, secrets hidden.

    A file is there when all of it is.
    """
    write = export.WRITERS[check_choice("format", as_, export.WRITERS)]
    if to != "-" and not force and Path(to).exists():
        raise Conflict(f"{to} is there already", hint="--force replaces it")
    names = export.parse_job_fields(field_names)
    pages = filters.list_pages(scope, narrow_filter(which, {"key": key}), None)
    count = export.export_jobs(scope, pages, names, write, to)
    if to != "-":
        output.note(f"{count:,} job{'s' * (count != 1)} written to {to}")


@app.command()
@with_tenant_session
def show(scope: TenantSession, job: IdArgument, *, as_json: AsJson = False) -> None:
    """Show a job, its attempts, its steps and its timeline. Secrets in it are hidden."""
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
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each.")] = False,
) -> None:
    """Print what a job says, until it ends. Log lines, progress, events."""
    say = job_wait.print_note_as_json if as_json else job_wait.print_note
    ended = job_wait.wait_for_job(scope, scope.find_id("job", job), on_note=say)
    output.note(f"{ended.id} {ended.state}")


@app.command()
@with_tenant_session
def explain(scope: TenantSession, job: IdArgument, *, as_json: AsJson = False) -> None:
    """Say why a job is not running, and what would change that."""
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
    reason: Annotated[str | None, typer.Option(help="Kept with the job.")] = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a job. A running one is asked to stop, and is canceling until it has."""
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
        confirm(f"erase the data of job {job_id}?")
    scope.engine.erase_job(job_id, scope.tenant_id)
    output.note(f"{job_id} is erased; its id, times and states stay")


@app.command()
@with_tenant_session
def retry(
    scope: TenantSession,
    job: IdArgument,
    payload: PayloadArgument = None,
    *,
    attempts: Annotated[int | None, typer.Option(help="How many more attempts it gets.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a job again and print its id. A dead one runs itself, an ended one as a new job."""
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
    reason: Annotated[str | None, typer.Option(help="Kept with the jobs.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: WaitOption = True,
) -> None:
    """Cancel all jobs that the options name. Prints the operation's id."""
    from jobforge.types.operations import OperationKind, OperationOptions

    manner = BulkFlags(yes, dry_run, wait, everything)
    options = OperationOptions(reason=reason)
    run_filtered_operation(scope, OperationKind.CANCEL, which, options, manner)


@app.command("retry-many")
@with_tenant_session
@with_filter
def retry_many(
    scope: TenantSession,
    which: "JobFilter",
    *,
    everything: AllOption = False,
    attempts: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many more each gets.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    wait: WaitOption = True,
) -> None:
    """Run dead jobs, and those that wait after a failure, again. Prints the operation's id."""
    from jobforge.types.operations import OperationKind, OperationOptions

    manner = BulkFlags(yes, dry_run, wait, everything)
    options = OperationOptions(attempts=attempts)
    run_filtered_operation(scope, OperationKind.RETRY, which, options, manner)


@app.command()
@with_tenant_session
def edit(
    scope: TenantSession,
    job: IdArgument,
    payload: PayloadArgument = None,
    *,
    priority: Annotated[int | None, typer.Option(help="Higher runs first.")] = None,
    queue: Annotated[str | None, typer.Option(autocompletion=completions.complete_queues)] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="Not before.")] = None,
    as_soon_as_possible: Annotated[
        bool, typer.Option("--now", help="As soon as possible.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Change a job that waits. What is not given stays; a payload replaces the one before."""
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
        raise Invalid("nothing to change is named", hint="jobforge jobs edit --help")
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
    """Wait until a job has ended. Exit code 1 unless it succeeded, 6 when the time is up."""
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
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is stdout.")
    ],
    of: Annotated[
        str | None,
        typer.Option(metavar="payload|result", help="Its large payload, or its large result."),
    ] = None,
) -> None:
    """Download what a job made.

    Or its result or payload, where these are too large for the job. Nothing in it is hidden.
    """
    from jobforge import calls

    if of not in {None, "payload", "result"}:
        raise Invalid("--of is payload or result")
    found = scope.run(calls.get_job(scope.find_id("job", job))).job
    with scope.engine.open_artifact(found, cast("ArtifactSource | None", of)) as pieces:
        output.save(pieces, to)


def _print_one(row: output.OutputRow, *, as_json: bool) -> None:
    if as_json:
        output.print_json(dict(row))
    else:
        output.print_rows([row], as_json=False)

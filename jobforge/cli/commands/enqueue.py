"""`jobforge enqueue`: enqueue a job by its definition's key. No app is needed."""

from typing import Annotated

import typer

from jobforge import calls
from jobforge.cli import completions, job_wait, output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.options import AsJson, PayloadArgument
from jobforge.cli.payload_args import parse_payload
from jobforge.cli.shared_options import TENANT
from jobforge.cli.time_args import parse_duration, parse_moment
from jobforge.errors import Invalid, UnknownDefinition
from jobforge.types.jobs import JobRequest

app = CommandGroup()


@app.command(options=TENANT)
def enqueue(
    context: CommandContext,
    definition: Annotated[
        str,
        typer.Argument(
            metavar="DEFINITION",
            help="Key of the definition, or key@version.",
            autocompletion=completions.complete_definitions,
        ),
    ],
    payload: PayloadArgument = None,
    *,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Earliest start, such as 2026-12-24T18:00."),
    ] = None,
    in_: Annotated[
        str | None,
        typer.Option("--in", metavar="DURATION", help="Delay before the start, such as 15m."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Idempotency key. Enqueuing again with the same key returns the existing job.",
        ),
    ] = None,
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="Priority; higher runs first. Default: 0.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option(metavar="NAME", help="Queue. Default: the definition's.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Tag. Repeatable.")] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for the job; exit code 1 unless it succeeds."),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Wait, and print log lines, progress and events."),
    ] = False,
    timeout: job_wait.TimeoutOption = None,
    as_json: AsJson = False,
) -> None:
    """Enqueue a job and print its ID.

    The definition must be registered and active, and the payload must match its parameters.
    """
    if at is not None and in_ is not None:
        raise Invalid("--at and --in can't be used together")
    if timeout is not None and not (wait or follow):
        raise Invalid("--timeout requires --wait or --follow")
    request = JobRequest(
        definition=definition,
        payload=parse_payload(payload or []),
        run_at=None if at is None else parse_moment(at, "--at"),
        delay_s=None if in_ is None else parse_duration(in_, "--in"),
        key=key,
        priority=priority,
        queue=queue,
        tags=tag,
    )
    timeout_s = None if timeout is None else parse_duration(timeout, "--timeout")
    prepared = context.engine.prepare_job(request, context.session.tenant_id)
    try:
        enqueued = context.run(calls.enqueue_job(prepared))
    except UnknownDefinition as error:
        hint = completions.suggest_definition(context.engine, definition)
        raise UnknownDefinition(error.message, hint=hint) from error
    if not (wait or follow):
        _print(enqueued.job_id, enqueued.status, as_json=as_json)
        return
    # Print the id first: the user needs it if the wait is interrupted.
    output.note(f"{enqueued.job_id} {enqueued.status}")
    print_note = job_wait.print_note_as_json if as_json else job_wait.print_note
    ended = job_wait.wait_for_job(
        context.session,
        enqueued.job_id,
        timeout_s=timeout_s,
        on_note=print_note if follow else None,
    )
    job_wait.print_finished_job(ended, as_json=as_json)


def _print(job_id: object, status: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json({"job_id": str(job_id), "status": status})
        return
    typer.echo(str(job_id))
    if status != "created":
        output.note(f"Idempotency key already in use: this is the {status} job")

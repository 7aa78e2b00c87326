"""Bulk operations: count the jobs, ask for confirmation, start, and show progress.

Also prompts that other commands share: `confirm` and `read_secret`.
"""

import sys
import time
from collections.abc import Callable
from uuid import UUID

import typer

from jobforge import calls
from jobforge.cli import output
from jobforge.cli.context import CommandContext, TenantSession
from jobforge.errors import Conflict, Invalid
from jobforge.types.jobs import JobFilter
from jobforge.types.operations import Operation, OperationKind, OperationOptions

_PAUSE_S = 0.2
_START_TIMEOUT_S = 10.0  # for a worker or server to begin the operation
_COUNT_LIMIT = 100_000  # jobforge.count_jobs stops counting here


def run_bulk_operation(
    context: CommandContext, kind: OperationKind, which: JobFilter, options: OperationOptions
) -> None:
    """Start a bulk operation on the jobs in `which` and print its id.

    The command has the options `BULK`. Exits with code 1 if the operation fails while it is
    watched.
    """
    count = context.run(calls.count_jobs(kind, which))
    label = f"{'at least ' if count >= _COUNT_LIMIT else ''}{count:,} job{'s' * (count != 1)}"
    if context.params["dry_run"]:
        output.note(f"{kind} would affect {label}")
        typer.echo(str(count))
        return
    if count == 0:
        output.note("No matching jobs")
        return
    if not context.params["yes"]:
        confirm(f"{kind} {label}", hint="Pass --yes to confirm, or --dry-run to count the jobs")
    operation_id = context.run(calls.start_operation(kind, which, options))
    typer.echo(str(operation_id))
    if context.params["wait"]:
        watch_operation(context.session, operation_id)


def read_secret(name: str) -> str:
    """Return a secret from a prompt, or from the next line of stdin.

    Secrets are never arguments: other users of the machine can see a command's arguments.
    """
    if sys.stdin.isatty():
        return str(typer.prompt(name, hide_input=True, err=True))
    value = sys.stdin.readline().rstrip("\r\n")
    if not value:
        raise Invalid(f"Missing value for secret {name!r}: stdin has no more lines", field="secret")
    return value


def confirm(action: str, *, hint: str = "Pass --yes to confirm") -> None:
    """Ask on the terminal whether to do the action, such as "delete trigger 7"; abort on no.

    Raises Invalid if stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise Invalid(f"Confirmation required to {action}: stdin is not a terminal", hint=hint)
    question = f"{action[0].upper()}{action[1:]}?"
    typer.confirm(output.clean(question), abort=True, err=True)


def watch_operation(
    session: TenantSession, operation_id: UUID, advance: Callable[[], bool] | None = None
) -> Operation:
    """Show the progress until the operation finishes; exit with code 1 if it failed.

    `advance` runs one step of the operation in this process and returns False if none is due.
    """
    began = time.monotonic()
    waits_for: str | None = None
    with output.show_progress("working") as report:
        while True:
            operation = session.run(calls.get_operation(operation_id))
            report(operation.done + operation.skipped, operation.matched)
            if operation.finished_at is not None:
                break
            if (
                operation.reason not in (None, waits_for)
                and time.monotonic() - began > _START_TIMEOUT_S
            ):
                waits_for = operation.reason
                if sys.stderr.isatty():
                    typer.echo(err=True)  # end the line of the progress bar
                output.note(waits_for)
            if advance is not None and advance():
                continue
            if operation.started_at is None and time.monotonic() - began > _START_TIMEOUT_S:
                raise Conflict(
                    "No worker or server has started the operation; it remains queued",
                    hint="Start a worker or a server: jobforge worker, jobforge server",
                )
            time.sleep(_PAUSE_S)
    if operation.state != "done" or operation.kind != "erase":
        output.note(_summary(operation))
    if operation.state != "done":
        raise typer.Exit(1)
    return operation


def _summary(operation: Operation) -> str:
    skipped = f", {operation.skipped:,} skipped" if operation.skipped else ""
    reason = f": {operation.reason}" if operation.reason else ""
    return f"{operation.state}  {operation.done:,} of {operation.matched:,}{skipped}{reason}"

"""An action on many jobs: counted first, asked about, then watched until it is done."""

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.cli import output
from jobforge.errors import Conflict, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from jobforge.cli.tenant_session import TenantSession
    from jobforge.types.jobs import JobFilter
    from jobforge.types.operations import Operation, OperationKind, OperationOptions

_PAUSE_S = 0.2
_START_TIMEOUT_S = 10.0  # so long it may take until somebody has begun
_COUNT_LIMIT = 100_000  # counts stop there


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Watch it until it is done.")]


@dataclass(frozen=True, slots=True)
class BulkFlags:
    """What the flags of a command say of it."""

    yes: bool
    dry_run: bool
    wait: bool
    everything: bool = False


def run_bulk_operation(
    session: "TenantSession",
    kind: "OperationKind",
    which: "JobFilter",
    options: "OperationOptions",
    manner: BulkFlags,
) -> None:
    """Ends the command with 1 when the operation failed."""
    from jobforge import calls

    count = session.run(calls.count_jobs(kind, which))
    words = f"{'at least ' if count >= _COUNT_LIMIT else ''}{count:,} job{'s' * (count != 1)}"
    if manner.dry_run:
        output.note(f"{kind} would act on {words}")
        typer.echo(str(count))
        return
    if count == 0:
        output.note("no job matches")
        return
    if not manner.yes:
        confirm(f"{kind} {words}?", hint="--yes, or --dry-run to count")
    operation_id = session.run(calls.start_operation(kind, which, options))
    typer.echo(str(operation_id))
    if manner.wait:
        watch_operation(session, operation_id)


def read_secret(name: str) -> str:
    """Return a secret from the terminal or from the next line of stdin.

    Never an argument: other users of the machine can see the arguments of a command."""
    if sys.stdin.isatty():
        return str(typer.prompt(name, hide_input=True, err=True))
    value = sys.stdin.readline().rstrip("\r\n")
    if not value:
        raise Invalid(f"no line of stdin is left for the secret {name}", field="secret")
    return value


def confirm(question: str, *, hint: str = "--yes does not ask") -> None:
    """Ends the command unless somebody says yes."""
    if not sys.stdin.isatty():
        raise Invalid(f"{question} nobody is there to ask", hint=hint)
    typer.confirm(output.clean(question), abort=True, err=True)


def watch_operation(
    session: "TenantSession", operation_id: "UUID", advance: "Callable[[], bool] | None" = None
) -> "Operation":
    """Shows the progress until the operation has ended; exit code 1 when it failed.

    `advance` makes a step in this process, and returns False when none is due.
    """
    from jobforge import calls

    began = time.monotonic()
    waits_for: str | None = None
    with output.show_progress("working") as tell:
        while True:
            operation = session.run(calls.get_operation(operation_id))
            tell(operation.done + operation.skipped, operation.matched)
            if operation.finished_at is not None:
                break
            if (
                operation.reason not in (None, waits_for)
                and time.monotonic() - began > _START_TIMEOUT_S
            ):
                waits_for = operation.reason
                output.note(f"\n{waits_for}")
            if advance is not None and advance():
                continue
            if operation.started_at is None and time.monotonic() - began > _START_TIMEOUT_S:
                raise Conflict(
                    "nobody has begun the operation; it stays, and goes on by itself",
                    hint="start a worker or a server: jobforge worker, jobforge server",
                )
            time.sleep(_PAUSE_S)
    if operation.state != "done" or operation.kind != "erase":
        output.note(_summary(operation))
    if operation.state != "done":
        raise typer.Exit(1)
    return operation


def _summary(operation: "Operation") -> str:
    skipped = f", {operation.skipped:,} skipped" if operation.skipped else ""
    reason = f": {operation.reason}" if operation.reason else ""
    return f"{operation.state}  {operation.done:,} of {operation.matched:,}{skipped}{reason}"

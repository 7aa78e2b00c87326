"""`jobforge workers`: list, show, drain and stop workers. For operators."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobforge import calls
from jobforge.cli import output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.engine import CliEngine
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import AsJson
from jobforge.cli.shared_options import ENGINE, LISTING
from jobforge.cli.top_data import to_worker_row
from jobforge.errors import Invalid, NotFound
from jobforge.types.workers import WorkerInfo
from jobforge.worker.isolation.levels import LABELS

app = CommandGroup(ENGINE)

WorkerId = Annotated[
    str, typer.Argument(metavar="ID", help="ID, or at least its first 8 characters.")
]

_SHORTEST = 8


@app.command("list", options=LISTING + ENGINE)
def list_(
    context: CommandContext,
    *,
    show_all: Annotated[bool, typer.Option("--all", help="Include stopped workers.")] = False,
) -> None:
    """List workers, newest first.

    The state is live, draining, stopping, stale or stopped. The clock is the difference between
    the worker's clock and the database's.
    """
    workers = context.engine.run(calls.list_workers())
    shown = [worker for worker in workers if show_all or worker.state != "stopped"]
    print_listing([shown], WorkerInfo, to_worker_row, form=context.listing_format)


@app.command()
def show(context: CommandContext, worker: WorkerId, *, as_json: AsJson = False) -> None:
    """Show a worker with its isolation level."""
    found = _find(context.engine, worker)
    if as_json:
        output.print_json(asdict(found))
        return
    fields = to_worker_row(found)
    more = {
        "build": found.build,
        "definitions": found.definitions or "all",
        "stopped_at": found.stopped_at,
    }
    output.print_fields(fields | more)
    if hint := _describe_stricter_levels(found):
        output.note(hint)


def _describe_stricter_levels(worker: WorkerInfo) -> str | None:
    """Return a hint about stricter levels; only a process on the host can tell what it lacks."""
    if worker.isolation not in LABELS[:-1]:
        return None
    stricter = ", ".join(LABELS[LABELS.index(worker.isolation) + 1 :])
    return (
        f"Stricter isolation levels: {stricter}. Run jobforge doctor on the worker's host, as its "
        "user, to see what they require there"
    )


@app.command()
def drain(context: CommandContext, worker: WorkerId) -> None:
    """Drain a worker: it finishes its running jobs and exits."""
    worker_id = _find(context.engine, worker).id
    context.engine.run(calls.drain_worker(worker_id))
    output.note(f"Worker {worker_id} is draining")


@app.command()
def stop(context: CommandContext, worker: WorkerId) -> None:
    """Stop a worker: it releases its running jobs to the queue and exits."""
    worker_id = _find(context.engine, worker).id
    context.engine.run(calls.stop_worker(worker_id))
    output.note(f"Worker {worker_id} is stopping")


def _find(engine: CliEngine, text: str) -> WorkerInfo:
    start = text.replace("-", "").lower()
    if len(start) < _SHORTEST:
        raise Invalid(
            f"{text!r} is not a valid worker ID (full ID or at least {_SHORTEST} characters)",
            hint="jobforge workers list",
        )
    found = [
        worker for worker in engine.run(calls.list_workers()) if worker.id.hex.startswith(start)
    ]
    if not found:
        raise NotFound(f"Worker {text} not found", hint="jobforge workers list")
    if len(found) > 1:
        raise Invalid(
            f"Ambiguous worker ID {text}: several IDs start with it",
            hint=f"Add more characters, as in {found[0].id}",
        )
    return found[0]

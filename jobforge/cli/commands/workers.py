"""`jobforge workers`: list, show, drain and stop workers. For operators."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.cli import output
from jobforge.cli.engine import CliEngine, with_engine
from jobforge.cli.listing_output import ListingFormat, print_listing, with_listing_format
from jobforge.cli.options import AsJson
from jobforge.cli.top_data import to_worker_row
from jobforge.errors import Invalid, NotFound

if TYPE_CHECKING:
    from jobforge.types.workers import WorkerInfo

app = typer.Typer(help="List, show, drain and stop workers.", no_args_is_help=True)

WorkerId = Annotated[
    str, typer.Argument(metavar="ID", help="ID, or at least its first 8 characters.")
]

_SHORTEST = 8


@app.command("list")
@with_engine
@with_listing_format
def list_(
    engine: CliEngine,
    form: ListingFormat,
    *,
    show_all: Annotated[bool, typer.Option("--all", help="Include stopped workers.")] = False,
) -> None:
    """List workers, newest first.

    The state is live, draining, stopping, stale or stopped. The clock is the difference between
    the worker's clock and the database's.
    """
    from jobforge import calls
    from jobforge.types.workers import WorkerInfo

    workers = engine.run(calls.list_workers())
    shown = [worker for worker in workers if show_all or worker.state != "stopped"]
    print_listing(shown, WorkerInfo, to_worker_row, form=form)


@app.command()
@with_engine
def show(engine: CliEngine, worker: WorkerId, *, as_json: AsJson = False) -> None:
    """Show a worker with its isolation level."""
    found = _find(engine, worker)
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


def _describe_stricter_levels(worker: "WorkerInfo") -> str | None:
    """Return a hint about stricter levels; only a process on the host can tell what it lacks."""
    from jobforge.worker.isolation.levels import LABELS

    if worker.isolation not in LABELS[:-1]:
        return None
    stricter = ", ".join(LABELS[LABELS.index(worker.isolation) + 1 :])
    return (
        f"Stricter isolation levels: {stricter}. Run jobforge doctor on the worker's host, as its "
        "user, to see what they require there"
    )


@app.command()
@with_engine
def drain(engine: CliEngine, worker: WorkerId) -> None:
    """Drain a worker: it finishes its running jobs and exits."""
    from jobforge import calls

    worker_id = _find(engine, worker).id
    engine.run(calls.drain_worker(worker_id))
    output.note(f"Worker {worker_id} is draining")


@app.command()
@with_engine
def stop(engine: CliEngine, worker: WorkerId) -> None:
    """Stop a worker: it releases its running jobs to the queue and exits."""
    from jobforge import calls

    worker_id = _find(engine, worker).id
    engine.run(calls.stop_worker(worker_id))
    output.note(f"Worker {worker_id} is stopping")


def _find(engine: CliEngine, text: str) -> "WorkerInfo":
    from jobforge import calls

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

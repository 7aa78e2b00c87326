"""`jobforge workers`: list, drain and stop workers. For operators."""

from typing import Annotated
from uuid import UUID

import typer

from jobforge.cli import output
from jobforge.cli.engine import CliEngine, with_engine
from jobforge.cli.tables import ListingFormat, print_listing, with_listing_format
from jobforge.cli.top_data import to_worker_row
from jobforge.errors import Invalid, NotFound

app = typer.Typer(help="List, drain and stop workers.", no_args_is_help=True)

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
    """List workers, newest first."""
    from jobforge import calls
    from jobforge.types.workers import WorkerInfo

    workers = engine.run(calls.list_workers())
    shown = [worker for worker in workers if show_all or worker.state != "stopped"]
    print_listing(shown, WorkerInfo, to_worker_row, form=form)


@app.command()
@with_engine
def drain(engine: CliEngine, worker: WorkerId) -> None:
    """Let a worker finish its running jobs and exit."""
    from jobforge import calls

    worker_id = _find(engine, worker)
    engine.run(calls.drain_worker(worker_id))
    output.note(f"{worker_id} is draining")


@app.command()
@with_engine
def stop(engine: CliEngine, worker: WorkerId) -> None:
    """Make a worker release its running jobs and exit."""
    from jobforge import calls

    worker_id = _find(engine, worker)
    engine.run(calls.stop_worker(worker_id))
    output.note(f"{worker_id} is stopping")


def _find(engine: CliEngine, text: str) -> UUID:
    from jobforge import calls

    start = text.replace("-", "").lower()
    if len(start) < _SHORTEST:
        raise Invalid(
            f"{text!r} is not a valid worker ID (full ID or at least {_SHORTEST} characters)",
            hint="jobforge workers list",
        )
    found = [
        worker.id for worker in engine.run(calls.list_workers()) if worker.id.hex.startswith(start)
    ]
    if not found:
        raise NotFound(f"Worker {text} not found", hint="jobforge workers list")
    if len(found) > 1:
        raise Invalid(
            f"Ambiguous worker ID {text}: several IDs start with it",
            hint=f"Add more characters, as in {found[0]}",
        )
    return found[0]

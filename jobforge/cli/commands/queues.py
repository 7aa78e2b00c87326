"""`jobforge queues`: list, pause and limit queues."""

from contextlib import suppress
from difflib import get_close_matches
from typing import Annotated

import typer

from jobforge import calls
from jobforge.cli import completions, output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.engine import CliEngine
from jobforge.cli.listing_output import print_listing
from jobforge.cli.options import BurstOption, MaxStartsOption
from jobforge.cli.shared_options import ENGINE, LISTING, TENANT_OR_ALL
from jobforge.cli.time_args import parse_rate
from jobforge.cli.top_data import to_queue_row
from jobforge.errors import Denied, Invalid, Json, TenantRequired
from jobforge.types.definitions import QueueInfo

app = CommandGroup(ENGINE)

QueueArgument = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE", autocompletion=completions.complete_queues, help="Name of the queue."
    ),
]

_LISTED = 1000  # list_queues returns at most this many


@app.command("list", options=LISTING + TENANT_OR_ALL)
def list_(context: CommandContext) -> None:
    """List queues with their job counts.

    Operators see the counts across all tenants by default.
    """
    queues = context.engine.run(calls.list_queues(tenant_id=context.tenant_id_or_all))
    print_listing([queues], QueueInfo, to_queue_row, form=context.listing_format)


@app.command()
def pause(context: CommandContext, queue: QueueArgument) -> None:
    """Pause a queue: its jobs do not start. Running jobs continue."""
    doubts = _check_queue_name(context.engine, queue)
    context.engine.run(calls.pause_queue(queue))
    output.note(f"Queue {queue} paused")
    for doubt in doubts:
        output.note(doubt)


@app.command()
def resume(context: CommandContext, queue: QueueArgument) -> None:
    """Resume a queue."""
    context.engine.run(calls.resume_queue(queue))
    output.note(f"Queue {queue} resumed")


@app.command()
def limit(
    context: CommandContext,
    queue: QueueArgument,
    *,
    max_running: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Maximum running jobs on all machines."),
    ] = None,
    rate: MaxStartsOption = None,
    burst: BurstOption = None,
    none: Annotated[bool, typer.Option("--none", help="Remove all limits of the queue.")] = False,
) -> None:
    """Limit how many jobs of a queue run at once or start per period."""
    settings = _parse_limits(max_running, rate, burst)
    if none == bool(settings):
        raise Invalid("Specify a limit or --none", hint="Use --max-running 4 or --rate 10/s")
    doubts = _check_queue_name(context.engine, queue)
    cleared: dict[str, Json] = {"max_running": None, "rate_limit": None, "rate_burst": None}
    context.engine.run(calls.put_queue(queue, settings or cleared))
    output.note(f"Limits of queue {queue} {'removed' if none else 'set'}")
    for doubt in doubts:
        output.note(doubt)


def _check_queue_name(engine: CliEngine, queue: str) -> list[str]:
    """Return a warning if no definition, job or worker uses the queue: it may be misspelled."""
    with suppress(Denied, TenantRequired):  # then the change is refused too
        known = {each.name for each in engine.run(calls.list_queues())}
        known |= {name for worker in engine.run(calls.list_workers()) for name in worker.queues}
        if queue in known or len(known) >= _LISTED:
            return []
        near = get_close_matches(queue, known, n=1)
        question = f"; did you mean {near[0]}?" if near else ""
        return [f"warning: no definition, job or worker uses queue {queue}{question}"]
    return []


def _parse_limits(max_running: int | None, rate: str | None, burst: int | None) -> dict[str, Json]:
    settings: dict[str, Json] = {}
    if max_running is not None:
        settings["max_running"] = max_running
    if rate is not None:
        settings["rate_limit"], settings["rate_period_s"] = parse_rate(rate, "--rate")
    if burst is not None:
        settings["rate_burst"] = burst
    return settings

"""`jobforge queues`: what waits where, pauses, limits."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrl
from jobforge.cli.moment import parse_rate
from jobforge.cli.options import AsJson
from jobforge.cli.session import Tenant, find_tenant_or_all
from jobforge.cli.way import ApiKey, ServerUrl, Way, reached
from jobforge.errors import Invalid, Json

if TYPE_CHECKING:
    from jobforge.control import QueueInfo

app = typer.Typer(help="See queues, pause and limit them.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="QUEUE")]


@app.command("list")
def list_(
    *,
    tenant: Tenant = None,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """List queues with the jobs of a tenant; for operators who name none, of all."""
    from jobforge import calls

    with reached(Way(database_url, server, api_key)) as engine:
        queues = engine.run(calls.list_queues(tenant_id=find_tenant_or_all(engine, tenant)))
    rows = [asdict(queue) if as_json else _line(queue) for queue in queues]
    output.print_rows(rows, as_json=as_json)


@app.command()
def pause(
    queue: Name,
    *,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Start no job of the queue until it is resumed; what runs goes on."""
    from jobforge import calls

    with reached(Way(database_url, server, api_key)) as engine:
        engine.run(calls.pause_queue(queue))
    output.note(f"{queue} is paused")


@app.command()
def resume(
    queue: Name,
    *,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Start jobs of the queue again."""
    from jobforge import calls

    with reached(Way(database_url, server, api_key)) as engine:
        engine.run(calls.resume_queue(queue))
    output.note(f"{queue} is resumed")


@app.command()
def limit(
    queue: Name,
    *,
    max_running: Annotated[
        int | None, typer.Option(min=1, help="So many of its jobs run at once, on all machines.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="N/PERIOD", help="Such as 10/s, 100/m or 5/30s.")
    ] = None,
    burst: Annotated[int | None, typer.Option(min=1, help="Starts saved up; else N.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Take all of its limits away.")] = False,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Limit how many jobs of a queue run at once, or start in a time."""
    from jobforge import calls

    settings = _limits(max_running, rate, burst)
    if none == bool(settings):
        raise Invalid("give a limit, or --none", hint="--max-running 4, --rate 10/s")
    cleared: dict[str, Json] = {"max_running": None, "rate_limit": None, "rate_burst": None}
    with reached(Way(database_url, server, api_key)) as engine:
        engine.run(calls.put_queue(queue, settings or cleared))


def _limits(max_running: int | None, rate: str | None, burst: int | None) -> dict[str, Json]:
    settings: dict[str, Json] = {}
    if max_running is not None:
        settings["max_running"] = max_running
    if rate is not None:
        settings["rate_limit"], settings["rate_period_s"] = parse_rate(rate, "--rate")
    if burst is not None:
        settings["rate_burst"] = burst
    return settings


def _line(queue: "QueueInfo") -> dict[str, Json]:
    limits = [f"{queue.max_running} running"] if queue.max_running else []
    if queue.rate_limit:
        limits.append(f"{queue.rate_limit} in {queue.rate_period_s:g} s")
    return {
        "name": queue.name,
        "queued": queue.queued,
        "running": queue.running,
        "scheduled": queue.scheduled,
        "oldest_queued_at": queue.oldest_queued_at,
        "limits": ", ".join(limits),
        "paused_at": queue.paused_at,
    }

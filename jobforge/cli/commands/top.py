"""`jobforge top`: what goes on, as it goes on."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrl
from jobforge.cli.engine import ApiKey, ServerUrl, Way, reached
from jobforge.cli.options import AsJson
from jobforge.cli.tenant_session import TenantOrAll
from jobforge.cli.time_args import parse_duration
from jobforge.cli.top_data import look
from jobforge.config import load
from jobforge.errors import ConfigError, Invalid
from jobforge.process import interrupts

if TYPE_CHECKING:
    from jobforge.cli.top_data import Overview

_SHORTEST_S = 0.1


def top(
    *,
    once: Annotated[bool, typer.Option("--once", help="Print it once, as a pipe gets it.")] = False,
    every: Annotated[str, typer.Option(metavar="DURATION", help="How often to look.")] = "2s",
    as_json: AsJson = False,
    tenant: TenantOrAll = None,
    database_url: DatabaseUrl = None,
    server: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Watch queues, tenants, workers and running jobs. On the screen, q ends it.

    Operators who name no tenant see all; Enter on one shows its jobs. What a tenant used is of the
    last hour.
    """
    way = Way(database_url, server, api_key)
    named = load(flags={"tenant": tenant}).tenant

    def read(chosen: str | None, state: str) -> "Overview":
        # A new connection each time: an outage is over with the first look that works.
        with reached(way) as engine:
            return look(engine, named, jobs_of=chosen, state=state)

    every_s = parse_duration(every, "--every")
    if every_s < _SHORTEST_S:
        raise Invalid(f"--every is {_SHORTEST_S} seconds or more, not {every!r}")
    first = read(None, "running")
    if as_json:
        output.print_json(asdict(first))
    elif once or not output.is_terminal():
        _print(first)
    else:
        try:
            from jobforge.cli.top_screen import Screen
        except ImportError as error:
            hint = 'pip install "jobforge[tui]"; or: jobforge top --once'
            raise ConfigError("the screen needs textual", hint=hint) from error
        screen = Screen(read, first, every_s=every_s)
        interrupts.leave()  # until the screen is there
        screen.run()
        if screen.return_code:
            raise typer.Exit(screen.return_code)


def _print(seen: "Overview") -> None:
    typer.echo(seen.summary)
    for section, rows in seen.rows().items():
        if rows:
            whose = f" of {seen.tenant}" if section == "jobs" else ""
            typer.echo(f"\n{section}{whose}")
            output.print_rows(rows, as_json=False)

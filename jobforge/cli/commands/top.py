"""`jobforge top`: watch queues, tenants, workers and jobs."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrlOption
from jobforge.cli.engine import ApiKeyOption, ConnectionOptions, ServerUrlOption, open_engine
from jobforge.cli.options import AsJson
from jobforge.cli.tenant_session import TenantOrAllOption
from jobforge.cli.time_args import parse_duration
from jobforge.cli.top_data import read_overview
from jobforge.config import load
from jobforge.errors import ConfigError, Invalid
from jobforge.process import interrupts

if TYPE_CHECKING:
    from jobforge.cli.top_data import Overview

_SHORTEST_S = 0.1


def top(
    *,
    once: Annotated[bool, typer.Option("--once", help="Print the overview once.")] = False,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="Interval between updates.")
    ] = "2s",
    as_json: AsJson = False,
    tenant: TenantOrAllOption = None,
    database_url: DatabaseUrlOption = None,
    server: ServerUrlOption = None,
    api_key: ApiKeyOption = None,
) -> None:
    """Watch queues, tenants, workers and running jobs. Press q to quit.

    Operators see all tenants by default; press Enter on a tenant to see its jobs. Usage is that of
    the last hour.
    """
    connection = ConnectionOptions(database_url, server, api_key)
    named = load(flags={"tenant": tenant}).tenant

    def read(chosen: str | None, state: str) -> "Overview":
        # Reconnect for each read, so that the screen recovers from an outage.
        with open_engine(connection) as engine:
            return read_overview(engine, named, jobs_tenant_id=chosen, state=state)

    every_s = parse_duration(every, "--every")
    if every_s < _SHORTEST_S:
        raise Invalid(f"--every must be at least {_SHORTEST_S} seconds, not {every!r}")
    first = read(None, "running")
    if as_json:
        output.print_json(asdict(first))
    elif once or not output.is_terminal():
        _print(first)
    else:
        try:
            from jobforge.cli.top_screen import TopApp
        except ImportError as error:
            hint = 'Run pip install "jobforge[tui]", or use jobforge top --once'
            raise ConfigError("The live screen requires textual", hint=hint) from error
        screen = TopApp(read, first, every_s=every_s)
        interrupts.exit_on_interrupt()  # until the screen handles Ctrl-C
        screen.run()
        if screen.return_code:
            raise typer.Exit(screen.return_code)


def _print(overview: "Overview") -> None:
    typer.echo(overview.summary)
    for section, rows in overview.to_rows().items():
        if rows:
            owner = f" of {overview.tenant}" if section == "jobs" else ""
            typer.echo(f"\n{section}{owner}")
            output.print_rows(rows, as_json=False)

"""`jobforge top`: watch queues, tenants, workers and jobs."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobforge.cli import output
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.engine import open_engine
from jobforge.cli.options import AsJson
from jobforge.cli.shared_options import TENANT_OR_ALL
from jobforge.cli.time_args import parse_duration
from jobforge.cli.top_data import Overview, read_overview
from jobforge.errors import ConfigError, Invalid
from jobforge.process import interrupts

_SHORTEST_S = 0.1

app = CommandGroup()


@app.command(options=TENANT_OR_ALL)
def top(
    context: CommandContext,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print the overview once.")] = False,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="Interval between updates.")
    ] = "2s",
    as_json: AsJson = False,
) -> None:
    """Watch queues, tenants, workers and running jobs. Press q to quit.

    Operators see all tenants by default; press Enter on a tenant to see its jobs. Usage is that of
    the last hour.
    """
    config = context.config

    def read(chosen: str | None, state: str) -> Overview:
        # Reconnect for each read, so that the screen recovers from an outage.
        with open_engine(config) as engine:
            return read_overview(engine, config.tenant, jobs_tenant_id=chosen, state=state)

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


def _print(overview: Overview) -> None:
    typer.echo(overview.summary)
    for section, rows in overview.to_rows().items():
        if rows:
            owner = f" of {overview.tenant}" if section == "jobs" else ""
            typer.echo(f"\n{section}{owner}")
            output.print_rows(rows, as_json=False)

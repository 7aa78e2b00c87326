"""`jobforge scheduler`: run the scheduler without a worker until it is stopped."""

from dataclasses import replace
from typing import Annotated

import typer

from jobforge.cli.database import DatabaseUrlOption, find_url
from jobforge.cli.options import UNTIL_STDIN_CLOSES, MetricsPort
from jobforge.cli.output import warn_of_misspelled_settings
from jobforge.config import Config, load
from jobforge.process import interrupts


def scheduler(
    *,
    metrics_port: MetricsPort = None,
    log_format: Annotated[
        str | None,
        typer.Option(
            metavar="json|text", help="Log format. Default: text on a terminal, else json."
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="Log level: debug, info, warning, error or critical."),
    ] = None,
    database_url: DatabaseUrlOption = None,
    until_stdin_closes: Annotated[bool, typer.Option(UNTIL_STDIN_CLOSES, hidden=True)] = False,
) -> None:
    """Fire schedules and dispatch events. Workers also do this by default.

    Any number can run; each firing and each event is handled once.
    """
    config = load(
        flags={
            "metrics_port": metrics_port,
            "log_format": log_format,
            "log_level": log_level,
            "database_url": database_url,
        }
    )
    warn_of_misspelled_settings()
    config = replace(config, database_url=find_url(database_url))
    raise typer.Exit(_run(config, until_stdin_closes=until_stdin_closes))


def _run(config: Config, *, until_stdin_closes: bool) -> int:
    import asyncio

    from jobforge.cli.processes import worker_process

    interrupts.exit_on_interrupt()  # nothing to clean up before the scheduler handles signals
    return asyncio.run(
        worker_process.serve_scheduler(config, until_stdin_closes=until_stdin_closes)
    )

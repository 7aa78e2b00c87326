"""`jobforge scheduler`: run the scheduler without a worker until it is stopped."""

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.engine import find_url
from jobforge.cli.options import UNTIL_STDIN_CLOSES, LogFormatOption, LogLevelOption, MetricsPort
from jobforge.cli.output import warn_of_misspelled_settings
from jobforge.cli.processes import worker_process
from jobforge.cli.shared_options import DATABASE
from jobforge.config import Config
from jobforge.process import interrupts

app = CommandGroup()


@app.command(options=DATABASE)
def scheduler(
    context: CommandContext,
    *,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
    until_stdin_closes: Annotated[bool, typer.Option(UNTIL_STDIN_CLOSES, hidden=True)] = False,
) -> None:
    """Fire schedules and dispatch events. Workers also do this by default.

    You can run any number of schedulers on one database. Each firing and each event is handled
    once.
    """
    config = context.load_config(
        metrics_port=metrics_port, log_format=log_format, log_level=log_level
    )
    warn_of_misspelled_settings()
    config = replace(config, database_url=find_url(config))
    raise typer.Exit(_run(config, until_stdin_closes=until_stdin_closes))


def _run(config: Config, *, until_stdin_closes: bool) -> int:
    interrupts.exit_on_interrupt()  # nothing to clean up before the scheduler handles signals
    return asyncio.run(
        worker_process.serve_scheduler(config, until_stdin_closes=until_stdin_closes)
    )

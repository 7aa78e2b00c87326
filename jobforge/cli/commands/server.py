"""`jobforge server`: serve the HTTP API and the dashboard until it is stopped."""

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from jobforge.artifacts.default_location import with_default_artifacts
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.engine import find_url, open_engine
from jobforge.cli.options import UNTIL_STDIN_CLOSES, LogFormatOption, LogLevelOption
from jobforge.cli.output import warn_of_misspelled_settings
from jobforge.cli.shared_options import DATABASE
from jobforge.config import Config

app = CommandGroup()


@app.command(options=DATABASE)
def server(
    context: CommandContext,
    *,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1."),
    ] = None,
    port: Annotated[
        str | None, typer.Option(metavar="PORT", help="Port to listen on. Default: 8700.")
    ] = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
    until_stdin_closes: Annotated[bool, typer.Option(UNTIL_STDIN_CLOSES, hidden=True)] = False,
) -> None:
    """Serve the HTTP API and the dashboard.

    You can run any number of servers on one database. On the first SIGTERM or Ctrl-C, the server
    finishes open requests and exits with 0. On the second, it exits at once with 1.
    """
    config = context.load_config(
        server_host=host, server_port=port, log_format=log_format, log_level=log_level
    )
    config = replace(config, database_url=find_url(config), server=None)
    warn_of_misspelled_settings()
    config = with_default_artifacts(config, config.database_url)
    with open_engine(config):
        pass  # report a connection error now, not in every request
    raise typer.Exit(_run(config, until_stdin_closes=until_stdin_closes))


def _run(config: Config, *, until_stdin_closes: bool) -> int:
    from jobforge.api import serve
    from jobforge.observability import logs
    from jobforge.observability.tracing import setup
    from jobforge.process import interrupts

    logs.configure(format=config.log_format, level=config.log_level)
    setup.configure("jobforge-server")
    interrupts.exit_on_interrupt()  # nothing to clean up before the server handles signals
    with asyncio.Runner(loop_factory=serve.create_event_loop) as runner:
        code = runner.run(serve.serve(config, until_stdin_closes=until_stdin_closes))
    setup.shutdown()
    return code

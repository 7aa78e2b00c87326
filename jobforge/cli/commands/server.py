"""`jobforge server`: serve the HTTP API and the dashboard until it is stopped."""

from typing import Annotated

import typer

from jobforge.cli.database import DatabaseUrlOption, find_url
from jobforge.cli.engine import ConnectionOptions, open_engine
from jobforge.cli.options import UNTIL_STDIN_CLOSES
from jobforge.cli.output import warn_of_misspelled_settings
from jobforge.config import Config, load


def server(
    *,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address to listen on. Default: 127.0.0.1."),
    ] = None,
    port: Annotated[
        str | None, typer.Option(metavar="PORT", help="Port to listen on. Default: 8700.")
    ] = None,
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
    """Serve the HTTP API and the dashboard.

    Any number can run on one database. The first SIGTERM or Ctrl-C finishes open requests and exits
    with 0; the second exits at once with 1.
    """
    config = load(
        flags={
            "server_host": host,
            "server_port": port,
            "log_format": log_format,
            "log_level": log_level,
            "database_url": find_url(database_url),
        }
    )
    warn_of_misspelled_settings()
    config = _locate_artifacts(config)
    with open_engine(ConnectionOptions(config.database_url)):
        pass  # report a connection error now, not in every request
    raise typer.Exit(_run(config, until_stdin_closes=until_stdin_closes))


def _locate_artifacts(config: Config) -> Config:
    from jobforge.artifacts.default_location import with_default_artifacts

    return with_default_artifacts(config, config.database_url)


def _run(config: Config, *, until_stdin_closes: bool) -> int:
    import asyncio

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

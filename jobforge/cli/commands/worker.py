"""`jobforge worker`: claim and run jobs until it is stopped."""

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from jobforge.cli.app_target import find_target, find_worker_target
from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.engine import find_url, open_engine
from jobforge.cli.options import (
    INTRODUCE,
    UNTIL_STDIN_CLOSES,
    AppArgument,
    LogFormatOption,
    LogLevelOption,
    MetricsPort,
)
from jobforge.cli.output import warn_of_misspelled_settings
from jobforge.cli.processes import worker_process
from jobforge.cli.shared_options import ENGINE
from jobforge.cli.time_args import parse_duration
from jobforge.client.address import address_from_config
from jobforge.config import Config
from jobforge.process import interrupts

_EXIT_TIMEOUT_S = 5.0

app = CommandGroup()


@app.command(options=ENGINE)
def worker(
    context: CommandContext,
    app_: AppArgument = None,
    *,
    queues: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:SLOTS,…",
            help="Queues with slots: mail:10,default. Default: the queues of the app's jobs.",
        ),
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Slots of a queue without a number. Default: 2 per core, 100 if all its jobs "
            "run inline.",
        ),
    ] = None,
    processes: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Number of worker processes, each with all slots. Default: 1."
        ),
    ] = None,
    drain_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Time for running jobs to finish at shutdown. Default: 30s."
        ),
    ] = None,
    no_scheduler: Annotated[
        bool, typer.Option("--no-scheduler", help="Do not fire schedules or dispatch events.")
    ] = False,
    no_connectors: Annotated[
        bool, typer.Option("--no-connectors", help="Do not run connector jobs.")
    ] = False,
    metrics_port: MetricsPort = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
    until_stdin_closes: Annotated[bool, typer.Option(UNTIL_STDIN_CLOSES, hidden=True)] = False,
    introduce: Annotated[bool, typer.Option(INTRODUCE, hidden=True)] = False,
) -> None:
    """Register the definitions of an app and run its jobs.

    Without an app, the worker runs the commands in jobforge.toml. With --server and a worker key,
    no database is needed.

    The first SIGTERM or Ctrl-C lets running jobs finish and exits with 0; the second releases them
    at once and exits with 1.
    """
    config = context.load_config(
        app=app_,
        queues=queues,
        concurrency=concurrency,
        processes=processes,
        scheduler=False if no_scheduler else None,
        connectors=False if no_connectors else None,
        drain_s=drain_timeout and parse_duration(drain_timeout, "--drain-timeout"),
        metrics_port=metrics_port,
        log_format=log_format,
        log_level=log_level,
    )
    warn_of_misspelled_settings()
    if address_from_config(config) is None:
        config = replace(config, database_url=find_url(config))
    target = find_worker_target(config) or find_target(config)
    if config.processes > 1:
        with open_engine(config) as engine:
            engine.own_tenant()  # report a connection error once, before starting the processes
        raise typer.Exit(_run_supervisor(config))
    raise typer.Exit(
        _run(target, config, until_stdin_closes=until_stdin_closes, introduce=introduce)
    )


def _run_supervisor(config: Config) -> int:
    interrupts.exit_on_interrupt()
    return asyncio.run(worker_process.serve_supervisor(config))


def _run(target: str, config: Config, *, until_stdin_closes: bool, introduce: bool) -> int:
    from jobforge.cli import dev_setup

    app = worker_process.load_app(target, config)
    if introduce:
        dev_setup.print_introduction(app.definitions.values())

    async def serve() -> int:
        code = await worker_process.serve_worker(
            app, target, config, until_stdin_closes=until_stdin_closes
        )
        # Abandoned inline jobs may have left running coroutines and threads, for which Python would
        # wait. Their jobs are already released.
        interrupts.exit_within(code, _EXIT_TIMEOUT_S)
        return code

    # Nothing to clean up before the worker handles signals: it has claimed no jobs.
    interrupts.exit_on_interrupt()
    return asyncio.run(serve())

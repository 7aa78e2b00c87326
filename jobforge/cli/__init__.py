"""The `jobforge` command line: registers all commands and handles errors at the top level.

commands/ has one module per command or command group. Commands import what they need when they
run, which keeps `--help` fast. error_reporting.py prints errors and sets exit codes.
"""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from jobforge import __version__, errors
from jobforge.cli.commands import (
    audit,
    bench,
    completion,
    config,
    connectors,
    db,
    definitions,
    dev,
    docs,
    doctor,
    enqueue,
    events,
    failures,
    init,
    jobs,
    keys,
    openapi,
    psql,
    queues,
    run,
    scheduler,
    secrets,
    server,
    stats,
    tenants,
    top,
    triggers,
    webhooks,
    worker,
    workers,
    workflows,
)
from jobforge.cli.error_reporting import INTERNAL_ERROR_HINT, fail

app = typer.Typer(
    name="jobforge",
    help="JobForge: a multi-tenant job server on Postgres.",
    no_args_is_help=True,
    add_completion=False,  # replaced by the `completion` command
    # Importing Rich would double the start time. --debug shows tracebacks instead.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("init")(init.init)
app.command("dev")(dev.dev)
app.command("server")(server.server)
app.command("worker")(worker.worker)
app.command("scheduler")(scheduler.scheduler)
app.command("enqueue")(enqueue.enqueue)
app.command("run")(run.run)
app.add_typer(jobs.app, name="jobs")
app.add_typer(failures.app, name="failures")
app.add_typer(queues.app, name="queues")
app.add_typer(definitions.app, name="definitions")
app.add_typer(triggers.app, name="triggers")
app.add_typer(events.app, name="events")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(connectors.app, name="connectors")
app.add_typer(secrets.app, name="secrets")
app.add_typer(workflows.app, name="workflows")
app.command("top")(top.top)
app.add_typer(stats.app, name="stats")
app.command("bench")(bench.bench)
app.add_typer(tenants.app, name="tenants")
app.add_typer(workers.app, name="workers")
app.add_typer(keys.app, name="keys")
app.command("audit")(audit.audit)
app.add_typer(config.app, name="config")
app.command("openapi")(openapi.openapi)
app.command("doctor")(doctor.doctor)
app.command("docs")(docs.docs)
app.add_typer(db.app, name="db")
app.command("completion")(completion.completion)
app.command("psql", context_settings=psql.CONTEXT)(psql.psql)


@app.callback()
def _options(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of errors.")] = False,
) -> None:
    # error_reporting.fail reads --debug from argv: an error may precede option parsing.
    del debug


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"jobforge {__version__}")


def main() -> None:
    """Run the command line: the entry point of `jobforge` and `jf`."""
    _escape_unencodable_output()
    try:
        app()
    except errors.JobForgeError as error:
        fail(error)
    except Exception as error:  # noqa: BLE001 - report every error without a traceback unless --debug is set
        fail(errors.JobForgeError(f"{type(error).__name__}: {error}", hint=INTERNAL_ERROR_HINT))


def _escape_unencodable_output() -> None:
    """Replace characters that the locale cannot encode on stdout, as Python does on stderr."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")

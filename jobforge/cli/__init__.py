"""The command `jobforge`: the only place where the parts are put together.

One file per group of commands. A command imports what it needs when it runs, so that `--help`
answers at once. Errors become one line on stderr and an exit code, here.
"""

import json
import sys
from typing import Annotated, NoReturn

import typer

from jobforge import __version__, errors
from jobforge.cli import (
    config,
    connectors,
    db,
    defs,
    dev,
    dlq,
    doctor,
    enqueue,
    events,
    jobs,
    keys,
    openapi,
    output,
    psql,
    queues,
    run,
    scheduler,
    secrets,
    server,
    stats,
    tenants,
    triggers,
    webhooks,
    worker,
    workers,
    workflows,
)
from jobforge.config import masked

app = typer.Typer(
    name="jobforge",
    help="A multi-tenant job server that lives in Postgres.",
    no_args_is_help=True,
    # Rich help costs as much time as everything else together; tracebacks are for --debug.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("dev")(dev.dev)
app.command("server")(server.server)
app.command("worker")(worker.worker)
app.command("scheduler")(scheduler.scheduler)
app.command("enqueue")(enqueue.enqueue)
app.command("run")(run.run)
app.add_typer(jobs.app, name="jobs")
app.add_typer(dlq.app, name="dlq")
app.add_typer(queues.app, name="queues")
app.add_typer(defs.app, name="defs")
app.add_typer(triggers.app, name="triggers")
app.add_typer(events.app, name="events")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(connectors.app, name="connectors")
app.add_typer(secrets.app, name="secrets")
app.add_typer(workflows.app, name="workflows")
app.add_typer(stats.app, name="stats")
app.add_typer(tenants.app, name="tenants")
app.add_typer(workers.app, name="workers")
app.add_typer(keys.app, name="keys")
app.add_typer(config.app, name="config")
app.command("openapi")(openapi.openapi)
app.command("doctor")(doctor.doctor)
app.add_typer(db.app, name="db")
app.command("psql", context_settings=psql.CONTEXT)(psql.psql)

# The first class that fits decides; 2 is for wrong use, 130 for Ctrl-C and 1 for a reader of our
# output that went away, all from typer.
EXIT_CODES: list[tuple[type[errors.JobForgeError], int]] = [
    (errors.Invalid, 2),
    (errors.ConfigError, 2),
    (errors.NotFound, 3),
    (errors.Denied, 4),
    (errors.Unauthenticated, 4),
    (errors.TenantRequired, 4),
    (errors.Conflict, 5),
    (errors.LeaseLost, 5),
    (errors.QueueFull, 5),
    (errors.AddressNotAllowed, 2),
    (errors.WaitTimeout, 6),
    (errors.Unavailable, 7),
    (errors.TooManyRequests, 7),
    (errors.JobForgeError, 1),
]


@app.callback()
def _options(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    # Read from argv by main(): an error may come before options are parsed.
    del debug


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"jobforge {__version__}")


def main() -> None:
    """The entry point of the commands `jobforge` and `jf`."""
    try:
        app()
    except errors.JobForgeError as error:
        _fail(error)
    except Exception as error:  # noqa: BLE001 - a traceback is for --debug only
        _fail(errors.JobForgeError(f"{type(error).__name__}: {error}", hint=_INTERNAL))


_INTERNAL = "this is a bug in jobforge; --debug before the command shows where"


def _fail(error: errors.JobForgeError) -> NoReturn:
    if "--debug" in sys.argv:
        raise error
    message, hint = _shown(error.message), _shown(error.hint or "")
    if "--json" in sys.argv:
        body = {"code": error.code, "message": message, "hint": hint or None}
        typer.echo(json.dumps({"error": body}), err=True)
    else:
        typer.echo(f"error: {message}", err=True)
        if hint:
            typer.echo(f"hint: {hint}", err=True)
    sys.exit(next(code for kind, code in EXIT_CODES if isinstance(error, kind)))


def _shown(text: str) -> str:
    from jobforge.redact import redact_text

    return output.clean(redact_text(masked(text)))

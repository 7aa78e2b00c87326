"""Find the database URL of a command and connect to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from jobforge.config import Config, load
from jobforge.config.database_url import check_url, redact_url_error
from jobforge.errors import ConfigError, Unavailable
from jobforge.process import interrupts

if TYPE_CHECKING:
    from jobforge.db.connection import Connection

DatabaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="Database URL. Default: JOBFORGE_DATABASE_URL, jobforge.toml, or the running "
        "`jobforge dev`.",
    ),
]


def find_url(flag: str | None) -> str:
    """Return the configured database URL, or the URL of the running `jobforge dev`."""
    config = load(flags={"database_url": flag})
    if config.database_url is None and config.server is not None:
        raise ConfigError(
            "This command needs a database, but the settings specify a server",
            hint="Pass --database-url, or set JOBFORGE_DATABASE_URL instead of JOBFORGE_SERVER",
        )
    return config.database_url or _dev_url(config)


def connect(flag: str | None) -> "Connection":
    import psycopg

    url = find_url(flag)
    check_url(url)
    try:
        with interrupts.enforce_exit(), explain_url_errors():
            return psycopg.connect(
                url, autocommit=True, connect_timeout=10, application_name="jobforge"
            )
    except psycopg.OperationalError as error:
        raise Unavailable(
            f"Cannot connect to the database: {_one_line(error)}",
            hint="Check that it is running and that the URL is correct: --database-url or "
            "JOBFORGE_DATABASE_URL",
        ) from error


@contextmanager
def explain_url_errors() -> Iterator[None]:
    """Turn psycopg's errors about an invalid URL into ConfigError, with passwords masked."""
    import psycopg

    from jobforge.db.driver import URL_HINT

    try:
        yield
    except psycopg.ProgrammingError as error:
        raise ConfigError(
            f"Invalid database URL: {_one_line(error)}",
            hint=URL_HINT,
        ) from error


def _dev_url(config: Config) -> str:
    from jobforge.embedded import Embedded

    server = Embedded(config.postgres_dir).running()
    if server is None:
        raise ConfigError(
            "No database specified, and `jobforge dev` is not running in this folder",
            hint="Pass --database-url, set JOBFORGE_DATABASE_URL, or run: jobforge dev",
        )
    return server.url()


def _one_line(error: Exception) -> str:
    return " ".join(redact_url_error(str(error)).split())

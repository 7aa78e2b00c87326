"""Connect to a database, and explain errors of its URL."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobforge.config.database_url import check_url, redact_url_error
from jobforge.errors import ConfigError, Unavailable
from jobforge.process import interrupts

if TYPE_CHECKING:
    from jobforge.db.connection import Connection


def connect(url: str) -> "Connection":
    import psycopg

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


def _one_line(error: Exception) -> str:
    return " ".join(redact_url_error(str(error)).split())

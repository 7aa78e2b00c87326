"""A database URL: the files that libpq reads credentials from, and errors without the password."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobforge.errors import ConfigError
from jobforge.process.environment import PASSWORD, environment, withheld_variables

# A parameter of the URL, and the variable and the default file that replace it.
_FILES = (
    ("passfile", "PGPASSFILE", ".pgpass"),
    ("servicefile", "PGSERVICEFILE", ".pg_service.conf"),
    ("sslkey", "PGSSLKEY", ".postgresql/postgresql.key"),
)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A database URL or connection string."""

    text: str

    def with_password(self) -> str:
        """Return the URL with PGPASSWORD added if that was removed from the environment."""
        password = withheld_variables().get(PASSWORD)
        if not password:
            return self.text
        from psycopg.conninfo import make_conninfo  # noqa: PLC0415 - rarely needed

        parts = self._parts()
        # A service file may contain another password.
        if parts is None or "password" in parts or "service" in parts:
            return self.text
        return make_conninfo(self.text, password=password)

    def secret_files(self) -> Iterator[Path]:
        """Yield the files in which libpq looks for credentials."""
        parts, home = self._parts() or {}, environment().get("HOME")
        for parameter, variable, default in _FILES:
            path = parts.get(parameter) or environment().get(variable)
            if path:
                yield Path(str(path))
            elif home:
                yield Path(home, default)

    def _parts(self) -> dict[str, object] | None:
        """Return the parameters; None if the URL is invalid, which connecting reports."""
        from psycopg import ProgrammingError  # noqa: PLC0415 - rarely needed
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - rarely needed

        try:
            return dict(conninfo_to_dict(self.text))
        except ProgrammingError:
            return None


def check_url(url: str, *, field: str = "database_url") -> None:
    """Raise ConfigError if an unencoded character in the password ends the password too early.

    The rest of the password would be parsed as the host or the database, and be shown as such.
    """
    authority, _, path = re.split(r"[?]", url.partition("://")[2], maxsplit=1)[0].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise ConfigError(
            "The database URL has more than one @, or an @ after a /",
            field=field,
            hint="Percent-encode the password: @ is %40, / is %2F, ? is %3F, # is %23, : is %3A",
        )


def redact_url_error(text: str) -> str:
    """Return an error of libpq or psycopg about an invalid URL, without parts of the password.

    These errors quote what could not be parsed. A password that was not percent-encoded is split at
    special characters, so any quoted part may belong to it. Hide the part of a host before the last
    @, and everything that is quoted as a token, parameter or value.
    """
    text = _HOST.sub(r"\1***@", text)
    if _CONNECTION.search(text):
        return text
    return _QUOTED.sub(lambda found: found[1] or found[2] or '"***"', text)


# psycopg quotes the host that it could not resolve, libpq the host that it could not reach.
_HOST = re.compile(r"""((?:host|host name|server at|socket) ["']).*@""", re.DOTALL)
_CONNECTION = re.compile(r"connection to server |failed to resolve host ")
# Greedy, because a quoted part may contain quotes. `"="` and `"]"` are literals of libpq's
# messages.
_QUOTED = re.compile(r'''("=")|("]"(?= in IPv6))|".*"''', re.DOTALL)

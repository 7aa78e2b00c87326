"""The URL of a database: what libpq reads besides it, and errors that do not show its password."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobforge.errors import ConfigError
from jobforge.process.environment import PASSWORD, environment, withheld_variables

# A parameter of the URL, the variable and the file that stand in for it.
_FILES = (
    ("passfile", "PGPASSFILE", ".pgpass"),
    ("servicefile", "PGSERVICEFILE", ".pg_service.conf"),
    ("sslkey", "PGSSLKEY", ".postgresql/postgresql.key"),
)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A URL or connection string."""

    text: str

    def with_password(self) -> str:
        """The URL with PGPASSWORD in it if libpq can no longer find that in the environment."""
        password = withheld_variables().get(PASSWORD)
        if not password:
            return self.text
        from psycopg.conninfo import make_conninfo  # noqa: PLC0415 - seldom needed

        parts = self._parts()
        # A service file may contain another password.
        if parts is None or "password" in parts or "service" in parts:
            return self.text
        return make_conninfo(self.text, password=password)

    def secret_files(self) -> Iterator[Path]:
        """The files in which libpq looks for credentials."""
        parts, home = self._parts() or {}, environment().get("HOME")
        for parameter, variable, usual in _FILES:
            named = parts.get(parameter) or environment().get(variable)
            if named:
                yield Path(str(named))
            elif home:
                yield Path(home, usual)

    def _parts(self) -> dict[str, object] | None:
        """None for what is not a URL, which is reported where it is used."""
        from psycopg import ProgrammingError  # noqa: PLC0415 - seldom needed
        from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - as above

        try:
            return dict(conninfo_to_dict(self.text))
        except ProgrammingError:
            return None


def check_url(url: str, *, field: str = "database_url") -> None:
    """Raise ConfigError for a password that is not percent-encoded, so that it ends too early.

    The rest of it would be taken for the host or the database, and be shown as such.
    """
    authority, _, path = re.split(r"[?]", url.partition("://")[2], maxsplit=1)[0].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise ConfigError(
            "the database URL has more than one @, or one after a /",
            field=field,
            hint="percent-encode the password: @ is %40, / is %2F, ? is %3F, # is %23, : is %3A",
        )


def redact_url_error(text: str) -> str:
    """What libpq and psycopg say about a URL that cannot be used, without any part of its password.

    They quote what they could not read. A password that was not percent-encoded is cut at any sign,
    so a quoted part may be a part of it: of its host what is before the last @ is hidden, and all
    that is quoted as a token, a parameter or a value.
    """
    text = _HOST.sub(r"\1***@", text)
    if _CONNECTION.search(text):
        return text
    return _QUOTED.sub(lambda found: found[1] or found[2] or '"***"', text)


# psycopg quotes the host that it could not resolve, libpq the one that it could not reach.
_HOST = re.compile(r"""((?:host|host name|server at|socket) ["']).*@""", re.DOTALL)
_CONNECTION = re.compile(r"connection to server |failed to resolve host ")
# Greedy, because what is quoted may have a quote in it. `"="` and `"]"` are libpq's own words.
_QUOTED = re.compile(r'''("=")|("]"(?= in IPv6))|".*"''', re.DOTALL)

"""What libpq reads besides a database URL: PGPASSWORD, password files, service files, keys."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobforge.process.environment import PASSWORD, environment, withheld

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
        password = withheld().get(PASSWORD)
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

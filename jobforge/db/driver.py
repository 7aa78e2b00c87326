"""psycopg settings for new connections, and translation of psycopg errors to JobForge errors.

The rest of db/ opens the connections and runs calls. Code that runs a call on a caller's connection
uses DriverErrorTranslator from this module.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import psycopg
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.types.json import set_json_loads

from jobforge.calls.binary_arrays import BinaryArray, JsonbArray, LeaseArray, UuidArray
from jobforge.config.database_url import check_url, redact_url_error
from jobforge.db.sqlstates import error_from_sqlstate
from jobforge.errors import (
    ConfigError,
    Conflict,
    Invalid,
    JobForgeError,
    Unavailable,
)
from jobforge.types import jsonb

# Detects a peer that vanished after about 15 s instead of hours.
_NETWORK = {
    "application_name": "jobforge",
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}
# Without a password: redaction would hide a sample password like a real one.
URL_HINT = "postgresql://user@host:port/database"
EARLIER_CALL_FAILED = "Nothing was changed: an earlier call in this transaction failed"
_ABORTED_TRANSACTION_ERRORS = (
    psycopg.errors.PipelineAborted,
    psycopg.errors.InFailedSqlTransaction,
)
TRANSLATED_ERRORS = (psycopg.Error, UnicodeEncodeError)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Session timeouts in seconds; 0 means no limit.

    They are sent as startup options. A pooler rejects those, so behind a pooler set them on the
    login: `alter role worker set lock_timeout = '2s'`.
    """

    statement_s: float = 30
    lock_s: float = 2
    idle_in_transaction_s: float = 10

    def options(self) -> str:
        settings = {
            "statement_timeout": self.statement_s,
            "lock_timeout": self.lock_s,
            "idle_in_transaction_session_timeout": self.idle_in_transaction_s,
        }
        return " ".join(f"-c {name}={int(value * 1000)}" for name, value in settings.items())


DEFAULT_TIMEOUTS = Timeouts()


def build_connect_kwargs(url: str, *, behind_pooler: bool, timeouts: Timeouts) -> dict[str, Any]:
    """Return the arguments of psycopg.connect. Parameters in the URL override the defaults."""
    check_url(url)
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ConfigError(
            f"Invalid database URL: {redact_url_error(str(error)).strip()}", hint=URL_HINT
        ) from error
    merged = {**_NETWORK, **given, "autocommit": True, "context": _ADAPTERS}
    if behind_pooler:
        return {**merged, "prepare_threshold": None}
    options = f"{timeouts.options()} {given.get('options') or ''}"
    return {**merged, "options": options.strip()}


class _PackedDumper(Dumper):
    """Dumper for arrays that are already in binary format."""

    format = Format.BINARY

    def dump(self, obj: BinaryArray) -> BinaryArray:
        return obj


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    set_json_loads(jsonb.decode, adapters)
    for kind in (UuidArray, LeaseArray, JsonbArray):
        adapters.register_dumper(kind, type(kind.__name__, (_PackedDumper,), {"oid": kind.oid}))
    return adapters


_ADAPTERS = _adapters()


class DriverErrorTranslator:
    """Context manager that raises psycopg errors as JobForge errors."""

    __slots__ = ("_from_body",)

    def __init__(self) -> None:
        self._from_body: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or error is self._from_body:
            return
        translated = translate_error(error)
        if translated is not None:
            raise translated from error

    @contextmanager
    def pass_through_body_errors(self) -> Iterator[None]:
        """Do not translate what the caller's code raises: it may use another database's driver."""
        try:
            yield
        except BaseException as error:
            self._from_body = error
            raise


def raise_translated(error: BaseException) -> NoReturn:
    """Raise the JobForge error for a psycopg error, or else the error itself."""
    translated = translate_error(error)
    if translated is None:
        raise error
    raise translated from error


def translate_error(error: BaseException) -> JobForgeError | None:
    """Return the JobForge error for a psycopg error; None if it is a bug in the calling code."""
    if isinstance(error, UnicodeEncodeError):
        return Invalid(f"Invalid string: {error}")
    if isinstance(error, _ABORTED_TRANSACTION_ERRORS):
        return Conflict(EARLIER_CALL_FAILED)
    if isinstance(error, psycopg.Error):
        return _translate_driver_error(error)
    return None


def _translate_driver_error(error: psycopg.Error) -> JobForgeError | None:
    diagnosis = error.diag
    message = diagnosis.message_primary or " ".join(str(error).split())
    if isinstance(error, psycopg.DataError):
        return Invalid(message)
    if diagnosis.sqlstate is not None:
        return error_from_sqlstate(
            diagnosis.sqlstate, message, diagnosis.message_detail, diagnosis.message_hint
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return Unavailable(redact_url_error(message))
    return None  # a bug in the calling code, such as a wrong number of parameters

"""Run a call as a prepared statement, without a cursor.

For frequent calls, one at a time: a cursor takes 123 µs of CPU time to enqueue one job, and this
takes 78, of the 340 µs that the server needs for such a request. Works only on the
engine's own connections, outside pipelines and not behind a pooler. Servers use the even faster
path of fast_connection.py.
"""

from functools import cached_property, lru_cache
from itertools import count
from select import POLLIN, poll
from typing import Any, LiteralString, NamedTuple, TypeVar

import psycopg
from psycopg import abc, adapt
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from jobforge.calls import Call, PendingResult
from jobforge.calls.binary_arrays import BinaryArray

T = TypeVar("T")

_numbers = count(1)
# Module constants, because access to an enum member is slow.
_TEXT, _BINARY = Format.TEXT, Format.BINARY
_FATAL_ERROR = ExecStatus.FATAL_ERROR


class Statement(NamedTuple):
    """A prepared statement: its name and its SQL with $1, $2 parameters."""

    name: bytes
    text: bytes


class PreparedConnection(psycopg.Connection[Any]):
    """A connection that remembers which statements were prepared on it."""

    prepared: frozenset[Statement] = frozenset()

    @cached_property
    def transformer(self) -> abc.Transformer:
        return adapt.Transformer(self)

    @cached_property
    def input_poll(self) -> poll:
        return _poll_input(self.pgconn)


class AsyncPreparedConnection(psycopg.AsyncConnection[Any]):
    """Async twin of PreparedConnection."""

    prepared: frozenset[Statement] = frozenset()

    @cached_property
    def transformer(self) -> abc.Transformer:
        return adapt.Transformer(self)

    @cached_property
    def input_poll(self) -> poll:
        return _poll_input(self.pgconn)


def run(conn: PreparedConnection, call: Call[T]) -> T:
    statement = statement_of(call)
    if statement not in conn.prepared:
        conn.wait(_prepare(conn, statement))
    try:
        return read_result(conn, call, _execute_blocking(conn, statement, call))
    except InvalidSqlStatementName:  # DISCARD or DEALLOCATE dropped the statement
        conn.wait(_prepare(conn, statement))
    return read_result(conn, call, _execute_blocking(conn, statement, call))


async def arun(conn: AsyncPreparedConnection, call: Call[T]) -> T:
    """Async twin of `run`."""
    statement = statement_of(call)
    if statement not in conn.prepared:
        await conn.wait(_prepare(conn, statement))
    try:
        return read_result(conn, call, await conn.wait(_execute(conn, statement, call)))
    except InvalidSqlStatementName:  # DISCARD or DEALLOCATE dropped the statement
        await conn.wait(_prepare(conn, statement))
    return read_result(conn, call, await conn.wait(_execute(conn, statement, call)))


def statement_of(call: Call[Any]) -> Statement:
    return _make_statement(call.statement or call.sql)


def send(
    conn: PreparedConnection | AsyncPreparedConnection, statement: Statement, call: Call[Any]
) -> None:
    """Send a call of a prepared statement; `read_result` decodes the result."""
    parameters = call.arguments.values()
    values = [None if value is None else _dump_parameter(conn, value) for value in parameters]
    formats = [_BINARY if isinstance(value, BinaryArray) else _TEXT for value in parameters]
    conn.pgconn.send_query_prepared(statement.name, values, formats, _BINARY)


def make_pending_result(
    conn: PreparedConnection | AsyncPreparedConnection, call: Call[T], result: PGresult
) -> PendingResult[T]:
    """Return a result that can be decoded later, while the connection is used again."""
    check_result(conn, result)

    async def read() -> T:
        return read_result(conn, call, result)

    return PendingResult(result.ntuples, read)


def read_result(
    conn: PreparedConnection | AsyncPreparedConnection, call: Call[T], result: PGresult
) -> T:
    check_result(conn, result)
    transformer = conn.transformer
    transformer.set_pgresult(result)
    return call.result.from_rows(transformer.load_rows(0, result.ntuples, tuple))


def check_result(conn: PreparedConnection | AsyncPreparedConnection, result: PGresult) -> None:
    """Raise psycopg.Error for a failed result."""
    if result.status == _FATAL_ERROR:
        raise error_from_result(result, conn.info.encoding)


def _poll_input(pgconn: PGconn) -> poll:
    # An idle server sends data only when it closes the connection. poll() needs no round trip.
    poller = poll()
    poller.register(pgconn.socket, POLLIN)
    return poller


@lru_cache(maxsize=100)
def _make_statement(sql: LiteralString) -> Statement:
    """Return the statement with Postgres parameters ($1, $2) in place of %s."""
    first, *others = sql.split("%s")
    text = first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))
    return Statement(f"jobforge_{next(_numbers)}".encode(), text.encode())


def _execute_blocking(conn: PreparedConnection, statement: Statement, call: Call[Any]) -> PGresult:
    """Send a call and wait for its result without psycopg's wait loop, which costs more than the
    rest of the call. An interrupted call closes the connection.
    """
    pgconn = conn.pgconn
    try:
        send(conn, statement, call)
        if pgconn.flush():  # the socket buffer is full
            return conn.wait(_receive_result(conn))
        while pgconn.is_busy():
            conn.input_poll.poll()
            pgconn.consume_input()
        result = pgconn.get_result()
        while pgconn.get_result() is not None:
            pass
    except BaseException:
        if pgconn.transaction_status == TransactionStatus.ACTIVE:
            conn.close()
        raise
    if result is None:
        raise psycopg.OperationalError("the connection is lost")
    return result


def _prepare(
    conn: PreparedConnection | AsyncPreparedConnection, statement: Statement
) -> PQGen[None]:
    conn.pgconn.send_prepare(*statement)
    check_result(conn, (yield from execute(conn.pgconn))[0])
    conn.prepared |= {statement}


def _execute(
    conn: PreparedConnection | AsyncPreparedConnection, statement: Statement, call: Call[Any]
) -> PQGen[PGresult]:
    send(conn, statement, call)
    return (yield from _receive_result(conn))


def _receive_result(conn: PreparedConnection | AsyncPreparedConnection) -> PQGen[PGresult]:
    results: list[PGresult] = yield from execute(conn.pgconn)
    return results[0]


def _dump_parameter(
    conn: PreparedConnection | AsyncPreparedConnection, value: object
) -> abc.Buffer | None:
    if isinstance(value, BinaryArray):
        return value
    if isinstance(value, list):
        return conn.transformer.get_dumper(value, PyFormat.TEXT).dump(value)
    text = str(value).encode(conn.transformer.encoding)
    if b"\0" in text:  # libpq would truncate the string at NUL
        raise psycopg.DataError("A string must not contain the NUL character")
    return text

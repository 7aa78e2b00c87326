"""Connection pool to one database for synchronous code."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool

from jobforge.calls import Call
from jobforge.db import prepared
from jobforge.db.connection import run, tenant
from jobforge.db.doctor.server_facts import Inspection, inspect
from jobforge.db.driver import (
    DEFAULT_TIMEOUTS,
    TRANSLATED_ERRORS,
    DriverErrorTranslator,
    Timeouts,
    build_connect_kwargs,
    raise_translated,
)
from jobforge.db.prepared import PreparedConnection

T = TypeVar("T")


class Pool:
    """Synchronous twin of Database; thread-safe."""

    def __init__(
        self,
        url: str,
        *,
        size: int = 10,
        behind_pooler: bool = False,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._settings = build_connect_kwargs(url, behind_pooler=behind_pooler, timeouts=timeouts)
        self._behind_pooler = behind_pooler
        self._pool = ConnectionPool(
            connection_class=PreparedConnection,
            kwargs=self._settings,
            min_size=1,
            max_size=size,
            timeout=10,
            check=_check,
            open=False,
        )
        self._cache = ConnectionCache(self._pool)

    def open(self) -> None:
        """Open the pool. Raise Unavailable, with the cause, if the database is unreachable."""
        with DriverErrorTranslator():
            psycopg.connect(**self._settings).close()
            self._pool.open(wait=True)

    def close(self) -> None:
        self._cache.clear()
        self._pool.close()

    def run(self, call: Call[T]) -> T:
        """Run a call in its own transaction: one round trip."""
        try:
            conn = self._cache.get()
            try:
                if call.settings or not call.is_frequent or self._behind_pooler:
                    return run(conn, call)
                return prepared.run(conn, call)
            finally:
                self._cache.put(conn)
        except TRANSLATED_ERRORS as error:
            raise_translated(error)

    def run_all(self, tenant_id: UUID, calls: Iterable[Call[T]]) -> list[T]:
        """Run all calls in one transaction, each sent as soon as `calls` yields it."""
        sent = []
        with self.connection() as conn, tenant(conn, tenant_id), DriverErrorTranslator():
            for call in calls:
                cursor = psycopg.Cursor(conn, row_factory=tuple_row)
                cursor.execute(call.sql, call.parameters, binary=True)
                sent.append((call, cursor))
            return [call.decode(cursor.fetchall()) for call, cursor in sent]

    @contextmanager
    def connection(self) -> Iterator[PreparedConnection]:
        """Check out a pooled connection, in autocommit mode, for the caller's own transaction."""
        with DriverErrorTranslator():
            conn = self._cache.get()
        try:
            yield conn
        finally:
            self._cache.put(conn)

    def inspect(self) -> Inspection:
        with self.connection() as conn:
            return run(conn, inspect(conn.info.backend_pid))


def _check(conn: PreparedConnection) -> None:
    """Raise if an idle pooled connection was closed by the server."""
    if conn.input_poll.poll(0):
        ConnectionPool.check_connection(conn)


class ConnectionCache:
    """Keeps the connection returned last, so that the next caller gets it without the pool.

    The pool's locks, checks and counters take 20% of the client time of one enqueue. Thread-safe
    without a lock: list.append and list.pop are atomic.
    """

    def __init__(self, pool: ConnectionPool[PreparedConnection]) -> None:
        self._pool = pool
        self._idle: list[PreparedConnection] = []
        self._waiters: list[None] = []  # one entry per thread that is waiting for the pool

    def get(self) -> PreparedConnection:
        conn = self._take()
        if conn is not None:
            return conn
        self._waiters.append(None)
        try:
            # Check again: from here on, put() sees this waiter and returns connections to the pool.
            return self._take() or self._pool.getconn()
        finally:
            self._waiters.pop()

    def put(self, conn: PreparedConnection) -> None:
        is_idle = conn.pgconn.transaction_status == TransactionStatus.IDLE
        if not is_idle or self._idle or self._pool.closed:
            self._pool.putconn(conn)
            return
        self._idle.append(conn)
        if self._waiters or self._pool.closed:
            self.clear()

    def clear(self) -> None:
        """Return the cached connections to the pool."""
        while self._idle:
            try:
                self._pool.putconn(self._idle.pop())
            except IndexError:  # another thread took the last one
                return

    def _take(self) -> PreparedConnection | None:
        try:
            conn = self._idle.pop()
        except IndexError:
            return None
        if not conn.input_poll.poll(0):
            return conn
        conn.close()
        self._pool.putconn(conn)
        return None

"""Connections to one database for code that is not async."""

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
from jobforge.db.connection import Connection, has_pending_input, run, tenant
from jobforge.db.doctor.server_facts import Inspection, inspect
from jobforge.db.driver import (
    DEFAULT_TIMEOUTS,
    DriverErrorTranslator,
    Timeouts,
    build_connect_kwargs,
)
from jobforge.db.prepared import PreparedConnection

T = TypeVar("T")


class Pool:
    """As Database. Any thread may use it."""

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
        """Raises Unavailable at once, and says why, when the database cannot be reached."""
        with DriverErrorTranslator():
            psycopg.connect(**self._settings).close()
            self._pool.open(wait=True)

    def close(self) -> None:
        self._cache.clear()
        self._pool.close()

    def run(self, call: Call[T]) -> T:
        """The call in a transaction of its own: one round trip."""
        with DriverErrorTranslator():
            conn = self._cache.get()
            try:
                if call.settings or not call.is_frequent or self._behind_pooler:
                    return run(conn, call)
                return prepared.run(conn, call)
            finally:
                self._cache.put(conn)

    def run_all(self, tenant_id: UUID, calls: Iterable[Call[T]]) -> list[T]:
        """As Database.run_all."""
        sent = []
        with self.connection() as conn, tenant(conn, tenant_id), DriverErrorTranslator():
            for call in calls:
                cursor = psycopg.Cursor(conn, row_factory=tuple_row)
                cursor.execute(call.sql, call.parameters, binary=True)
                sent.append((call, cursor))
            return [call.decode(cursor.fetchall()) for call, cursor in sent]

    @contextmanager
    def connection(self) -> Iterator[PreparedConnection]:
        """A connection of the pool, in autocommit, for a transaction of the caller's own."""
        with DriverErrorTranslator():
            conn = self._cache.get()
        try:
            yield conn
        finally:
            self._cache.put(conn)

    def inspect(self) -> Inspection:
        with self.connection() as conn:
            return run(conn, inspect(conn.info.backend_pid))


def _check(conn: Connection) -> None:
    """Refuses a connection of a pool that was cut while nobody used it."""
    if has_pending_input(conn):
        ConnectionPool.check_connection(conn)


class ConnectionCache:
    """The connection that was returned last, at hand without asking the pool. For all threads.

    Locks, checks and counts of the pool take a fifth of the time of the client for one enqueue.

    Adding to a list, and taking from it, cannot be interrupted by another thread.
    """

    def __init__(self, pool: ConnectionPool[PreparedConnection]) -> None:
        self._pool = pool
        self._idle: list[PreparedConnection] = []
        self._waiters: list[None] = []  # as many as ask the pool, or wait for it

    def get(self) -> PreparedConnection:
        conn = self._take()
        if conn is not None:
            return conn
        self._waiters.append(None)
        try:
            # Once more: who gives one back from here on sees that it is wanted.
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
        """Leaves what there is to the pool."""
        while self._idle:
            try:
                self._pool.putconn(self._idle.pop())
            except IndexError:  # somebody was faster
                return

    def _take(self) -> PreparedConnection | None:
        try:
            conn = self._idle.pop()
        except IndexError:
            return None
        if not conn.input_poll.poll(0):
            return conn
        # Unasked, the server speaks only to say that it is going.
        conn.close()
        self._pool.putconn(conn)
        return None

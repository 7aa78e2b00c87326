"""Connections next to libpq, for the calls that are made most: one at a time.

Through the driver such a call takes longer, most of it to begin and end the watch over the socket.
Here that lasts as long as the connection is kept.
"""

import asyncio
from select import POLLIN, poll
from typing import TypeVar

import psycopg
from psycopg.errors import InvalidSqlStatementName
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg_pool import AsyncConnectionPool

from jobforge.calls import Answer, Call
from jobforge.db import prepared
from jobforge.db.driver import Explained
from jobforge.db.prepared import AsyncSession

T = TypeVar("T")


class Wire:
    """One of a pool, from its first call until it is closed. Who finds it taken asks the pool."""

    def __init__(self, pool: AsyncConnectionPool[AsyncSession]) -> None:
        self._pool = pool
        self._watch: Watch | None = None
        self.is_taken = False

    async def run(self, call: Call[T]) -> T:
        """A call without settings, in a transaction of its own; not while the wire is taken.

        Who gives up loses the answer, and the wire its connection; what was sent may be done.
        """
        self.is_taken = True
        try:
            with Explained():
                watch = await self._open()
                return await watch.run(call)
        finally:
            if self._watch is not None and not self._watch.is_idle:
                await self.close()
            self.is_taken = False

    async def close(self) -> None:
        if self._watch is not None:
            watch, self._watch = self._watch, None
            watch.close()
            await self._pool.putconn(watch.connection)

    async def _open(self) -> "Watch":
        if self._watch is not None and not self._watch.is_sound():
            await self.close()
        if self._watch is None:
            self._watch = Watch(await self._pool.getconn())
        return self._watch


class Watch:
    """A connection whose socket is watched."""

    def __init__(self, connection: AsyncSession) -> None:
        self.connection = connection
        self._pgconn = connection.pgconn
        self._answer: asyncio.Future[PGresult] | None = None
        self._result: PGresult | None = None
        self._news = poll()
        self._news.register(self._pgconn.socket, POLLIN)
        self._loop = asyncio.get_running_loop()
        self._watched: int | None = None
        self.watch()

    @property
    def is_idle(self) -> bool:
        return self._pgconn.transaction_status == TransactionStatus.IDLE

    def is_sound(self) -> bool:
        """Whether it was not cut while nobody used it."""
        # Unasked, the server speaks only to say that it is going.
        return self.is_idle and not self._news.poll(0)

    async def run(self, call: Call[T]) -> T:
        """Raises psycopg.Error."""
        return prepared.read(self.connection, call, await self._asked(call))

    async def ask(self, call: Call[T]) -> Answer[T]:
        """As `run`, but reading the answer is left for later."""
        return prepared.answer(self.connection, call, await self._asked(call))

    def watch(self) -> None:
        """Once more after the driver was used, which ends a watch."""
        self._watched = self._pgconn.socket
        self._loop.add_reader(self._watched, self._receive)

    def close(self) -> None:
        """The connection is left as it was, or, where a call is under way, closed."""
        self._unwatch()
        if not self.is_idle:
            self._pgconn.finish()

    async def _asked(self, call: Call[object]) -> PGresult:
        query = prepared.statement_of(call)
        if query not in self.connection.prepared:
            await self._prepare(query)
        try:
            return await self._sent(query, call)
        except InvalidSqlStatementName:  # as in prepared.py
            await self._prepare(query)
        return await self._sent(query, call)

    async def _sent(self, query: prepared.Statement, call: Call[object]) -> PGresult:
        prepared.send(self.connection, query, call)
        result = await self._answer_to_come()
        prepared.check(self.connection, result)
        return result

    async def _prepare(self, query: prepared.Statement) -> None:
        self._pgconn.send_prepare(*query)
        prepared.check(self.connection, await self._answer_to_come())
        self.connection.prepared |= {query}

    def _answer_to_come(self) -> "asyncio.Future[PGresult]":
        self._answer = answer = self._loop.create_future()
        if self._watched is None:
            self.watch()
        if self._pgconn.flush():
            self._loop.add_writer(self._pgconn.socket, self._send_rest)
        return answer

    def _send_rest(self) -> None:
        try:
            if not self._pgconn.flush():
                self._loop.remove_writer(self._pgconn.socket)
        except psycopg.Error as error:
            self._fail(error)

    def _receive(self) -> None:
        if self._answer is None:
            self._unwatch()  # as in is_sound; the next call will find out
            return
        try:
            self._pgconn.consume_input()
            # An answer is complete when nothing comes after it.
            while not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is None:
                    self._deliver()
                    return
                self._result = result
        except psycopg.Error as error:
            self._fail(error)

    def _deliver(self) -> None:
        answer, self._answer = self._answer, None
        result, self._result = self._result, None
        if answer is not None and result is not None and not answer.done():
            answer.set_result(result)

    def _fail(self, error: psycopg.Error) -> None:
        self._hang_up()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def _hang_up(self) -> None:
        # At once: libpq may have closed the socket, and the next to be opened has its number.
        self._unwatch()
        self._pgconn.finish()

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            self._loop.remove_writer(self._watched)
            self._watched = None

"""A dedicated connection for one loop, outside any pool."""

from typing import Any, TypeVar

from jobforge.calls import Call, PendingResult
from jobforge.db.connection import asend
from jobforge.db.driver import DriverErrorTranslator
from jobforge.db.prepared import AsyncPreparedConnection
from jobforge.db.watched import WatchedConnection

T = TypeVar("T")


class DedicatedConnection:
    """A connection for one loop, opened on first use and reopened after it was lost.

    One call at a time. With `durable=False`, synchronous_commit is off: a server crash can lose the
    last commits.
    """

    def __init__(self, settings: dict[str, Any], *, durable: bool, behind_pooler: bool) -> None:
        self._settings = settings
        self._behind_pooler = behind_pooler
        self._is_relaxed_by_call = behind_pooler and not durable
        self._watched: WatchedConnection | None = None
        if not durable and not behind_pooler:
            options = f"{settings['options']} -c synchronous_commit=off"
            self._settings = {**settings, "options": options}

    async def run(self, call: Call[T]) -> T:
        return await (await self.send(call)).read()

    async def send(self, call: Call[T]) -> PendingResult[T]:
        """Run a call; its complete result may be read while the next call is under way."""
        if self._watched is None or self._watched.connection.closed:
            with DriverErrorTranslator():
                self._watched = WatchedConnection(
                    await AsyncPreparedConnection.connect(**self._settings)
                )
        if self._is_relaxed_by_call:
            call = call.with_setting("synchronous_commit", "off")
        try:
            return await self._send(self._watched, call)
        except BaseException:
            # The result of an interrupted call may still arrive, so drop the connection.
            if not self._watched.is_idle:
                await self.close()
            raise

    async def close(self) -> None:
        if self._watched is not None and not self._watched.connection.closed:
            self._watched.close()
            await self._watched.connection.close()

    async def _send(self, watched: WatchedConnection, call: Call[T]) -> PendingResult[T]:
        if call.is_frequent and not call.settings and not self._behind_pooler:
            with DriverErrorTranslator():
                return await watched.send(call)
        try:
            return await asend(watched.connection, call)
        finally:
            if not watched.connection.closed:
                watched.start_watching()

"""A connection apart from any pool, which one loop keeps for itself."""

from typing import Any, TypeVar

from jobforge.calls import Call, PendingResult
from jobforge.db.connection import asend
from jobforge.db.driver import DriverErrorTranslator
from jobforge.db.fast_connection import WatchedConnection
from jobforge.db.prepared import AsyncPreparedConnection

T = TypeVar("T")


class DedicatedConnection:
    """A connection kept for one loop: opened when first used, and anew after it was lost.

    One call at a time. What a link that is not durable commits may be gone after a crash of the
    server.
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
        """The answer is complete, and may be read while another call is on its way."""
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
            # A call that was interrupted may still have its answer on the way.
            if not self._watched.is_idle:
                await self.close()
            raise

    async def close(self) -> None:
        if self._watched is not None and not self._watched.connection.closed:
            self._watched.close()
            await self._watched.connection.close()

    async def _send(self, watch: WatchedConnection, call: Call[T]) -> PendingResult[T]:
        if call.is_frequent and not call.settings and not self._behind_pooler:
            with DriverErrorTranslator():
                return await watch.send(call)
        try:
            return await asend(watch.connection, call)
        finally:
            if not watch.connection.closed:
                watch.start_watching()

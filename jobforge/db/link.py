"""A connection apart from any pool, which one loop keeps for itself."""

from typing import Any, TypeVar

from jobforge.calls import Answer, Call
from jobforge.db.connection import aask
from jobforge.db.driver import Explained
from jobforge.db.prepared import AsyncSession
from jobforge.db.watched import Watch

T = TypeVar("T")


class Link:
    """A connection kept for one loop: opened when first used, and anew after it was lost.

    One call at a time. What a link that is not durable commits may be gone after a crash of the
    server.
    """

    def __init__(self, settings: dict[str, Any], *, durable: bool, behind_pooler: bool) -> None:
        self._settings = settings
        self._behind_pooler = behind_pooler
        self._is_relaxed_by_call = behind_pooler and not durable
        self._watch: Watch | None = None
        if not durable and not behind_pooler:
            options = f"{settings['options']} -c synchronous_commit=off"
            self._settings = {**settings, "options": options}

    async def run(self, call: Call[T]) -> T:
        return await (await self.ask(call)).read()

    async def ask(self, call: Call[T]) -> Answer[T]:
        """The answer is complete, and may be read while another call is on its way."""
        if self._watch is None or self._watch.connection.closed:
            with Explained():
                self._watch = Watch(await AsyncSession.connect(**self._settings))
        if self._is_relaxed_by_call:
            call = call.under("synchronous_commit", "off")
        try:
            return await self._ask(self._watch, call)
        except BaseException:
            # A call that was interrupted may still have its answer on the way.
            if not self._watch.is_idle:
                await self.close()
            raise

    async def close(self) -> None:
        if self._watch is not None and not self._watch.connection.closed:
            self._watch.close()
            await self._watch.connection.close()

    async def _ask(self, watch: Watch, call: Call[T]) -> Answer[T]:
        if call.is_frequent and not call.settings and not self._behind_pooler:
            with Explained():
                return await watch.ask(call)
        try:
            return await aask(watch.connection, call)
        finally:
            if not watch.connection.closed:
                watch.watch()

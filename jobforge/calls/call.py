"""A call of one of the engine's functions, as a value that any connection can run."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, LiteralString, NamedTuple, TypeVar
from uuid import UUID

from jobforge.calls.rows import Rows
from jobforge.types.jobs import Token

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

_TENANT = "app.tenant_id"
_FUNCTION = re.compile(r"\b(?:select|from)\s+jobforge\.(\w+)\(")


class PendingResult(NamedTuple, Generic[T]):
    """What a call was answered: how many rows, and what reads them, once, when it suits."""

    row_count: int
    read: Callable[[], Awaitable[T]]

    @classmethod
    def from_value(cls, rows: int, value: T) -> "PendingResult[T]":
        """One that was read already."""

        async def read() -> T:
            return value

        return cls(rows, read)


class HeldLease(NamedTuple):
    """A running job, and the worker that holds it."""

    worker_id: UUID
    token: Token


class Call(NamedTuple, Generic[T_co]):
    """One statement to run. `settings` are set in the same trip, for its transaction.

    They are meant for a call in a transaction of its own. Within a longer one they go on to hold.
    Over HTTP there is no SQL: the function's name leads to its route (client/routes.py). A frequent
    one goes a shorter way where it can (db/prepared.py); its parameters are texts, lists or packed
    arrays, or print as texts.
    """

    sql: LiteralString
    parameters: Sequence[object]
    decode: Callable[[Rows], T_co]
    settings: tuple[tuple[str, str], ...] = ()
    held_lease: HeldLease | None = None
    is_frequent: bool = False

    @property
    def function(self) -> str | None:
        """The name of the function; None when it calls none of the engine's."""
        found = _FUNCTION.search(self.sql)
        return found and found[1]

    def map_result(self, make: Callable[[T_co], U]) -> "Call[U]":
        """The same call, whose answer is made into something else."""
        decode = self.decode
        return Call(self.sql, self.parameters, lambda rows: make(decode(rows)), *self[3:])

    def for_tenant(self, tenant_id: UUID) -> "Call[T_co]":
        return self.with_setting(_TENANT, str(tenant_id))

    def under_lease(self, worker_id: UUID, token: Token) -> "Call[T_co]":
        """For the tenant of a running job, and, where a server asks, in the name of its lease."""
        return self.for_tenant(token.tenant_id)._replace(held_lease=HeldLease(worker_id, token))

    @property
    def is_for_tenant(self) -> bool:
        return self.tenant is not None

    @property
    def tenant(self) -> str | None:
        """The tenant that it was set for."""
        return dict(self.settings).get(_TENANT)

    def with_setting(self, setting: str, value: str) -> "Call[T_co]":
        return self._replace(settings=(*self.settings, (setting, value)))

"""A call of one of the engine's SQL functions, as a value that any connection can run."""

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
    """The result of a call: its row count, and a function that reads the rows once."""

    row_count: int
    read: Callable[[], Awaitable[T]]

    @classmethod
    def from_value(cls, rows: int, value: T) -> "PendingResult[T]":
        """Wrap a result that was already read."""

        async def read() -> T:
            return value

        return cls(rows, read)


class HeldLease(NamedTuple):
    """A running job's token, and the worker that holds the job's lease."""

    worker_id: UUID
    token: Token


class Call(NamedTuple, Generic[T_co]):
    """One statement to run, with `settings` that are set in the same round trip.

    Settings are local to the transaction, so in a longer transaction they remain in effect for
    later calls. Over HTTP, `function` selects the route (client/routes.py). A frequent call uses a
    prepared statement where possible (db/prepared.py); its parameters must be strings, lists,
    packed arrays, or values whose str() Postgres can parse.
    """

    sql: LiteralString
    parameters: Sequence[object]
    decode: Callable[[Rows], T_co]
    settings: tuple[tuple[str, str], ...] = ()
    held_lease: HeldLease | None = None
    is_frequent: bool = False

    @property
    def function(self) -> str | None:
        """Name of the SQL function; None if the statement calls none of the engine's."""
        found = _FUNCTION.search(self.sql)
        return found and found[1]

    def map_result(self, make: Callable[[T_co], U]) -> "Call[U]":
        """Return the same call with its result converted by `make`."""
        decode = self.decode
        return Call(self.sql, self.parameters, lambda rows: make(decode(rows)), *self[3:])

    def for_tenant(self, tenant_id: UUID) -> "Call[T_co]":
        return self.with_setting(_TENANT, str(tenant_id))

    def under_lease(self, worker_id: UUID, token: Token) -> "Call[T_co]":
        """Set the tenant of a running job and, over HTTP, act under the job's lease."""
        return self.for_tenant(token.tenant_id)._replace(held_lease=HeldLease(worker_id, token))

    @property
    def is_for_tenant(self) -> bool:
        return self.tenant is not None

    @property
    def tenant(self) -> str | None:
        """The tenant set by `for_tenant`, if any."""
        return dict(self.settings).get(_TENANT)

    def with_setting(self, setting: str, value: str) -> "Call[T_co]":
        return self._replace(settings=(*self.settings, (setting, value)))

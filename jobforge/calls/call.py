"""A call of one of the engine's SQL functions, as a value that any connection can run.

A call is a function's name, its arguments by name, and the type of its result. Its SQL and its HTTP
request (client/routes.py) are derived from these.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, LiteralString, NamedTuple, TypeVar
from uuid import UUID

from jobforge.calls.results import Result, Rows
from jobforge.errors import Json
from jobforge.types.jobs import Token
from jobforge.types.jsonb import JsonFields, encode

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

_TENANT = "app.tenant_id"
_SENT_AS_JSON = (dict, JsonFields, Mapping)  # dict first, because a check for Mapping is slow
# All other integers are of type integer.
_BIGINT_ARGUMENTS = {"lease", "memory_bytes"}


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


class JsonArgument(str):
    """A jsonb argument: its JSON, and the value that the JSON encodes."""

    __slots__ = ("value",)
    value: Json

    @classmethod
    def from_value(cls, value: Json, field: str) -> "JsonArgument":
        """Encode a value. Raises Invalid for a value that jsonb cannot store."""
        argument = cls(encode(value, field))
        argument.value = value
        return argument


class Call(NamedTuple, Generic[T_co]):
    """One function to call, with `settings` that are set in the same round trip.

    Settings are local to the transaction, so in a longer transaction they remain in effect for
    later calls. `statement` is the SQL of a frequent call, with the arguments in their order. Such
    a call runs as a prepared statement where possible (db/prepared.py), so its arguments must be
    strings, lists, packed arrays, or values whose str() Postgres can parse.
    """

    function: str
    arguments: Mapping[str, object]
    result: Result[T_co]
    settings: tuple[tuple[str, str], ...] = ()
    held_lease: HeldLease | None = None
    statement: LiteralString | None = None
    is_frequent: bool = False

    @property
    def sql(self) -> LiteralString:
        """The statement, with `%s` for each parameter."""
        if self.statement is not None:
            return self.statement
        casts = tuple([(name, _cast(name, value)) for name, value in self.arguments.items()])
        sql: LiteralString = _build_sql(self.function, self.result.columns, casts)
        return sql

    @property
    def parameters(self) -> Sequence[object]:
        return tuple(self.arguments.values())

    def decode(self, rows: Rows) -> T_co:
        """Return the result from the rows that the statement returned."""
        return self.result.from_rows(rows)

    def map_result(self, make: Callable[[T_co], U]) -> "Call[U]":
        """Return the same call with its result converted by `make`."""
        return self.with_result(self.result.map(make))

    def with_result(self, result: Result[U]) -> "Call[U]":
        """Return the same call with its response read by `result`, which has the same columns."""
        return Call(self.function, self.arguments, result, *self[3:])

    def for_tenant(self, tenant_id: UUID) -> "Call[T_co]":
        return self.with_setting(_TENANT, str(tenant_id))

    def under_lease(self, worker_id: UUID, token: Token) -> "Call[T_co]":
        """Set the tenant of a running job and, over HTTP, act under the job's lease."""
        return self.for_tenant(token.tenant_id)._replace(held_lease=HeldLease(worker_id, token))

    @property
    def tenant(self) -> str | None:
        """The tenant set by `for_tenant`, if any."""
        return dict(self.settings).get(_TENANT)

    def with_setting(self, setting: str, value: str) -> "Call[T_co]":
        return self._replace(settings=(*self.settings, (setting, value)))


def build_call(function: str, result: Result[T], /, **arguments: object) -> Call[T]:
    """Return a call of this function. Mappings and JsonFields are sent as jsonb.

    Raises Invalid for a value that jsonb cannot store.
    """
    for name, value in arguments.items():
        if isinstance(value, _SENT_AS_JSON):
            document = value.to_json() if isinstance(value, JsonFields) else dict(value)
            arguments[name] = JsonArgument.from_value(document, name)
    return Call(function, arguments, result)


def list_or_none(values: Iterable[T] | None) -> list[T] | None:
    """Return the values as a list, which drivers send as an array."""
    return None if values is None else list(values)


def query(
    sql: LiteralString,
    parameters: Sequence[object],
    decode: Callable[[Rows], T],
    *,
    is_frequent: bool = False,
) -> Call[T]:
    """Return a call that runs a statement instead of a function, such as a catalog query."""
    arguments = {str(index): parameter for index, parameter in enumerate(parameters)}
    return Call("", arguments, Result("", decode), statement=sql, is_frequent=is_frequent)


def _cast(name: str, value: object) -> LiteralString:
    """Return the cast for a value that drivers send without its exact type."""
    if isinstance(value, JsonArgument):
        return "::jsonb"
    if type(value) is int:
        return "::bigint" if name in _BIGINT_ARGUMENTS else "::integer"
    return "::float8" if type(value) is float else ""


@lru_cache(maxsize=1000)
def _build_sql(function: str, columns: str, casts: tuple[tuple[str, str], ...]) -> Any:  # noqa: ANN401 - a LiteralString: all names come from this package
    arguments = ", ".join(f"p_{name} => %s{cast}" for name, cast in casts)
    called = f"jobforge.{function}({arguments})"
    return f"select {columns} from {called}" if columns else f"select {called}"  # noqa: S608 - all names come from this package

"""A call of one of the engine's functions, as a value that any connection can run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, LiteralString, TypeVar
from uuid import UUID

from jobforge.rows import Rows

T_co = TypeVar("T_co", covariant=True)

_TENANT = "app.tenant_id"


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One statement to run. `settings` are set in the same trip, for its transaction.

    They are meant for a call in a transaction of its own. Within a longer one they go on to hold.
    """

    sql: LiteralString
    parameters: Sequence[object]
    decode: Callable[[Rows], T_co]
    settings: tuple[tuple[str, str], ...] = ()

    def for_tenant(self, tenant_id: UUID) -> "Call[T_co]":
        return self.under(_TENANT, str(tenant_id))

    @property
    def is_for_tenant(self) -> bool:
        return any(name == _TENANT for name, _ in self.settings)

    def under(self, setting: str, value: str) -> "Call[T_co]":
        return replace(self, settings=(*self.settings, (setting, value)))

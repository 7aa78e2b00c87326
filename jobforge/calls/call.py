"""A call of one of the engine's functions, as a value that any connection can run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, LiteralString, TypeVar
from uuid import UUID

from jobforge.rows import Rows

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One statement to run. `settings` hold in its transaction, and are set in the same trip."""

    sql: LiteralString
    parameters: Sequence[object]
    decode: Callable[[Rows], T_co]
    settings: tuple[tuple[str, str], ...] = ()

    def for_tenant(self, tenant_id: UUID) -> "Call[T_co]":
        return self.under("app.tenant_id", str(tenant_id))

    def under(self, setting: str, value: str) -> "Call[T_co]":
        return replace(self, settings=(*self.settings, (setting, value)))

"""A request to a server, as a value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from jobforge.errors import Json

T_co = TypeVar("T_co", covariant=True)

TENANT_HEADER = "X-JobForge-Tenant"
IDEMPOTENCY_KEY_HEADER = "Idempotency-Key"


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[T_co]):
    """`read` converts the response's JSON to the result.

    `is_repeatable`: safe to retry when the response is lost.
    """

    method: str
    path: str
    read: Callable[[Json], T_co]
    query: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = False

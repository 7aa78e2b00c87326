"""Calls of operators that bind database logins to tenants."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls.call import Call, build_call
from jobforge.calls.results import NOTHING, many
from jobforge.types.tenants import BoundLogin


def bind_login(login: str, tenants: Sequence[UUID]) -> Call[None]:
    """Replace the tenants for which a login may act. Raises Invalid, NotFound, TenantErased."""
    return build_call("bind_login", NOTHING, login=login, tenants=list(tenants))


def unbind_login(login: str) -> Call[None]:
    """Remove a login's binding. Raises NotFound."""
    return build_call("unbind_login", NOTHING, login=login)


def list_bound_logins() -> Call[list[BoundLogin]]:
    """List the bound logins by name."""
    return build_call("list_bound_logins", many(BoundLogin))

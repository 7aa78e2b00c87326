"""Calls of operators that bind database logins to tenants."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.types.tenants import BoundLogin


def bind_login(login: str, tenants: Sequence[UUID]) -> Call[None]:
    """Replace the tenants for which a login may act. Raises Invalid, NotFound, TenantErased."""
    return Call("select jobforge.bind_login(%s, %s)", (login, list(tenants)), rows.nothing)


def unbind_login(login: str) -> Call[None]:
    """Remove a login's binding. Raises NotFound."""
    return Call("select jobforge.unbind_login(%s)", (login,), rows.nothing)


def list_bound_logins() -> Call[list[BoundLogin]]:
    """List the bound logins by name."""
    return Call(
        "select login, tenants, slugs, bound_at, bound_by, fault from jobforge.list_bound_logins()",
        (),
        _bound_logins,
    )


def _bound_logins(rows: Rows) -> list[BoundLogin]:
    return [BoundLogin(*row) for row in rows]

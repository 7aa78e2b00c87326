"""What to do about an error that the engine answered, where the client knows more than it."""

from typing import Any

from jobforge.errors import Denied, JobForgeError, NotFound, TenantRequired, UnknownDefinition
from jobforge.sdk.options import Tenant, as_given


def advised(error: JobForgeError, conn: Any) -> JobForgeError:  # noqa: ANN401 - of any library
    """The error of an enqueue, with advice; `conn` is the caller's connection, if there was one."""
    advice = None
    if isinstance(error, UnknownDefinition):
        advice = "start a worker of this app, or call jf.register() with a login that may"
    elif isinstance(error, TenantRequired) and conn is not None:
        advice = (
            "the login of the connection may not name a tenant: grant jobforge_service to it, or"
            " set app.tenant_id in its transaction"
        )
    elif type(error) is Denied and not error.detail:
        advice = "grant jobforge_client to the login of the connection"
    if advice is None:
        return as_given(error)
    message = f"{error.message}; {advice}"
    return type(error)(message, field=error.field, detail=error.detail, hint=advice)


def about_slug(error: JobForgeError, tenant: Tenant) -> JobForgeError:
    """The error of a look for a tenant, which names it."""
    if isinstance(error, NotFound):
        return NotFound(f"there is no tenant {tenant}", field="tenant")
    if isinstance(error, Denied) and "request_id" not in error.detail:
        return Denied(
            f"this login may not look up the tenant {tenant}: name it by its UUID, or grant"
            " jobforge_service to the login",
            field="tenant",
        )
    return error

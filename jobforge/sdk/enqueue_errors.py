"""Errors of enqueuing in the terms of the SDK: names of options, and hints for the caller."""

from typing import Any

from jobforge.errors import Denied, JobForgeError, NotFound, TenantRequired, UnknownDefinition
from jobforge.sdk.enqueue_options import TenantRef

# Request fields whose option in `using(…)` has another name.
_OPTION_NAMES = {
    "run_at": "at",
    "delay_s": "delay",
    "expires_in_s": "expires_in",
    "timeout_s": "timeout",
    "key_window_s": "dedupe",
}


def rename_error_field(error: JobForgeError) -> JobForgeError:
    """Return the error with the option name of `using(…)` for the field that the engine refused."""
    field = error.field or ""
    option = _OPTION_NAMES.get(field)
    if option is None:
        return error
    message, detail = error.message.replace(field, option), {**error.detail, "field": option}
    return type(error)(message, field=option, detail=detail, hint=error.hint)


def with_hint(error: JobForgeError, conn: Any) -> JobForgeError:  # noqa: ANN401 - a connection of any library
    """Return the error of an enqueue with a hint; `conn` is the caller's connection, if any."""
    advice = None
    if isinstance(error, UnknownDefinition):
        advice = "Start a worker of this app, or call jf.register() as a member of jobforge_worker"
    elif isinstance(error, TenantRequired) and conn is not None:
        advice = (
            "Grant jobforge_service to the connection's login, or"
            " set app.tenant_id in its transaction"
        )
    elif type(error) is Denied and not error.detail:
        advice = "Grant jobforge_client to the connection's login"
    if advice is None:
        return rename_error_field(error)
    message = f"{error.message}. {advice}"
    return type(error)(message, field=error.field, detail=error.detail, hint=advice)


def tenant_lookup_error(error: JobForgeError, tenant: TenantRef) -> JobForgeError:
    """Return the error of a tenant lookup, with the tenant in its message."""
    if isinstance(error, NotFound):
        return NotFound(f"Tenant '{tenant}' not found", field="tenant")
    if isinstance(error, Denied) and "request_id" not in error.detail:
        return Denied(
            f"This login is not allowed to look up tenant '{tenant}'; use its UUID, or grant"
            " jobforge_service to the login",
            field="tenant",
        )
    return error

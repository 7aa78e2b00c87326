"""Maps an SQLSTATE, from Postgres or from an HTTP server's response, to an error class."""

import json

from jobforge.errors import Contended, Denied, JobForgeError, Json, Unavailable, error_classes


def error_from_sqlstate(
    state: str | None, message: str, detail: str | None, hint: str | None = None
) -> JobForgeError:
    """Return the error for an SQLSTATE; `detail` is its DETAIL, a JSON object for JF errors."""
    facts = _parse_detail(detail)
    if state in _BY_SQLSTATE:
        return _BY_SQLSTATE[state](message, field=facts.get("field"), detail=facts, hint=hint)
    if state == _INSUFFICIENT_PRIVILEGE:
        return Denied(message, hint=_ROLES_HINT)
    if state in _UNDEFINED_OBJECT:
        return JobForgeError(message, detail={"sqlstate": state}, hint=_MIGRATE_HINT)
    if state in _CONTENDED:
        return Contended(message, detail={"sqlstate": state})
    if state is None or state.startswith("08") or state in _UNREACHABLE:
        return Unavailable(message)
    return JobForgeError(message, detail={"sqlstate": state})


_INSUFFICIENT_PRIVILEGE = "42501"
_ROLES_HINT = (
    "Grant the login jobforge_client, jobforge_worker (workers) or jobforge_admin (operators)"
)
# invalid_schema_name, undefined_function, undefined_table.
_UNDEFINED_OBJECT = {"3F000", "42883", "42P01"}
_MIGRATE_HINT = "Install this release's schema: jobforge db migrate"
# serialization_failure, deadlock_detected, lock_not_available, query_canceled (timeout).
_CONTENDED = {"40001", "40P01", "55P03", "57014"}
# too_many_connections, admin_shutdown, crash_shutdown, cannot_connect_now.
_UNREACHABLE = {"53300", "57P01", "57P02", "57P03"}


_BY_SQLSTATE = {error.sqlstate: error for error in error_classes(JobForgeError) if error.sqlstate}


def _parse_detail(detail: str | None) -> dict[str, Json]:
    # Postgres fills DETAIL with prose; only JobForge's functions write a JSON object.
    if not detail or not detail.startswith("{"):
        return {}
    try:
        return dict(json.loads(detail))
    except ValueError:
        return {}

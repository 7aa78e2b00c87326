"""Print an error with its hint on stderr, as text or JSON, and exit with its exit code."""

import json
import sys
from typing import NoReturn

import typer

from jobforge import errors
from jobforge.cli import output
from jobforge.process import interrupts
from jobforge.process.hardening import mask_passwords

# The first matching class applies. Typer itself exits with 2 for a usage error, 130 for Ctrl-C and
# 1 for a broken pipe.
EXIT_CODES: list[tuple[type[errors.JobForgeError], int]] = [
    (errors.Invalid, 2),
    (errors.ConfigError, 2),
    (errors.NotFound, 3),
    (errors.Denied, 4),
    (errors.Unauthenticated, 4),
    (errors.TenantRequired, 4),
    (errors.Conflict, 5),
    (errors.LeaseLost, 5),
    (errors.QueueFull, 5),
    (errors.AddressNotAllowed, 2),
    (errors.WaitTimeout, 6),
    (errors.Unavailable, 7),
    (errors.TooManyRequests, 7),
    (errors.JobForgeError, 1),
]
_GROUPS_WITH_LIST = {
    *("jobs", "workflows", "triggers", "events", "webhooks", "connectors"),
    *("definitions", "failures", "queues", "tenants", "keys", "workers"),
}
INTERNAL_ERROR_HINT = "Run jobforge --debug COMMAND to see the traceback; this is a bug in JobForge"


def fail(error: errors.JobForgeError) -> NoReturn:
    """Print the error and exit. With --debug, raise the error instead."""
    if interrupts.is_interrupted():
        # After Ctrl-C a driver may report a closed connection instead of KeyboardInterrupt.
        sys.exit(interrupts.EXIT_CODE)
    if "--debug" in sys.argv:
        raise error
    message, hint = _sanitize(error.message), _sanitize(error.hint or _default_hint(error))
    if {"--json", "--jsonl"} & set(sys.argv):
        body = {"code": error.code, "message": message, "hint": hint or None}
        request_id = _request_id(error)
        if request_id is not None:
            body["request_id"] = request_id
        typer.echo(json.dumps({"error": body}), err=True)
    else:
        typer.echo(f"error: {message}", err=True)
        if hint:
            typer.echo(f"hint: {hint}", err=True)
    sys.exit(next(code for kind, code in EXIT_CODES if isinstance(error, kind)))


def _request_id(error: BaseException | None) -> str | None:
    """Return the request ID in the server's log, from the error or one of its causes."""
    while isinstance(error, errors.JobForgeError):
        if "request_id" in error.detail:
            return str(error.detail["request_id"])
        error = error.__cause__
    return None


def _default_hint(error: errors.JobForgeError) -> str:
    """Return a hint for an error of the engine that has none, or an empty string."""
    if isinstance(error, errors.UnknownDefinition):
        return (
            "Run jobforge definitions list; workers register their app's definitions when "
            "they start"
        )
    if isinstance(error, errors.Denied):
        return "Use a tenant_admin key for this tenant, or a super_admin key"
    if isinstance(error, errors.AddressNotAllowed):
        return (
            "Use a public HTTPS address; operators can allow others with egress_allow and "
            "egress_http"
        )
    if isinstance(error, errors.Contended):
        return "Run the command again"
    group = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if type(error) is errors.NotFound and group in _GROUPS_WITH_LIST:
        return f"jobforge {group} list"
    return ""


def _sanitize(text: str) -> str:
    from jobforge.redact import log_scope, redact_text

    return output.clean(redact_text(mask_passwords(text), log_scope()))

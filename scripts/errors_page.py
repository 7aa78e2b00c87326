"""Writes docs/errors.md, the list of all error codes, from the error tree."""

from collections.abc import Iterator
from pathlib import Path

from jobforge.api.problems import STATUSES
from jobforge.cli.error_reporting import EXIT_CODES
from jobforge.errors import JobForgeError

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"

_HEAD = """\
# Error codes

This page lists every error code, with its meaning and what to do about it. Codes are stable:
compare them in your programs. Messages are for people and may change.

| Interface | Where the code is |
|---|---|
| Python | `error.code`, or the class of the error |
| HTTP | `code` in the body of the [error response](http-errors.md#errors) |
| SQL | the SQLSTATE of the [function's error](sql.md#errors) |
| command line | `code` in the [`--json` output](cli.md#output-and-errors), and the exit code |
| a failed attempt of a job | see [Errors of attempts](#errors-of-attempts) |

For example, in Python:

```py
from jobforge import errors

try:
    send_invoice.enqueue(order=4711)
except errors.QueueFull as error:
    print(error.code)  # tenant_queue_full
    print(error.detail)  # {'depth': 1000, 'limit': 1000}
```

The columns of the tables:

- **SQLSTATE** is present if a SQL function raises the error.
- **HTTP** is the status of the response. If an error has no status, a server responds with 500
  `internal`, and logs the error with the request's ID.
- **Exit** is the exit code of the command line.

If a job does not run, there may be no error at all: see
[Why a job is not running](explain.md).

## Errors of attempts

| The attempt | Has | Content |
|---|---|---|
| failed with an exception | `error` | the `type`, `message` and `traceback` of the exception |
| failed in a request | `error` | in addition, a `code` of [these](#requests-to-other-services) |
| exceeded a limit | `reason` | the name of the [limit](resource-limits.md#resource-limits) |
"""

# The groups of the page: a heading, and the codes below it.
_GROUPS = {
    "Arguments and payloads": (
        "tenant_required",
        "invalid",
        "invalid_payload",
        "payload_too_large",
        "invalid_result",
        "secrets_required",
    ),
    "Request bodies": (
        "unsupported_media_type",
        "invalid_json",
        "unknown_field",
        "duplicate_member",
        "number_too_long",
        "nul_character",
        "too_deep",
    ),
    "Access and request limits": (
        "unauthenticated",
        "denied",
        "forbidden",
        "out_of_scope",
        "foreign_origin",
        "too_many_requests",
        "too_many_streams",
    ),
    "Missing objects and conflicts": (
        "not_found",
        "unknown_definition",
        "tenant_erased",
        "conflict",
        "definition_inactive",
        "duplicate_key",
        "idempotency_key_reused",
        "tenant_queue_full",
    ),
    "Running and waiting for jobs": (
        "lease_lost",
        "not_committed",
        "job_failed",
        "child_failed",
        "wait_timeout",
        "event_timeout",
    ),
    "Requests to other services": (
        "egress_failed",
        "address_not_allowed",
        "unreachable",
        "tls_error",
        "deadline_exceeded",
        "response_too_large",
        "too_many_redirects",
        "bad_response",
        "unexpected_status",
    ),
    "Artifacts and secrets": (
        "no_artifact_store",
        "artifact_not_found",
        "artifact_unavailable",
        "seal_broken",
    ),
    "Database and setup": (
        "unavailable",
        "contended",
        "wrong_isolation",
        "migration_error",
        "embedded_error",
        "config_error",
        "error",
    ),
}

# When the errors of a group occur.
_WHEN = {
    "Arguments and payloads": "A call that creates or changes something has an invalid value.",
    "Request bodies": (
        "The server cannot accept the body of an HTTP request. "
        "[JSON](http-errors.md#json) lists what it accepts."
    ),
    "Access and request limits": (
        "The caller is unknown, has no permission, or sends too many requests. See "
        "[Authentication](http-auth.md) for HTTP, and [Tenants and roles](tenancy.md) for SQL."
    ),
    "Missing objects and conflicts": (
        "The object does not exist, or its state does not allow the call."
    ),
    "Running and waiting for jobs": (
        "A handler, or a program that waits for a job, receives these errors."
    ),
    "Requests to other services": (
        "A connector or a webhook could not send a request, or received an unusable response. "
        "See [Connectors](connectors.md) for the allowed destinations."
    ),
    "Artifacts and secrets": "See [Artifacts](artifacts.md) and [Connectors](connectors.md).",
    "Database and setup": (
        "The installation does not work as a whole. To find the cause, run "
        "[`jobforge doctor`](doctor.md)."
    ),
}

# Codes without a Python class: status, meaning, and what to do.
_HTTP_ONLY = {
    "bad_request": (
        400,
        "The request is malformed.",
        "Correct the request line, the headers or the query.",
    ),
    "no_such_route": (
        404,
        "The server has no such route.",
        "Check the path: `GET /api/v1/openapi.json` lists all routes.",
    ),
    "method_not_allowed": (
        405,
        "The route does not support this method.",
        "Use a method from the `Allow` header.",
    ),
    "request_timeout": (
        408,
        "The request did not arrive in time.",
        "Send the whole request without pauses, or check the network.",
    ),
    "internal": (
        500,
        "An unexpected error occurred in the server.",
        "Find the request's ID in the server's log, and read the error there.",
    ),
    "too_many_connections": (
        503,
        "The server, or your address, has too many open connections.",
        "Close or reuse connections, then repeat the request.",
    ),
}

# How to resolve each error.
_REMEDIES = {
    "error": "Read the message; `detail` may have Postgres' SQLSTATE.",
    "tenant_required": "Specify the tenant: in the call, by `jf.tenant(…)`, or as a setting.",
    "invalid": "Correct the value that `field` names.",
    "secrets_required": "Send the secrets listed in `missing` again, or null to remove them.",
    "invalid_payload": "Correct the arguments; `detail` lists every fault with its path.",
    "payload_too_large": "Reduce the size or depth, or set up an [artifact store](artifacts.md).",
    "invalid_result": "Return at most 1 MiB of JSON from a step; store larger data elsewhere.",
    "unknown_field": "Remove the field that `field` names, or correct its name.",
    "unsupported_media_type": "Send `Content-Type: application/json`, uncompressed.",
    "invalid_json": "Send valid JSON in UTF-8; for NaN and Infinity, send null or a string.",
    "duplicate_member": "Include each member of an object only once.",
    "number_too_long": "Send the number as a string.",
    "nul_character": "Remove the character, or send the bytes as base64.",
    "too_deep": "Reduce the nesting depth.",
    "lease_lost": "Stop the work: nothing was recorded. See [Leases](worker.md#leases).",
    "not_found": "Check the ID and the tenant of the request.",
    "unknown_definition": "Start a worker with this job, call `jf.register()`, or fix the name.",
    "tenant_erased": "Stop using this tenant; create another tenant with a new ID.",
    "artifact_not_found": "Configure the same artifact store for app, workers and servers.",
    "conflict": "Check the job's state, which is in `detail`.",
    "definition_inactive": "Activate the definition again, or enqueue another.",
    "duplicate_key": "Use the job that `detail` names, or choose another key.",
    "idempotency_key_reused": "Use a new Idempotency-Key for a new request.",
    "not_committed": "Commit the transaction in which `ctx.complete_in` was called.",
    "denied": "Grant the required role to the login, or use the transaction's tenant.",
    "forbidden": "Use a key or token with a role that is allowed.",
    "out_of_scope": "Use a key whose scopes include the route.",
    "foreign_origin": "Send the request from a page of this server, or use a key.",
    "unauthenticated": "Send a valid key or token that is not revoked or expired.",
    "too_many_requests": "Send fewer requests, or raise the [rate](http-errors.md#limits).",
    "too_many_streams": "Close a stream, or share one stream among several readers.",
    "tenant_queue_full": "Wait until jobs have run, or raise [`max_pending`](limits.md).",
    "wrong_isolation": "Use [READ COMMITTED](sql.md#isolation-levels) for the transaction.",
    "job_failed": "Read the error, fix the cause, and retry the job.",
    "child_failed": "Check the child job; `return_failures=True` gathers without raising.",
    "wait_timeout": "Wait again: the job continues.",
    "egress_failed": "Read the message; JobForge retries the attempt.",
    "address_not_allowed": "Use a public https address, or ask the operator to allow this one.",
    "unreachable": "Check the receiver; JobForge retries the request.",
    "tls_error": "Fix the receiver's certificate.",
    "deadline_exceeded": "Make the receiver respond faster; JobForge retries the request.",
    "response_too_large": "Request less data: the limit is 1 MiB.",
    "too_many_redirects": "Use the URL to which the redirects lead.",
    "bad_response": "Check the receiver.",
    "unexpected_status": "Check the response, or add the status to `expected_status`.",
    "no_artifact_store": "Set `artifacts` to a folder or bucket that all processes share.",
    "artifact_unavailable": "Check the setting `artifacts` and the permissions of the store.",
    "seal_broken": "Configure the same `secret_key` for all processes, or set the secret again.",
    "event_timeout": "Catch the error in the handler, and handle the missing event.",
    "contended": "Repeat the call after a short delay.",
    "unavailable": "Repeat the call later, with a `key` so that no job is enqueued twice.",
    "migration_error": "Read the message; the schema is unchanged.",
    "embedded_error": "Read the message and the log that the hint names.",
    "config_error": "Correct the setting that the message names.",
}


def page() -> str:
    errors = {error.code: error for error in _errors(JobForgeError)}
    groups = [
        _group(title, [errors.pop(code) for code in codes]) for title, codes in _GROUPS.items()
    ]
    if errors:
        raise LookupError(f"add to a group: {', '.join(errors)}")
    return "\n".join([_HEAD, *groups, _http_only()])


def _errors(error: type[JobForgeError]) -> Iterator[type[JobForgeError]]:
    """Yield the error, then its subclasses, in the order of the tree."""
    yield error
    for subclass in error.__subclasses__():
        if subclass.__module__ == error.__module__:
            yield from _errors(subclass)


def _group(title: str, errors: list[type[JobForgeError]]) -> str:
    head = "| Code | Python | SQLSTATE | HTTP | Exit | Meaning | What to do |\n" + "|---" * 7 + "|"
    return "\n".join([f"## {title}\n\n{_WHEN[title]}\n", head, *map(_row, errors), ""])


def _http_only() -> str:
    lines = [
        "## HTTP server only\n",
        "These codes occur only in responses of the HTTP server. They have no Python class.\n",
        "| Code | HTTP | Meaning | What to do |\n|---|---|---|---|",
    ]
    for code, (status, meaning, remedy) in _HTTP_ONLY.items():
        lines.append(f"| `{code}` | {status} | {meaning} | {remedy} |")
    return "\n".join([*lines, ""])


def _row(error: type[JobForgeError]) -> str:
    status = next((str(status) for kind, status in STATUSES if issubclass(error, kind)), "")
    code = next(code for kind, code in EXIT_CODES if issubclass(error, kind))
    cells = [
        f"`{error.code}`",
        f"`{error.__name__}`",
        f"`{error.sqlstate}`" if error.sqlstate else "",
        status,
        str(code),
        _meaning(error),
        _REMEDIES[error.code],
    ]
    return f"| {' | '.join(cells)} |"


def _meaning(error: type[JobForgeError]) -> str:
    return (error.__doc__ or "").splitlines()[0]

"""Writes docs/errors.md, the list of all error codes, from the error tree."""

import sys
from collections.abc import Iterator
from pathlib import Path

from jobforge.api.problems import STATUSES
from jobforge.cli.error_reporting import EXIT_CODES
from jobforge.errors import JobForgeError

PAGE = Path(__file__).parent.parent / "docs" / "errors.md"

_HEAD = """\
# Error codes

`scripts/errors_page.py` writes this page from the error classes. Codes are stable, so programs can
compare them. Messages are for people and may change. Python has the code as `error.code`, a problem
over [HTTP](http.md#errors) has it as `code`, and the [command line](cli.md#output-and-errors)
prints it with `--json`.

- **SQLSTATE** is present if a [SQL function](sql.md#errors) raises the error.
- **HTTP** is the status of the response. If an error has no status, a server responds with 500
  `internal`, and logs the error with the request's ID.
- **Exit** is the exit code of the command line.

The HTTP server has six more codes: 400 `bad_request`, 404 `no_such_route`,
405 `method_not_allowed`, 408 `request_timeout`, 500 `internal`, and 503 `too_many_connections`.

A failed attempt has an `error` with the `type`, `message` and `traceback` of the exception that the
handler raised. If the attempt failed in a request to another service, the `error` also has the
`code`. An attempt that ended for another reason has a `reason`: see
[isolation.md](isolation.md#resource-limits). To find out why a job is not running, see
[explain.md](explain.md).
"""

# How to resolve each error.
_REMEDIES = {
    "error": "Read the message; `detail` may have Postgres' SQLSTATE.",
    "tenant_required": "Specify the tenant in the call, by `jf.tenant(…)`, or as a setting.",
    "invalid": "Correct the value that `field` names.",
    "secrets_required": "Send the secrets that `missing` names, or null to remove them.",
    "invalid_payload": "Correct the arguments; `detail` lists every fault with its path.",
    "payload_too_large": "Send less data or fewer levels; use the artifact store for more.",
    "invalid_result": "Return at most 1 MiB of JSON from a step; store larger data elsewhere.",
    "unknown_field": "Remove the field, or correct its name.",
    "unsupported_media_type": "Send `Content-Type: application/json`, uncompressed.",
    "invalid_json": "Send valid JSON.",
    "duplicate_member": "Name each member of an object once.",
    "number_not_finite": "Send null or a string in place of NaN and Infinity.",
    "number_too_long": "Send the number as a string.",
    "nul_character": "Remove the character, or send the bytes as base64.",
    "lone_surrogate": "Correct the string: it was cut in the middle of a character.",
    "too_deep": "Send fewer levels.",
    "lease_lost": "Stop the work: another worker has the job. The result was not recorded.",
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
    "too_many_requests": "Wait for the time in the Retry-After header.",
    "too_many_streams": "Close a stream, or share one stream among several readers.",
    "tenant_queue_full": "Wait until jobs have run, or raise `max_pending` of the tenant.",
    "wrong_isolation": "Call the function in a READ COMMITTED transaction.",
    "job_failed": "Check the job; `detail` has its state and error.",
    "child_failed": "Check the child job; `return_failures=True` gathers without raising.",
    "wait_timeout": "Wait again: the job continues.",
    "egress_failed": "Read the message; JobForge retries the attempt.",
    "address_not_allowed": "Use a public https address, or ask the operator to allow this one.",
    "unreachable": "Check the receiver; JobForge retries the request.",
    "tls_error": "Fix the receiver's certificate.",
    "deadline_exceeded": "Make the receiver respond faster; JobForge retries the request.",
    "response_too_large": "Request less than 1 MiB.",
    "too_many_redirects": "Use the final address of the redirects.",
    "bad_response": "Check the receiver.",
    "unexpected_status": "Check the response, or add the status to `expected_status`.",
    "no_artifact_store": "Set `artifacts` to a folder or bucket that all processes share.",
    "artifact_unavailable": "Check the setting `artifacts` and the permissions of the store.",
    "seal_broken": "Configure the same `secret_key` for all processes, or set the secret again.",
    "event_timeout": "Catch the error in the handler, and handle the missing event.",
    "contended": "Repeat the call.",
    "unavailable": "Repeat the call later; use a `key`, so that no job is enqueued twice.",
    "migration_error": "Read the message; the schema is unchanged.",
    "embedded_error": "Read the message and the log that the hint names.",
    "config_error": "Correct the setting that the message names.",
}


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} written")
    return 0


def page() -> str:
    heads = "| Code | Python | SQLSTATE | HTTP | Exit | Meaning → remedy |\n" + "|---" * 6 + "|"
    return "\n".join([_HEAD, heads, *_rows(JobForgeError), ""])


def _rows(error: type[JobForgeError]) -> Iterator[str]:
    """Yield a row for the error, then rows for its subclasses, in the order of the tree."""
    status = next((str(status) for kind, status in STATUSES if issubclass(error, kind)), "")
    code = next(code for kind, code in EXIT_CODES if issubclass(error, kind))
    cells = [
        f"`{error.code}`",
        f"`{error.__name__}`",
        f"`{error.sqlstate}`" if error.sqlstate else "",
        status,
        str(code),
        f"{_meaning(error)} → {_REMEDIES[error.code]}",
    ]
    yield f"| {' | '.join(cells)} |"
    for subclass in error.__subclasses__():
        if subclass.__module__ == error.__module__:
            yield from _rows(subclass)


def _meaning(error: type[JobForgeError]) -> str:
    return (error.__doc__ or "").splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())

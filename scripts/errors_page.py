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

Written by `scripts/errors_page.py` from the error tree. A code is stable: programs compare it.
Messages are for people and may change. The same code is `error.code` in Python, `code` of a problem
over [HTTP](http.md#errors), and what the [command line](cli.md#output-and-errors) prints with
`--json`.

- **SQLSTATE** is there where a [SQL function](sql.md#errors) raises the error itself.
- **HTTP** is the status of the answer. Where there is none a server has no answer of its own:
  should it meet one, that is 500 `internal`, and its log has the error under the request's id.
- **Exit** is the exit code of the command line.

The HTTP server itself has six more codes: 400 `bad_request`, 404 `no_such_route`,
405 `method_not_allowed`, 408 `request_timeout`, 500 `internal`, and 503 `too_many_connections`.

A failed attempt keeps an `error` with the `type`, `message` and `traceback` of what the handler
raised; after a request to the outside world it has the `code` too. What else ended an attempt is
its `reason`: see [isolation.md](isolation.md#limits). Why a job is not running is not an error: see
[explain.md](explain.md).
"""

# How to resolve each error.
_REMEDIES = {
    "error": "Read the message; `detail` may have the SQLSTATE of Postgres.",
    "tenant_required": "Name the tenant: with the call, by `jf.tenant(…)`, or as a setting.",
    "invalid": "Correct the value that `field` names.",
    "secrets_required": "Give the secrets that `missing` names again, or null to remove them.",
    "invalid_payload": "Correct the arguments; `detail` has every fault with its place.",
    "payload_too_large": "Send less, or fewer levels; large payloads go into the artifact store.",
    "invalid_result": "Return JSON of at most 1 MiB from a step; store more elsewhere.",
    "unknown_field": "Leave the field out, or correct its name.",
    "unsupported_media_type": "Send `Content-Type: application/json`, uncompressed.",
    "invalid_json": "Send JSON.",
    "duplicate_member": "Name each member of an object once.",
    "number_not_finite": "Send null or a text in place of NaN and Infinity.",
    "number_too_long": "Send the number as a text.",
    "nul_character": "Leave the character out, or send the bytes as base64.",
    "lone_surrogate": "Repair the text: it was cut in the middle of a character.",
    "too_deep": "Send fewer levels.",
    "lease_lost": "Stop the work: the job is somebody else's. Nothing of it was recorded.",
    "not_found": "Look at the id, and at the tenant that asks.",
    "unknown_definition": "Start a worker that has it, call `jf.register()`, or correct the key.",
    "tenant_erased": "Stop using this tenant; create another one under a new id.",
    "artifact_not_found": "Let app, workers and servers share one artifact store.",
    "conflict": "Look at the job's state; `detail` has it.",
    "definition_inactive": "Activate the definition again, or enqueue another.",
    "duplicate_key": "Take the job that `detail` names, or choose another key.",
    "idempotency_key_reused": "Use a new Idempotency-Key for a new request.",
    "not_committed": "Commit the transaction in which `ctx.complete_in` was called.",
    "denied": "Grant the login the role it needs, or name the transaction's own tenant.",
    "forbidden": "Use a key or token of a role that may.",
    "out_of_scope": "Use a key whose scopes cover the route.",
    "foreign_origin": "Send the request from a page of this server, or use a key.",
    "unauthenticated": "Give a key or token that holds: not revoked, not expired.",
    "too_many_requests": "Wait as long as Retry-After says.",
    "too_many_streams": "Close a stream, or use one stream for several readers.",
    "tenant_queue_full": "Wait until jobs have run, or raise `max_pending` of the tenant.",
    "wrong_isolation": "Call the function in a READ COMMITTED transaction.",
    "job_failed": "Look at the job; `detail` has its state and error.",
    "child_failed": "As `job_failed`; `return_failures=True` gathers without raising.",
    "wait_timeout": "Wait again: the job goes on.",
    "egress_failed": "Read the message; the attempt is retried.",
    "address_not_allowed": "Use a public https address, or have the operator allow this one.",
    "unreachable": "Nothing: it is retried. Look at the receiver.",
    "tls_error": "Repair the receiver's certificate.",
    "deadline_exceeded": "Nothing: it is retried. Let the receiver answer sooner.",
    "response_too_large": "Ask for less than 1 MiB.",
    "too_many_redirects": "Use the address that it leads to in the end.",
    "bad_response": "Look at the receiver.",
    "unexpected_status": "Look at the answer, or name the status in `expected_status`.",
    "no_artifact_store": "Set `artifacts` to a folder or bucket that all processes share.",
    "artifact_unavailable": "Look at the setting `artifacts`, and at who may write there.",
    "seal_broken": "Give every process the same `secret_key`; else enter the secret anew.",
    "event_timeout": "Catch it in the handler, and do what follows when nothing came.",
    "contended": "Call again.",
    "unavailable": "Call again later; give an enqueue a `key`, so that it is not made twice.",
    "migration_error": "Read the message: the schema is as it was.",
    "embedded_error": "Read the message and the log that the hint names.",
    "config_error": "Correct the setting that the message names.",
}


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} written")
    return 0


def page() -> str:
    heads = (
        "| code | Python | SQLSTATE | HTTP | exit | what it means → what to do |\n"
        + "|---" * 6
        + "|"
    )
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

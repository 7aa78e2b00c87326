"""Translates the server's problem+json responses to JobForge errors, by their code."""

import contextlib
from collections.abc import Mapping
from typing import Any

import httpx2

from jobforge import errors
from jobforge.errors import JobForgeError, Json, Unavailable, by_code
from jobforge.types.jsonb import decode

# For codes of a newer server, and for responses of a proxy in front of it.
_BY_STATUS: Mapping[int, type[JobForgeError]] = {
    400: errors.Invalid,
    401: errors.Unauthenticated,
    403: errors.Denied,
    404: errors.NotFound,
    409: errors.Conflict,
    413: errors.PayloadTooLarge,
    415: errors.Invalid,
    422: errors.Invalid,
    429: errors.TooManyRequests,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


def error_from_response(response: httpx2.Response) -> JobForgeError:
    problem = _problem(response.content)
    if response.status_code == 404:
        problem.setdefault("code", "no_such_route")  # the response is not from a JobForge route
    code = str(problem.get("code", ""))
    kind = by_code(code) or _BY_STATUS.get(response.status_code, JobForgeError)
    text = problem.get("detail") or f"The server returned {response.status_code} without details"
    faults = problem.get("errors") or [{}]
    detail = {
        **(problem.get("facts") or {}),
        **{name: problem[name] for name in ("code", "errors", "request_id") if problem.get(name)},
    }
    with contextlib.suppress(KeyError, ValueError):
        detail.setdefault("retry_after_s", float(response.headers["retry-after"]))
    return kind(str(text), field=faults[0].get("field"), detail=detail)


def error_from_transport(error: httpx2.HTTPError, url: str) -> Unavailable:
    reason = " ".join(str(error).split()) or type(error).__name__
    return Unavailable(
        f"The server at {url} is unreachable: {reason}",
        detail={"is_sent": not isinstance(error, _NEVER_SENT)},
    )


def read_response(response: httpx2.Response) -> Json:
    """Return the decoded body; raise the server's error."""
    if not response.is_success:
        raise error_from_response(response)
    if not response.content:
        return None
    try:
        return decode(response.content)
    except ValueError as error:
        raise Unavailable(f"{response.url.host} responded, but is not a JobForge server") from error


def _problem(content: bytes) -> dict[str, Any]:
    try:
        problem = decode(content)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}

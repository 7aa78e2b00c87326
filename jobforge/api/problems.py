"""Errors as problem+json (RFC 9457): the only place that maps error classes to statuses.

Messages of JobForge's own errors reach the caller. Any other error is reported with its request id
only; the log line with that id has the details.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request

from jobforge import errors
from jobforge.api.responses import JsonResponse
from jobforge.errors import JobForgeError, Json
from jobforge.observability import logs
from jobforge.redact import mask, mask_text

_BASE = "urn:jobforge:problem:"
_MOST_FAULTS = 20

# The first matching class wins.
STATUSES: list[tuple[type[JobForgeError], int]] = [
    (errors.Unauthenticated, 401),
    (errors.TooManyRequests, 429),
    (errors.WrongMediaType, 415),
    (errors.BadBody, 400),
    (errors.TenantRequired, 400),
    (errors.PayloadTooLarge, 413),
    (errors.Invalid, 422),
    (errors.LeaseLost, 409),
    (errors.TenantErased, 410),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.Denied, 403),
    (errors.QueueFull, 429),
    (errors.AddressNotAllowed, 422),
    (errors.Contended, 503),
    (errors.Unavailable, 503),
    (errors.ArtifactUnavailable, 503),
]
_RETRY_AFTER_S = {429: 1.0, 503: 1.0}
# Details that do not help clients.
_PRIVATE_FACTS = ("sqlstate", "field")


class Fault(BaseModel):
    """One invalid value of a request and where it is."""

    field: str = Field(examples=["payload.to"])
    message: str = Field(examples=["Field required"])
    code: str = Field(examples=["missing"])


class Problem(BaseModel):
    """An error response. Compare `code`, which is stable; messages may change."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": f"{_BASE}not_found",
                    "title": "Not Found",
                    "status": 404,
                    "code": "not_found",
                    "detail": "Job not found",
                    "errors": [],
                    "facts": {},
                    "request_id": "0b6f0b6c4d8e4f0c8f7d2f0f6a1b2c3d",
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[Fault]
    facts: dict[str, Any] = Field(description="Values that belong to the code, such as `depth`.")
    request_id: str


async def respond_to_error(request: Request, error: Exception) -> JsonResponse:
    """Return the problem for an error that a route raised; raise any other error again."""
    request_id = get_request_id(request)
    if isinstance(error, JobForgeError):
        return problem_from_error(error, request_id)
    if isinstance(error, RequestValidationError):
        return problem_from_validation_error(error, request_id)
    raise error


def problem_from_error(error: JobForgeError, request_id: str) -> JsonResponse:
    status = next((status for kind, status in STATUSES if isinstance(error, kind)), None)
    if status is None:
        logs.emit("request.failed", "error", error=logs.error_fields(error))
        return _internal_error(request_id)
    facts = _public_facts(error)
    faults = facts.pop("errors", None) or _faults_from_error(error)
    text = _default_message(error) if _has_foreign_text(error) else error.message
    problem = _ProblemFields(
        status, error.code, mask_text(text), _format_faults(faults), mask(facts)
    )
    return problem.to_response(request_id)


def problem_from_validation_error(error: RequestValidationError, request_id: str) -> JsonResponse:
    """Return pydantic's findings without the input values, which may be secrets."""
    faults = [
        {"field": _field_path(fault["loc"]), "message": _message(fault), "type": fault["type"]}
        for fault in error.errors()
    ]
    first = faults[0]
    is_unknown = first["type"] == _EXTRA
    code = errors.UnknownField.code if is_unknown else errors.Invalid.code
    problem = _ProblemFields(
        422, code, f"{first['field']}: {first['message']}", _format_faults(faults)
    )
    return problem.to_response(request_id)


def problem_from_http_exception(error: HTTPException, request_id: str) -> JsonResponse:
    """Return the problem for an error of the framework, such as an unknown route or method."""
    status = error.status_code
    code, text = _HTTP_ERRORS.get(status, ("error", HTTPStatus(status).phrase))
    problem = _ProblemFields(status, code, text)
    response = problem.to_response(request_id)
    response.headers.update(error.headers or {})
    return response


def problem_from_unexpected_error(error: Exception, request_id: str) -> JsonResponse:
    logs.emit("request.failed", "error", error=logs.error_fields(error))
    return _internal_error(request_id)


def get_request_id(request: Request) -> str:
    return str(request.scope.get("jobforge.request_id", ""))


_HTTP_ERRORS = {
    400: ("bad_request", "The request is malformed"),
    404: ("no_such_route", "Route not found; see /api/v1/openapi.json"),
    405: ("method_not_allowed", "Method not allowed; see the Allow header"),
    408: ("request_timeout", "The request did not arrive in time"),
    503: ("too_many_connections", "Too many connections in total or from this address"),
}
_EXTRA = "extra_forbidden"


@dataclass(frozen=True, slots=True)
class _ProblemFields:
    """Fields of a problem except its request ID."""

    status: int
    code: str
    detail: str
    faults: Sequence[dict[str, str]] = ()
    facts: Mapping[str, Json] = field(default_factory=dict)

    def to_response(self, request_id: str) -> JsonResponse:
        body = {
            "type": _BASE + self.code,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "errors": list(self.faults),
            "facts": self.facts,
            "request_id": request_id,
        }
        response = JsonResponse(body, self.status)
        response.headers["content-type"] = "application/problem+json"
        if self.status in _RETRY_AFTER_S:
            wait_s = self.facts.get("retry_after_s", _RETRY_AFTER_S[self.status])
            response.headers["retry-after"] = str(max(1, math.ceil(wait_s)))
        if self.status == 401:
            response.headers["www-authenticate"] = "Bearer"
        return response


def _public_facts(error: JobForgeError) -> dict[str, Json]:
    if isinstance(error, errors.NotFound):
        return {}  # nothing the caller did not send: no body repeats a missing id
    return {name: value for name, value in error.detail.items() if name not in _PRIVATE_FACTS}


def _internal_error(request_id: str) -> JsonResponse:
    text = "Internal error; the server's log has the details under this request ID"
    return _ProblemFields(500, "internal", text).to_response(request_id)


def _field_path(location: tuple[int | str, ...]) -> str:
    """Return the path of a value without its first part, such as `body` or `query`."""
    return ".".join(map(str, location[1:])) or str(location[0])


def _message(fault: Mapping[str, Json]) -> str:
    if fault["type"] == _EXTRA:
        return "Unknown field"
    # For a string that a function validates first, pydantic's message counts list items.
    if fault["type"] == "too_long" and isinstance(fault["input"], str):
        return f"String should have at most {fault['ctx']['max_length']} characters"
    return str(fault["msg"])


def _format_faults(faults: Sequence[Mapping[str, Json]]) -> list[dict[str, str]]:
    return [_format_fault(fault) for fault in faults[:_MOST_FAULTS]]


def _faults_from_error(error: JobForgeError) -> list[dict[str, Json]]:
    if not error.field:
        return []
    return [{"field": error.field, "message": error.message, "type": error.code}]


def _format_fault(fault: Mapping[str, Json]) -> dict[str, str]:
    return {
        "field": str(fault.get("field", "")),
        "message": mask_text(str(fault.get("message", ""))),
        "code": str(fault.get("type", "invalid")),
    }


def _has_foreign_text(error: JobForgeError) -> bool:
    """Whether the message comes from Postgres or the artifact store and may expose internals."""
    if isinstance(error, errors.Contended | errors.Unavailable | errors.ArtifactUnavailable):
        return True
    return type(error) is errors.Denied and not error.detail


def _default_message(error: JobForgeError) -> str:
    return type(error)().message

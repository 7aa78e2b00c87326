"""`connector.http.request`: sends one HTTP request and returns the response as the job's result.

With a configuration, the request can go only to the configuration's origin, so its secrets go
nowhere else. Headers refer to them as `{{secret.name}}`.
"""

import base64
import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urljoin

import orjson
from pydantic import BaseModel, ConfigDict, Field

from jobforge.connectors.configuration import NAME, OpenedConfiguration, open_configuration
from jobforge.connectors.connector import Connector, ConnectorJob
from jobforge.connectors.egress.headers import FORBIDDEN_HEADERS_PATTERN
from jobforge.errors import Invalid, InvalidPayload, Json, UnexpectedStatus
from jobforge.redact import RedactionScope, hide_values
from jobforge.redact.background import run_off_loop
from jobforge.sdk.outcome_exceptions import Dead
from jobforge.types.jsonb import decode, encode

if TYPE_CHECKING:
    from jobforge.connectors.egress import EgressRequest, EgressResponse

HttpMethod = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")]
HeaderValue = Annotated[str, Field(max_length=8192, pattern=r"^[\t -~\u0080-\u00ff]*$")]
Status = Annotated[int, Field(ge=100, le=599)]

_MOST_HEADERS = 50
_LONGEST_HEADER = 2_000
_LONGEST_TAIL = 2_000
_LONGEST_PAUSE_S = 3600.0
_DEEPEST = 60  # a result may have 64 levels, including those around the response
# A retry may succeed after these; after any other 4xx it would fail in the same way.
_TRANSIENT_STATUSES = frozenset((408, 425, 429))


class HttpRequest(BaseModel):
    """The payload. A string body is sent as it is, any other value as JSON."""

    model_config = ConfigDict(extra="forbid")

    url: Annotated[str, Field(min_length=1, max_length=2048, pattern=r"^[^\x00-\x20\x7f\\]+$")]
    method: HttpMethod = "GET"
    config: Annotated[str, Field(pattern=NAME)] | None = None
    headers: Annotated[dict[HeaderName, HeaderValue], Field(max_length=_MOST_HEADERS)] = Field(
        default_factory=dict,
        json_schema_extra={
            "additionalProperties": False,
            "propertyNames": {"not": {"pattern": FORBIDDEN_HEADERS_PATTERN}},
        },
    )
    body: Json = None
    expected_status: Annotated[list[Status], Field(min_length=1, max_length=50)] | None = None
    redirects: Annotated[int, Field(ge=0, le=3)] = 3
    timeout_s: Annotated[float, Field(gt=0, le=30)] = 30


async def run(job: ConnectorJob[HttpRequest]) -> Json:
    payload = job.payload
    opened = (
        await open_configuration(job, payload.config) if payload.config else OpenedConfiguration()
    )
    try:
        request = _request(job, opened)
        response = await job.egress.send(request)
    except Invalid as error:
        raise InvalidPayload(error.message, field=error.field) from None
    result = await run_off_loop(len(response.body), _result_from_response, response, opened.scope)
    if not _is_expected(response.status, payload.expected_status):
        raise _unexpected_status_error(response, result)
    return result


def _request(job: ConnectorJob[HttpRequest], opened: OpenedConfiguration) -> "EgressRequest":
    from jobforge.connectors.egress import EgressRequest  # noqa: PLC0415 - imports the HTTP client only when needed

    payload = job.payload
    given = {**opened.headers, **payload.headers}
    filled = {name: opened.fill(value) for name, value in given.items()}
    body, kind = _body(payload.body)
    defaults = {
        "Idempotency-Key": str(job.job_id),
        "X-JobForge-Fence": job.fence,
        "Content-Type": kind,
    }
    named = {name.lower() for name in filled}
    headers = [
        *filled.items(),
        *((name, value) for name, value in defaults.items() if value and name.lower() not in named),
    ]
    return EgressRequest(
        payload.method,
        _url(job, opened),
        headers=headers,
        body=body,
        # Headers of a configuration are for its origin, even those without a secret.
        private_headers=frozenset(
            name for name, value in given.items() if name in opened.headers or filled[name] != value
        ),
        redirects=payload.redirects,
        deadline_s=payload.timeout_s,
        traceparent=job.traceparent,
    )


def _url(job: ConnectorJob[HttpRequest], opened: OpenedConfiguration) -> str:
    from jobforge.connectors.egress import read_url  # noqa: PLC0415 - imports the HTTP client only when needed

    if opened.url is None:
        return job.payload.url
    policy = job.egress.policy
    url = urljoin(opened.url, job.payload.url)
    if read_url(url, policy).origin != read_url(opened.url, policy).origin:
        raise Dead("The URL must have the configuration's origin")
    return url


def _body(given: Json) -> tuple[bytes | None, str | None]:
    if given is None:
        return None, None
    if isinstance(given, str):
        return given.encode(), "text/plain; charset=utf-8"
    return orjson.dumps(given), "application/json"


def _is_expected(status: int, expected: list[int] | None) -> bool:
    return 200 <= status < 300 if expected is None else status in expected


def _result_from_response(response: "EgressResponse", scope: RedactionScope) -> dict[str, Json]:
    """Return the result, with secrets hidden wherever the server echoed them."""
    headers: dict[str, str] = {}
    for name, value in response.headers[:_MOST_HEADERS]:
        key = name.lower()
        merged = f"{headers[key]}, {value}" if key in headers else value
        headers[key] = scope.hide(merged)[:_LONGEST_HEADER]
    return {
        "status": response.status,
        "url": scope.hide(response.url),
        "headers": headers,
        **_content(response, scope),
    }


def _content(response: "EgressResponse", scope: RedactionScope) -> dict[str, Json]:
    """Return the body as json, text or base64.

    JSON is parsed before secrets are hidden in its strings, so that it stays valid JSON.
    """
    try:
        text = response.body.decode()
    except UnicodeDecodeError:
        return {"base64": _base64(response.body, scope)}
    if "\0" in text:  # jsonb cannot store NUL
        return {"base64": _base64(response.body, scope)}
    if "json" in (response.header("content-type") or ""):
        try:
            document = decode(text)
            encode(document, "result")
        except (Invalid, ValueError, RecursionError):
            return {"text": scope.hide(text)}
        if not _is_deeper(document, _DEEPEST):
            return {"json": hide_values(document, scope)}
    return {"text": scope.hide(text)}


def _base64(body: bytes, scope: RedactionScope) -> str:
    return scope.hide(base64.b64encode(body).decode())


def _is_deeper(document: Json, most: int) -> bool:
    if not isinstance(document, dict | list):
        return False
    inner = document.values() if isinstance(document, dict) else document
    return most == 0 or any(_is_deeper(each, most - 1) for each in inner)


def _unexpected_status_error(
    response: "EgressResponse", result: dict[str, Json]
) -> UnexpectedStatus:
    shown = result.get("text", result.get("json"))
    tail = shown if isinstance(shown, str) or shown is None else orjson.dumps(shown).decode()
    error = UnexpectedStatus(
        f"The response has status {response.status}",
        detail={"status": response.status, "body": (tail or "")[:_LONGEST_TAIL]},
    )
    error.is_final = 400 <= response.status < 500 and response.status not in _TRANSIENT_STATUSES
    if not error.is_final:
        error.retry_in_s = _retry_after(response.header("retry-after"))
    return error


def _retry_after(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header, at most an hour; None for the usual backoff."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return None
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, _LONGEST_PAUSE_S)


HTTP_REQUEST = Connector(
    key="connector.http.request",
    payload=HttpRequest,
    run=run,
    description="Makes an HTTP request to a public address.",
)

"""Request middleware: request id, span, access log line and default response headers.

It is the outermost middleware of JobForge, so every error inside still gets a problem response.
"""

import re
import secrets
import time
from contextlib import nullcontext

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobforge.api.access_log import AccessLog
from jobforge.api.auth.permissions import PREFIX
from jobforge.api.auth.principal import Principal
from jobforge.api.problems import problem_from_unexpected_error
from jobforge.api.request_metrics import RequestMetrics
from jobforge.observability import logs, tracing

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_CLIENT_CLOSED = 499  # the client disconnected before the response
_UNKNOWN_ROUTE = "unknown"
_DEFAULT_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))

RawHeaders = list[tuple[bytes, bytes]]


class RequestMiddleware:
    """Sets up each request and reports it to `access_log`, if given, and to `metrics`."""

    def __init__(
        self, app: ASGIApp, *, access_log: AccessLog | None, metrics: RequestMetrics
    ) -> None:
        self._app = app
        self._access_log = access_log
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_headers = dict(scope["headers"])
        request_id = _choose_request_id(request_headers.get(b"x-request-id", b""))
        scope["jobforge.request_id"] = request_id
        traceparent = request_headers.get(b"traceparent")
        parent = tracing.read_traceparent(traceparent.decode("latin-1")) if traceparent else None
        status: int | None = None

        async def send_response(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _add_headers(message["headers"], request_id)
            await send(message)

        with (
            _open_span(scope, parent) as span,
            logs.bind_fields(request_id=request_id),
        ):
            inner = span and tracing.traceparent_of(span)
            scope["jobforge.traceparent"] = inner or (parent and str(parent))
            try:
                await self._app(scope, receive, send_response)
            except ClientDisconnect:
                status = status or _CLIENT_CLOSED
            except Exception as error:  # noqa: BLE001 - top of the request: logged once, then answered
                if status is None:
                    await problem_from_unexpected_error(error, request_id)(
                        scope, receive, send_response
                    )
                else:
                    logs.emit("request.failed", "error", error=logs.error_fields(error))
            finally:
                took_s = time.perf_counter() - began
                route = scope.get("jobforge.route")
                self._metrics.add(scope["method"], route, status or _CLIENT_CLOSED, took_s)
                tracing.record_status(span, status or _CLIENT_CLOSED)
                tracing.record_route(span, scope["method"], route or _UNKNOWN_ROUTE)
                if self._access_log and logs.is_enabled("info"):
                    self._access_log.add(_build_log_line(scope, status or _CLIENT_CLOSED, took_s))


def _open_span(scope: Scope, parent: tracing.Traceparent | None) -> tracing.SpanContextManager:
    """Open a server span for API routes only: probes and files are frequent and tell little."""
    if not scope["path"].startswith(PREFIX):
        return nullcontext()
    return tracing.server_span(scope["method"], parent)


def _choose_request_id(given: bytes) -> str:
    return given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(16)


def _add_headers(headers: RawHeaders, request_id: str) -> RawHeaders:
    names = dict(headers)
    defaults = [header for header in _DEFAULT_HEADERS if header[0] not in names]
    return [*headers, (b"x-request-id", request_id.encode()), *defaults]


def _build_log_line(scope: Scope, status: int, took_s: float) -> logs.LogLine:
    principal: Principal | None = scope.get("jobforge.principal")
    return logs.make_line(
        "request.done",
        method=scope["method"],
        # Not the path itself: its parameters may contain anything.
        route=scope.get("jobforge.route"),
        status=status,
        duration_ms=round(took_s * 1000, 1),
        actor=principal.actor if principal else None,
        tenant_id=principal.tenant_id if principal else None,
    )

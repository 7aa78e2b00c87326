"""What surrounds every request: its id, its line in the log, and the headers of every answer.

Outermost of ours, so that whatever goes wrong inside is still answered as a problem.
"""

import re
import secrets
import time
from contextlib import nullcontext

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobforge.api.access_log import Journal
from jobforge.api.auth.permissions import PREFIX
from jobforge.api.auth.principal import Principal
from jobforge.api.problems import problem_of_bug
from jobforge.api.request_metrics import Traffic
from jobforge.observability import logs, tracing

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_GONE = 499  # the client left before it was answered
_ANYWHERE = "unknown"
_UNLESS_GIVEN = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))

Headers = list[tuple[bytes, bytes]]


class Envelope:
    """Requests are written down in the `journal`, if there is one; `traffic` counts them."""

    def __init__(self, app: ASGIApp, *, journal: Journal | None, traffic: Traffic) -> None:
        self._app = app
        self._journal = journal
        self._traffic = traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        given = dict(scope["headers"])
        request_id = _request_id(given.get(b"x-request-id", b""))
        scope["jobforge.request_id"] = request_id
        parent = tracing.read_traceparent(given.get(b"traceparent", b"").decode("latin-1"))
        status: int | None = None

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _headed(message["headers"], request_id)
            await send(message)

        with (
            _traced(scope, parent) as span,
            logs.bound(request_id=request_id),
        ):
            inner = span and tracing.traceparent_of(span)
            scope["jobforge.traceparent"] = inner or (parent and str(parent))
            try:
                await self._app(scope, receive, answer)
            except ClientDisconnect:
                status = status or _GONE
            except Exception as error:  # noqa: BLE001 - the top: told once, and answered
                if status is None:
                    await problem_of_bug(error, request_id)(scope, receive, answer)
                else:
                    logs.emit("request.failed", "error", error=logs.error_of(error))
            finally:
                took_s = time.perf_counter() - began
                route = scope.get("jobforge.route")
                self._traffic.add(scope["method"], route, status or _GONE, took_s)
                tracing.answered(span, status or _GONE)
                tracing.routed(span, scope["method"], route or _ANYWHERE)
                if self._journal and logs.is_enabled("info"):
                    self._journal.add(_line(scope, status or _GONE, took_s))


def _traced(scope: Scope, parent: tracing.Traceparent | None) -> tracing.Around:
    """Probes and files are asked for too often, and tell too little."""
    if not scope["path"].startswith(PREFIX):
        return nullcontext()
    return tracing.serving(scope["method"], parent)


def _request_id(given: bytes) -> str:
    return given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(16)


def _headed(headers: Headers, request_id: str) -> Headers:
    given = dict(headers)
    ours = [header for header in _UNLESS_GIVEN if header[0] not in given]
    return [*headers, (b"x-request-id", request_id.encode()), *ours]


def _line(scope: Scope, status: int, took_s: float) -> logs.Line:
    principal: Principal | None = scope.get("jobforge.principal")
    return logs.line_of(
        "request.done",
        method=scope["method"],
        # Not the path itself: what stands in its place may be anything.
        route=scope.get("jobforge.route"),
        status=status,
        duration_ms=round(took_s * 1000, 1),
        actor=principal.actor if principal else None,
        tenant_id=principal.tenant_id if principal else None,
    )

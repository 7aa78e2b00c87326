"""Route guard: authentication, authorization, rate limits and body validation.

Access is denied by default: a route without a rule in api/auth/permissions.py cannot be added.

FastAPI's routing and parsing take longer than JobForge's own work for a small request. A
`DirectRoute` parses the request itself, and `DirectDispatch` calls it before FastAPI's router.
"""

import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from jobforge.api import request_body
from jobforge.api.auth.permissions import METRICS, PREFIX, RULES, Rule
from jobforge.api.auth.principal import Principal
from jobforge.api.caller import TENANT_HEADER, CallerContext, apply_tenant_header
from jobforge.api.problems import respond_to_error
from jobforge.api.state import ServerState
from jobforge.errors import (
    ConfigError,
    Forbidden,
    JobForgeError,
    OutOfScope,
    Unauthenticated,
    UnknownField,
)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

# Routes whose bodies contain many items and may be larger.
_BATCH_ROUTES = {
    f"{PREFIX}/jobs/batch",
    f"{PREFIX}/workflows",
    f"{PREFIX}/batches",
    f"{PREFIX}/batches/{{batch_id}}/jobs",
    f"{PREFIX}/worker/jobs/complete",
    f"{PREFIX}/worker/jobs/children",
    f"{PREFIX}/worker/jobs/enqueue",
    f"{PREFIX}/worker/jobs/notes",
    f"{PREFIX}/worker/jobs/steps",
}


def create_router(name: str, *, prefix: str = PREFIX) -> APIRouter:
    """Return a router for the routes of one area."""
    return APIRouter(
        prefix=prefix,
        route_class=GuardedRoute,
        tags=[name],
        generate_unique_id_function=lambda route: route.name,
    )


def get_rule(method: str, path: str) -> Rule:
    """Return the route's rule; raise ConfigError if permissions.py has none."""
    try:
        return RULES[method, path]
    except KeyError:
        raise ConfigError(f"{method} {path} has no row in permissions.py") from None


class GuardedRoute(APIRoute):
    """Route that runs its handler only for callers allowed to use it."""

    def get_route_handler(self) -> Handler:
        handle = self.build_inner_handler()
        [method] = sorted(self.methods or ())
        rule = get_rule(method, self.path_format)
        known_params = {
            field.alias
            for field in get_flat_params(self.dependant)
            if isinstance(field.field_info, Query)
        }
        takes_body = self.body_field is not None

        async def guarded(request: Request) -> Response:
            server: ServerState = request.app.state.server
            request.scope["jobforge.route"] = rule.path
            await admit(request, server, rule)
            if request.scope["query_string"]:
                for name in request.query_params:
                    if name not in known_params:
                        raise UnknownField(f"Unknown parameter '{name}'", field=name)
            if takes_body:
                body = await request_body.read(request, body_limit(server, rule.path))
                request = request_body.JsonRequest(request, body)
            return await handle(request)

        return guarded

    def build_inner_handler(self) -> Handler:
        """Return the handler of an admitted request."""
        return super().get_route_handler()


class DirectRoute(GuardedRoute):
    """Route whose endpoint parses the request itself. FastAPI only documents it."""

    def build_inner_handler(self) -> Handler:
        handle: Handler = self.endpoint
        return handle


class DirectDispatch:
    """ASGI middleware that calls handlers by method and path, and `app` for all other requests."""

    def __init__(self, app: ASGIApp, handlers: Mapping[tuple[str, str], Handler]) -> None:
        self._app = app
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handle = self._handlers.get((scope.get("method", ""), scope.get("path", "")))
        if handle is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await handle(request)
        except (JobForgeError, RequestValidationError) as error:
            response = await respond_to_error(request, error)
        await response(scope, receive, send)


async def admit(request: Request, server: ServerState, rule: Rule) -> None:
    """Authenticate, authorize and rate-limit the request, then store the caller in its scope."""
    if rule.roles is None:
        return
    if rule.path == METRICS and _can_read_metrics(request, server):
        return
    try:
        principal = await server.authentication.authenticate(request)
    except Unauthenticated:
        server.rate_limiter.check_failure(request.client.host if request.client else "")
        raise
    request.scope["jobforge.principal"] = principal
    await server.rate_limiter.check_key(principal)
    check_rights(rule, principal)
    if TENANT_HEADER in request.headers:
        principal = await apply_tenant_header(request, server, principal)
    await server.rate_limiter.check_tenant(principal)
    traceparent = request.scope["jobforge.traceparent"]
    request.scope["jobforge.calling"] = CallerContext(server, principal, traceparent)


def check_rights(rule: Rule, principal: Principal) -> None:
    """Raise Forbidden or OutOfScope if the principal may not use the route."""
    if rule.roles is not None and principal.role not in rule.roles:
        raise Forbidden(f"The role {principal.role} does not allow this operation")
    scopes = principal.scopes
    if scopes is not None and rule.area != "session" and rule.scope not in scopes:
        raise OutOfScope(f"This operation requires the scope {rule.scope}")


def _can_read_metrics(request: Request, server: ServerState) -> bool:
    """Whether `metrics_public` or `metrics_token` gives this request access to the metrics."""
    if server.config.metrics_public:
        return True
    token = server.config.metrics_token
    authorization = request.headers.get("authorization", "").encode()
    return token is not None and secrets.compare_digest(authorization, f"Bearer {token}".encode())


def body_limit(server: ServerState, path: str) -> int:
    """Return the maximum body size in bytes."""
    config = server.config
    return config.batch_body_limit if path in _BATCH_ROUTES else config.body_limit

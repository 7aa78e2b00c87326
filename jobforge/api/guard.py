"""The way into every route: who is it, may they, how fast, and is the body sound.

Default deny: a route that api/auth/permissions.py does not have cannot be added.
"""

import secrets
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from jobforge.api import request_body
from jobforge.api.auth.permissions import METRICS, PREFIX, RULES, Rule
from jobforge.api.caller import TENANT_HEADER, CallerContext, apply_tenant_header
from jobforge.api.state import ServerState
from jobforge.errors import ConfigError, Unauthenticated, UnknownField

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

# Bodies of many jobs may be larger than others.
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
    """A router for the routes of one area."""
    return APIRouter(
        prefix=prefix,
        route_class=GuardedRoute,
        tags=[name],
        generate_unique_id_function=lambda route: route.name,
    )


def get_rule(method: str, path: str) -> Rule:
    """Raises ConfigError for a route that nobody was given."""
    try:
        return RULES[method, path]
    except KeyError:
        raise ConfigError(f"{method} {path} has no row in permissions.py") from None


class GuardedRoute(APIRoute):
    """A route whose handler is reached by those only who may use it."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        [method] = sorted(self.methods or ())
        rule = get_rule(method, self.path_format)
        known = {field.alias for field in self.dependant.query_params}
        takes_body = self.body_field is not None

        async def guarded(request: Request) -> Response:
            server: ServerState = request.app.state.server
            request.scope["jobforge.route"] = rule.path
            await admit(request, server, rule)
            for name in request.query_params:
                if name not in known:
                    raise UnknownField(f"{name}: there is no such parameter", field=name)
            if takes_body:
                body = await request_body.read(request, body_limit(server, rule.path))
                request = request_body.JsonRequest(request, body)
            return await handle(request)

        return guarded


async def admit(request: Request, server: ServerState, rule: Rule) -> None:
    """Puts the caller into the request's scope; raises what refuses it."""
    if rule.roles is None or "jobforge.calling" in request.scope:
        return  # it is open to all, or was admitted before (fast_path.py)
    if rule.path == METRICS and _can_read_metrics(request, server):
        return
    try:
        principal = await server.authentication.authenticate(request)
    except Unauthenticated:
        server.rate_limiter.check_failure(request.client.host if request.client else "")
        raise
    request.scope["jobforge.principal"] = principal
    await server.rate_limiter.check_key(principal)
    rule.check(principal)
    if TENANT_HEADER in request.headers:
        principal = await apply_tenant_header(request, server, principal)
    await server.rate_limiter.check_tenant(principal)
    traceparent = request.scope["jobforge.traceparent"]
    request.scope["jobforge.calling"] = CallerContext(server, principal, traceparent)


def _can_read_metrics(request: Request, server: ServerState) -> bool:
    """Whether the settings alone let this request see the metrics."""
    if server.config.metrics_public:
        return True
    token = server.config.metrics_token
    given = request.headers.get("authorization", "").encode()
    return token is not None and secrets.compare_digest(given, f"Bearer {token}".encode())


def body_limit(server: ServerState, path: str) -> int:
    """In bytes."""
    config = server.config
    return config.batch_body_limit if path in _BATCH_ROUTES else config.body_limit

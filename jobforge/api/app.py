"""FastAPI application: routes, middleware and background tasks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import compile_path
from starlette.types import ASGIApp

from jobforge.api import openapi
from jobforge.api.access_log import AccessLog
from jobforge.api.auth.permissions import PREFIX, RULES
from jobforge.api.caller import TENANT_HEADER
from jobforge.api.dashboard import MOUNT, Dashboard
from jobforge.api.guard import DirectDispatch, DirectRoute
from jobforge.api.middleware import RequestMiddleware
from jobforge.api.problems import (
    get_request_id,
    problem_from_http_exception,
    respond_to_error,
)
from jobforge.api.request_metrics import RequestMetrics
from jobforge.api.routes import (
    audit,
    connectors,
    database,
    definitions,
    events,
    failures,
    health,
    jobs,
    keys,
    metrics,
    operations,
    queues,
    running_jobs,
    session,
    statistics,
    stream,
    tenants,
    triggers,
    webhooks,
    worker,
    workers,
    workflows,
)
from jobforge.api.state import ServerState
from jobforge.config import Config
from jobforge.db import Database
from jobforge.errors import ConfigError, JobForgeError, Json

_ROUTERS = [
    module.router
    for module in (
        jobs,  # first: Starlette tries routes in order, and job routes get most requests
        stream,
        definitions,
        queues,
        failures,
        operations,
        triggers,
        events,
        workflows,
        workers,
        worker,
        running_jobs,
        tenants,
        keys,
        connectors,
        webhooks,
        statistics,
        audit,
        database,
        session,
        health,
        metrics,
    )
]
_METHODS = [(compile_path(path)[0], method) for method, path in RULES]
_EXPOSED_HEADERS = ["X-Request-Id", "Retry-After", "Idempotent-Replayed"]


def build_app(config: Config) -> FastAPI:
    """Return the application; its lifespan startup opens the database."""
    request_metrics = RequestMetrics()
    access_log = AccessLog() if config.access_log else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _open_database(config) as database, asyncio.TaskGroup() as group:
            app.state.server = server = ServerState(config, database, request_metrics)
            for loop in server.loops:
                group.create_task(loop.run())
            try:
                yield
            finally:
                server.close()
                if access_log:
                    access_log.write()

    app = _Application(
        outer_layers=lambda inner: RequestMiddleware(
            _add_cors(config.cors_origins, inner), access_log=access_log, metrics=request_metrics
        ),
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # RequestMiddleware opens a span per request; FastAPI would open a second one.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    for router in _ROUTERS:
        app.include_router(router)
    app.add_api_route(f"{PREFIX}/openapi.json", app.show_document, include_in_schema=False)
    dashboard = Dashboard()
    if dashboard.is_built:
        app.add_api_route("/", _redirect_to_dashboard, include_in_schema=False)
    app.mount(MOUNT, dashboard)  # public files; access control applies to the API routes they call
    app.add_exception_handler(HTTPException, _handle_http_exception)
    for error_class in (JobForgeError, RequestValidationError, Exception):
        app.add_exception_handler(error_class, respond_to_error)
    return app


class _Application(FastAPI):
    """FastAPI with JobForge's OpenAPI document.

    `outer_layers` wraps DirectDispatch and FastAPI's own middleware, and so handles all errors.
    FastAPI would run added middleware inside its error handling.
    """

    def __init__(self, *, outer_layers: Callable[[ASGIApp], ASGIApp], **options: Any) -> None:  # noqa: ANN401 - FastAPI's options
        super().__init__(**options)
        self._outer_layers = outer_layers

    def build_middleware_stack(self) -> ASGIApp:
        handlers = {
            (method, route.path): route.get_route_handler()
            for route in chain.from_iterable(router.routes for router in _ROUTERS)
            if isinstance(route, DirectRoute)
            for method in route.methods or ()
        }
        return self._outer_layers(DirectDispatch(super().build_middleware_stack(), handlers))

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = openapi.build_document(self)
        return self.openapi_schema

    async def show_document(self) -> dict[str, Json]:
        return self.openapi()


def _add_cors(origins: Sequence[str], app: ASGIApp) -> ASGIApp:
    """Allow pages of these origins to call the API."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["*"],
        allow_headers=[
            *("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "traceparent"),
            TENANT_HEADER,
        ],
        expose_headers=_EXPOSED_HEADERS,
    )


@asynccontextmanager
async def _open_database(config: Config) -> AsyncIterator[Database]:
    if config.database_url is None:
        raise ConfigError("The server requires a database", field="database_url")
    database = Database(
        config.database_url,
        size=config.server_connections,
        behind_pooler=config.behind_pooler,
        listen_url=config.listen_url,
    )
    async with database:
        yield database


async def _redirect_to_dashboard(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}{MOUNT}/")


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class
    response = problem_from_http_exception(error, get_request_id(request))
    path = request.scope["path"]
    # Starlette's Allow header lists the methods of the first matching route only.
    methods = sorted({method for pattern, method in _METHODS if pattern.match(path)})
    if error.status_code == 405 and methods:
        response.headers["allow"] = ", ".join(methods)
    return response

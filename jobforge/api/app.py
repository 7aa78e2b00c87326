"""The application: routes, what surrounds them, and what runs beside them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from jobforge.api import openapi
from jobforge.api.access_log import Journal
from jobforge.api.auth.permissions import PREFIX, RULES
from jobforge.api.caller import TENANT_HEADER
from jobforge.api.dashboard import MOUNT, Dashboard
from jobforge.api.fast_path import Lane
from jobforge.api.middleware import Envelope
from jobforge.api.problems import (
    problem_of,
    problem_of_http,
    problem_of_request,
    request_id_of,
)
from jobforge.api.request_metrics import Traffic
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
    session,
    statistics,
    stream,
    tenants,
    triggers,
    webhooks,
    worker,
    worker_jobs,
    workers,
    workflows,
)
from jobforge.api.state import Server
from jobforge.config import Config
from jobforge.db import Database
from jobforge.errors import ConfigError, JobForgeError, Json

_ROUTERS = [
    module.router
    for module in (
        jobs,  # first: routes are tried in turn, and these are asked for most
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
        worker_jobs,
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
_SHORTCUTS = {("POST", f"{PREFIX}/jobs"): jobs.create_plain_job}
_METHODS = [(compile_path(path)[0], method) for method, path in RULES]
_OURS = ["X-Request-Id", "Retry-After", "Idempotent-Replayed"]


def make_app(config: Config) -> FastAPI:
    """The application; its database is opened when it starts, not before."""
    traffic = Traffic()
    journal = Journal() if config.access_log else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with _database(config) as database, asyncio.TaskGroup() as group:
            app.state.server = server = Server(config, database, traffic)
            group.create_task(server.progress.run())
            group.create_task(server.hub.run())
            group.create_task(server.fleet.run())
            group.create_task(server.recording.run())
            if server.artifacts.is_configured:
                group.create_task(server.sweeping.run())
            try:
                yield
            finally:
                server.close()
                if journal:
                    journal.write()

    app = _Application(
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # Every request has its span (middleware.py); FastAPI's own would be a second one.
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    for router in _ROUTERS:
        app.include_router(router)
    app.add_api_route(f"{PREFIX}/openapi.json", app.show_document, include_in_schema=False)
    dashboard = Dashboard()
    if dashboard.is_built:
        app.add_api_route("/", _lead_to_dashboard, include_in_schema=False)
    app.mount(MOUNT, dashboard)  # files for everybody; what they show, the routes above decide
    app.add_exception_handler(JobForgeError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_values)
    app.add_exception_handler(HTTPException, _refuse_route)
    app.add_exception_handler(Exception, _hand_on)
    inner = _allowing(config.cors_origins, Lane(app.enter, shortcuts=_SHORTCUTS))
    app.entrance = Envelope(inner, journal=journal, traffic=traffic)
    return app


class _Application(FastAPI):
    """FastAPI with our own OpenAPI document and entrance.

    What surrounds every request stands before FastAPI, not within it as its middleware does: so
    the lane leads past all of it.
    """

    entrance: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        await self.entrance(scope, receive, send)

    async def enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Behind the entrance: FastAPI itself."""
        await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = openapi.document(self)
        return self.openapi_schema

    async def show_document(self) -> dict[str, Json]:
        return self.openapi()


def _allowing(origins: Sequence[str], app: ASGIApp) -> ASGIApp:
    """Pages of these origins may use it."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["*"],
        allow_headers=[
            *("Authorization", "Content-Type", "Idempotency-Key", "traceparent"),
            TENANT_HEADER,
        ],
        expose_headers=_OURS,
    )


@asynccontextmanager
async def _database(config: Config) -> AsyncIterator[Database]:
    if config.database_url is None:
        raise ConfigError("the server needs a database", field="database_url")
    database = Database(
        config.database_url,
        size=config.server_connections,
        behind_pooler=config.behind_pooler,
        listen_url=config.listen_url,
    )
    async with database:
        yield database


async def _lead_to_dashboard(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}{MOUNT}/")


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, JobForgeError)  # noqa: S101 - as it was registered
    return problem_of(error, request_id_of(request))


async def _refuse_values(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as it was registered
    return problem_of_request(error, request_id_of(request))


async def _hand_on(_: Request, error: Exception) -> Response:
    raise error  # the envelope tells it, and answers


async def _refuse_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as it was registered
    answer = problem_of_http(error, request_id_of(request))
    path = request.scope["path"]
    # Starlette names those of the first route alone.
    methods = sorted({method for pattern, method in _METHODS if pattern.match(path)})
    if error.status_code == 405 and methods:
        answer.headers["allow"] = ", ".join(methods)
    return answer

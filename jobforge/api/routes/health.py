"""Routes of health checks: liveness and readiness."""

from typing import Literal

from pydantic import BaseModel
from starlette.requests import Request

from jobforge import calls
from jobforge.api.guard import create_router
from jobforge.api.responses import JsonResponse
from jobforge.api.state import ServerState
from jobforge.db import Database
from jobforge.db.schema_files import migration_names
from jobforge.errors import JobForgeError, MigrationError, Unavailable
from jobforge.observability import logs

router = create_router("health", prefix="")


class Health(BaseModel):
    status: Literal["ok"]


@router.get("/health", response_model=Health, summary="Check liveness")
async def show_health() -> JsonResponse:
    """Does not query the database: restarting the server would not fix a database outage."""
    return JsonResponse({"status": "ok"})


@router.get("/ready", response_model=Health, summary="Check readiness")
async def show_readiness(request: Request) -> JsonResponse:
    """Responds with 503 if the database is unreachable, a migration of this release
    is missing, the login lacks a privilege that the server needs, or the server is shutting down.
    The server's log has the reason.
    """
    server: ServerState = request.app.state.server
    server.check_open()
    try:
        await _check_database(server.database)
    except JobForgeError as error:
        logs.emit("server.unready", "warning", error=logs.error_fields(error))
        raise Unavailable from error
    return JsonResponse({"status": "ok"})


async def _check_database(database: Database) -> None:
    """Check privileges and migrations. A newer schema is accepted: it serves this release too."""
    await database.run(calls.find_api_key(""))
    applied = {each.name for each in await database.run(calls.list_migrations())}
    due = sorted(migration_names() - applied)
    if due:
        raise MigrationError(f"Migrations are due: {', '.join(due)}")

"""Whether this server lives, and whether it can work."""

from typing import Literal

from pydantic import BaseModel
from starlette.requests import Request

from jobforge import calls
from jobforge.api.answers import Answer
from jobforge.api.guard import area
from jobforge.api.server import Server

router = area("health", prefix="")


class Health(BaseModel):
    status: Literal["ok"]


@router.get("/health", response_model=Health, summary="Is the server there")
async def show_health() -> Answer:
    """Asks nothing of the database: a server is not to be restarted because that is away."""
    return Answer({"status": "ok"})


@router.get("/ready", response_model=Health, summary="Can the server work")
async def show_readiness(request: Request) -> Answer:
    """503 while the database cannot be reached, or the server is about to end."""
    server: Server = request.app.state.server
    server.check_open()
    await server.database.run(calls.list_definitions(limit=1))
    return Answer({"status": "ok"})

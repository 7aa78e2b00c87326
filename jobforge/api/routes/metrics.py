"""Metrics for Prometheus."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from jobforge.api.guard import area
from jobforge.api.state import Server
from jobforge.observability.prometheus import CONTENT_TYPE

router = area("metrics", prefix="")


@router.get("/metrics", response_class=PlainTextResponse, summary="Metrics for Prometheus")
async def show_metrics(request: Request) -> Response:
    """Of the installation and of this server. With `metrics_token` that token is enough."""
    server: Server = request.app.state.server
    return Response(await server.scrapes.page(), media_type=CONTENT_TYPE)

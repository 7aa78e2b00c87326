"""Route of the Prometheus metrics."""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from jobforge.api.guard import create_router
from jobforge.api.state import ServerState
from jobforge.observability.prometheus import CONTENT_TYPE

router = create_router("metrics", prefix="")


@router.get("/metrics", response_class=PlainTextResponse, summary="Get Prometheus metrics")
async def show_metrics(request: Request) -> Response:
    """Returns the metrics of the installation and of this server. `metrics_token` also gives
    access.
    """
    server: ServerState = request.app.state.server
    return Response(await server.metrics_collector.render(), media_type=CONTENT_TYPE)

"""Routes of statistics and usage: sums over attempts, for charts and billing."""

from typing import Annotated, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.pagination import Items
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.base_types import DefinitionKey, Moment, QueueName
from jobforge.types.statistics import Statistic, Usage, usage_as_csv

router = create_router("statistics")

SinceParam = Annotated[Moment | None, Query(description="Start of the period.")]
UntilParam = Annotated[Moment | None, Query(description="End of the period (default: now).")]


@router.get("/statistics", response_model=Items[Statistic], summary="Get statistics")
async def get_statistics(
    *,
    caller: Caller,
    since: SinceParam = None,
    until: UntilParam = None,
    step_s: Annotated[
        int,
        Query(
            ge=0, le=86_400, description="Step in whole minutes; 0: one step for the whole period."
        ),
    ] = 60,
    definition: Annotated[DefinitionKey | None, Query()] = None,
    queue: Annotated[QueueName | None, Query()] = None,
    by: Annotated[
        Literal["definition", "queue"] | None, Query(description="Split by definition or queue.")
    ] = None,
) -> JsonResponse:
    """Returns one item per step, by default for the last hour. Steps without finished attempts are
    omitted. The statistics are those of the tenant or, for a super admin without a tenant, of all
    tenants.
    """
    call = calls.get_statistics(
        since, until, step_s=step_s, definition=definition, queue=queue, by=by
    )
    return JsonResponse({"items": await caller.run_for_tenant_or_all(call)})


@router.get(
    "/usage",
    response_model=Items[Usage],
    summary="Get usage by tenant",
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def meter_tenants(
    *,
    request: Request,
    caller: Caller,
    since: SinceParam = None,
    until: UntilParam = None,
    format: Annotated[  # noqa: A002 - name of the query parameter
        Literal["json", "csv"] | None, Query(description="Default: chosen by the `Accept` header.")
    ] = None,
) -> Response:
    """Returns the usage of each tenant, by default for the last day, as JSON or CSV."""
    usage = await caller.run_as_actor(calls.meter_tenants(since, until))
    if (format or _preferred_format(request)) == "csv":
        headers = {"Content-Disposition": 'attachment; filename="usage.csv"'}
        return Response(usage_as_csv(usage), media_type="text/csv", headers=headers)
    return JsonResponse({"items": usage})


def _preferred_format(request: Request) -> str:
    return "csv" if request.headers.get("accept", "").startswith("text/csv") else "json"

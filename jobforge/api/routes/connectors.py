"""Routes of connector configurations: a tenant's credentials and URLs for other services."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from jobforge import calls
from jobforge.api.caller import Caller, CallerContext
from jobforge.api.guard import create_router
from jobforge.api.masking import mask_connector
from jobforge.api.pagination import Page, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.connectors import ConnectorChanges, CreatedConnectorView, NewConnector
from jobforge.connectors.configuration import needs_seal, prepare_config
from jobforge.errors import Json
from jobforge.types.connectors import ConnectorConfig

router = create_router("connectors")


@router.get("/connectors", response_model=Page[ConnectorConfig], summary="List connectors")
async def list_connectors(caller: Caller, page: Paging) -> JsonResponse:
    """Returns the configurations, sorted by name. Each secret is shown as its source: `sealed` or
    its reference. Viewers see URLs without their path and headers without their values.
    """
    call = calls.list_connector_configs(limit=page.limit, after=page.decode_text())
    configs = await caller.run(call)
    visible = configs if caller.can_see_addresses else [mask_connector(each) for each in configs]
    return page.respond(visible, key=lambda config: config.name)


@router.post(
    "/connectors",
    status_code=201,
    response_model=CreatedConnectorView,
    summary="Create a connector",
)
async def create_connector(body: NewConnector, caller: Caller) -> JsonResponse:
    """Jobs of `connector.http.request` refer to the configuration by name; their requests go to its
    origin. Secrets are encrypted before they are stored and never returned.
    """
    config_id = uuid4()
    config = await _prepare_config(caller, config_id, body.model_dump(by_alias=True))
    return JsonResponse(
        {"id": await caller.run(calls.create_connector_config(config_id, config))}, 201
    )


@router.get("/connectors/{config_id}", response_model=ConnectorConfig, summary="Get a connector")
async def get_connector(config_id: UUID, caller: Caller) -> JsonResponse:
    """Secret values are never returned. Viewers get neither URL paths nor headers."""
    config = await caller.run(calls.get_connector_config(config_id))
    return JsonResponse(config if caller.can_see_addresses else mask_connector(config))


@router.patch("/connectors/{config_id}", status_code=204, summary="Update a connector")
async def edit_connector(config_id: UUID, body: ConnectorChanges, caller: Caller) -> JsonResponse:
    """Omitted fields and omitted secrets are unchanged; null removes a secret. A URL with another
    origin requires all secrets again; without them, the response is 422 `secrets_required`.
    """
    changes = {
        name: value
        for name, value in body.model_dump(by_alias=True, exclude_unset=True).items()
        if value is not None
    }
    config = await _prepare_config(caller, config_id, changes)
    await caller.run(calls.edit_connector_config(config_id, config))
    return JsonResponse(status=204)


@router.delete("/connectors/{config_id}", status_code=204, summary="Delete a connector")
async def delete_connector(config_id: UUID, caller: Caller) -> JsonResponse:
    """Deletes the configuration with its secrets. Jobs that name it fail permanently."""
    await caller.run(calls.delete_connector_config(config_id))
    return JsonResponse(status=204)


async def _prepare_config(
    caller: CallerContext, config_id: UUID, given: Mapping[str, Any]
) -> dict[str, Json]:
    key = None
    if needs_seal(given):
        key = await caller.run(caller.server.vault.build_tenant_key_call(caller.tenant_id))
    return prepare_config(given, config_id, key, caller.server.policy)

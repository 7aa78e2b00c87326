"""Connectors: how a tenant's jobs reach other services, and with which secrets."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from jobforge import calls
from jobforge.api.caller import Caller, Calling
from jobforge.api.guard import area
from jobforge.api.masking import masked_connector
from jobforge.api.pagination import DEFAULT_LIMIT, Cursor, Limit, Page, page, read_cursor
from jobforge.api.responses import Answer
from jobforge.api.schemas.connectors import ConnectorChanges, MadeConnector, NewConnector
from jobforge.connectors.configuration import check_settings, needs_seal, sealed_secrets
from jobforge.errors import Json
from jobforge.types.connectors import ConnectorConfig

router = area("connectors")


@router.get("/connectors", response_model=Page[ConnectorConfig], summary="List configurations")
async def list_connectors(
    caller: Caller, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Answer:
    """By name. Each secret is shown as its source: `sealed`, or its reference. A viewer sees the
    URL without its path, and headers without their values."""
    call = calls.list_connector_configs(limit=limit, after=read_cursor(cursor))
    configs = await caller.run(call)
    shown = configs if caller.sees_addresses else [masked_connector(each) for each in configs]
    return Answer(page(shown, limit, lambda config: config.name))


@router.post(
    "/connectors", status_code=201, response_model=MadeConnector, summary="Make a configuration"
)
async def create_connector(body: NewConnector, caller: Caller) -> Answer:
    """Jobs of `connector.http.request` name it, and their requests go to its origin. Secrets are
    sealed at once, and never answered again."""
    config_id = uuid4()
    config = await _kept(caller, config_id, body.model_dump(by_alias=True))
    return Answer({"id": await caller.run(calls.create_connector_config(config_id, config))}, 201)


@router.get(
    "/connectors/{config_id}", response_model=ConnectorConfig, summary="Look at a configuration"
)
async def get_connector(config_id: UUID, caller: Caller) -> Answer:
    config = await caller.run(calls.get_connector_config(config_id))
    return Answer(config if caller.sees_addresses else masked_connector(config))


@router.patch("/connectors/{config_id}", status_code=204, summary="Change a configuration")
async def edit_connector(config_id: UUID, body: ConnectorChanges, caller: Caller) -> Answer:
    """Omitted fields are unchanged, and so are omitted secrets; null removes a secret. A URL of
    another origin needs all secrets again; otherwise the answer is 422 `secrets_required`."""
    given = {
        name: value
        for name, value in body.model_dump(by_alias=True, exclude_unset=True).items()
        if value is not None
    }
    config = await _kept(caller, config_id, given)
    await caller.run(calls.edit_connector_config(config_id, config))
    return Answer(status=204)


@router.delete("/connectors/{config_id}", status_code=204, summary="Delete a configuration")
async def delete_connector(config_id: UUID, caller: Caller) -> Answer:
    """Its secrets go with it; jobs that name it die."""
    await caller.run(calls.delete_connector_config(config_id))
    return Answer(status=204)


async def _kept(caller: Calling, config_id: UUID, given: Mapping[str, Any]) -> dict[str, Json]:
    """As the database keeps it: checked, with its secrets sealed."""
    config = dict(given)
    if "settings" in config:
        check_settings(config["settings"], caller.server.policy)
    secrets = config.get("secrets", {})
    key = None
    if needs_seal(secrets):
        key = await caller.run(caller.server.vault.key_of(caller.tenant_id))
    return {**config, "secrets": sealed_secrets(secrets, config_id, key)}

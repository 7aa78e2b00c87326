"""Routes of job definitions and operators' overrides."""

from typing import Annotated

from fastapi import Path, Query

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import create_router
from jobforge.api.pagination import Page, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.base_types import DefinitionKey, NulFreeText
from jobforge.api.schemas.operator_settings import NewDefinition, Overrides
from jobforge.types.definitions import DefinitionInfo, DefinitionListing

router = create_router("definitions")

DefinitionKeyPath = Annotated[DefinitionKey, Path()]
DefinitionVersionPath = Annotated[int, Path(ge=1, le=2_147_483_647)]


@router.get("/definitions", response_model=Page[DefinitionListing], summary="List definitions")
async def list_definitions(
    caller: Caller,
    page: Paging,
    prefix: Annotated[NulFreeText | None, Query(max_length=200)] = None,
) -> JsonResponse:
    """Returns the definitions, sorted by key, each in the version that a job without a version
    uses.
    """
    found = await caller.run_as_actor(
        calls.list_definitions(prefix=prefix, limit=page.limit, after=page.decode_text())
    )
    return page.respond(found, key=lambda definition: definition.key)


@router.get("/definitions/{key}", response_model=DefinitionInfo, summary="Get a definition")
async def get_definition(
    key: DefinitionKeyPath,
    caller: Caller,
    version: Annotated[int | None, Query(ge=1, le=2_147_483_647)] = None,
) -> JsonResponse:
    """Returns the effective settings, the settings registered by code, operators' overrides, and
    the payload's JSON Schema.
    """
    return JsonResponse(await caller.run_as_actor(calls.get_definition(key, version=version)))


@router.put(
    "/definitions/{key}/versions/{version}", status_code=204, summary="Register a definition"
)
async def put_definition(
    key: DefinitionKeyPath, version: DefinitionVersionPath, body: NewDefinition, caller: Caller
) -> JsonResponse:
    """Registers the definition, as a worker does at startup. Repeating the same request changes
    nothing.
    """
    settings = {name: value for name, value in body.given_fields().items() if value is not None}
    await caller.run_as_actor(calls.put_definition(key, version, settings))
    return JsonResponse(status=204)


@router.patch("/definitions/{key}", status_code=204, summary="Override a definition's settings")
async def override_definition(
    key: DefinitionKeyPath, body: Overrides, caller: Caller
) -> JsonResponse:
    """Overrides settings of all versions, also after code registers the definition again. Null
    removes an override.
    """
    await caller.run_as_actor(calls.override_definition(key, body.given_fields()))
    return JsonResponse(status=204)


@router.post("/definitions/{key}/pause", status_code=204, summary="Pause a definition")
async def pause_definition(key: DefinitionKeyPath, caller: Caller) -> JsonResponse:
    """Queued jobs wait; new jobs can still be created."""
    await caller.run_as_actor(calls.pause_definition(key))
    return JsonResponse(status=204)


@router.post("/definitions/{key}/resume", status_code=204, summary="Resume a definition")
async def resume_definition(key: DefinitionKeyPath, caller: Caller) -> JsonResponse:
    """Workers claim the definition's jobs again."""
    await caller.run_as_actor(calls.resume_definition(key))
    return JsonResponse(status=204)

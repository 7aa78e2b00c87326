"""Definitions: what jobs can be made of, and what operators set over it."""

from typing import Annotated

from fastapi import Path, Query

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import area
from jobforge.api.pagination import DEFAULT_LIMIT, Cursor, Limit, Page, page, read_cursor
from jobforge.api.responses import Answer
from jobforge.api.schemas.base_types import DefinitionKey, Text
from jobforge.api.schemas.limits import NewDefinition, Overrides
from jobforge.types.definitions import DefinitionInfo, DefinitionListing

router = area("definitions")

Key = Annotated[DefinitionKey, Path()]
Version = Annotated[int, Path(ge=1, le=2_147_483_647)]


@router.get("/definitions", response_model=Page[DefinitionListing], summary="List definitions")
async def list_definitions(
    caller: Caller,
    prefix: Annotated[Text | None, Query(max_length=200)] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Answer:
    """By key, each in the version that a job without one would have."""
    found = await caller.run_installation(
        calls.list_definitions(prefix=prefix, limit=limit, after=read_cursor(cursor))
    )
    return Answer(page(found, limit, lambda definition: definition.key))


@router.get("/definitions/{key}", response_model=DefinitionInfo, summary="Look at a definition")
async def get_definition(
    key: Key,
    caller: Caller,
    version: Annotated[int | None, Query(ge=1, le=2_147_483_647)] = None,
) -> Answer:
    """The settings that hold, what code registered, what operators set over it, the JSON Schema of
    its payload."""
    return Answer(await caller.run_installation(calls.get_definition(key, version=version)))


@router.put(
    "/definitions/{key}/versions/{version}", status_code=204, summary="Register a definition"
)
async def put_definition(key: Key, version: Version, body: NewDefinition, caller: Caller) -> Answer:
    """As a worker would. Again with the same settings changes nothing."""
    settings = {name: value for name, value in body.given().items() if value is not None}
    await caller.run_installation(calls.put_definition(key, version, settings))
    return Answer(status=204)


@router.patch("/definitions/{key}", status_code=204, summary="Set something over a definition")
async def override_definition(key: Key, body: Overrides, caller: Caller) -> Answer:
    """For all its versions; outlives registering again. null takes an override back."""
    await caller.run_installation(calls.override_definition(key, body.given()))
    return Answer(status=204)


@router.post("/definitions/{key}/pause", status_code=204, summary="Pause a definition")
async def pause_definition(key: Key, caller: Caller) -> Answer:
    """Its jobs wait; new ones may be made."""
    await caller.run_installation(calls.pause_definition(key))
    return Answer(status=204)


@router.post("/definitions/{key}/resume", status_code=204, summary="Resume a definition")
async def resume_definition(key: Key, caller: Caller) -> Answer:
    await caller.run_installation(calls.resume_definition(key))
    return Answer(status=204)

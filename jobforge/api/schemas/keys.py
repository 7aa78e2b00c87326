"""Schemas of API keys and dashboard sessions."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

from jobforge.api.auth.permissions import SCOPES
from jobforge.api.schemas.base_types import Body, Moment, ShortName
from jobforge.types.api_keys import Role

KeyScope = Annotated[str, Field(json_schema_extra={"enum": list(SCOPES)})]


class NewKey(Body):
    """A key to create. Without scopes, the key can do everything that its role allows."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "billing service", "role": "tenant_admin", "scopes": []}]
        }
    )

    name: ShortName
    role: Annotated[Role, Field(strict=False)]
    scopes: Annotated[list[KeyScope], Field(max_length=50)] = Field(default_factory=list)
    expires_at: Moment | None = None


class CreatedKeyView(BaseModel):
    """`key` is returned only once."""

    id: UUID
    key: str = Field(examples=["jf_ab12cd34_…"])


class Rotation(Body):
    overlap_s: Annotated[float, Field(ge=0, le=2_592_000, allow_inf_nan=False)] = Field(
        0, description="Seconds during which the old key stays valid."
    )


class Credentials(Body):
    """Either an API key that a user entered or the ticket of a sign-in link."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"key": "jf_ab12cd34_…"}]})

    key: Annotated[str, Field(max_length=200)] | None = None
    ticket: Annotated[str, Field(max_length=200)] | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.key is None) == (self.ticket is None):
            raise ValueError("either key or ticket is required")
        return self


class Whoami(BaseModel):
    """The authenticated principal."""

    actor: str
    role: Role
    tenant_id: UUID | None
    scopes: list[str]
    key_id: UUID | None


class OwnTenant(BaseModel):
    """The caller's tenant with its settings."""

    id: UUID
    slug: str | None
    name: str | None
    timezone: str
    weight: int = Field(description="Share of the fair queue, relative to other tenants.")
    max_running: int | None = Field(description="Maximum number of running jobs.")
    max_pending: int | None = Field(description="Maximum number of waiting jobs.")
    rate_limit: int | None = Field(description="Maximum number of jobs started per period.")
    paused_at: datetime | None

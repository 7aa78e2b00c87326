"""Schemas of limits and settings. Omitted fields are unchanged; null removes a setting."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import Body, Count, NulFreeText, QueueName, ShortName, Whole

Period = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Backoff = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]


class LimitsBody(Body):
    """Limits on running jobs, and on jobs started per period."""

    max_running: Count | None = None
    rate_limit: Count | None = None
    rate_period_s: Period | None = None
    rate_burst: Count | None = None


class Overrides(LimitsBody):
    """An operator's overrides of a definition, for all its versions."""

    timeout_s: Annotated[Whole, Field(ge=1, le=604_800)] | None = None
    max_attempts: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    backoff_base_s: Backoff | None = None
    backoff_cap_s: Backoff | None = None
    max_running_per_key: Count | None = None
    rate_limit_per_key: Count | None = None
    rate_period_per_key_s: Period | None = None
    rate_burst_per_key: Count | None = None
    is_active: bool | None = None


class NewDefinition(Overrides):
    """A version of a definition, as a worker registers it."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"queue": "mail", "timeout_s": 30, "max_attempts": 8}]}
    )

    description: Annotated[NulFreeText, Field(max_length=10_000)] | None = None
    parameters: dict[str, Any] | None = Field(None, description="JSON Schema of the payload.")
    queue: QueueName | None = None
    hooks: bool | None = None


class TenantSettings(LimitsBody):
    """Settings of a tenant."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"slug": "acme", "weight": 2}]})

    slug: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] | None = None
    name: ShortName | None = None
    timezone: Annotated[NulFreeText, Field(max_length=100)] | None = Field(
        None, examples=["Europe/Berlin"]
    )
    weight: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    max_pending: Count | None = None


class NewTenant(TenantSettings):
    id: Annotated[UUID, Field(strict=False)] | None = Field(
        None, description="Default: a random UUID.", examples=[None]
    )


class TenantId(BaseModel):
    id: UUID

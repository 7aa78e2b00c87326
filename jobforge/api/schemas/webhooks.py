"""Schemas of webhooks."""

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from jobforge.api.schemas.base_types import Body, DefinitionKey, NulFreeText
from jobforge.types.webhooks import WebhookEvent

DEFAULT_OVERLAP_S = 86_400.0

_EVENTS = "Kinds of messages to send. `end`: every finished job; `failure`: every failed attempt."
_DEFINITIONS = "Only jobs of these definitions (null: all definitions)."

Url = Annotated[NulFreeText, Field(max_length=2000, examples=["https://example.com/jobs"])]
WebhookEvents = Annotated[
    list[Annotated[WebhookEvent, Field(strict=False)]], Field(min_length=1, max_length=5)
]
WebhookDefinitions = Annotated[list[DefinitionKey], Field(min_length=1, max_length=100)]
WebhookDescription = Annotated[NulFreeText, Field(max_length=500)]


class NewWebhook(Body):
    """A webhook to create."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"url": "https://example.com/jobs", "events": ["success", "dead"]}]
        }
    )

    url: Url
    events: WebhookEvents = Field(
        default_factory=lambda: [WebhookEvent.SUCCESS, WebhookEvent.DEAD], description=_EVENTS
    )
    definitions: WebhookDefinitions | None = Field(None, description=_DEFINITIONS)
    description: WebhookDescription | None = None
    enabled: bool = True


class WebhookChanges(Body):
    """Omitted fields are unchanged. Enabling clears the reason why the webhook was disabled."""

    url: Url | None = None
    events: WebhookEvents | None = Field(None, description=_EVENTS)
    definitions: WebhookDefinitions | None = Field(None, description=_DEFINITIONS)
    description: WebhookDescription | None = None
    enabled: bool | None = None
    secret: Annotated[NulFreeText, Field(max_length=200)] | None = Field(
        None,
        description="Replaces the signing secret. Required if `url` has another origin.",
        examples=["whsec_…"],
    )


class CreatedWebhookView(BaseModel):
    """`secret` is returned only once."""

    id: UUID
    secret: str = Field(examples=["whsec_…"])


class SecretRotation(Body):
    overlap_s: Annotated[float, Field(ge=0, le=2_592_000, allow_inf_nan=False)] = Field(
        DEFAULT_OVERLAP_S, description="Seconds during which the old secret also signs."
    )


class RotatedSecret(BaseModel):
    """`secret` is returned only once."""

    secret: str = Field(examples=["whsec_…"])


class SentTest(BaseModel):
    """The delivery of the test message; list the deliveries to see its outcome."""

    delivery_id: UUID


class Redelivery(BaseModel):
    """The job that sends the message."""

    job_id: UUID

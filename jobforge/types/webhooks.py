"""Webhooks as data: endpoints, and what was sent to them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

TEST_EVENT = "webhook.test"  # the event of a test message


class WebhookEvent(StrEnum):
    """What an endpoint may want to hear of."""

    START = "start"  # an attempt begins
    SUCCESS = "success"
    FAILURE = "failure"  # an attempt failed, the last one too
    DEAD = "dead"
    END = "end"  # succeeded, canceled or dead


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"  # it is not sent any more


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint. Without definitions it hears of all of them."""

    id: UUID
    url: str
    description: str | None
    events: list[WebhookEvent]
    definitions: list[str] | None
    enabled: bool
    disabled_at: datetime | None
    disabled_reason: str | None
    failing_since: datetime | None
    previous_secret_until: datetime | None
    created_by: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message to an endpoint. Status, error and response are those of the last attempt."""

    id: UUID
    event: str
    state: DeliveryState
    subject_id: UUID | None  # the job that it tells of; a test tells of none
    job_id: UUID | None  # the job that sends it
    attempts: int
    status: int | None
    error: str | None
    response: str | None
    created_at: datetime
    attempted_at: datetime | None
    delivered_at: datetime | None
    next_attempt_at: datetime | None


@dataclass(frozen=True, slots=True)
class OpenDelivery:
    """What a worker needs to send a message; `secrets` are sealed."""

    url: str
    event: str
    message: str
    secrets: list[bytes]
    disabled_reason: str | None
    delivered_at: datetime | None

"""Webhooks as data: endpoints and deliveries."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

TEST_EVENT = "webhook.test"  # the event of a test message


class WebhookEvent(StrEnum):
    """Events to which an endpoint can subscribe."""

    START = "start"  # an attempt begins
    SUCCESS = "success"
    FAILURE = "failure"  # an attempt failed, including the last one
    DEAD = "dead"
    END = "end"  # succeeded, canceled or dead


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"  # not retried anymore


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint. `definitions` of None subscribes to all definitions."""

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
    subject_id: UUID | None  # the reported job; None for a test message
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
    """What a worker needs to send a message; `secrets` are encrypted."""

    url: str
    event: str
    message: str
    secrets: list[bytes]
    disabled_reason: str | None
    delivered_at: datetime | None

"""Calls on a tenant's webhook endpoints and their deliveries."""

from collections.abc import Mapping
from uuid import UUID

from jobforge.calls.call import Call, JsonArgument
from jobforge.calls.results import NOTHING, many, one, optional, value
from jobforge.errors import Json
from jobforge.types.webhooks import Delivery, DeliveryState, OpenDelivery, Webhook


def create_webhook(
    webhook_id: UUID,
    settings: Mapping[str, Json],
    *,
    secret: bytes,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Create an endpoint with a secret sealed for `webhook_id`. Returns the ID.

    Settings: url, events, definitions, description, enabled.
    """
    return Call(
        "create_webhook",
        {
            "id": webhook_id,
            "settings": JsonArgument.from_value(dict(settings), "settings"),
            "secret": secret,
            "tenant_id": tenant_id,
        },
        value(UUID, "id"),
    )


def edit_webhook(
    webhook_id: UUID,
    changes: Mapping[str, Json],
    *,
    secret: bytes | None = None,
    tenant_id: UUID | None = None,
) -> Call[None]:
    """Change settings; omitted settings are unchanged. A URL with another origin requires the
    sealed secret; over HTTP the secret is a string among the changes.
    """
    return Call(
        "edit_webhook",
        {
            "id": webhook_id,
            "changes": JsonArgument.from_value(dict(changes), "changes"),
            "secret": secret,
            "tenant_id": tenant_id,
        },
        NOTHING,
    )


def delete_webhook(webhook_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    """Delete a webhook endpoint and its pending deliveries."""
    return Call("delete_webhook", {"id": webhook_id, "tenant_id": tenant_id}, NOTHING)


def get_webhook(webhook_id: UUID, *, tenant_id: UUID | None = None) -> Call[Webhook]:
    """Return a webhook endpoint. Raises NotFound."""
    return Call("get_webhook", {"id": webhook_id, "tenant_id": tenant_id}, one(Webhook))


def list_webhooks(
    *, limit: int = 50, before: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[Webhook]]:
    """List endpoints, newest first; `before` is the last ID of the previous page."""
    return Call(
        "list_webhooks", {"limit": limit, "before": before, "tenant_id": tenant_id}, many(Webhook)
    )


def rotate_webhook(
    webhook_id: UUID, *, secret: bytes, overlap_s: float = 86_400, tenant_id: UUID | None = None
) -> Call[None]:
    """Set a new sealed secret; messages carry both signatures until the overlap ends."""
    return Call(
        "rotate_webhook",
        {"id": webhook_id, "secret": secret, "overlap_s": overlap_s, "tenant_id": tenant_id},
        NOTHING,
    )


def test_webhook(
    webhook_id: UUID,
    *,
    tenant_id: UUID | None = None,  # noqa: PT028 - not a test
) -> Call[UUID]:
    """Send a test message. Returns the ID of its delivery."""
    return Call(
        "test_webhook", {"id": webhook_id, "tenant_id": tenant_id}, value(UUID, "delivery_id")
    )


def list_deliveries(
    webhook_id: UUID,
    state: DeliveryState | None = None,
    *,
    limit: int = 50,
    before: UUID | None = None,
    tenant_id: UUID | None = None,
) -> Call[list[Delivery]]:
    """List deliveries, newest first; `before` is the last ID of the previous page."""
    return Call(
        "list_deliveries",
        {
            "id": webhook_id,
            "state": state,
            "limit": limit,
            "before": before,
            "tenant_id": tenant_id,
        },
        many(Delivery),
    )


def redeliver(webhook_id: UUID, delivery_id: UUID, *, tenant_id: UUID | None = None) -> Call[UUID]:
    """Send a delivery again. Returns the ID of the job that sends it."""
    return Call(
        "redeliver",
        {"id": webhook_id, "delivery_id": delivery_id, "tenant_id": tenant_id},
        value(UUID, "job_id"),
    )


def open_delivery(
    webhook_id: UUID, delivery_id: UUID, *, tenant_id: UUID | None = None
) -> Call[OpenDelivery | None]:
    """Return what a worker sends; None if the endpoint or the message no longer exists."""
    return Call(
        "open_delivery",
        {"id": webhook_id, "delivery_id": delivery_id, "tenant_id": tenant_id},
        optional(OpenDelivery),
    )


def record_delivery(
    webhook_id: UUID,
    delivery_id: UUID,
    attempt: Mapping[str, Json],
    *,
    tenant_id: UUID | None = None,
) -> Call[bool]:
    """Record an attempt, for workers. Returns whether the endpoint is still enabled."""
    return Call(
        "record_delivery",
        {
            "id": webhook_id,
            "delivery_id": delivery_id,
            "attempt": JsonArgument.from_value(dict(attempt), "attempt"),
            "tenant_id": tenant_id,
        },
        value(bool),
    )

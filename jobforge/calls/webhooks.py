"""Calls on a tenant's webhook endpoints and their deliveries."""

from collections.abc import Mapping
from uuid import UUID

from jobforge.calls.call import Call, build_call
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
    return build_call(
        "create_webhook",
        value(UUID, "id"),
        id=webhook_id,
        settings=settings,
        secret=secret,
        tenant_id=tenant_id,
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
    return build_call(
        "edit_webhook", NOTHING, id=webhook_id, changes=changes, secret=secret, tenant_id=tenant_id
    )


def delete_webhook(webhook_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    """Delete a webhook endpoint and its pending deliveries."""
    return build_call("delete_webhook", NOTHING, id=webhook_id, tenant_id=tenant_id)


def get_webhook(webhook_id: UUID, *, tenant_id: UUID | None = None) -> Call[Webhook]:
    """Return a webhook endpoint. Raises NotFound."""
    return build_call("get_webhook", one(Webhook), id=webhook_id, tenant_id=tenant_id)


def list_webhooks(
    *, limit: int = 50, before: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[Webhook]]:
    """List endpoints, newest first; `before` is the last ID of the previous page."""
    return build_call(
        "list_webhooks", many(Webhook), limit=limit, before=before, tenant_id=tenant_id
    )


def rotate_webhook(
    webhook_id: UUID, *, secret: bytes, overlap_s: float = 86_400, tenant_id: UUID | None = None
) -> Call[None]:
    """Set a new sealed secret; messages carry both signatures until the overlap ends."""
    return build_call(
        "rotate_webhook",
        NOTHING,
        id=webhook_id,
        secret=secret,
        overlap_s=overlap_s,
        tenant_id=tenant_id,
    )


def test_webhook(
    webhook_id: UUID,
    *,
    tenant_id: UUID | None = None,  # noqa: PT028 - not a test
) -> Call[UUID]:
    """Send a test message. Returns the ID of its delivery."""
    return build_call(
        "test_webhook", value(UUID, "delivery_id"), id=webhook_id, tenant_id=tenant_id
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
    return build_call(
        "list_deliveries",
        many(Delivery),
        id=webhook_id,
        state=state,
        limit=limit,
        before=before,
        tenant_id=tenant_id,
    )


def redeliver(webhook_id: UUID, delivery_id: UUID, *, tenant_id: UUID | None = None) -> Call[UUID]:
    """Send a delivery again. Returns the ID of the job that sends it."""
    return build_call(
        "redeliver",
        value(UUID, "job_id"),
        id=webhook_id,
        delivery_id=delivery_id,
        tenant_id=tenant_id,
    )


def open_delivery(
    webhook_id: UUID, delivery_id: UUID, *, tenant_id: UUID | None = None
) -> Call[OpenDelivery | None]:
    """Return what a worker sends; None if the endpoint or the message no longer exists."""
    return build_call(
        "open_delivery",
        optional(OpenDelivery),
        id=webhook_id,
        delivery_id=delivery_id,
        tenant_id=tenant_id,
    )


def record_delivery(
    webhook_id: UUID,
    delivery_id: UUID,
    attempt: Mapping[str, Json],
    *,
    tenant_id: UUID | None = None,
) -> Call[bool]:
    """Record an attempt, for workers. Returns whether the endpoint is still enabled."""
    return build_call(
        "record_delivery",
        value(bool),
        id=webhook_id,
        delivery_id=delivery_id,
        attempt=attempt,
        tenant_id=tenant_id,
    )

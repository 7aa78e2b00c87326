"""Calls on a tenant's webhook endpoints and their deliveries."""

from collections.abc import Mapping
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.errors import Json
from jobforge.types.jsonb import encode
from jobforge.types.webhooks import Delivery, DeliveryState, OpenDelivery, Webhook, WebhookEvent


def create_webhook(
    webhook_id: UUID,
    settings: Mapping[str, Json],
    *,
    secret: bytes,
    tenant_id: UUID | None = None,
) -> Call[UUID]:
    """Create an endpoint with a secret sealed for `webhook_id`; return the ID.

    Settings: url, events, definitions, description, enabled.
    """
    return Call(
        "select jobforge.create_webhook(%s, %s::jsonb, %s, %s)",
        (webhook_id, encode(dict(settings), "settings"), secret, tenant_id),
        rows.value,
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
        "select jobforge.edit_webhook(%s, %s::jsonb, %s, %s)",
        (webhook_id, encode(dict(changes), "changes"), secret, tenant_id),
        rows.nothing,
    )


def delete_webhook(webhook_id: UUID, *, tenant_id: UUID | None = None) -> Call[None]:
    """Delete a webhook endpoint and its pending deliveries."""
    return Call("select jobforge.delete_webhook(%s, %s)", (webhook_id, tenant_id), rows.nothing)


def get_webhook(webhook_id: UUID, *, tenant_id: UUID | None = None) -> Call[Webhook]:
    """Return a webhook endpoint. Raises NotFound."""
    return Call(
        """
        select id, url, description, events, definitions, enabled, disabled_at, disabled_reason,
               failing_since, previous_secret_until, created_by, created_at, updated_at
          from jobforge.get_webhook(%s, %s)
        """,
        (webhook_id, tenant_id),
        _webhook,
    )


def list_webhooks(
    *, limit: int = 50, before: UUID | None = None, tenant_id: UUID | None = None
) -> Call[list[Webhook]]:
    """List endpoints, newest first; `before` is the last ID of the previous page."""
    return Call(
        """
        select id, url, description, events, definitions, enabled, disabled_at, disabled_reason,
               failing_since, previous_secret_until, created_by, created_at, updated_at
          from jobforge.list_webhooks(%s::integer, %s, %s)
        """,
        (limit, before, tenant_id),
        _webhooks,
    )


def rotate_webhook(
    webhook_id: UUID, *, secret: bytes, overlap_s: float = 86_400, tenant_id: UUID | None = None
) -> Call[None]:
    """Set a new sealed secret; messages carry both signatures until the overlap ends."""
    return Call(
        "select jobforge.rotate_webhook(%s, %s, %s::float8, %s)",
        (webhook_id, secret, overlap_s, tenant_id),
        rows.nothing,
    )


def test_webhook(
    webhook_id: UUID,
    *,
    tenant_id: UUID | None = None,  # noqa: PT028 - not a test
) -> Call[UUID]:
    """Send a test message; return the ID of its delivery."""
    return Call("select jobforge.test_webhook(%s, %s)", (webhook_id, tenant_id), rows.value)


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
        """
        select id, event, state, subject_id, job_id, attempts, status, error, response,
               created_at, attempted_at, delivered_at, next_attempt_at
          from jobforge.list_deliveries(%s, %s, %s::integer, %s, %s)
        """,
        (webhook_id, state, limit, before, tenant_id),
        _deliveries,
    )


def redeliver(webhook_id: UUID, delivery_id: UUID, *, tenant_id: UUID | None = None) -> Call[UUID]:
    """Send a delivery again; return the ID of the job that sends it."""
    return Call(
        "select jobforge.redeliver(%s, %s, %s)", (webhook_id, delivery_id, tenant_id), rows.value
    )


def open_delivery(
    webhook_id: UUID, delivery_id: UUID, *, tenant_id: UUID | None = None
) -> Call[OpenDelivery | None]:
    """Return what a worker sends; None if the endpoint or the message no longer exists."""
    return Call(
        """
        select url, event, message, secrets, disabled_reason, delivered_at
          from jobforge.open_delivery(%s, %s, %s)
        """,
        (webhook_id, delivery_id, tenant_id),
        _open_delivery,
    )


def record_delivery(
    webhook_id: UUID,
    delivery_id: UUID,
    attempt: Mapping[str, Json],
    *,
    tenant_id: UUID | None = None,
) -> Call[bool]:
    """Record an attempt, for workers; return whether the endpoint is still enabled."""
    return Call(
        "select jobforge.record_delivery(%s, %s, %s::jsonb, %s)",
        (webhook_id, delivery_id, encode(dict(attempt), "attempt"), tenant_id),
        rows.value,
    )


def _webhooks(rows: Rows) -> list[Webhook]:
    return [
        Webhook(webhook_id, url, description, list(map(WebhookEvent, events)), *others)
        for webhook_id, url, description, events, *others in rows
    ]


def _webhook(rows: Rows) -> Webhook:
    return _webhooks(rows)[0]


def _deliveries(rows: Rows) -> list[Delivery]:
    return [
        Delivery(delivery_id, event, DeliveryState(state), *others)
        for delivery_id, event, state, *others in rows
    ]


def _open_delivery(rows: Rows) -> OpenDelivery | None:
    return OpenDelivery(*rows[0]) if rows else None

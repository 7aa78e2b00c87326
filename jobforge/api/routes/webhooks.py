"""Webhooks: where a tenant hears of its jobs, and what was sent there."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from jobforge import calls
from jobforge.api.caller import Caller
from jobforge.api.guard import area
from jobforge.api.masking import masked_webhook
from jobforge.api.pagination import DEFAULT_LIMIT, Cursor, Limit, Page, page, read_id
from jobforge.api.responses import Answer
from jobforge.api.schemas.webhooks import (
    DEFAULT_OVERLAP_S,
    MadeWebhook,
    NewWebhook,
    Redelivery,
    RotatedSecret,
    SecretRotation,
    SentTest,
    WebhookChanges,
)
from jobforge.security.webhook_secrets import NewSecret, make_id, new_secret, sealed_again
from jobforge.types.webhooks import Delivery, DeliveryState, Webhook

router = area("webhooks")


@router.get("/webhooks", response_model=Page[Webhook], summary="List webhooks")
async def list_webhooks(
    caller: Caller, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> Answer:
    """Newest first. Secrets are not shown again. A viewer sees the URL without its path."""
    found = await caller.run(calls.list_webhooks(limit=limit, before=read_id(cursor)))
    shown = found if caller.sees_addresses else [masked_webhook(each) for each in found]
    return Answer(page(shown, limit, lambda webhook: webhook.id))


@router.post("/webhooks", status_code=201, response_model=MadeWebhook, summary="Make a webhook")
async def create_webhook(body: NewWebhook, caller: Caller) -> Answer:
    """The answer has the secret that signs its messages, this once. The URL must lead to a public
    address."""
    caller.server.check_url(body.url)
    webhook_id = make_id()
    secret = await _secret(caller, webhook_id)
    await caller.run(calls.create_webhook(webhook_id, body.given(), secret=secret.sealed))
    return Answer({"id": webhook_id, "secret": secret.text}, 201)


@router.get("/webhooks/{endpoint_id}", response_model=Webhook, summary="Look at a webhook")
async def get_webhook(endpoint_id: UUID, caller: Caller) -> Answer:
    webhook = await caller.run(calls.get_webhook(endpoint_id))
    return Answer(webhook if caller.sees_addresses else masked_webhook(webhook))


@router.patch("/webhooks/{endpoint_id}", status_code=204, summary="Change a webhook")
async def edit_webhook(endpoint_id: UUID, body: WebhookChanges, caller: Caller) -> Answer:
    """Omitted fields are unchanged. `enabled: true` forgets why it was disabled, and its failures.
    A `url` of another origin needs `secret`; without it the answer is 422 `secrets_required`."""
    if body.url is not None:
        caller.server.check_url(body.url)
    changes = body.given()
    text = changes.pop("secret", None)
    secret = None
    if text is not None:
        key = await caller.run(caller.server.vault.key_of(caller.tenant_id))
        secret = sealed_again(key, endpoint_id, text)
    await caller.run(calls.edit_webhook(endpoint_id, changes, secret=secret))
    return Answer(status=204)


@router.delete("/webhooks/{endpoint_id}", status_code=204, summary="Delete a webhook")
async def delete_webhook(endpoint_id: UUID, caller: Caller) -> Answer:
    """Messages that wait for it are not sent any more."""
    await caller.run(calls.delete_webhook(endpoint_id))
    return Answer(status=204)


@router.post(
    "/webhooks/{endpoint_id}/rotate", response_model=RotatedSecret, summary="Rotate a secret"
)
async def rotate_webhook(
    endpoint_id: UUID, caller: Caller, body: SecretRotation | None = None
) -> Answer:
    """The answer has the new secret, this once. Until the overlap ends both sign."""
    overlap_s = body.overlap_s if body else DEFAULT_OVERLAP_S
    secret = await _secret(caller, endpoint_id)
    await caller.run(calls.rotate_webhook(endpoint_id, secret=secret.sealed, overlap_s=overlap_s))
    return Answer({"secret": secret.text})


@router.post(
    "/webhooks/{endpoint_id}/test",
    status_code=202,
    response_model=SentTest,
    summary="Send a test message",
)
async def send_test(endpoint_id: UUID, caller: Caller) -> Answer:
    """One message of the type `webhook.test`, once; also to a webhook that is disabled."""
    return Answer({"delivery_id": await caller.run(calls.test_webhook(endpoint_id))}, 202)


@router.get(
    "/webhooks/{endpoint_id}/deliveries",
    response_model=Page[Delivery],
    summary="List what was sent to a webhook",
)
async def list_deliveries(
    endpoint_id: UUID,
    caller: Caller,
    state: Annotated[DeliveryState | None, Query()] = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Answer:
    """Newest first, as long as the history is kept. `response` is the start of what the receiver
    answered to the last attempt."""
    found = await caller.run(
        calls.list_deliveries(endpoint_id, state, limit=limit, before=read_id(cursor))
    )
    return Answer(page(found, limit, lambda delivery: delivery.id))


@router.post(
    "/webhooks/{endpoint_id}/deliveries/{delivery_id}/redeliver",
    status_code=202,
    response_model=Redelivery,
    summary="Send a message again",
)
async def redeliver(endpoint_id: UUID, delivery_id: UUID, caller: Caller) -> Answer:
    """Under the same id. One that waits for its next attempt is sent now."""
    return Answer({"job_id": await caller.run(calls.redeliver(endpoint_id, delivery_id))}, 202)


async def _secret(caller: Caller, webhook_id: UUID) -> NewSecret:
    key = await caller.run(caller.server.vault.key_of(caller.tenant_id))
    return new_secret(key, webhook_id)

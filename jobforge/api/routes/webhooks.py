"""Routes of webhooks and their deliveries."""

from typing import Annotated
from uuid import UUID

from fastapi import Query

from jobforge import calls
from jobforge.api.caller import Caller, CallerContext
from jobforge.api.guard import create_router
from jobforge.api.masking import mask_webhook
from jobforge.api.pagination import Page, Paging
from jobforge.api.responses import JsonResponse
from jobforge.api.schemas.webhooks import (
    DEFAULT_OVERLAP_S,
    CreatedWebhookView,
    NewWebhook,
    Redelivery,
    RotatedSecret,
    SecretRotation,
    SentTest,
    WebhookChanges,
)
from jobforge.security import webhook_secrets
from jobforge.security.vault import TenantKey
from jobforge.types.webhooks import Delivery, DeliveryState, Webhook

router = create_router("webhooks")


@router.get("/webhooks", response_model=Page[Webhook], summary="List webhooks")
async def list_webhooks(caller: Caller, page: Paging) -> JsonResponse:
    """Returns the endpoints, newest first, without their secrets. Viewers see URLs without their
    path.
    """
    found = await caller.run(calls.list_webhooks(limit=page.limit, before=page.decode_id()))
    visible = found if caller.can_see_addresses else [mask_webhook(each) for each in found]
    return page.respond(visible)


@router.post(
    "/webhooks", status_code=201, response_model=CreatedWebhookView, summary="Create a webhook"
)
async def create_webhook(body: NewWebhook, caller: Caller) -> JsonResponse:
    """Returns the secret that signs its messages; it cannot be retrieved again. The URL must
    resolve to a public address.
    """
    caller.server.check_url(body.url)
    key = await _open_tenant_key(caller)
    created = await caller.run(webhook_secrets.create_webhook(body.given_fields(), key))
    return JsonResponse({"id": created.id, "secret": created.secret}, 201)


@router.get("/webhooks/{endpoint_id}", response_model=Webhook, summary="Get a webhook")
async def get_webhook(endpoint_id: UUID, caller: Caller) -> JsonResponse:
    """The signing secret is never returned. Viewers do not get the path of the URL."""
    webhook = await caller.run(calls.get_webhook(endpoint_id))
    return JsonResponse(webhook if caller.can_see_addresses else mask_webhook(webhook))


@router.patch("/webhooks/{endpoint_id}", status_code=204, summary="Update a webhook")
async def edit_webhook(endpoint_id: UUID, body: WebhookChanges, caller: Caller) -> JsonResponse:
    """Omitted fields are unchanged. `enabled: true` clears the reason why the webhook was disabled
    and its failure count. A `url` with another origin requires `secret`; without it, the response
    is 422 `secrets_required`.
    """
    if body.url is not None:
        caller.server.check_url(body.url)
    changes = body.given_fields()
    key = await _open_tenant_key(caller) if changes.get("secret") is not None else None
    await caller.run(webhook_secrets.edit_webhook(endpoint_id, changes, key))
    return JsonResponse(status=204)


@router.delete("/webhooks/{endpoint_id}", status_code=204, summary="Delete a webhook")
async def delete_webhook(endpoint_id: UUID, caller: Caller) -> JsonResponse:
    """Deletes the endpoint. Its pending messages are not sent."""
    await caller.run(calls.delete_webhook(endpoint_id))
    return JsonResponse(status=204)


@router.post(
    "/webhooks/{endpoint_id}/rotate",
    response_model=RotatedSecret,
    summary="Rotate a webhook's secret",
)
async def rotate_webhook(
    endpoint_id: UUID, caller: Caller, body: SecretRotation | None = None
) -> JsonResponse:
    """Returns the new secret; it cannot be retrieved again. Until the overlap ends, messages
    are signed with both secrets.
    """
    overlap_s = body.overlap_s if body else DEFAULT_OVERLAP_S
    key = await _open_tenant_key(caller)
    call = webhook_secrets.rotate_webhook(endpoint_id, key, overlap_s=overlap_s)
    return JsonResponse({"secret": await caller.run(call)})


@router.post(
    "/webhooks/{endpoint_id}/test",
    status_code=202,
    response_model=SentTest,
    summary="Send a test message",
)
async def send_test(endpoint_id: UUID, caller: Caller) -> JsonResponse:
    """Sends one message of the type `webhook.test`, without retries, even if the webhook is
    disabled.
    """
    return JsonResponse({"delivery_id": await caller.run(calls.test_webhook(endpoint_id))}, 202)


@router.get(
    "/webhooks/{endpoint_id}/deliveries",
    response_model=Page[Delivery],
    summary="List a webhook's deliveries",
)
async def list_deliveries(
    endpoint_id: UUID,
    caller: Caller,
    page: Paging,
    state: Annotated[DeliveryState | None, Query()] = None,
) -> JsonResponse:
    """Returns the messages, newest first, for as long as the history is retained. `response` is the
    start of the receiver's response to the last attempt.
    """
    found = await caller.run(
        calls.list_deliveries(endpoint_id, state, limit=page.limit, before=page.decode_id())
    )
    return page.respond(found)


@router.post(
    "/webhooks/{endpoint_id}/deliveries/{delivery_id}/redeliver",
    status_code=202,
    response_model=Redelivery,
    summary="Redeliver a message",
)
async def redeliver(endpoint_id: UUID, delivery_id: UUID, caller: Caller) -> JsonResponse:
    """Sends the message with the same id. If it is waiting for its next attempt, it is sent now."""
    return JsonResponse(
        {"job_id": await caller.run(calls.redeliver(endpoint_id, delivery_id))}, 202
    )


async def _open_tenant_key(caller: CallerContext) -> TenantKey:
    return await caller.run(caller.server.vault.build_tenant_key_call(caller.tenant_id))

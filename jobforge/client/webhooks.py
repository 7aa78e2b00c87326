"""Webhooks over HTTP: the server makes their secrets, and tells each of them once.

On a database whoever makes a webhook makes its secret. So these are no calls, but requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from jobforge.client.params import written
from jobforge.client.request import TENANT_HEADER, Request
from jobforge.errors import Json


@dataclass(frozen=True, slots=True)
class MadeWebhook:
    """`secret` is shown this once."""

    id: UUID
    secret: str = field(repr=False)


def create_webhook(
    settings: Mapping[str, Json], *, tenant_id: UUID | None = None
) -> Request[MadeWebhook]:
    return Request(
        "POST",
        "/webhooks",
        lambda answer: MadeWebhook(UUID(answer["id"]), answer["secret"]),
        body=written(settings),
        headers=_for_tenant(tenant_id),
    )


def rotate_webhook(
    webhook_id: UUID, *, overlap_s: float, tenant_id: UUID | None = None
) -> Request[str]:
    """Answers the new secret; the old one signs beside it until the overlap ends."""
    return Request(
        "POST",
        f"/webhooks/{webhook_id}/rotate",
        _secret,
        body=written({"overlap_s": overlap_s}),
        headers=_for_tenant(tenant_id),
    )


def _for_tenant(tenant_id: UUID | None) -> dict[str, str]:
    return {} if tenant_id is None else {TENANT_HEADER: str(tenant_id)}


def _secret(answer: Json) -> str:
    return str(answer["secret"])

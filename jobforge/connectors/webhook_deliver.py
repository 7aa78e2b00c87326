"""`connector.webhook.deliver`: sends one signed message to a webhook endpoint.

The connector first records the attempt's outcome in the delivery, which the endpoint's owner can
see; then the job finishes, or is retried for about 17 hours. Redirects are not followed but count
as failures.
"""

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from jobforge import calls
from jobforge.connectors.connector import Connector, ConnectorJob
from jobforge.errors import EgressError, Invalid, Json
from jobforge.observability import logs
from jobforge.redact import mask_text
from jobforge.redact.background import run_off_loop
from jobforge.sdk.outcome_exceptions import Cancel, Dead, Retry
from jobforge.security.webhook_signature import sign_headers
from jobforge.types.webhooks import TEST_EVENT, OpenDelivery

if TYPE_CHECKING:
    from jobforge.connectors.egress import EgressClient, EgressRequest

# Seconds before each retry; the last one comes after 17 h 35 min.
RETRY_DELAYS_S = (5, 300, 1_800, 7_200, 18_000, 36_000)
DEADLINE_S = 30.0

_KEPT_BYTES = 4096
_READ_BYTES = 65_536
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class WebhookDelivery(BaseModel):
    """The payload."""

    model_config = ConfigDict(extra="forbid")

    endpoint_id: UUID
    delivery_id: UUID


@dataclass(frozen=True, slots=True)
class _SendResult:
    """Result of sending; without an error the message was delivered."""

    status: int | None = None
    response: str | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Json]:
        given = {"status": self.status, "response": self.response, "error": self.error}
        return {name: value for name, value in given.items() if value is not None}


async def _run(job: ConnectorJob[WebhookDelivery]) -> Json:
    endpoint_id, delivery_id = job.payload.endpoint_id, job.payload.delivery_id
    delivery = await job.call(calls.open_delivery(endpoint_id, delivery_id))
    if delivery is None:
        raise Cancel("The webhook or the message was deleted")
    is_test = delivery.event == TEST_EVENT
    if delivery.disabled_reason is not None and not is_test:
        raise Cancel(f"The webhook is disabled: {delivery.disabled_reason}")
    if delivery.delivered_at is not None:  # an earlier attempt delivered it but could not report it
        return {"delivered_at": delivery.delivered_at.isoformat()}
    sent = await _send(job.egress, await _request(job, delivery))
    is_enabled = await job.call(calls.record_delivery(endpoint_id, delivery_id, sent.to_json()))
    if sent.error is None:
        return {"status": sent.status}
    if is_test:
        raise Cancel(sent.error)
    if not is_enabled:
        logs.emit("webhook.disabled", "warning", endpoint=endpoint_id, reason=sent.error)
        raise Dead(sent.error)
    raise Retry(sent.error, after=_wait_s(job.claimed.attempt))


async def _request(job: ConnectorJob[WebhookDelivery], delivery: OpenDelivery) -> "EgressRequest":
    from jobforge.connectors.egress import EgressRequest  # noqa: PLC0415 - imports the HTTP client only when needed
    from jobforge.security.webhook_secrets import open_secret  # noqa: PLC0415 - imports cryptography only when needed

    key = await job.call(job.vault.build_tenant_key_call(job.tenant_id))
    secrets = [open_secret(key, job.payload.endpoint_id, sealed) for sealed in delivery.secrets]
    body = delivery.message.encode()
    headers = {"content-type": "application/json"}
    headers |= sign_headers(job.payload.delivery_id, body, secrets)
    return EgressRequest(
        "POST",
        delivery.url,
        tuple(headers.items()),
        body,
        deadline_s=DEADLINE_S,
        limit_bytes=_READ_BYTES,
        needs_body=False,
        traceparent=job.traceparent,
    )


async def _send(egress: "EgressClient", request: "EgressRequest") -> _SendResult:
    try:
        http_response = await egress.send(request)
    except (EgressError, Invalid) as error:
        return _SendResult(error=f"{error.code}: {error.message}")
    response = await run_off_loop(len(http_response.body), _clean_response, http_response.body)
    if 200 <= http_response.status <= 299:
        return _SendResult(http_response.status, response)
    return _SendResult(
        http_response.status, response, f"The receiver returned {http_response.status}"
    )


def _wait_s(attempt: int) -> float:
    """Return the delay with jitter, so that an outage is not followed by a burst of requests."""
    wait_s = RETRY_DELAYS_S[min(attempt, len(RETRY_DELAYS_S)) - 1]
    return wait_s * random.uniform(1, 1.1)  # noqa: S311 - jitter needs no secure random numbers


def _clean_response(body: bytes) -> str:
    """Return the start of a response, safe to display. Redacted before it is cut."""
    text = mask_text(body[:_READ_BYTES].decode(errors="replace"))
    shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    return shown.encode()[:_KEPT_BYTES].decode(errors="ignore")


WEBHOOK_DELIVER = Connector(
    key="connector.webhook.deliver",
    payload=WebhookDelivery,
    run=_run,
    description="Sends a signed message to a webhook endpoint.",
    retry=Retry(
        max_attempts=len(RETRY_DELAYS_S) + 1, base=RETRY_DELAYS_S[0], cap=RETRY_DELAYS_S[-1]
    ),
)

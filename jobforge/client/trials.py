"""Trials of triggers over HTTP. Of a database three things are read for one, so it is no call."""

from uuid import UUID

from jobforge.client.params import written
from jobforge.client.request import TENANT_HEADER, Request
from jobforge.errors import Json
from jobforge.types.events import DeliveryOutcome, Reaction


def try_trigger(
    trigger_id: UUID, event_id: UUID, *, tenant_id: UUID | None = None
) -> Request[Reaction]:
    """What the trigger would make of a past event; changes nothing."""

    def read(answer: Json) -> Reaction:
        outcome = DeliveryOutcome(answer["outcome"])
        return Reaction(trigger_id, outcome, answer["reason"], answer["job"])

    return Request(
        "POST",
        f"/triggers/{trigger_id}/test",
        read,
        body=written({"event_id": event_id}),
        headers={} if tenant_id is None else {TENANT_HEADER: str(tenant_id)},
        is_repeatable=True,
    )

"""Emit an event: `jf.emit(…)`, outside of a job's context."""

from typing import Any, TypedDict
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.errors import Json
from jobforge.observability import tracing
from jobforge.sdk.call_context import refuse_to_emit
from jobforge.sdk.definition_settings import refuse_unknown
from jobforge.sdk.engine_client import EngineClient
from jobforge.sdk.enqueue_options import TenantRef
from jobforge.sdk.pools import Sender
from jobforge.types.current_job import CURRENT_JOB


class EmitOptions(TypedDict, total=False):
    """The options of `jf.emit(…)`; docs/events.md describes each."""

    tenant: TenantRef | None
    conn: Any  # a connection of any of the libraries in integrations/
    key: str | None
    correlation_id: str | None


async def emit_event(
    client: EngineClient,
    sender: Sender,
    name: str,
    data: dict[str, Json] | None,
    options: EmitOptions,
) -> UUID:
    """Emit the event and return its ID. With a blocking sender, this never suspends."""
    refuse_unknown(options, EmitOptions, "emit")
    conn = options.get("conn")
    refuse_to_emit(conn)
    job = CURRENT_JOB.get()  # the event inherits the job's correlation and trace

    def build(tenant_id: UUID) -> Call[UUID]:
        return calls.emit_event(
            name,
            data,
            key=options.get("key"),
            correlation_id=options.get("correlation_id") or (job and job.correlation_id),
            traceparent=tracing.current_traceparent() or (job and job.traceparent),
            tenant_id=tenant_id,
        )

    _, event_id = await client.run_for_tenant(sender, build, options.get("tenant"), conn)
    return event_id

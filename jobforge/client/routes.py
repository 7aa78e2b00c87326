"""Maps SQL functions to the server's routes. The only such table.

Calls without an entry need a database: whole transactions, statements with many jobs, maintenance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID, uuid4

from jobforge.calls import Call
from jobforge.calls.rows import Rows
from jobforge.client.params import TENANT, ParameterSpec, encode_body, name_parameters, query
from jobforge.client.request import IDEMPOTENCY_KEY_HEADER, TENANT_HEADER, ApiRequest
from jobforge.client.rows import (
    RowReader,
    created_batch,
    created_job,
    created_jobs,
    created_workflow,
    document,
    documents,
    history,
    no_rows,
    record,
    records,
    single_value,
    workflow,
)
from jobforge.errors import Conflict, Json, TenantRequired
from jobforge.types.api_keys import ApiKey
from jobforge.types.audit import AuditEntry
from jobforge.types.connectors import ConnectorConfig
from jobforge.types.definitions import DefinitionInfo, DefinitionListing, QueueInfo, SlotHolder
from jobforge.types.events import Event, EventDelivery, EventListing
from jobforge.types.failures import FailureGroup
from jobforge.types.job_history import Explanation, JobEvent, StoredStep
from jobforge.types.jobs import JobListing, SummaryLine
from jobforge.types.jsonb import decode
from jobforge.types.operations import Operation
from jobforge.types.statistics import Statistic, Usage
from jobforge.types.tenants import TenantInfo
from jobforge.types.triggers import Firing, Trigger
from jobforge.types.webhooks import Delivery, Webhook
from jobforge.types.workers import WorkerInfo

T = TypeVar("T")

_ALWAYS_WITH_BODY = {"PATCH", "PUT"}
_ALL_NOTE_KINDS = ("progress", "log", "event")


@dataclass(frozen=True, slots=True)
class Route:
    """One route; `has_idempotency_key` sends a new key, `is_repeatable` marks safe retries."""

    endpoint: str
    arguments: ParameterSpec
    read_rows: RowReader
    has_idempotency_key: bool = False
    is_repeatable: bool = False


Routes = Mapping[str, Route]


def request_from_call(call: Call[T], routes: Routes) -> ApiRequest[T]:
    """Return the request for a call. Raises Conflict for a call that needs a database."""
    route = routes.get(call.function or "")
    if route is None:
        raise Conflict(f"{call.function} is not offered over HTTP: it needs a database")
    members = name_parameters(route.arguments, call.parameters)
    tenant = members.pop(TENANT, None) or call.tenant
    if call.held_lease is not None:
        members |= {"worker_id": call.held_lease.worker_id, "job": call.held_lease.token._asdict()}
        tenant = None  # the server uses the job's tenant
    method, _, pattern = route.endpoint.partition(" ")
    in_path = {name: value for name, value in members.items() if f"{{{name}}}" in pattern}
    others = {name: value for name, value in members.items() if name not in in_path}
    is_read = method == "GET"
    return ApiRequest(
        method,
        pattern.format(**{name: quote(str(value), safe="") for name, value in in_path.items()}),
        lambda response: call.decode(route.read_rows(response)),
        query=query(others) if is_read else (),
        body=None
        if is_read or not (others or method in _ALWAYS_WITH_BODY)
        else encode_body(others),
        headers=_headers(tenant, once=route.has_idempotency_key),
        is_repeatable=method != "POST" or route.has_idempotency_key or route.is_repeatable,
    )


def _headers(tenant: object, *, once: bool) -> dict[str, str]:
    headers = {} if tenant is None else {TENANT_HEADER: str(tenant)}
    return {**headers, IDEMPOTENCY_KEY_HEADER: uuid4().hex} if once else headers


def _notes(parameters: Sequence[Any]) -> dict[str, Json]:
    job_id, after, kinds, limit, tenant_id = parameters
    members = name_parameters("job_id cursor limit tenant_id", (job_id, after, limit, tenant_id))
    return {**members, "kind": kinds or _ALL_NOTE_KINDS}


def _count_members(parameters: Sequence[Any]) -> dict[str, Json]:
    kind, which, tenant_id = parameters
    return {"kind": kind, "filter": _read_filter(which), TENANT: tenant_id}


def _operation_members(parameters: Sequence[Any]) -> dict[str, Json]:
    kind, which, options, tenant_id = parameters
    return {**_count_members((kind, which, tenant_id)), **decode(options)}


def _read_filter(text: str) -> dict[str, Json]:
    which: dict[str, Json] = decode(text)
    if isinstance(which.get("state"), str):
        which["state"] = [which["state"]]
    return which


def _tenant(response: Json) -> Rows:
    if response["tenant_id"] is None:
        raise TenantRequired("this key is of no tenant: name the one to act for")
    return [(UUID(response["tenant_id"]),)]


def _no_folders(_: Json) -> Rows:
    """Return an empty list: the server has deleted the folders."""
    return [([],)]


_state = single_value("state")
_id = single_value("id", UUID)
_fire_at = single_value("fire_at", datetime.fromisoformat)
_event = record(Event)

ROUTES: Routes = {
    # Jobs of a tenant.
    "enqueue_job": Route(
        "POST /jobs",
        "definition payload:json *options tenant_id",
        created_job,
        has_idempotency_key=True,
    ),
    "enqueue_jobs": Route(
        "POST /jobs/batch", "jobs:json tenant_id", created_jobs, has_idempotency_key=True
    ),
    "get_job": Route("GET /jobs/{job_id}", "job_id tenant_id", history),
    "list_jobs": Route("GET /jobs", "*filter limit cursor tenant_id order", records(JobListing)),
    "list_notes": Route("GET /jobs/{job_id}/logs", _notes, records(JobEvent)),
    "list_steps": Route("GET /jobs/{job_id}/steps", "job_id tenant_id", records(StoredStep)),
    "explain_job": Route("GET /jobs/{job_id}/explain", "job_id tenant_id", records(Explanation)),
    "summarize": Route("GET /summary", "window_s tenant_id", records(SummaryLine)),
    "cancel_job": Route(
        "POST /jobs/{job_id}/cancel", "job_id reason tenant_id", _state, is_repeatable=True
    ),
    "erase_job": Route(
        "POST /jobs/{job_id}/erase", "job_id tenant_id", _no_folders, is_repeatable=True
    ),
    "retry_job": Route("POST /jobs/{job_id}/retry", "job_id payload:json attempts tenant_id", _id),
    "reschedule_job": Route(
        "POST /jobs/{job_id}/reschedule", "job_id run_at! tenant_id", _state, is_repeatable=True
    ),
    "edit_job": Route("PATCH /jobs/{job_id}", "job_id *changes tenant_id", _state),
    # Events of a tenant.
    "emit_event": Route("POST /events", "name data:json *options tenant_id", _id),
    "get_event": Route("GET /events/{event_id}", "event_id tenant_id", _event),
    "list_events": Route("GET /events", "*filter limit cursor tenant_id", records(EventListing)),
    "replay_event": Route(
        "POST /events/{event_id}/replay", "event_id tenant_id", single_value("replay")
    ),
    "list_event_deliveries": Route(
        "GET /triggers/{trigger_id}/deliveries",
        "trigger_id limit cursor tenant_id outcome",
        records(EventDelivery),
    ),
    # Triggers.
    "create_trigger": Route("POST /triggers", "type *settings tenant_id", _id),
    "edit_trigger": Route("PATCH /triggers/{id}", "id *changes tenant_id", no_rows),
    "delete_trigger": Route("DELETE /triggers/{id}", "id tenant_id", no_rows),
    "get_trigger": Route("GET /triggers/{id}", "id tenant_id", record(Trigger)),
    "list_triggers": Route("GET /triggers", "*filter limit cursor tenant_id", records(Trigger)),
    "run_trigger": Route("POST /triggers/{id}/run", "id tenant_id", _fire_at),
    "backfill_trigger": Route(
        "POST /triggers/{id}/backfill",
        "id times tenant_id",
        single_value("firings"),
        is_repeatable=True,
    ),
    "declare_triggers": Route(
        "POST /worker/triggers", "declared:json definitions", no_rows, is_repeatable=True
    ),
    "list_firings": Route(
        "GET /triggers/{id}/firings", "id limit cursor tenant_id", records(Firing)
    ),
    # Failure groups and bulk operations.
    "list_failures": Route(
        "GET /failures", "*filter limit cursor tenant_id", records(FailureGroup)
    ),
    "annotate_failure": Route(
        "PATCH /failures/{fingerprint}", "fingerprint *changes tenant_id", no_rows
    ),
    "count_jobs": Route(
        "POST /operations/count", _count_members, single_value("jobs"), is_repeatable=True
    ),
    "start_operation": Route("POST /operations", _operation_members, _id),
    "get_operation": Route("GET /operations/{id}", "id tenant_id", record(Operation)),
    "list_operations": Route("GET /operations", "limit cursor tenant_id", records(Operation)),
    "cancel_operation": Route(
        "POST /operations/{id}/cancel", "id tenant_id", _state, is_repeatable=True
    ),
    # Workflows and batches.
    "enqueue_workflow": Route("POST /workflows", "*workflow tenant_id", created_workflow),
    "get_workflow": Route("GET /workflows/{id}", "id limit tenant_id", workflow),
    "list_workflows": Route("GET /workflows", "*filter limit cursor tenant_id", documents),
    "cancel_workflow": Route(
        "POST /workflows/{id}/cancel", "id reason tenant_id", _state, is_repeatable=True
    ),
    "retry_workflow": Route(
        "POST /workflows/{id}/retry", "id from tenant_id", single_value("jobs")
    ),
    "create_batch": Route("POST /batches", "*batch jobs:json tenant_id", created_batch),
    "add_to_batch": Route("POST /batches/{id}/jobs", "id jobs:json tenant_id", created_jobs),
    "close_batch": Route("POST /batches/{id}/close", "id tenant_id", _state, is_repeatable=True),
    "get_batch": Route("GET /batches/{id}", "id tenant_id", document),
    "list_batches": Route("GET /batches", "*filter limit cursor tenant_id", documents),
    "cancel_batch": Route(
        "POST /batches/{id}/cancel", "id reason tenant_id", _state, is_repeatable=True
    ),
    # The installation.
    "list_definitions": Route(
        "GET /definitions", "prefix limit cursor", records(DefinitionListing)
    ),
    "get_definition": Route("GET /definitions/{key}", "key version", record(DefinitionInfo)),
    "put_definition": Route(
        "PUT /definitions/{key}/versions/{version}", "key version *settings", no_rows
    ),
    "override_definition": Route("PATCH /definitions/{key}", "key *overrides", no_rows),
    "pause_definition": Route("POST /definitions/{key}/pause", "key", no_rows, is_repeatable=True),
    "resume_definition": Route(
        "POST /definitions/{key}/resume", "key", no_rows, is_repeatable=True
    ),
    "list_queues": Route("GET /queues", "tenant_id", records(QueueInfo)),
    "list_holders": Route("GET /queues/{queue}/holders", "queue limit", records(SlotHolder)),
    "put_queue": Route("PATCH /queues/{queue}", "queue *settings", no_rows),
    "pause_queue": Route("POST /queues/{queue}/pause", "queue", no_rows, is_repeatable=True),
    "resume_queue": Route("POST /queues/{queue}/resume", "queue", no_rows, is_repeatable=True),
    "list_workers": Route("GET /workers", "", records(WorkerInfo)),
    "drain_worker": Route(
        "POST /workers/{worker_id}/drain", "worker_id", no_rows, is_repeatable=True
    ),
    "stop_worker": Route(
        "POST /workers/{worker_id}/stop", "worker_id", no_rows, is_repeatable=True
    ),
    # Tenants. The ID of the tenant is in the path here, not in the header.
    "list_tenants": Route("GET /tenants", "", records(TenantInfo)),
    "put_tenant": Route("PATCH /tenants/{id}", "id *settings", no_rows),
    "delete_tenant": Route("DELETE /tenants/{id}", "id", _id, is_repeatable=True),
    "pause_tenant": Route("POST /tenants/{id}/pause", "id", no_rows, is_repeatable=True),
    "resume_tenant": Route("POST /tenants/{id}/resume", "id", no_rows, is_repeatable=True),
    # The server resolves the slug in the header and returns the tenant's ID.
    "find_tenant": Route("GET /session", "tenant_id", _tenant),
    "list_api_keys": Route("GET /keys", "limit cursor tenant_id", records(ApiKey)),
    "revoke_api_key": Route("DELETE /keys/{key_id}", "key_id tenant_id", no_rows),
    # Connector configurations. The server generates their IDs and encrypts their secrets.
    "create_connector_config": Route("POST /connectors", "- *config tenant_id", _id),
    "edit_connector_config": Route(
        "PATCH /connectors/{config_id}", "config_id *config tenant_id", no_rows
    ),
    "get_connector_config": Route(
        "GET /connectors/{config_id}", "config_id tenant_id", record(ConnectorConfig)
    ),
    "list_connector_configs": Route(
        "GET /connectors", "limit cursor tenant_id", records(ConnectorConfig)
    ),
    "delete_connector_config": Route(
        "DELETE /connectors/{config_id}", "config_id tenant_id", no_rows
    ),
    # Webhooks; requests.py creates endpoints and rotates secrets.
    "get_webhook": Route("GET /webhooks/{id}", "id tenant_id", record(Webhook)),
    "list_webhooks": Route("GET /webhooks", "limit cursor tenant_id", records(Webhook)),
    "edit_webhook": Route("PATCH /webhooks/{id}", "id *changes - tenant_id", no_rows),
    "delete_webhook": Route("DELETE /webhooks/{id}", "id tenant_id", no_rows),
    "test_webhook": Route(
        "POST /webhooks/{id}/test", "id tenant_id", single_value("delivery_id", UUID)
    ),
    "list_deliveries": Route(
        "GET /webhooks/{id}/deliveries", "id state limit cursor tenant_id", records(Delivery)
    ),
    "redeliver": Route(
        "POST /webhooks/{id}/deliveries/{delivery_id}/redeliver",
        "id delivery_id tenant_id",
        single_value("job_id", UUID),
    ),
    "get_statistics": Route(
        "GET /statistics", "since until step_s *filter by tenant_id", records(Statistic)
    ),
    "meter_tenants": Route("GET /usage", "since until", records(Usage)),
    "list_audit": Route("GET /audit", "*filter limit cursor tenant_id", records(AuditEntry)),
}

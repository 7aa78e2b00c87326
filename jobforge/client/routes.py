"""Maps SQL functions to the server's routes. The only such table.

A request's members are the call's arguments by name: in the path, as headers (the tenant), in the
query of a GET, and in the body otherwise. None is omitted. The members of some JSON arguments, such
as `filter` and `settings`, are sent separately, and the key of the last row of a page as `cursor`.
Calls without an entry need a database: whole transactions, statements with many jobs, maintenance.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import uuid4

from jobforge.calls import Call
from jobforge.calls.call import JsonArgument
from jobforge.calls.job_log import NOTE_KINDS
from jobforge.client.request import (
    IDEMPOTENCY_KEY_HEADER,
    TENANT_HEADER,
    ApiRequest,
    encode_body,
    encode_query,
)
from jobforge.errors import Conflict, Invalid, Json

T = TypeVar("T")
CallArguments = Mapping[str, Any]

_ALWAYS_WITH_BODY = {"PATCH", "PUT"}
_LAST_KEYS = {"before", "after"}
_SEPARATE = {"batch", "changes", "config", "filter", "options", "overrides", "settings", "workflow"}
_OF_LEASE = {"worker_id", "job_id", "lease"}


@dataclass(frozen=True, slots=True)
class Route:
    """One route, and how its members differ from the call's arguments.

    `nullable` members are sent even if they are None; `members` replaces all members. A new key is
    sent with `has_idempotency_key`; `is_repeatable` marks safe retries.
    """

    endpoint: str
    rename: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()
    defaults: Mapping[str, Json] = field(default_factory=dict)
    members: Callable[[CallArguments], Mapping[str, Json]] | None = None
    has_idempotency_key: bool = False
    is_repeatable: bool = False


Routes = Mapping[str, Route]


def request_from_call(call: Call[T], routes: Routes) -> ApiRequest[T]:
    """Return the request for a call. Raises Conflict for a call that needs a database."""
    route = routes.get(call.function)
    if route is None:
        raise Conflict(f"{call.function} is not available over HTTP; it requires a database")
    method, _, pattern = route.endpoint.partition(" ")
    members = _name_members(call, route)
    in_path = {name: members.pop(name) for name in list(members) if f"{{{name}}}" in pattern}
    tenant = members.pop("tenant_id", None)
    if call.held_lease is None:
        tenant = tenant or call.tenant
    else:
        members |= {"worker_id": call.held_lease.worker_id, "job": call.held_lease.token._asdict()}
        tenant = None  # the server uses the job's tenant
    is_read = method == "GET"
    has_body = not is_read and (members or method in _ALWAYS_WITH_BODY)
    return ApiRequest(
        method,
        pattern.format(**{name: quote(str(value), safe="") for name, value in in_path.items()}),
        call.result.from_json,
        query=encode_query(members) if is_read else (),
        body=encode_body(members) if has_body else None,
        headers=_headers(tenant, once=route.has_idempotency_key),
        is_repeatable=method != "POST" or route.has_idempotency_key or route.is_repeatable,
    )


def _name_members(call: Call[Any], route: Route) -> dict[str, Json]:
    """Return the request's members by name. Raises Invalid for a duplicate name."""
    if route.members is not None:
        return dict(route.members(call.arguments))
    members: dict[str, Json] = {}
    for argument, value in call.arguments.items():
        is_known = argument in route.without or (call.held_lease and argument in _OF_LEASE)
        if is_known or (value is None and argument not in route.nullable):
            continue
        for name, member in _members(route.rename.get(argument, argument), value):
            if name in members:  # a separate member must not replace a path parameter
                raise Invalid(f"{name} cannot be set", field=name)
            members[name] = member
    return {**route.defaults, **members}


def _members(name: str, value: Json) -> Iterator[tuple[str, Json]]:
    if name in _LAST_KEYS:
        yield "cursor", _cursor(value)
    elif name in _SEPARATE and isinstance(value, JsonArgument):
        yield from value.value.items()
    else:
        yield name, value


def _cursor(last: object) -> str:
    key = last.isoformat() if isinstance(last, datetime) else str(last)
    return base64.urlsafe_b64encode(key.encode()).rstrip(b"=").decode()


def _headers(tenant: object, *, once: bool) -> dict[str, str]:
    headers = {} if tenant is None else {TENANT_HEADER: str(tenant)}
    return {**headers, IDEMPOTENCY_KEY_HEADER: uuid4().hex} if once else headers


def _count_members(arguments: CallArguments) -> dict[str, Json]:
    which = dict(arguments["filter"].value)
    if isinstance(which.get("state"), str):
        which["state"] = [which["state"]]
    return {
        "kind": arguments["kind"],
        "filter": which,
        "tenant_id": arguments["tenant_id"],
    }


def _operation_members(arguments: CallArguments) -> dict[str, Json]:
    return {**_count_members(arguments), **arguments["options"].value}


ROUTES: Routes = {
    # Jobs of a tenant.
    "enqueue_job": Route("POST /jobs", has_idempotency_key=True),
    "enqueue_jobs": Route("POST /jobs/batch", has_idempotency_key=True),
    "get_job": Route("GET /jobs/{job_id}"),
    "list_jobs": Route("GET /jobs"),
    "list_notes": Route(
        "GET /jobs/{job_id}/logs", rename={"kinds": "kind"}, defaults={"kind": NOTE_KINDS}
    ),
    "list_steps": Route("GET /jobs/{job_id}/steps"),
    "explain_job": Route("GET /jobs/{job_id}/explain"),
    "summarize": Route("GET /summary"),
    "cancel_job": Route("POST /jobs/{job_id}/cancel", is_repeatable=True),
    "erase_job": Route("POST /jobs/{job_id}/erase", is_repeatable=True),
    "retry_job": Route("POST /jobs/{job_id}/retry"),
    "reschedule_job": Route(
        "POST /jobs/{job_id}/reschedule", nullable=("run_at",), is_repeatable=True
    ),
    "edit_job": Route("PATCH /jobs/{job_id}"),
    # Events of a tenant.
    "emit_event": Route("POST /events"),
    "get_event": Route("GET /events/{id}"),
    "list_events": Route("GET /events"),
    "replay_event": Route("POST /events/{id}/replay"),
    "list_event_deliveries": Route("GET /triggers/{trigger_id}/deliveries"),
    # Triggers.
    "create_trigger": Route("POST /triggers"),
    "edit_trigger": Route("PATCH /triggers/{id}"),
    "delete_trigger": Route("DELETE /triggers/{id}"),
    "get_trigger": Route("GET /triggers/{id}"),
    "list_triggers": Route("GET /triggers"),
    "run_trigger": Route("POST /triggers/{id}/run"),
    "backfill_trigger": Route("POST /triggers/{id}/backfill", is_repeatable=True),
    "declare_triggers": Route("POST /worker/triggers", is_repeatable=True),
    "list_firings": Route("GET /triggers/{trigger_id}/firings"),
    # Failure groups and bulk operations.
    "list_failures": Route("GET /failures"),
    "annotate_failure": Route("PATCH /failures/{fingerprint}"),
    "count_jobs": Route("POST /operations/count", members=_count_members, is_repeatable=True),
    "start_operation": Route("POST /operations", members=_operation_members),
    "get_operation": Route("GET /operations/{id}"),
    "list_operations": Route("GET /operations"),
    "cancel_operation": Route("POST /operations/{id}/cancel", is_repeatable=True),
    # Workflows and batches.
    "enqueue_workflow": Route("POST /workflows"),
    "get_workflow": Route("GET /workflows/{id}"),
    "list_workflows": Route("GET /workflows"),
    "cancel_workflow": Route("POST /workflows/{id}/cancel", is_repeatable=True),
    "retry_workflow": Route("POST /workflows/{id}/retry"),
    "create_batch": Route("POST /batches"),
    "add_to_batch": Route("POST /batches/{id}/jobs"),
    "close_batch": Route("POST /batches/{id}/close", is_repeatable=True),
    "get_batch": Route("GET /batches/{id}"),
    "list_batches": Route("GET /batches"),
    "cancel_batch": Route("POST /batches/{id}/cancel", is_repeatable=True),
    # The installation.
    "list_definitions": Route("GET /definitions"),
    "get_definition": Route("GET /definitions/{key}"),
    "put_definition": Route("PUT /definitions/{key}/versions/{version}"),
    "override_definition": Route("PATCH /definitions/{key}"),
    "pause_definition": Route("POST /definitions/{key}/pause", is_repeatable=True),
    "resume_definition": Route("POST /definitions/{key}/resume", is_repeatable=True),
    "list_queues": Route("GET /queues"),
    "list_holders": Route("GET /queues/{queue}/holders"),
    "put_queue": Route("PATCH /queues/{queue}"),
    "pause_queue": Route("POST /queues/{queue}/pause", is_repeatable=True),
    "resume_queue": Route("POST /queues/{queue}/resume", is_repeatable=True),
    "list_workers": Route("GET /workers"),
    "drain_worker": Route("POST /workers/{worker_id}/drain", is_repeatable=True),
    "stop_worker": Route("POST /workers/{worker_id}/stop", is_repeatable=True),
    # Tenants. The ID of the tenant is in the path here, not in the header.
    "list_tenants": Route("GET /tenants"),
    "put_tenant": Route("PATCH /tenants/{tenant_id}"),
    "delete_tenant": Route("DELETE /tenants/{tenant_id}", is_repeatable=True),
    "pause_tenant": Route("POST /tenants/{tenant_id}/pause", is_repeatable=True),
    "resume_tenant": Route("POST /tenants/{tenant_id}/resume", is_repeatable=True),
    # The server resolves the slug in the header and returns the tenant's ID.
    "find_tenant": Route("GET /session", rename={"slug": "tenant_id"}),
    # The server generates keys.
    "create_api_key": Route("POST /keys", without=("lookup", "hash")),
    "rotate_api_key": Route("POST /keys/{id}/rotate", without=("lookup", "hash", "ends_by")),
    "list_api_keys": Route("GET /keys"),
    "revoke_api_key": Route("DELETE /keys/{id}"),
    # Connector configurations. The server generates their IDs and encrypts their secrets.
    "create_connector_config": Route("POST /connectors", without=("id",)),
    "edit_connector_config": Route("PATCH /connectors/{id}"),
    "get_connector_config": Route("GET /connectors/{id}"),
    "list_connector_configs": Route("GET /connectors"),
    "delete_connector_config": Route("DELETE /connectors/{id}"),
    # Webhooks. The server generates their IDs and secrets.
    "create_webhook": Route("POST /webhooks", without=("id", "secret")),
    "rotate_webhook": Route("POST /webhooks/{id}/rotate", without=("secret",)),
    "get_webhook": Route("GET /webhooks/{id}"),
    "list_webhooks": Route("GET /webhooks"),
    "edit_webhook": Route("PATCH /webhooks/{id}", without=("secret",)),
    "delete_webhook": Route("DELETE /webhooks/{id}"),
    "test_webhook": Route("POST /webhooks/{id}/test"),
    "list_deliveries": Route("GET /webhooks/{id}/deliveries"),
    "redeliver": Route("POST /webhooks/{id}/deliveries/{delivery_id}/redeliver"),
    "get_statistics": Route("GET /statistics"),
    "meter_tenants": Route("GET /usage"),
    "list_audit": Route("GET /audit"),
}

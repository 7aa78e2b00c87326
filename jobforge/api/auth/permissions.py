"""Permissions: which role may use which route. api/guard.py applies them.

A key's scopes narrow its role: `jobs:read` covers the GET routes of the area `jobs`, and
`jobs:write` all its other routes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from jobforge.errors import Invalid
from jobforge.types.api_keys import Role

PREFIX = "/api/v1"
METRICS = "/metrics"

_PUBLIC: frozenset[Role] | None = None
_ANYBODY = frozenset(Role)
_READ = frozenset({Role.VIEWER, Role.TENANT_ADMIN, Role.SUPER_ADMIN})
_ACT = frozenset({Role.TENANT_ADMIN, Role.SUPER_ADMIN})
_OPERATE = frozenset({Role.SUPER_ADMIN})
_WORK = frozenset({Role.WORKER, Role.SUPER_ADMIN})


@dataclass(frozen=True, slots=True)
class Rule:
    """Roles allowed to use a route; `roles` is None for public routes without authentication."""

    method: str
    path: str
    area: str
    roles: frozenset[Role] | None

    @property
    def scope(self) -> str:
        return f"{self.area}:{'read' if self.method == 'GET' else 'write'}"


def _build_rules(
    area: str, rows: Iterable[tuple[str, str, frozenset[Role] | None]]
) -> dict[tuple[str, str], Rule]:
    return {
        (method, PREFIX + path): Rule(method, PREFIX + path, area, roles)
        for method, path, roles in rows
    }


RULES: dict[tuple[str, str], Rule] = {
    ("GET", "/health"): Rule("GET", "/health", "health", _PUBLIC),
    ("GET", "/ready"): Rule("GET", "/ready", "health", _PUBLIC),
    # The settings metrics_token and metrics_public give others access.
    ("GET", METRICS): Rule("GET", METRICS, "metrics", _OPERATE),
    **_build_rules(
        "session",
        [
            ("GET", "/session", _ANYBODY),
            ("GET", "/session/tenant", _READ),
            ("POST", "/session", _PUBLIC),  # the body contains the key
            ("DELETE", "/session", _PUBLIC),
        ],
    ),
    **_build_rules(
        "jobs",
        [
            ("GET", "/jobs", _READ),
            ("POST", "/jobs", _ACT),
            ("POST", "/jobs/batch", _ACT),
            ("GET", "/jobs/{job_id}", _READ),
            ("PATCH", "/jobs/{job_id}", _ACT),
            ("GET", "/jobs/{job_id}/attempts", _READ),
            ("GET", "/jobs/{job_id}/events", _READ),
            ("GET", "/jobs/{job_id}/logs", _READ),
            ("GET", "/jobs/{job_id}/explain", _READ),
            ("GET", "/jobs/{job_id}/artifact", _ACT),  # artifacts are not masked
            ("GET", "/jobs/{job_id}/steps", _READ),
            ("POST", "/jobs/{job_id}/cancel", _ACT),
            ("POST", "/jobs/{job_id}/retry", _ACT),
            ("POST", "/jobs/{job_id}/erase", _ACT),
            ("POST", "/jobs/{job_id}/reschedule", _ACT),
            ("GET", "/summary", _READ),
        ],
    ),
    **_build_rules(
        "definitions",
        [
            ("GET", "/definitions", _READ),
            ("GET", "/definitions/{key}", _READ),
            ("PATCH", "/definitions/{key}", _OPERATE),
            ("PUT", "/definitions/{key}/versions/{version}", _OPERATE),
            ("POST", "/definitions/{key}/pause", _OPERATE),
            ("POST", "/definitions/{key}/resume", _OPERATE),
        ],
    ),
    **_build_rules(
        "queues",
        [
            ("GET", "/queues", _READ),
            ("GET", "/queues/{queue}/holders", _OPERATE),
            ("PATCH", "/queues/{queue}", _OPERATE),
            ("POST", "/queues/{queue}/pause", _OPERATE),
            ("POST", "/queues/{queue}/resume", _OPERATE),
        ],
    ),
    **_build_rules(
        "failures",
        [
            ("GET", "/failures", _READ),
            ("PATCH", "/failures/{fingerprint}", _ACT),
            ("POST", "/failures/{fingerprint}/redrive", _ACT),
            ("POST", "/failures/{fingerprint}/discard", _ACT),
        ],
    ),
    **_build_rules(
        "operations",
        [
            ("GET", "/operations", _READ),
            ("POST", "/operations", _ACT),
            ("POST", "/operations/count", _ACT),
            ("GET", "/operations/{operation_id}", _READ),
            ("POST", "/operations/{operation_id}/cancel", _ACT),
        ],
    ),
    **_build_rules(
        "events",
        [
            ("GET", "/events", _READ),
            ("POST", "/events", _ACT),
            ("GET", "/events/{event_id}", _READ),
            ("POST", "/events/{event_id}/replay", _ACT),
            ("GET", "/triggers/{trigger_id}/deliveries", _READ),
            ("POST", "/triggers/{trigger_id}/test", _ACT),
        ],
    ),
    **_build_rules(
        "triggers",
        [
            ("GET", "/triggers", _READ),
            ("POST", "/triggers", _ACT),
            ("POST", "/triggers/preview", _ACT),
            ("GET", "/triggers/{trigger_id}", _READ),
            ("PATCH", "/triggers/{trigger_id}", _ACT),
            ("DELETE", "/triggers/{trigger_id}", _ACT),
            ("POST", "/triggers/{trigger_id}/run", _ACT),
            ("POST", "/triggers/{trigger_id}/backfill", _ACT),
            ("GET", "/triggers/{trigger_id}/firings", _READ),
            ("GET", "/triggers/{trigger_id}/next", _READ),
        ],
    ),
    **_build_rules(
        "workers",
        [
            ("GET", "/workers", _OPERATE),
            ("POST", "/workers/{worker_id}/drain", _OPERATE),
            ("POST", "/workers/{worker_id}/stop", _OPERATE),
        ],
    ),
    **_build_rules(
        "tenants",
        [
            ("GET", "/tenants", _OPERATE),
            ("POST", "/tenants", _OPERATE),
            ("PATCH", "/tenants/{tenant_id}", _OPERATE),
            ("DELETE", "/tenants/{tenant_id}", _OPERATE),
            ("POST", "/tenants/{tenant_id}/pause", _OPERATE),
            ("POST", "/tenants/{tenant_id}/resume", _OPERATE),
        ],
    ),
    **_build_rules(
        "keys",
        [
            ("GET", "/keys", _ACT),
            ("POST", "/keys", _ACT),
            ("DELETE", "/keys/{key_id}", _ACT),
            ("POST", "/keys/{key_id}/rotate", _ACT),
        ],
    ),
    **_build_rules(
        "webhooks",
        [
            ("GET", "/webhooks", _READ),
            ("POST", "/webhooks", _ACT),
            ("GET", "/webhooks/{endpoint_id}", _READ),
            ("PATCH", "/webhooks/{endpoint_id}", _ACT),
            ("DELETE", "/webhooks/{endpoint_id}", _ACT),
            ("POST", "/webhooks/{endpoint_id}/rotate", _ACT),
            ("POST", "/webhooks/{endpoint_id}/test", _ACT),
            ("GET", "/webhooks/{endpoint_id}/deliveries", _READ),
            ("POST", "/webhooks/{endpoint_id}/deliveries/{delivery_id}/redeliver", _ACT),
        ],
    ),
    **_build_rules(
        "connectors",
        [
            ("GET", "/connectors", _READ),
            ("POST", "/connectors", _ACT),
            ("GET", "/connectors/{config_id}", _READ),
            ("PATCH", "/connectors/{config_id}", _ACT),
            ("DELETE", "/connectors/{config_id}", _ACT),
        ],
    ),
    **_build_rules(
        "workflows",
        [
            ("GET", "/workflows", _READ),
            ("POST", "/workflows", _ACT),
            ("GET", "/workflows/{workflow_id}", _READ),
            ("POST", "/workflows/{workflow_id}/cancel", _ACT),
            ("POST", "/workflows/{workflow_id}/retry", _ACT),
            ("GET", "/batches", _READ),
            ("POST", "/batches", _ACT),
            ("GET", "/batches/{batch_id}", _READ),
            ("POST", "/batches/{batch_id}/jobs", _ACT),
            ("POST", "/batches/{batch_id}/close", _ACT),
            ("POST", "/batches/{batch_id}/cancel", _ACT),
        ],
    ),
    **_build_rules("audit", [("GET", "/audit", _ACT)]),
    **_build_rules("database", [("GET", "/database", _OPERATE)]),
    **_build_rules("statistics", [("GET", "/statistics", _READ), ("GET", "/usage", _OPERATE)]),
    **_build_rules("stream", [("GET", "/stream", _READ)]),
    **_build_rules(
        "worker",
        [
            ("POST", "/worker/register", _WORK),
            ("POST", "/worker/unregister", _WORK),
            ("POST", "/worker/release", _WORK),
            ("POST", "/worker/definitions", _WORK),
            ("POST", "/worker/triggers", _WORK),
            ("POST", "/worker/partitions", _WORK),
            ("POST", "/worker/jobs/claim", _WORK),
            ("POST", "/worker/jobs/heartbeat", _WORK),
            ("POST", "/worker/jobs/complete", _WORK),
            ("POST", "/worker/jobs/notes", _WORK),
            ("POST", "/worker/jobs/steps", _WORK),
            ("POST", "/worker/jobs/children", _WORK),
            ("POST", "/worker/jobs/enqueue", _WORK),
            ("POST", "/worker/jobs/parents", _WORK),
            ("POST", "/worker/jobs/nodes", _WORK),
            ("POST", "/worker/jobs/reap", _WORK),
            ("POST", "/worker/jobs/{job_id}/heartbeat", _WORK),
            ("POST", "/worker/jobs/{job_id}/complete", _WORK),
            ("POST", "/worker/jobs/{job_id}/fail", _WORK),
        ],
    ),
}

SCOPES = sorted({rule.scope for rule in RULES.values() if rule.roles not in {_PUBLIC, _ANYBODY}})


def check_scopes(scopes: Iterable[str]) -> None:
    """Raise Invalid for an unknown scope."""
    for scope in scopes:
        if scope not in SCOPES:
            hint = "Use AREA:read or AREA:write, such as jobs:read"
            raise Invalid(f"Invalid scope {scope!r}", field="scopes", hint=hint)

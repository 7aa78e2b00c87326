"""One object of each kind that a tenant can have, for tests that request them as another tenant."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID, uuid4

from api.api_server import ApiServer
from cluster import Connection
from psycopg.types.json import Jsonb

# Tables with rows of a tenant; tests compare these rows before and after a request.
TABLES = (
    "jobs",
    "finished_jobs",
    "attempts",
    "job_events",
    "operations",
    "failure_notes",
    "api_keys",
    "idempotent_requests",
    "connector_configs",
    "tenant_keys",
    "webhook_endpoints",
    "webhook_deliveries",
    "triggers",
    "firings",
    "events",
    "outbox",
    "event_deliveries",
    "steps",
    "waits",
    "dependencies",
    "awaited_jobs",
    "workflows",
    "workflow_jobs",
    "minute_statistics",
)


@dataclass(frozen=True, slots=True)
class TenantObjects:
    """`path_values` has values for the parameters of paths; responses to others must not contain
    `ids`.
    """

    tenant_id: UUID
    path_values: dict[str, list[str]]
    ids: frozenset[str]


def create_tenant_objects(api: ApiServer) -> TenantObjects:
    """Create the objects for tenant B, with its API keys and through SQL as its worker."""
    admin = api.client("tenant_admin", api.b)
    api.conn.execute("select jobforge.put_definition('of_b', 1)")
    waiting, dead, done = (
        admin.post("/jobs", json={"definition": "of_b", "tags": ["of-b"]}).json()["id"]
        for _ in range(3)
    )
    worker = str(uuid4())
    _run_jobs(api.conn, worker, {dead: "failed", done: "succeeded"})
    group = admin.get("/failures").json()["items"][0]["fingerprint"]
    admin.patch(f"/failures/{group}", json={"note": "known to B"})
    operation = admin.post("/operations", json={"kind": "retry", "filter": {"tag": "none"}}).json()
    key = admin.post("/keys", json={"name": "of B", "role": "viewer"}).json()
    webhook = admin.post(
        "/webhooks", json={"url": "https://of-b.example/", "definitions": ["other"]}
    ).json()
    test = admin.post(f"/webhooks/{webhook['id']}/test").json()
    event = admin.post("/events", json={"name": "of-b.event", "data": {"of": "B"}}).json()
    schedule = admin.post(
        "/triggers",
        json={"type": "schedule", "label": "of B", "definition": "of_b", "cron": "@daily"},
    ).json()
    admin.post(f"/triggers/{schedule['id']}/run")
    connector = admin.post(
        "/connectors",
        json={
            "name": f"of-b-{uuid4().hex}",  # names are unique
            "settings": {"url": "https://of-b.example/"},
            "secrets": {"token": {"value": "of-b-secret"}},
        },
    ).json()
    nodes = [
        {"name": "first", "definition": "of_b"},
        {"name": "second", "definition": "of_b", "after": ["first"]},
    ]
    workflow = admin.post("/workflows", json={"name": "of B", "nodes": nodes}).json()
    batch = admin.post("/batches", json={"name": "of B", "jobs": [{"definition": "of_b"}]}).json()
    named = {
        "config_id": [connector["id"]],
        "event_id": [event["id"]],
        "trigger_id": [_create_event_trigger(api), schedule["id"]],
        "endpoint_id": [webhook["id"]],
        "delivery_id": [test["delivery_id"]],
        "workflow_id": [workflow["id"]],
        "batch_id": [batch["id"]],
        "job_id": [waiting, dead, done],
        "fingerprint": [group],
        "operation_id": [operation["id"]],
        "key_id": [key["id"]],
        "tenant_id": [str(api.b.tenant_id)],
        "worker_id": [worker],
    }
    ids = {one for ids in named.values() for one in ids}
    return TenantObjects(api.b.tenant_id, named, frozenset(ids))


def _create_event_trigger(api: ApiServer) -> str:
    settings = {"label": "of B", "definition": "of_b", "event": "of-b.*"}
    [row] = api.conn.execute(
        "select jobforge.create_trigger('event', %s, %s) as id",
        [Jsonb(settings), api.b.tenant_id],
    ).fetchall()
    return str(row["id"])


def rows_of(conn: Connection, tenant_id: UUID) -> Iterator[tuple[str, str]]:
    """Return every row of a tenant as text, without the columns that a read changes."""
    for table in TABLES:
        rows = conn.execute(
            f"select (to_jsonb(t) - 'last_used_at')::text as row from jobforge.{table} as t"
            " where tenant_id = %s order by 1",
            [tenant_id],
        )
        yield from ((table, row["row"]) for row in rows)


def _run_jobs(conn: Connection, worker: str, outcomes: dict[str, str]) -> None:
    """Claim all jobs, complete those in `outcomes` and release the others."""
    conn.execute("select jobforge.register_worker(%s, '{default}', 10)", [worker])
    claimed = conn.execute(
        "select tenant_id, job_id, lease from jobforge.claim_jobs(%s, '{default}', '{10}')",
        [worker],
    ).fetchall()
    tokens = [{name: str(value) for name, value in row.items()} for row in claimed]
    settled = [
        {
            **token,
            "outcome": outcomes[token["job_id"]],
            "final": True,
            "error": {"type": "Broken", "message": "of B"},
            "stdout_tail": "said by B",
        }
        for token in tokens
        if token["job_id"] in outcomes
    ]
    conn.execute("select jobforge.complete_jobs(%s, %s)", [worker, Jsonb(settled)])
    rest = [token for token in tokens if token["job_id"] not in outcomes]
    conn.execute("select jobforge.release_jobs(%s, %s)", [worker, Jsonb(rest)])

"""Wrong arguments of the engine's functions: each is refused by code and field, and leaves no
row."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Connection
from psycopg.types.json import Jsonb
from sql.engine import TENANT_A, call, count, definition, new_worker, refused


@pytest.fixture(scope="module")
def conn(shared_conn: Connection) -> Connection:
    definition(shared_conn)
    return shared_conn


FIELDS: list[tuple[str, Any]] = [
    ("priority", 40000),
    ("priority", -40000),
    ("priority", 1.5),
    ("priority", 1.0),
    ("priority", "high"),
    ("priority", None),
    ("priority", 10**30),
    ("version", 0),
    ("version", "1"),
    ("version", 1.0),
    ("version", 10**12),
    ("max_attempts", 0),
    ("max_attempts", 1001),
    ("max_attempts", 10**9),
    ("max_attempts", 2.5),
    ("max_attempts", 2.0),
    ("timeout_s", 0),
    ("timeout_s", 604801),
    ("timeout_s", "60"),
    ("timeout_s", 60.0),
    ("run_at", "infinity"),
    ("run_at", "-infinity"),
    ("run_at", "tomorrow"),
    ("run_at", "now"),
    ("run_at", "294276-01-01T00:00:00Z"),
    ("run_at", "2026-02-30T00:00:00Z"),
    ("run_at", "2026-01-01T25:00:00Z"),
    ("run_at", "2026-01-01T00:00:00+99:00"),
    ("run_at", "2026-01-01T00:00:00"),
    ("run_at", "2026-01-01"),
    ("run_at", ""),
    ("run_at", 1767225600),
    ("delay_s", -1),
    ("delay_s", "60"),
    ("delay_s", 1e12),
    ("delay_s", None),
    ("expires_at", "infinity"),
    ("expires_at", "soon"),
    ("expires_in_s", -0.5),
    ("expires_in_s", 1e10),
    ("key", ""),
    ("key", "k" * 256),
    ("key", "two\nlines"),
    ("key", "\x7f"),
    ("key", 5),
    ("key_mode", "forever"),
    ("key_mode", "window"),
    ("key_mode", ["active"]),
    ("key_window_s", -1),
    ("on_conflict", "ignore"),
    ("limit_key", ""),
    ("limit_key", "k" * 256),
    ("limit_key", "\t"),
    ("queue", ""),
    ("queue", "a b"),
    ("queue", "q" * 51),
    ("queue", "-dash-first"),
    ("queue", None),
    ("tags", "tag"),
    ("tags", [1]),
    ("tags", [None]),
    ("tags", [["nested"]]),
    ("tags", ["t"] * 51),
    ("tags", ["t" * 5000]),
    ("correlation_id", "c" * 256),
    ("correlation_id", {}),
    ("created_by", "c" * 256),
    ("traceparent", "not a trace"),
    ("traceparent", ""),
    ("artifact_ref", "a" * 2001),
    ("far_future", "yes"),
    # Fields of the row that a caller may not set.
    ("state", "running"),
    ("tenant_id", str(TENANT_A)),
    ("lease", 5),
    ("attempt", 3),
    ("source", "schedule"),
    ("source_ref", "x"),
    ("retry_of", str(TENANT_A)),
    ("worker_id", str(TENANT_A)),
    ("id", str(TENANT_A)),
    ("flags", 1),
    ("gate", "*"),
    ("unknown", 1),
]


@pytest.mark.parametrize(
    ("field", "value"), FIELDS, ids=[f"{f}={str(v)[:20]!r}" for f, v in FIELDS]
)
def test_a_wrong_field_is_refused_by_name(conn: Connection, field: str, value: Any) -> None:
    tenant = uuid4()
    good: dict[str, Any] = {"definition": "test", "key": "k"}
    with refused("JF002", field=field, index=1):
        call(conn, "enqueue_jobs", jobs=[good, good | {field: value}], tenant_id=tenant)
    assert count(conn, "jobs", tenant) == count(conn, "idempotency_keys", tenant) == 0


@pytest.mark.parametrize(
    ("field", "value"), FIELDS, ids=[f"{f}={str(v)[:20]!r}" for f, v in FIELDS]
)
def test_a_wrong_field_of_a_single_job_is_refused_by_name(
    conn: Connection, field: str, value: Any
) -> None:
    tenant = uuid4()
    with refused("JF002", field=field):
        call(conn, "enqueue_job", definition="test", options={field: value}, tenant_id=tenant)
    assert count(conn, "jobs", tenant) == count(conn, "idempotency_keys", tenant) == 0


@pytest.mark.parametrize(
    "name", [None, "", "a b", "@1", "test@0", "test@x", "test@", "t" * 201, 5, "test@1@2", "drop;"]
)
def test_a_definition_that_is_not_a_valid_name_is_refused(conn: Connection, name: Any) -> None:
    with refused("JF002", field="definition", index=0):
        call(conn, "enqueue_jobs", jobs=[{"definition": name}], tenant_id=TENANT_A)


def test_a_job_without_a_definition_is_refused(conn: Connection) -> None:
    with refused("JF002", field="definition", index=0):
        call(conn, "enqueue_jobs", jobs=[{"payload": {}}], tenant_id=TENANT_A)
    with refused("JF002", field="definition"):
        call(conn, "enqueue_job", definition=None, tenant_id=TENANT_A)


@pytest.mark.parametrize("payload", [None, [], "text", 1, True])
def test_a_payload_that_is_not_an_object_is_refused(conn: Connection, payload: Any) -> None:
    with refused("JF002", field="payload", index=0):
        call(
            conn,
            "enqueue_jobs",
            jobs=[{"definition": "test", "payload": payload}],
            tenant_id=TENANT_A,
        )


@pytest.mark.parametrize("jobs", [{}, "text", 5, None])
def test_jobs_that_are_not_an_array_are_refused(conn: Connection, jobs: Any) -> None:
    with refused("JF002", field="jobs"):
        call(conn, "enqueue_jobs", jobs=Jsonb(jobs), tenant_id=TENANT_A)


@pytest.mark.parametrize("element", [[], "text", 5, None])
def test_elements_that_are_not_objects_are_refused(conn: Connection, element: Any) -> None:
    tenant = uuid4()
    jobs = Jsonb([{"definition": "test"}, element])
    with refused("JF002", index=1):
        call(conn, "enqueue_jobs", jobs=jobs, tenant_id=tenant)
    assert count(conn, "jobs", tenant) == 0


WORKER = new_worker()
SUCCESSES: dict[str, Any] = {
    "worker_id": WORKER,
    "tenants": [TENANT_A],
    "jobs": [WORKER],
    "leases": [1],
}
ARRAYS = ("tenants", "jobs", "leases")
TOKEN = {"tenant_id": str(TENANT_A), "job_id": str(WORKER), "lease": 1}
NOTE = TOKEN | {"kind": "log", "data": {}}

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("claim_jobs", {"worker_id": None, "queues": ["q"], "limits": [1]}),
    ("claim_jobs", {"worker_id": WORKER, "queues": [], "limits": []}),
    ("claim_jobs", {"worker_id": WORKER, "queues": None, "limits": None}),
    ("claim_jobs", {"worker_id": WORKER, "queues": ["q", None], "limits": [1, 1]}),
    ("claim_jobs", {"worker_id": WORKER, "queues": ["q"], "limits": [0]}),
    ("claim_jobs", {"worker_id": WORKER, "queues": ["q"], "limits": [-1]}),
    ("claim_jobs", {"worker_id": WORKER, "queues": ["q"], "limits": [1_000_000]}),
    ("claim_jobs", {"worker_id": WORKER, "queues": ["q"], "limits": [None]}),
    ("claim_jobs", {"worker_id": WORKER, "queues": ["q", "r"], "limits": [1]}),
    ("claim_jobs", {"worker_id": WORKER, "queues": ["q"], "limits": [1], "lease_s": 0}),
    ("claim_jobs", {"worker_id": WORKER, "queues": ["q"], "limits": [1], "lease_s": 3.2e9}),
    ("claim_jobs", {"worker_id": WORKER, "queues": ["q"], "limits": [1], "lease_s": None}),
    ("list_jobs", {"order": "newest first", "tenant_id": TENANT_A}),
    ("list_jobs", {"order": None, "tenant_id": TENANT_A}),
    ("heartbeat_jobs", {"worker_id": None}),
    ("heartbeat_jobs", {"worker_id": WORKER, "jobs": Jsonb({})}),
    ("heartbeat_jobs", {"worker_id": WORKER, "jobs": Jsonb([1])}),
    ("heartbeat_jobs", {"worker_id": WORKER, "jobs": Jsonb([TOKEN | {"job_id": "x"}])}),
    ("heartbeat_jobs", {"worker_id": WORKER, "lease_s": 0}),
    ("heartbeat_jobs", {"worker_id": WORKER, "lease_s": 3601}),
    ("complete_jobs", {"worker_id": None, "outcomes": Jsonb([])}),
    ("complete_jobs", {"worker_id": WORKER, "outcomes": Jsonb({})}),
    ("complete_jobs", {"worker_id": WORKER, "outcomes": Jsonb([1])}),
    ("complete_jobs", {"worker_id": WORKER, "outcomes": Jsonb([TOKEN | {"lease": "x"}])}),
    ("complete_jobs", {"worker_id": WORKER, "outcomes": Jsonb([TOKEN | {"lease": 10**30}])}),
    ("complete_jobs", {"worker_id": WORKER, "outcomes": Jsonb([TOKEN | {"run_at": "soon"}])}),
    ("complete_jobs", {"worker_id": WORKER, "outcomes": Jsonb([TOKEN] * 5001)}),
    ("succeed_jobs", SUCCESSES | {"worker_id": None}),
    ("succeed_jobs", SUCCESSES | {"jobs": None}),
    ("succeed_jobs", SUCCESSES | {"jobs": []}),
    ("succeed_jobs", SUCCESSES | {"tenants": []}),
    ("succeed_jobs", SUCCESSES | {"leases": [1, 2]}),
    ("succeed_jobs", SUCCESSES | {"results": []}),
    ("succeed_jobs", {**SUCCESSES, **{name: SUCCESSES[name] * 5001 for name in ARRAYS}}),
    ("release_jobs", {"worker_id": WORKER, "jobs": Jsonb({})}),
    ("release_jobs", {"worker_id": WORKER, "jobs": Jsonb([1])}),
    ("note_jobs", {"worker_id": None, "notes": Jsonb([])}),
    ("note_jobs", {"worker_id": WORKER, "notes": None}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb({})}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([1])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([[NOTE]])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([NOTE | {"lease": "x"}])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([TOKEN | {"data": {}}])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([NOTE | {"kind": None}])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([NOTE | {"kind": "canceled"}])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([NOTE | {"kind": "Log"}])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([NOTE | {"kind": ["log"]}])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([TOKEN | {"kind": "log"}])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([NOTE | {"data": None}])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([NOTE | {"data": "text"}])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([NOTE | {"data": []}])}),
    ("note_jobs", {"worker_id": WORKER, "notes": Jsonb([NOTE] * 5001)}),
    ("register_worker", {"worker_id": None, "queues": ["q"], "slots": 1}),
    ("register_worker", {"worker_id": WORKER, "queues": [], "slots": 1}),
    ("register_worker", {"worker_id": WORKER, "queues": ["q"], "slots": 0}),
    ("register_worker", {"worker_id": WORKER, "queues": ["q"], "slots": 1, "lease_s": 0}),
    ("cancel_jobs", {"filter": {}, "limit": 0, "tenant_id": TENANT_A}),
    ("cancel_jobs", {"filter": {}, "limit": 10001, "tenant_id": TENANT_A}),
    ("cancel_jobs", {"filter": Jsonb([]), "tenant_id": TENANT_A}),
    ("cancel_jobs", {"filter": None, "tenant_id": TENANT_A}),
    ("cancel_jobs", {"filter": {"state": "odd"}, "tenant_id": TENANT_A}),
    ("cancel_jobs", {"filter": {"state": []}, "tenant_id": TENANT_A}),
    ("cancel_jobs", {"filter": {"payload": 1}, "tenant_id": TENANT_A}),
    ("cancel_jobs", {"filter": {"created_after": "soon"}, "tenant_id": TENANT_A}),
    ("retry_jobs", {"limit": None, "tenant_id": TENANT_A}),
    ("retry_jobs", {"rate": 0, "tenant_id": TENANT_A}),
    ("retry_jobs", {"rate": -1, "tenant_id": TENANT_A}),
    ("retry_jobs", {"rate": 1e-300, "tenant_id": TENANT_A}),
    ("retry_jobs", {"rate": float("nan"), "tenant_id": TENANT_A}),
    ("retry_jobs", {"tenant_id": UUID(int=2**128 - 1)}),  # a walk over tenants never reaches it
    ("retry_jobs", {"attempts": 0, "tenant_id": TENANT_A}),
    ("retry_jobs", {"filter": None, "tenant_id": TENANT_A}),
    ("retry_job", {"job_id": WORKER, "attempts": 0, "tenant_id": TENANT_A}),
    ("retry_job", {"job_id": WORKER, "payload": Jsonb([]), "tenant_id": TENANT_A}),
    ("edit_job", {"job_id": WORKER, "changes": Jsonb([]), "tenant_id": TENANT_A}),
    ("edit_job", {"job_id": WORKER, "changes": {"state": "dead"}, "tenant_id": TENANT_A}),
    ("edit_job", {"job_id": WORKER, "changes": {"priority": 40000}, "tenant_id": TENANT_A}),
    ("edit_job", {"job_id": WORKER, "changes": {"payload": None}, "tenant_id": TENANT_A}),
    ("edit_job", {"job_id": WORKER, "changes": {"queue": ""}, "tenant_id": TENANT_A}),
    ("reschedule_job", {"job_id": WORKER, "run_at": "infinity", "tenant_id": TENANT_A}),
    ("reschedule_job", {"job_id": WORKER, "run_at": "2999-01-01Z", "tenant_id": TENANT_A}),
    ("list_jobs", {"limit": 0, "tenant_id": TENANT_A}),
    ("list_jobs", {"limit": 201, "tenant_id": TENANT_A}),
    ("list_notes", {"job_id": WORKER, "limit": 0, "tenant_id": TENANT_A}),
    ("list_notes", {"job_id": WORKER, "limit": 1001, "tenant_id": TENANT_A}),
    ("list_notes", {"job_id": WORKER, "limit": None, "tenant_id": TENANT_A}),
    ("put_definition", {"key": None, "version": 1}),
    ("put_definition", {"key": "a b", "version": 1}),
    ("put_definition", {"key": "a", "version": 0}),
    ("put_definition", {"key": "a", "version": 1, "settings": Jsonb([])}),
    ("put_definition", {"key": "a", "version": 1, "settings": {"color": "red"}}),
    ("put_definition", {"key": "a", "version": 1, "settings": {"timeout_s": 0}}),
    ("put_definition", {"key": "a", "version": 1, "settings": {"timeout_s": "long"}}),
    ("put_definition", {"key": "a", "version": 1, "settings": {"max_attempts": 1001}}),
    ("put_definition", {"key": "a", "version": 1, "settings": {"backoff_base_s": -1}}),
    ("put_definition", {"key": "a", "version": 1, "settings": {"max_running": 0}}),
    ("put_definition", {"key": "a", "version": 1, "settings": {"rate_limit": -1}}),
    ("put_definition", {"key": "a", "version": 1, "settings": {"is_active": "maybe"}}),
    ("put_definition", {"key": "a", "version": 1, "settings": {"hooks": "maybe"}}),
    ("put_definition", {"key": "a", "version": 1, "settings": {"queue": "a b"}}),
    ("override_definition", {"key": "test", "overrides": {"queue": "x"}}),
    ("override_definition", {"key": "test", "overrides": {"hooks": False}}),
    ("override_definition", {"key": "test", "overrides": {"max_attempts": 0}}),
    ("put_tenant", {"tenant_id": None}),
    ("put_tenant", {"tenant_id": TENANT_A, "settings": {"weight": 0}}),
    ("put_tenant", {"tenant_id": TENANT_A, "settings": {"slug": "Not A Slug"}}),
    ("put_tenant", {"tenant_id": TENANT_A, "settings": {"timezone": "Mars/X"}}),
    ("put_tenant", {"tenant_id": TENANT_A, "settings": {"max_pending": -1}}),
    ("put_tenant", {"tenant_id": TENANT_A, "settings": {"paused_at": "now"}}),
    ("put_queue", {"queue": None}),
    ("put_queue", {"queue": "a b"}),
    ("put_queue", {"queue": "q", "settings": {"max_running": 0}}),
    ("put_queue", {"queue": "q", "settings": {"rate_limit": "x"}}),
    ("pause_queue", {"queue": None}),
    ("pause_queue", {"queue": ""}),
    ("pause_tenant", {"tenant_id": None}),
    ("delete_tenant", {"tenant_id": None}),
    ("apply_retention", {"history_days": 0}),
    ("apply_retention", {"dead_days": 0}),
    ("apply_retention", {"audit_days": 0}),
    ("apply_retention", {"kind": "everything"}),
]


@pytest.mark.parametrize(
    ("function", "arguments"),
    CALLS,
    ids=[f"{n}-{function}" for n, (function, _) in enumerate(CALLS)],
)
def test_wrong_arguments_are_refused_as_invalid(
    conn: Connection, function: str, arguments: dict[str, Any]
) -> None:
    with refused("JF002"):
        call(conn, function, **arguments)


MISSING: list[tuple[str, dict[str, Any]]] = [
    ("cancel_job", {"job_id": WORKER, "tenant_id": TENANT_A}),
    ("edit_job", {"job_id": WORKER, "changes": {}, "tenant_id": TENANT_A}),
    ("reschedule_job", {"job_id": WORKER, "run_at": None, "tenant_id": TENANT_A}),
    ("retry_job", {"job_id": WORKER, "tenant_id": TENANT_A}),
    ("get_job", {"job_id": WORKER, "tenant_id": TENANT_A}),
    ("explain_job", {"job_id": WORKER, "tenant_id": TENANT_A}),
    ("list_notes", {"job_id": WORKER, "tenant_id": TENANT_A}),
    ("cancel_job", {"job_id": None, "tenant_id": TENANT_A}),
    ("list_notes", {"job_id": None, "tenant_id": TENANT_A}),
    ("find_tenant", {"slug": "absent"}),
    ("find_tenant", {"slug": None}),
    ("drain_worker", {"worker_id": WORKER}),
    ("stop_worker", {"worker_id": WORKER}),
    ("pause_definition", {"key": "absent"}),
    ("resume_definition", {"key": "absent"}),
    ("override_definition", {"key": "absent", "overrides": {}}),
]


@pytest.mark.parametrize(
    ("function", "arguments"),
    MISSING,
    ids=[f"{n}-{function}" for n, (function, _) in enumerate(MISSING)],
)
def test_a_missing_object_is_not_found(
    conn: Connection, function: str, arguments: dict[str, Any]
) -> None:
    with refused("JF004"):
        call(conn, function, **arguments)

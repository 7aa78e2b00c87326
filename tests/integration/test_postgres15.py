"""Every public function once on the oldest supported Postgres.

The whole suite also runs there (`make test-15`); this is what an ordinary run can afford.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connection, connect_to, make_folder
from psycopg.types.json import Jsonb
from sql.engine import TENANT_A, call, refused, token

from jobforge.db.migrate import check, migrate
from jobforge.embedded import Embedded
from jobforge.embedded.binaries import OLDEST_MAJOR
from jobforge.testing.cluster import SETTINGS

POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")

pytestmark = pytest.mark.skipif(
    not POSTGRES_15.exists(), reason="Debian's Postgres 15 is not installed"
)


@pytest.fixture(scope="module")
def conn() -> Iterator[Connection]:
    folder = make_folder("jobforge-postgres15-")
    embedded = Embedded(folder / "pg", bin_dir=POSTGRES_15, settings=SETTINGS)
    try:
        with connect_to(embedded.start()) as conn:
            migrate(conn)
            check(conn)
            yield conn
    finally:
        embedded.stop()
        shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class CallRecorder:
    """Calls functions for one tenant, and records which."""

    conn: Connection
    clock: Clock
    worker: UUID = field(default_factory=uuid4)
    called: set[str] = field(default_factory=set)

    def call(self, function: str, **arguments: Any) -> Any:
        """Return the result: a value if it is one, otherwise rows."""
        self.called.add(function)
        rows = call(self.conn, function, **arguments)
        if len(rows) == 1 and len(rows[0]) == 1:
            return next(iter(rows[0].values()))
        return rows

    def enqueue(self, **options: Any) -> UUID:
        [row] = self.call("enqueue_job", definition="job", options=options, tenant_id=TENANT_A)
        job = row["job_id"]
        assert isinstance(job, UUID)
        return job

    def of(self, function: str, job: UUID, **arguments: Any) -> Any:
        return self.call(function, job_id=job, tenant_id=TENANT_A, **arguments)

    def run(self, **options: Any) -> dict[str, Any]:
        """Return a new job that is claimed."""
        job = self.enqueue(**options)
        [row] = self.call("claim_jobs", worker_id=self.worker, queues=["default"], limits=[1])
        assert row["job_id"] == job
        return dict(row)

    def end(self, outcome: str, **fields: Any) -> UUID:
        """Return a job that ended with this outcome."""
        row = self.run()
        outcomes = Jsonb([token(row) | {"outcome": outcome} | fields])
        [answer] = self.call("complete_jobs", worker_id=self.worker, outcomes=outcomes)
        assert answer["status"] == "ok"
        job = row["job_id"]
        assert isinstance(job, UUID)
        return job

    def state(self, job: UUID) -> Any:
        [row] = self.of("get_job", job)
        return row["job"]["state"]


def test_this_is_the_oldest_supported_version(conn: Connection) -> None:
    assert conn.info.server_version // 10000 == OLDEST_MAJOR


def test_ids_are_uuids_of_version_7_in_order_of_creation(conn: Connection) -> None:
    rows = conn.execute(
        "select jobforge_private.uuid7() as id, clock_timestamp() as at"
        "  from generate_series(1, 2000)"
    ).fetchall()
    ids = [row["id"] for row in rows]
    assert {id_.version for id_ in ids} == {7}
    assert ids == sorted(ids)
    assert all(abs((row["id"].int >> 80) - row["at"].timestamp() * 1000) < 1000 for row in rows)


def test_every_public_function_works(conn: Connection) -> None:
    engine = CallRecorder(conn, Clock(conn))
    for part in PARTS:
        part(engine)
    public = conn.execute(
        """
        select proname as name from pg_proc
         where pronamespace = 'jobforge'::regnamespace
           and has_function_privilege('jobforge_server', oid, 'execute')
        """
    )
    assert {row["name"] for row in public} - engine.called == set()


def _settings(engine: CallRecorder) -> None:
    engine.call("put_definition", key="job", version=1, settings={"max_attempts": 2})
    engine.call("override_definition", key="job", overrides={"timeout_s": 60})
    engine.call("put_tenant", tenant_id=TENANT_A, settings={"slug": "acme", "max_pending": 1000})
    engine.call("put_queue", queue="limited", settings={"max_running": 1, "rate_limit": 5})
    assert engine.call("find_tenant", slug="acme") == TENANT_A
    assert [row["slug"] for row in engine.call("list_tenants")] == ["acme"]
    assert engine.call("tenant") is None
    engine.call("pre_request")


def _enqueuing(engine: CallRecorder) -> None:
    job = {"definition": "job", "key": "k", "queue": "idle"}
    statuses = [
        engine.call("enqueue_jobs", jobs=[{**job, **more}], tenant_id=TENANT_A)[0]["status"]
        for more in ({}, {}, {"on_conflict": "replace"})
    ]
    assert statuses == ["created", "existing", "replaced"]
    with refused("JF011"):
        engine.call("enqueue_jobs", jobs=[{**job, "on_conflict": "raise"}], tenant_id=TENANT_A)
    with refused("JF001"):
        engine.call("enqueue_job", definition="job")
    options = {"queue": "idle", "delay_s": 60}
    given = {"definition": "job", "payloads": [{}, {"n": 1}], "options": options}
    first = engine.call("enqueue_payloads", **given, tenant_id=TENANT_A)
    assert engine.state(first) == "scheduled"


def _outcomes(engine: CallRecorder) -> None:
    ends = {
        "succeeded": "succeeded",
        "canceled": "canceled",
        "failed": "scheduled",
        "timed_out": "scheduled",
        "crashed": "scheduled",
        "snoozed": "scheduled",
    }
    for outcome, state in ends.items():
        assert engine.state(engine.end(outcome, retry_in_s=3600)) == state
    row = engine.run()
    ids = {"tenants": [TENANT_A], "jobs": [row["job_id"]], "leases": [row["lease"]]}
    engine.call("succeed_jobs", worker_id=engine.worker, **ids, results=[Jsonb({"n": 1})])
    assert engine.state(row["job_id"]) == "succeeded"
    row = engine.run()
    engine.call("release_jobs", worker_id=engine.worker, jobs=Jsonb([token(row)]))
    assert engine.state(row["job_id"]) == "queued"
    assert engine.of("cancel_job", row["job_id"]) == "canceled"


def _leases(engine: CallRecorder) -> None:
    row = engine.run()
    held = {"tenant_id": TENANT_A, "job_id": row["job_id"], "worker_id": engine.worker}
    beats = engine.call("heartbeat_jobs", worker_id=engine.worker, jobs=Jsonb([token(row)]))
    assert [beat["status"] for beat in beats] == ["ok", "unknown"]
    assert engine.call("heartbeat_job", **held, lease=row["lease"]) == "ok"
    note = token(row) | {"kind": "progress", "data": {"done": 1}}
    [noted] = engine.call("note_jobs", worker_id=engine.worker, notes=Jsonb([note]))
    assert noted["status"] == "ok"
    assert [n["kind"] for n in engine.of("list_notes", row["job_id"])] == ["progress"]
    assert engine.of("cancel_job", row["job_id"], reason="enough") == "canceling"
    assert engine.call("heartbeat_job", **held, lease=row["lease"]) == "cancel"
    canceled = {"outcome": "canceled"}
    assert engine.call("complete_job", **held, lease=row["lease"], outcome=canceled) == "canceled"
    with refused("JF003"):
        engine.call("heartbeat_job", **held, lease=row["lease"])
    lost = engine.run()
    engine.clock.travel(minutes=2)
    assert [reaped["job_id"] for reaped in engine.call("reap_jobs")] == [lost["job_id"]]
    assert engine.state(lost["job_id"]) == "scheduled"
    engine.of("cancel_job", lost["job_id"])  # its retry would be claimed instead of a later job


def _steps(engine: CallRecorder) -> None:
    row = engine.run()
    step = token(row) | {"name": "send", "index": 0, "result": {"n": 1}}
    [saved] = engine.call("save_steps", worker_id=engine.worker, steps=Jsonb([step]))
    assert saved["status"] == "ok"
    held = {"worker_id": engine.worker, "job_id": row["job_id"], "tenant_id": TENANT_A}
    created = {"name": "job", "index": 0, "jobs": [{"definition": "job", "queue": "idle"}]}
    [child] = engine.call("enqueue_children", **held, lease=row["lease"], **created)
    engine.of("cancel_job", child["job_id"])
    waits: list[dict[str, Any]] = [
        {"kind": "event", "name": "paid", "index": 0, "match": {"n": 1}},
        {"kind": "gather", "name": "gather", "index": 0, "jobs": [str(child["job_id"])]},
    ]
    done: Any = None
    for wait in waits:
        outcome = token(row) | {"outcome": "snoozed", "retry_in_s": 0, "wait": wait}
        engine.call("complete_jobs", worker_id=engine.worker, outcomes=Jsonb([outcome]))
        event = {"tenant_id": TENANT_A, "event_id": uuid4(), "name": "paid", "data": {"n": 1}}
        engine.call("jobforge_private.resume_waits", **event)
        [row] = engine.call("claim_jobs", worker_id=engine.worker, queues=["default"], limits=[1])
        done = engine.call("load_steps", **held, lease=row["lease"])
    assert [each["kind"] for each in done] == ["step", "enqueue", "event", "gather"]
    listed = engine.of("list_steps", row["job_id"])
    assert [each["state"] for each in listed] == ["done"] * 4
    engine.call("release_jobs", worker_id=engine.worker, jobs=Jsonb([token(row)]))
    engine.of("cancel_job", row["job_id"])


def _changes(engine: CallRecorder) -> None:
    assert engine.of("erase_job", engine.end("succeeded"))
    job = engine.enqueue(delay_s=3600)
    assert engine.of("edit_job", job, changes={"priority": 7}) == "scheduled"
    assert engine.of("reschedule_job", job, run_at=None) == "queued"
    assert engine.call("cancel_jobs", filter={"queue": "default"}, tenant_id=TENANT_A) > 0
    dead = engine.end("failed", final=True, error={"type": "E", "message": "no"})
    assert engine.of("retry_job", dead) == dead
    assert engine.state(dead) == "queued"
    engine.of("cancel_job", dead)
    assert engine.of("retry_job", dead) != dead
    engine.call("cancel_jobs", filter={"state": "queued"}, tenant_id=TENANT_A)
    engine.end("failed", final=True, error={"type": "E", "message": "no"})
    assert engine.call("retry_jobs", rate=10, tenant_id=TENANT_A) == 1


def _reading(engine: CallRecorder) -> None:
    job = engine.enqueue(tags=["blue"], delay_s=3600)
    listed = engine.call("list_jobs", filter={"tag": "blue"}, tenant_id=TENANT_A)
    assert [row["id"] for row in listed] == [job]
    order = {"filter": {"tag": "blue"}, "order": "oldest", "tenant_id": TENANT_A}
    assert engine.call("list_jobs", **order) == listed
    reasons = [row["code"] for row in engine.of("explain_job", job)]
    assert reasons == ["scheduled", "queue_not_served"]
    summary = engine.call("summarize", tenant_id=TENANT_A)
    assert {"scheduled", "canceled", "succeeded"} <= {row["state"] for row in summary}


def _limits(engine: CallRecorder) -> None:
    jobs = [engine.enqueue(queue="limited") for _ in range(2)]
    claims = [
        engine.call("claim_jobs", worker_id=engine.worker, queues=["limited"], limits=[2])
        for _ in range(2)
    ]
    assert [[row["job_id"] for row in rows] for rows in claims] == [jobs[:1], []]
    claim = {"worker_id": engine.worker, "queues": ["limited"], "limits": [1]}
    assert engine.call("claim_readable_jobs", **claim) == []


def _pauses(engine: CallRecorder) -> None:
    pauses = {"queue": "limited", "definition": "job", "tenant": TENANT_A}
    for kind, name in pauses.items():
        argument = {"queue": "queue", "definition": "key", "tenant": "tenant_id"}[kind]
        for verb in ("pause", "resume"):
            engine.call(f"{verb}_{kind}", **{argument: name})
    engine.call("regate_jobs", limit=100)
    engine.call("free_blocked_jobs", limit=100)


def _failures(engine: CallRecorder) -> None:
    engine.call("cancel_jobs", filter={"queue": "default"}, tenant_id=TENANT_A)
    engine.end("failed", final=True, error={"type": "E", "message": "died"})
    [group, *_] = engine.call("list_failures", tenant_id=TENANT_A)
    assert group["error"] == {"type": "E", "message": "died"}
    engine.call(
        "annotate_failure",
        fingerprint=group["fingerprint"],
        changes={"note": "known"},
        tenant_id=TENANT_A,
    )
    [group, *_] = engine.call("list_failures", tenant_id=TENANT_A)
    assert group["note"] == "known"


def _operations(engine: CallRecorder) -> None:
    engine.enqueue(queue="many")
    which = {"queue": "many"}
    for end in ("done", "canceled"):
        given = {"kind": "cancel", "filter": which, "tenant_id": TENANT_A}
        assert engine.call("count_jobs", **given) == (end == "done")
        operation = engine.call("start_operation", **given)
        if end == "canceled":
            engine.call("cancel_operation", id=operation, tenant_id=TENANT_A)
        engine.call("advance_operations")
        [row] = engine.call("get_operation", id=operation, tenant_id=TENANT_A)
        assert row["state"] == end
    assert len(engine.call("list_operations", tenant_id=TENANT_A)) == 2


def _keys(engine: CallRecorder) -> None:
    given = {"name": "ci", "role": "viewer", "hash": bytes(32), "tenant_id": TENANT_A}
    key = engine.call("create_api_key", lookup="lookup-1", **given)
    engine.call("touch_api_key", id=key)
    [found] = engine.call("find_api_key", lookup="lookup-1")
    assert (found["id"], found["is_live"]) == (key, True)
    rotated = {"lookup": "lookup-2", "hash": bytes(32), "tenant_id": TENANT_A}
    new = engine.call("rotate_api_key", id=key, **rotated)
    engine.call("revoke_api_key", id=new, tenant_id=TENANT_A)
    assert len(engine.call("list_api_keys", tenant_id=TENANT_A)) == 2


def _connectors(engine: CallRecorder) -> None:
    config = {"name": "billing", "secrets": {"token": {"from": "env:TOKEN"}}}
    own = {
        "id": engine.call("create_connector_config", id=uuid4(), config=config, tenant_id=TENANT_A)
    }
    own["tenant_id"] = TENANT_A
    engine.call("edit_connector_config", config={"name": "invoices"}, **own)
    assert engine.call("get_connector_config", **own)[0]["name"] == "invoices"
    assert len(engine.call("list_connector_configs", tenant_id=TENANT_A)) == 1
    [opened] = engine.call("open_connector_config", name="invoices", tenant_id=TENANT_A)
    assert opened["secrets"] == {"token": {"from": "env:TOKEN"}}
    engine.call("delete_connector_config", **own)
    engine.call("keep_tenant_key", key_id="k1", wrapped=bytes(60), tenant_id=TENANT_A)
    [key] = engine.call("list_tenant_keys", key_id="k2")
    assert key["tenant_id"] == TENANT_A
    rewrapped = {"before": bytes(60), "key_id": "k2", "wrapped": b"n" * 60, "tenant_id": TENANT_A}
    assert engine.call("rewrap_tenant_key", **rewrapped)


def _webhooks(engine: CallRecorder) -> None:
    engine.call("put_definition", key="connector.webhook.deliver", version=1, settings={})
    webhook = engine.call(
        "create_webhook",
        id=uuid4(),
        settings={"url": "https://example.com/", "events": ["start", "end"]},
        secret=bytes(61),
        tenant_id=TENANT_A,
    )
    own = {"id": webhook, "tenant_id": TENANT_A}
    engine.end("succeeded")
    ended, started = engine.call("list_deliveries", **own)
    assert (started["event"], ended["event"]) == ("job.started", "job.succeeded")
    delivery = {**own, "delivery_id": engine.call("test_webhook", **own)}
    engine.call("edit_webhook", changes={"events": ["dead"]}, **own)
    engine.call("rotate_webhook", secret=b"n" * 61, **own)
    [opened] = engine.call("open_delivery", **delivery)
    assert opened["secrets"] == [b"n" * 61, bytes(61)]
    assert engine.call("record_delivery", attempt={"status": 500, "error": "no"}, **delivery)
    engine.call("cancel_jobs", filter={"queue": "connectors"}, tenant_id=TENANT_A)
    engine.call("redeliver", **delivery)
    assert engine.call("get_webhook", **own)[0]["enabled"]
    engine.call("delete_webhook", **own)
    assert engine.call("list_webhooks", tenant_id=TENANT_A) == []


def _events(engine: CallRecorder) -> None:
    settings = {"label": "all", "definition": "job", "event": "*", "queue": "idle"}
    trigger = engine.call("create_trigger", type="event", settings=settings, tenant_id=TENANT_A)
    event = engine.call("emit_event", name="order.paid", data={"n": 7}, tenant_id=TENANT_A)
    pending = engine.call("pending_events")
    assert [each["data"] for each in pending["events"]] == [{"n": 7}]
    assert [each["id"] for each in pending["triggers"]] == [str(trigger)]
    reactions = [
        {"trigger_id": str(trigger), "outcome": "enqueued", "job": {"definition": "job"}},
        {"trigger_id": str(uuid4()), "outcome": "enqueued", "job": {"definition": "none"}},
    ]
    created = [{"id": str(event), "deliveries": reactions}]
    counts = engine.call("record_deliveries", deliveries=created)
    assert counts == {"events": 1, "enqueued": 1, "failed": 1}
    [found] = engine.call("get_event", id=event, tenant_id=TENANT_A)
    assert [each["outcome"] for each in found["deliveries"]] == ["enqueued", "failed"]
    [listed] = engine.call("list_events", filter={"name": "order.*"}, tenant_id=TENANT_A)
    assert listed["outcomes"] == {"enqueued": 1, "failed": 1}
    [delivery] = engine.call("list_event_deliveries", trigger_id=trigger, tenant_id=TENANT_A)
    assert delivery["event_id"] == event
    assert engine.call("replay_event", id=event, tenant_id=TENANT_A) == 1


def _schedules(engine: CallRecorder) -> None:
    settings = {"label": "hourly", "definition": "job", "cron": "@hourly", "queue": "idle"}
    schedule = engine.call("create_trigger", type="schedule", settings=settings, tenant_id=TENANT_A)
    own = {"id": schedule, "tenant_id": TENANT_A}
    engine.call("edit_trigger", changes={"overlap": "cancel_running"}, **own)
    assert engine.call("run_trigger", **own)
    assert engine.call("backfill_trigger", times=["2026-01-01T00:00Z"], **own) == 1
    [due] = engine.call("due_schedules")["triggers"]
    kinds = ["backfill", "manual"]
    assert [each["kind"] for each in due["pending"]] == kinds
    fired = [
        {**each, "payload": {}, "kind": kind}
        for each, kind in zip(due["pending"], ["schedule", "manual"], strict=True)
    ]
    plan = {name: due[name] for name in ("tenant_id", "id", "due_at", "updated_at")}
    assert engine.call("record_firings", plans=[{**plan, "firings": fired}]) == 2
    firings = engine.call("list_firings", trigger_id=schedule, tenant_id=TENANT_A)
    assert [row["outcome"] for row in firings] == ["enqueued"] * 2
    [listed] = engine.call("list_triggers", filter={"type": "schedule"}, tenant_id=TENANT_A)
    assert listed == engine.call("get_trigger", **own)[0]
    engine.call("delete_trigger", **own)
    declared = {"name": "job", "type": "schedule", "tenant": "*", "settings": settings}
    engine.call("declare_triggers", declared=[declared], definitions=["job"])
    [listed] = engine.call("list_triggers", filter={"type": "schedule"}, tenant_id=TENANT_A)
    assert listed["declared"] == "job"


def _requests(engine: CallRecorder) -> None:
    engine.call("end_session", id=bytes(16), expires_at="tomorrow")
    assert engine.call("is_session_ended", id=bytes(16)) is True
    taken = [engine.call("take_request", bucket="b", rate=0.001, burst=1) for _ in range(2)]
    assert [row["allowed"] for [row] in taken] == [True, False]
    request = {"request_key": "r", "body_hash": bytes(32), "tenant_id": TENANT_A}
    jobs = [{"definition": "job", "queue": "idle"}]
    rows = [engine.call("enqueue_jobs_once", jobs=jobs, **request) for _ in range(2)]
    assert [row["replayed"] for [row] in rows] == [False, True]
    engine.call("note_access", action="tenant.access", tenant_id=TENANT_A)


def _inventory(engine: CallRecorder) -> None:
    assert [row["key"] for row in engine.call("list_definitions", prefix="jo")] == ["job"]
    [definition] = engine.call("get_definition", key="job")
    assert definition["overrides"] == {"timeout_s": 60}
    assert "idle" in [row["name"] for row in engine.call("list_queues", tenant_id=TENANT_A)]
    assert "limited" in [row["name"] for row in engine.call("list_queues")]
    assert engine.call("list_holders", queue="limited") is not None
    assert engine.call("list_audit", filter={"action": "key.revoke"}) != []


def _logins(engine: CallRecorder) -> None:
    login = f"bound_{uuid4().hex}"
    engine.conn.execute(f"create role {login} login in role jobforge_client".encode())
    engine.call("bind_login", login=login, tenants=[TENANT_A])
    assert [row["login"] for row in engine.call("list_bound_logins")] == [login]
    engine.call("unbind_login", login=login)
    assert engine.call("list_bound_logins") == []
    engine.conn.execute(f"drop role {login}".encode())


def _stream(engine: CallRecorder) -> None:
    [mark] = engine.call("read_stream")
    assert mark["kind"] == "mark"
    counted = engine.call("count_states", tenants=[TENANT_A])
    assert "dead" in [row["state"] for row in counted]


def _condition(engine: CallRecorder) -> None:
    assert "dead" in [row["gauge"] for row in engine.call("read_gauges")]
    assert engine.call("find_problems") is not None
    assert engine.call("find_unreadable") == []
    assert engine.call("list_missed_firings") is not None
    assert engine.call("list_migrations") != []
    assert engine.call("access_faults") == []


def _workers(engine: CallRecorder) -> None:
    engine.call("register_worker", worker_id=engine.worker, queues=["default"], slots=4)
    with refused("JF004"):
        engine.call("find_worker", worker_id=engine.worker, owner="somebody else")
    engine.call("drain_worker", worker_id=engine.worker)
    vitals = {"memory_bytes": 1, "clock": engine.clock.now()}
    beats = engine.call("heartbeat_jobs", worker_id=engine.worker, **vitals)
    assert beats[-1]["status"] == "drain"
    engine.call("stop_worker", worker_id=engine.worker)
    engine.call("unregister_worker", worker_id=engine.worker)
    assert [row["state"] for row in engine.call("list_workers")] == ["stopped"]


def _statistics(engine: CallRecorder) -> None:
    assert engine.call("start_maintenance", task="statistics", every_s=0) is True
    assert engine.call("roll_up_statistics") > 0
    asked = {"since": engine.clock.now() - timedelta(days=300), "until": engine.clock.now()}
    rows = engine.call("get_statistics", step_s=86400, by="definition", tenant_id=TENANT_A, **asked)
    assert sum(row["dead"] for row in rows) > 0
    [used, *_] = engine.call("meter_tenants", **asked)
    assert used["attempts"] > 0


def _maintenance(engine: CallRecorder) -> None:
    assert engine.call("ensure_partitions", days=10) > 0
    engine.clock.travel(days=40)
    assert engine.call("apply_retention")["partitions"] != []
    assert engine.call("start_artifact_sweep") is True
    engine.call("record_artifact_store", store_id=None, kind="worker", host="mill")
    assert engine.call("list_artifact_stores") is not None
    unused = f"{TENANT_A}/2026-01-01/{TENANT_A}"
    assert engine.call("unused_artifacts", folders=[unused]) == unused
    operation = engine.call("delete_tenant", tenant_id=TENANT_A)
    for _ in range(20):
        engine.clock.travel(seconds=2)
        engine.call("advance_operations")
        for found in engine.call("next_erasure"):
            assert engine.call("confirm_erasure", **found)
    [erased] = engine.call("get_operation", id=operation, tenant_id=TENANT_A)
    assert erased["state"] == "done", erased


def _workflows(engine: CallRecorder) -> None:
    nodes = [
        {"name": "first", "definition": "job", "queue": "flow"},
        {"name": "second", "definition": "job", "queue": "flow", "after": ["first"]},
    ]
    document = {"name": "flow", "nodes": nodes}
    created = engine.call("enqueue_workflow", workflow=document, tenant_id=TENANT_A)
    workflow = created[0]["workflow_id"]
    [row] = engine.call("claim_jobs", worker_id=engine.worker, queues=["flow"], limits=[1])
    held = {"worker_id": engine.worker, "job_id": row["job_id"], "lease": row["lease"]}
    more = [{"name": "third", "definition": "job", "queue": "flow"}]
    engine.call("add_workflow_jobs", **held, nodes=more, tenant_id=TENANT_A)
    [origin] = engine.call("load_parents", **held, tenant_id=TENANT_A)
    assert origin["workflow"]["node"] == "first"
    engine.call(
        "complete_jobs",
        worker_id=engine.worker,
        outcomes=Jsonb([token(row) | {"outcome": "succeeded"}]),
    )
    assert engine.call("cancel_workflow", id=workflow, tenant_id=TENANT_A) == "canceled"
    assert engine.call("retry_workflow", id=workflow, tenant_id=TENANT_A) == 2
    [shown] = engine.call("get_workflow", id=workflow, tenant_id=TENANT_A)
    assert sorted(node["state"] for node in shown["nodes"]) == ["blocked", "queued", "succeeded"]
    assert engine.call("list_workflows", tenant_id=TENANT_A)["name"] == "flow"
    job = {"definition": "job", "queue": "flow"}
    created = engine.call("create_batch", batch={"open": True}, jobs=[job], tenant_id=TENANT_A)
    batch = created[0]["batch_id"]
    engine.call("add_to_batch", id=batch, jobs=[job], tenant_id=TENANT_A)
    assert engine.call("close_batch", id=batch, tenant_id=TENANT_A) == "running"
    assert engine.call("cancel_batch", id=batch, tenant_id=TENANT_A) == "canceled"
    assert engine.call("get_batch", id=batch, tenant_id=TENANT_A)["counts"] == {"canceled": 2}
    assert engine.call("list_batches", tenant_id=TENANT_A)["id"] == str(batch)
    engine.call("cancel_workflow", id=workflow, tenant_id=TENANT_A)


PARTS: list[Callable[[CallRecorder], None]] = [
    _settings,
    _enqueuing,
    _workflows,
    _outcomes,
    _leases,
    _steps,
    _changes,
    _reading,
    _limits,
    _pauses,
    _failures,
    _operations,
    _keys,
    _connectors,
    _webhooks,
    _schedules,
    _events,
    _requests,
    _inventory,
    _logins,
    _stream,
    _condition,
    _workers,
    _statistics,
    _maintenance,
]

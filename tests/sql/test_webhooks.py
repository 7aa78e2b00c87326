"""Webhooks: the transaction that ends a job queues a message for each endpoint of its tenant."""

from datetime import UTC
from typing import Any
from uuid import UUID, uuid4

import pytest
from cluster import Clock, Connect, Connection
from psycopg.types.json import Jsonb
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    as_tenant,
    call,
    call_for_value,
    complete,
    count,
    definition,
    enqueue,
    enqueue_one,
    erase,
    job_of,
    new_worker,
    reap,
    refused,
    succeed,
)
from sql.uncached_claim import claim
from sql.webhook_endpoints import (
    CONNECTOR,
    SEALED,
    create_endpoint,
    define_connector,
    get_endpoint,
    list_sent,
    list_sent_events,
    record_attempt,
    unmatched_messages,
)

EVENTS = ["start", "success", "failure", "dead", "end"]


@pytest.fixture
def delivering(conn: Connection) -> Connection:
    """`test` has two attempts, and a worker delivers webhooks."""
    definition(conn, max_attempts=2, backoff_base_s=60)
    define_connector(conn)
    return conn


def run_one(conn: Connection, outcome: str, tenant: UUID = TENANT_A, **fields: Json) -> UUID:
    """Enqueue a job, claim it and end its attempt."""
    job = enqueue_one(conn, tenant)
    worker = new_worker()
    [row] = complete(conn, worker, claim(conn, worker, tenants=[tenant]), outcome, **fields)
    assert row["status"] == "ok"
    return job


# The messages.


def test_each_kind_of_completion_is_sent_to_the_endpoints_that_want_it(
    delivering: Connection,
) -> None:
    by_event = {event: create_endpoint(delivering, events=[event]) for event in EVENTS}
    by_event["all"] = create_endpoint(delivering, events=EVENTS)
    run_one(delivering, "succeeded")
    run_one(delivering, "failed", final=True)
    run_one(delivering, "failed")
    run_one(delivering, "canceled")
    run_one(delivering, "released")
    call(delivering, "cancel_jobs", filter={"state": "queued"}, tenant_id=TENANT_A)
    received = {
        event: list_sent_events(delivering, webhook_id) for event, webhook_id in by_event.items()
    }
    assert received["start"] == ["job.started"] * 5
    assert received["success"] == ["job.succeeded"]
    assert sorted(received["failure"]) == ["job.dead", "job.failed"]
    assert received["dead"] == ["job.dead"]
    assert sorted(received["end"]) == ["job.canceled"] * 2 + ["job.dead", "job.succeeded"]
    assert sorted(received["all"]) == sorted([*received["start"], *received["end"], "job.failed"])


def test_a_message_has_the_outcome_of_the_job_and_nothing_of_its_payload(
    delivering: Connection,
) -> None:
    webhook_id = create_endpoint(delivering, events=["success", "start"])
    job = enqueue_one(
        delivering, payload={"card": "4111"}, correlation_id="order-7", traceparent="00-ab-cd-01"
    )
    worker = new_worker()
    claimed = claim(delivering, worker)
    delivering.execute("set timezone = 'Asia/Kolkata'")
    succeed(delivering, worker, claimed, [{"sum": 3}])
    started, ended = list_sent(delivering, webhook_id)
    assert (started["message"]["type"], ended["message"]["type"]) == (
        "job.started",
        "job.succeeded",
    )
    data = ended["message"]["data"]
    finished = job_of(delivering, TENANT_A, job)
    assert (data["job_id"], data["tenant_id"]) == (str(job), str(TENANT_A))
    assert (data["definition"], data["version"], data["attempt"]) == ("test", 1, 1)
    assert (data["state"], data["outcome"], data["result"]) == (
        "succeeded",
        "succeeded",
        {"sum": 3},
    )
    at = finished["finished_at"].astimezone(UTC).isoformat(timespec="microseconds")
    assert ended["message"]["timestamp"] == data["ended_at"] == at.replace("+00:00", "Z")
    assert "4111" not in str(ended["message"]) + str(started["message"])
    sender = job_of(delivering, TENANT_A, ended["job_id"])
    assert (sender["definition"], sender["queue"]) == (CONNECTOR, "connectors")
    assert (sender["source"], sender["source_ref"]) == ("system", str(job))
    assert (sender["correlation_id"], sender["traceparent"]) == ("order-7", "00-ab-cd-01")
    assert sender["payload"] == {"endpoint_id": str(webhook_id), "delivery_id": str(ended["id"])}


def test_a_message_has_at_most_twenty_thousand_bytes(delivering: Connection) -> None:
    webhook_id = create_endpoint(delivering, events=["end"])
    long = "\u0001" * 40_000
    run_one(delivering, "failed", final=True, error={"type": long, "message": long})
    run_one(delivering, "succeeded", result=["\u0001" * 1_300])
    run_one(delivering, "succeeded", result=[long])
    failed, small, large = (row["message"] for row in list_sent(delivering, webhook_id))
    assert failed["data"]["error"]["message"] == long[:500]
    assert (small["data"]["result"], small["data"]["result_omitted"]) == (["\u0001" * 1_300], False)
    assert (large["data"]["result"], large["data"]["result_omitted"]) == (None, True)
    [row] = delivering.execute(
        "select max(octet_length(message::text)) as n from jobforge.webhook_deliveries"
    ).fetchall()
    assert row["n"] < 20_000


def test_an_endpoint_receives_completions_of_its_definitions_only(delivering: Connection) -> None:
    definition(delivering, "mail.send")
    some = create_endpoint(delivering, definitions=["mail.send", "other"])
    everything = create_endpoint(delivering)
    run_one(delivering, "succeeded")
    enqueue_one(delivering, definition="mail.send")
    worker = new_worker()
    succeed(delivering, worker, claim(delivering, worker))
    assert (len(list_sent(delivering, some)), len(list_sent(delivering, everything))) == (
        1,
        2,
    )


def test_webhook_deliveries_and_hook_jobs_cause_no_messages(delivering: Connection) -> None:
    definition(delivering, hooks=True)
    definition(delivering, "test:hooks")
    webhook_id = create_endpoint(delivering, events=EVENTS)
    run_one(delivering, "succeeded")
    before = list_sent_events(delivering, webhook_id)
    assert before == ["job.started", "job.succeeded"]
    worker = new_worker()
    senders = claim(delivering, worker, "connectors", limit=10)
    assert len(senders) == 2
    succeed(delivering, worker, senders[:1])
    complete(delivering, worker, senders[1:], "failed", final=True)
    succeed(delivering, worker, claim(delivering, worker))
    assert count(delivering, "jobs") == 1  # the dead delivery job
    assert list_sent_events(delivering, webhook_id) == before


def test_a_dead_job_that_is_discarded_causes_no_second_message(delivering: Connection) -> None:
    webhook_id = create_endpoint(delivering)
    job = run_one(delivering, "failed", final=True)
    call(delivering, "cancel_job", job_id=job, tenant_id=TENANT_A)
    assert list_sent_events(delivering, webhook_id) == ["job.dead"]


def test_the_reaper_and_expiry_send_messages_as_workers_do(
    delivering: Connection, clock: Clock
) -> None:
    webhook_id = create_endpoint(delivering)
    enqueue_one(delivering, max_attempts=1)
    claim(delivering, new_worker())
    enqueue_one(delivering, expires_in_s=30)
    clock.travel(minutes=5)
    reap(delivering)
    assert sorted(list_sent_events(delivering, webhook_id)) == ["job.canceled", "job.dead"]


# The recipients.


def test_endpoints_of_other_tenants_receive_nothing(delivering: Connection) -> None:
    ours, theirs = create_endpoint(delivering, TENANT_A), create_endpoint(delivering, TENANT_B)
    worker = new_worker()
    for tenant in (TENANT_A, TENANT_B):
        enqueue(delivering, tenant, 2)
    succeed(delivering, worker, claim(delivering, worker, limit=10))
    for webhook_id, tenant in ((ours, TENANT_A), (theirs, TENANT_B)):
        received = list_sent(delivering, webhook_id)
        assert [row["tenant_id"] for row in received] == [tenant] * 2
        assert {row["message"]["data"]["tenant_id"] for row in received} == {str(tenant)}
    assert unmatched_messages(delivering) == 0


def test_a_tenant_without_endpoints_gets_no_extra_rows(delivering: Connection) -> None:
    create_endpoint(delivering, TENANT_B, events=EVENTS)
    create_endpoint(delivering, TENANT_A, events=EVENTS, enabled=False)
    run_one(delivering, "succeeded")
    run_one(delivering, "failed", final=True)
    assert count(delivering, "webhook_deliveries") == 0
    assert (count(delivering, "jobs"), count(delivering, "finished_jobs")) == (1, 1)


def test_a_job_ends_without_a_delivering_worker_and_the_message_can_be_redelivered(
    conn: Connection,
) -> None:
    definition(conn)
    webhook_id = create_endpoint(conn)
    run_one(conn, "succeeded")
    [message] = list_sent(conn, webhook_id)
    assert message["job_id"] is None
    assert "not registered" in message["error"]
    [listed] = call(conn, "list_deliveries", id=webhook_id, tenant_id=TENANT_A)
    assert listed["state"] == "failed"
    again: dict[str, Any] = {"id": webhook_id, "delivery_id": message["id"], "tenant_id": TENANT_A}
    with refused("JF009"):
        call(conn, "redeliver", **again)
    define_connector(conn)
    job = call_for_value(conn, "redeliver", **again)
    assert job_of(conn, TENANT_A, job)["payload"]["delivery_id"] == str(message["id"])


def test_a_pending_limit_does_not_delay_messages(delivering: Connection) -> None:
    webhook_id = create_endpoint(delivering)
    call(delivering, "put_tenant", tenant_id=TENANT_A, settings={"max_pending": 1})
    run_one(delivering, "succeeded")
    delivering.execute("set jobforge.cursors = ''")
    call(delivering, "cancel_jobs", filter={"state": "queued"}, tenant_id=TENANT_A)
    run_one(delivering, "succeeded")
    assert len(list_sent_events(delivering, webhook_id)) == 2


def test_a_settlement_that_is_rolled_back_sends_nothing(delivering: Connection) -> None:
    create_endpoint(delivering)
    worker = new_worker()
    enqueue(delivering, n=3)
    jobs = claim(delivering, worker, limit=3)
    with delivering.transaction(force_rollback=True):
        succeed(delivering, worker, jobs)
        assert count(delivering, "webhook_deliveries") == 3
    assert count(delivering, "webhook_deliveries") == 0
    succeed(delivering, worker, jobs)
    assert unmatched_messages(delivering) == 0


# Endpoints.


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "ftp://example.com"),
        ("url", "https://user:word@example.com/"),
        ("url", "https://exa mple.com/"),
        ("url", "https://example.com/\r\nx: y"),
        ("url", "https://example.com/" + "x" * 2000),
        ("url", None),
        ("events", []),
        ("events", ["stop"]),
        ("events", "end"),
        ("definitions", []),
        ("definitions", [1]),
        ("definitions", ["a b"]),
        ("description", "x" * 501),
        ("enabled", None),
        ("secret", "whsec_x"),
    ],
)
def test_invalid_settings_are_refused(shared_conn: Connection, field: str, value: Json) -> None:
    given = {"url": "https://example.com", field: value}
    with refused("JF002", field=field):
        call(
            shared_conn,
            "create_webhook",
            id=uuid4(),
            settings=given,
            secret=SEALED,
            tenant_id=TENANT_A,
        )


@pytest.mark.attack("connectors")
def test_a_url_of_another_origin_needs_the_secret_again(conn: Connection) -> None:
    webhook_id = create_endpoint(conn)
    own = {"id": webhook_id, "tenant_id": TENANT_A}
    call(conn, "rotate_webhook", secret=b"2" * 61, **own)
    moved = {"url": "https://evil.example/"}
    with refused("JF015", field="secret", missing=["secret"]):
        call(conn, "edit_webhook", changes=moved, **own)
    with refused("JF002", field="secret"):
        call(conn, "edit_webhook", changes=moved, secret=b"in clear", **own)
    call(conn, "edit_webhook", changes=moved, secret=b"3" * 61, **own)
    [row] = conn.execute(
        "select url, secret, previous_secret from jobforge.webhook_endpoints where id = %s",
        [webhook_id],
    ).fetchall()
    assert (row["url"], bytes(row["secret"]), row["previous_secret"]) == (
        moved["url"],
        b"3" * 61,
        None,
    )


def test_an_endpoint_is_edited_disabled_and_deleted(conn: Connection) -> None:
    webhook_id = create_endpoint(conn, definitions=["test"], description="mine")
    call(
        conn,
        "edit_webhook",
        id=webhook_id,
        changes={"url": "https://example.com/new", "definitions": None, "enabled": False},
        tenant_id=TENANT_A,
    )
    changed = get_endpoint(conn, webhook_id)
    assert (changed["url"], changed["definitions"]) == ("https://example.com/new", None)
    assert (changed["description"], changed["events"]) == ("mine", ["end"])
    assert (changed["enabled"], changed["disabled_reason"]) == (False, "disabled manually")
    call(conn, "delete_webhook", id=webhook_id, tenant_id=TENANT_A)
    with refused("JF004"):
        call(conn, "get_webhook", id=webhook_id, tenant_id=TENANT_A)
    actions = [row["action"] for row in call(conn, "list_audit", tenant_id=TENANT_A)]
    assert actions == ["webhook.delete", "webhook.edit", "webhook.create"]


def test_a_tenant_has_at_most_a_hundred_endpoints(conn: Connection) -> None:
    conn.execute(
        """
        insert into jobforge.webhook_endpoints (
               tenant_id, id, created_at, updated_at, url, created_by, secret, events)
        select %s, gen_random_uuid(), now(), now(), 'https://example.com', 'x', '', '{end}'
          from generate_series(1, 100)
        """,
        [TENANT_A],
    )
    with refused("JF005", limit=100):
        create_endpoint(conn)
    create_endpoint(conn, TENANT_B)


def test_clients_access_endpoints_by_functions_only_and_see_no_secret(
    conn: Connection, connect: Connect
) -> None:
    webhook_id = create_endpoint(conn)
    client = connect("client_login")
    with as_tenant(client, TENANT_A):
        [listed] = call(client, "list_webhooks")
        assert listed["id"] == webhook_id
        assert not [name for name in listed if name.endswith("secret")]
    with refused("42501"), as_tenant(client, TENANT_A):
        client.execute("select secret from jobforge.webhook_endpoints")
    with refused("42501"), as_tenant(client, TENANT_A):
        call(client, "open_delivery", id=webhook_id, delivery_id=uuid4())


def test_two_secrets_sign_until_the_overlap_ends(delivering: Connection, clock: Clock) -> None:
    webhook_id = create_endpoint(delivering)
    run_one(delivering, "succeeded")
    [message] = list_sent(delivering, webhook_id)
    new = b"n" * 61

    def secrets() -> list[bytes]:
        [row] = call(
            delivering,
            "open_delivery",
            id=webhook_id,
            delivery_id=message["id"],
            tenant_id=TENANT_A,
        )
        return list(row["secrets"])

    rotation: dict[str, Any] = {"id": webhook_id, "secret": new, "tenant_id": TENANT_A}
    call(delivering, "rotate_webhook", overlap_s=3600, **rotation)
    assert secrets() == [new, SEALED]
    clock.travel(hours=1)
    assert secrets() == [new]
    call(delivering, "rotate_webhook", overlap_s=0, **rotation)
    assert secrets() == [new]
    with refused("JF002", field="overlap_s"):
        call(delivering, "rotate_webhook", overlap_s=2_592_001, **rotation)


# Deliveries.


def test_status_410_disables_an_endpoint_at_once_and_enabling_resets_it(
    delivering: Connection,
) -> None:
    webhook_id = create_endpoint(delivering)
    run_one(delivering, "succeeded")
    [message] = list_sent(delivering, webhook_id)
    assert not record_attempt(delivering, webhook_id, message["id"], status=410, error="gone")
    disabled = get_endpoint(delivering, webhook_id)
    assert (disabled["enabled"], disabled["disabled_reason"]) == (
        False,
        "the receiver returned 410 Gone",
    )
    assert (
        call(delivering, "list_audit", limit=1, tenant_id=TENANT_A)[0]["action"]
        == "webhook.disable"
    )
    run_one(delivering, "succeeded")
    assert len(list_sent_events(delivering, webhook_id)) == 1
    with refused("JF005"):
        call(delivering, "redeliver", id=webhook_id, delivery_id=message["id"], tenant_id=TENANT_A)
    call(delivering, "edit_webhook", id=webhook_id, changes={"enabled": True}, tenant_id=TENANT_A)
    enabled = get_endpoint(delivering, webhook_id)
    assert enabled["disabled_reason"] is enabled["failing_since"] is enabled["disabled_at"] is None


def test_five_days_of_only_failures_disable_an_endpoint(
    delivering: Connection, clock: Clock
) -> None:
    webhook_id = create_endpoint(delivering)
    run_one(delivering, "succeeded")
    [message] = list_sent(delivering, webhook_id)

    def fail() -> bool:
        return record_attempt(
            delivering, webhook_id, message["id"], status=500, error="it answered 500"
        )

    assert fail()
    clock.travel(days=4)
    assert fail()
    assert record_attempt(delivering, webhook_id, message["id"], status=200)
    clock.travel(days=2)
    assert fail()
    clock.travel(days=4, hours=23)
    assert fail()
    clock.travel(hours=1)
    assert not fail()
    assert "it answered 500" in get_endpoint(delivering, webhook_id)["disabled_reason"]
    assert not fail()
    disabled = call(
        delivering, "list_audit", filter={"action": "webhook.disable"}, tenant_id=TENANT_A
    )
    assert len(disabled) == 1


def test_deliveries_show_their_status(delivering: Connection) -> None:
    webhook_id = create_endpoint(delivering)
    for _ in range(3):
        run_one(delivering, "succeeded")
    delivered, dead, _ = list_sent(delivering, webhook_id)
    worker = new_worker()
    jobs = {row["job_id"]: row for row in claim(delivering, worker, "connectors", limit=3)}
    record_attempt(delivering, webhook_id, delivered["id"], status=204, response="thanks")
    record_attempt(delivering, webhook_id, dead["id"], status=500, error="it answered 500")
    succeed(delivering, worker, [jobs[delivered["job_id"]]])
    complete(delivering, worker, [jobs[dead["job_id"]]], "failed", final=True)
    listed = call(delivering, "list_deliveries", id=webhook_id, tenant_id=TENANT_A)
    assert [row["state"] for row in listed] == ["pending", "failed", "delivered"]
    assert [row["status"] for row in listed] == [None, 500, 204]
    assert [row["response"] for row in listed] == [None, None, "thanks"]
    [failed] = call(
        delivering, "list_deliveries", id=webhook_id, state="failed", tenant_id=TENANT_A
    )
    assert failed["id"] == dead["id"]
    [older] = call(
        delivering, "list_deliveries", id=webhook_id, limit=1, before=dead["id"], tenant_id=TENANT_A
    )
    assert older["id"] == delivered["id"]


def test_redelivering_creates_a_new_job_for_the_same_message(delivering: Connection) -> None:
    webhook_id = create_endpoint(delivering)
    run_one(delivering, "succeeded")
    [message] = list_sent(delivering, webhook_id)
    again: dict[str, Any] = {"id": webhook_id, "delivery_id": message["id"], "tenant_id": TENANT_A}
    with refused("JF005", state="pending"):
        call(delivering, "redeliver", **again)
    worker = new_worker()
    complete(
        delivering, worker, claim(delivering, worker, "connectors"), "failed", retry_in_s=36_000
    )
    assert call_for_value(delivering, "redeliver", **again) == message["job_id"]
    [retried] = claim(delivering, worker, "connectors")
    complete(delivering, worker, [retried], "failed", final=True)
    new = call_for_value(delivering, "redeliver", **again)
    assert new != message["job_id"]
    assert job_of(delivering, TENANT_A, message["job_id"])["cancel_reason"] == "redelivered"
    [sender] = claim(delivering, worker, "connectors")
    assert (sender["job_id"], sender["payload"]["delivery_id"]) == (new, str(message["id"]))
    with refused("JF004"):
        call(delivering, "redeliver", **again | {"delivery_id": uuid4()})


def test_a_test_message_goes_to_a_disabled_endpoint_and_changes_nothing(
    delivering: Connection,
) -> None:
    webhook_id = create_endpoint(delivering, enabled=False)
    delivery = call_for_value(delivering, "test_webhook", id=webhook_id, tenant_id=TENANT_A)
    [message] = list_sent(delivering, webhook_id)
    assert (message["id"], message["event"]) == (delivery, "webhook.test")
    assert job_of(delivering, TENANT_A, message["job_id"])["max_attempts"] == 1
    before = get_endpoint(delivering, webhook_id)
    record_attempt(delivering, webhook_id, delivery, status=410, error="gone")
    assert get_endpoint(delivering, webhook_id) == before


def test_old_deliveries_are_deleted_with_the_history_and_all_with_the_tenant(
    delivering: Connection, clock: Clock
) -> None:
    webhook_id = create_endpoint(delivering)
    run_one(delivering, "succeeded")
    clock.travel(days=20)
    run_one(delivering, "succeeded")
    call(delivering, "ensure_partitions")
    call(delivering, "apply_retention")
    assert len(list_sent(delivering, webhook_id)) == 1
    counts = erase(delivering)
    assert (counts["webhook_endpoints"], counts["webhook_deliveries"]) == (1, 1)


def test_the_batch_form_and_plain_successes_send_equal_messages(delivering: Connection) -> None:
    webhook_id = create_endpoint(delivering)
    enqueue(delivering, n=4)
    worker = new_worker()
    jobs = claim(delivering, worker, limit=4)
    succeed(delivering, worker, jobs[:2])
    outcomes = [
        {
            "tenant_id": str(job["tenant_id"]),
            "job_id": str(job["job_id"]),
            "lease": job["lease"],
            "outcome": outcome,
            "final": True,
        }
        for job, outcome in zip(jobs[2:], ["succeeded", "failed"], strict=True)
    ]
    call(delivering, "complete_jobs", worker_id=worker, outcomes=Jsonb(outcomes))
    assert sorted(list_sent_events(delivering, webhook_id)) == ["job.dead"] + ["job.succeeded"] * 3
    assert unmatched_messages(delivering) == 0

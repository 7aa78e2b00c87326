"""Events over HTTP: emit, list, get and replay them, and test a trigger on an event."""

from uuid import UUID, uuid4

import pytest
from api.api_server import ApiServer

from jobforge import calls, db
from jobforge.types.events import DeliveryOutcome, Dispatched, Reaction
from jobforge.types.triggers import TriggerType


@pytest.fixture(scope="module")
def listener(api: ApiServer) -> UUID:
    settings = {
        "label": "mail the buyer",
        "definition": "mail",
        "event": "order.*",
        "filter": [{"path": "event.total", "op": "gt", "value": 100}],
        "payload": {"to": "{{event.to}}", "password": "{{event.password | default(null)}}"},
    }
    call = calls.create_trigger(TriggerType.EVENT, settings, tenant_id=api.a.tenant_id)
    return db.run(api.conn, call)


def test_an_event_is_emitted_listed_shown_and_replayed(api: ApiServer, listener: UUID) -> None:
    admin = api.client("tenant_admin")
    created = admin.post("/events", json={"name": "order.paid", "data": {"password": "x", "n": 7}})
    assert created.status_code == 201
    event = created.json()["id"]
    path = f"/events/{event}"
    shown = admin.get(path).json()
    assert (shown["name"], shown["is_pending"], shown["deliveries"]) == ("order.paid", True, [])
    assert shown["data"]["n"] == 7
    assert shown["data"]["password"] != "x"
    assert shown["correlation_id"] == event
    assert shown["created_by"] != api.a.keys["tenant_admin"]

    reactions = [Reaction(listener, DeliveryOutcome.FAILED, "no such thing")]
    db.run(api.conn, calls.record_deliveries([Dispatched(UUID(event), reactions)]))
    [delivery] = admin.get(path).json()["deliveries"]
    assert (delivery["outcome"], delivery["reason"]) == ("failed", "no such thing")
    assert delivery["label"] == "mail the buyer"
    assert admin.get(f"/triggers/{listener}/deliveries").json()["items"] == [delivery]
    [listed] = admin.get("/events", params={"name": "order.*", "limit": 1}).json()["items"]
    assert (listed["id"], listed["outcomes"]) == (event, {"failed": 1})

    again = admin.post(f"{path}/replay")
    assert (again.status_code, again.json()) == (202, {"replay": 1})
    assert admin.get(path).json()["is_pending"]
    [entry] = admin.get("/audit", params={"action": "event.replay"}).json()["items"]
    assert entry["target"] == event


def test_a_deduplicated_event_is_counted_and_names_the_job_that_covers_it(
    api: ApiServer, listener: UUID
) -> None:
    admin = api.client("tenant_admin")
    paid = {"name": "order.paid", "data": {"to": "ada", "total": 120}, "key": "order-7"}
    first, again = (admin.post("/events", json=paid).json()["id"] for _ in range(2))
    job = {"definition": "mail", "payload": {"to": "ada"}, "key": "order-7"}
    reactions = [Reaction(listener, DeliveryOutcome.ENQUEUED, job=job)]
    dispatched = [Dispatched(UUID(event), reactions) for event in (first, again)]
    db.run(api.conn, calls.record_deliveries(dispatched))
    assert admin.get(f"/events/{again}").json()["key"] == "order-7"
    assert admin.get(f"/triggers/{listener}").json()["deduplicated"] == 1
    path = f"/triggers/{listener}/deliveries"
    [left_out] = admin.get(path, params={"outcome": "deduplicated"}).json()["items"]
    [covering] = admin.get(path, params={"outcome": "enqueued"}).json()["items"]
    assert (left_out["event_id"], covering["event_id"]) == (again, first)
    assert left_out["job_id"] == covering["job_id"]
    assert admin.get(path, params={"outcome": "lost"}).status_code == 422


@pytest.mark.parametrize(
    ("data", "outcome", "reason"),
    [
        ({"to": "ada", "total": 120, "password": "x"}, "enqueued", None),
        ({"to": "ada", "total": 99}, "filtered", None),
        ({"total": 120}, "failed", "payload.to: event.to not found, and the tag has no default"),
        ({"to": 7, "total": 120}, "failed", "payload.to: "),
    ],
)
def test_testing_a_trigger_on_an_event_creates_no_job(
    api: ApiServer, listener: UUID, data: dict[str, object], outcome: str, reason: str | None
) -> None:
    admin = api.client("tenant_admin")
    event = admin.post("/events", json={"name": "order.paid", "data": data}).json()["id"]
    tried = admin.post(f"/triggers/{listener}/test", json={"event_id": event}).json()
    assert tried["outcome"] == outcome
    assert (tried["reason"] or "").startswith(reason or "")
    if outcome == "enqueued":
        assert tried["job"]["payload"]["to"] == "ada"
        assert tried["job"]["payload"]["password"] != "x"
        assert tried["job"]["definition"] == "mail"
    else:
        assert tried["job"] is None
    shown = admin.get(f"/events/{event}").json()
    assert (shown["is_pending"], shown["deliveries"]) == (True, [])


def test_a_trigger_test_reports_that_the_name_does_not_match(
    api: ApiServer, listener: UUID
) -> None:
    admin = api.client("tenant_admin")
    event = admin.post("/events", json={"name": "user.new"}).json()["id"]
    tried = admin.post(f"/triggers/{listener}/test", json={"event_id": event}).json()
    assert tried == {
        "outcome": "filtered",
        "reason": "event user.new does not match order.*",
        "job": None,
    }
    unknown = admin.post(f"/triggers/{listener}/test", json={"event_id": str(uuid4())})
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "order paid"}, "name"),
        ({"name": "order.paid", "data": []}, "data"),
        ({"name": "order.paid", "key": ""}, "key"),
        ({"name": "order.paid", "priority": 1}, "priority"),
        ({"name": "order.paid", "data": {"x": "y" * 262_145}}, "data"),
    ],
)
def test_an_invalid_event_is_refused(api: ApiServer, body: dict[str, object], field: str) -> None:
    refused = api.client("tenant_admin").post("/events", json=body)
    assert refused.status_code in {413, 422}
    assert field in refused.text

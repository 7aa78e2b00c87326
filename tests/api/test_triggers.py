"""Triggers over HTTP: create, change, test and fire them, also with the client."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from api.api_server import ApiServer
from sql import engine

from jobforge.client.client import Client
from jobforge.errors import Invalid, NotFound
from jobforge.types.triggers import FiringKind, FiringOutcome, TriggerFilter, TriggerType

DAILY = {
    "type": "schedule",
    "label": "Every morning",
    "definition": "plain",
    "cron": "0 9 * * *",
    "timezone": "Europe/Berlin",
}


@pytest.fixture
def schedule(api: ApiServer) -> dict[str, Any]:
    created = api.client("tenant_admin").post("/triggers", json=DAILY)
    assert created.status_code == 201, created.text
    found: dict[str, Any] = api.client("viewer").get(f"/triggers/{created.json()['id']}").json()
    return found


def test_a_schedule_is_created_changed_and_deleted(
    api: ApiServer, schedule: dict[str, Any]
) -> None:
    admin = api.client("tenant_admin")
    assert {name: schedule[name] for name in DAILY} == DAILY
    assert (schedule["enabled"], schedule["overlap"], schedule["catch_up"]) == (
        True,
        "allow",
        "last",
    )
    path = f"/triggers/{schedule['id']}"
    changed = admin.patch(path, json={"overlap": "skip", "enabled": False, "version": None})
    assert changed.status_code == 204, changed.text
    assert admin.get(path).json()["overlap"] == "skip"
    listed = admin.get("/triggers", params={"type": "schedule", "enabled": "false"}).json()
    assert schedule["id"] in [trigger["id"] for trigger in listed["items"]]
    assert admin.delete(path).status_code == 204
    assert admin.get(path).status_code == 404
    log = admin.get("/audit", params={"target": schedule["id"]}).json()["items"]
    assert [entry["action"] for entry in log] == [
        "trigger.delete",
        "trigger.edit",
        "trigger.create",
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "* * * * * *"}, "cron"),
        ({"timezone": "Mars/X"}, "timezone"),
        ({"payload": {"at": "{{nothing.here}}"}}, "payload.at"),
        ({"event": "order.paid"}, "event"),
        ({"catch_up_limit": 101}, "catch_up_limit"),
        ({"overlap": "never"}, "overlap"),
        ({"ends_at": "2020-01-01T00:00:00Z", "starts_at": "2021-01-01T00:00:00Z"}, "ends_at"),
    ],
)
def test_an_error_names_the_field(
    api: ApiServer, schedule: dict[str, Any], change: dict[str, Any], field: str
) -> None:
    admin = api.client("tenant_admin")
    created = admin.post("/triggers", json={**DAILY, **change})
    changed = admin.patch(f"/triggers/{schedule['id']}", json=change)
    for refused in (created, changed):
        assert refused.status_code == 422, refused.text
        assert field in refused.text


def test_a_syntax_error_has_its_position(api: ApiServer) -> None:
    refused = api.client("tenant_admin").post("/triggers/preview", json={"cron": "0 9 * * MON-FRO"})
    assert refused.status_code == 422
    assert refused.json()["facts"] == {"position": 8}


def test_a_preview_shows_the_effect_of_clock_changes(api: ApiServer) -> None:
    body = {
        "cron": "30 2 * * *",
        "timezone": "America/New_York",
        "after": "2026-03-07T12:00:00Z",
        "count": 2,
    }
    shown = api.client("tenant_admin").post("/triggers/preview", json=body).json()
    assert shown["description"] == "At 02:30 every day"
    assert [(run["at"], run["change"]) for run in shown["runs"]] == [
        ("2026-03-08T07:00:00Z", "skipped"),
        ("2026-03-09T06:30:00Z", None),
    ]
    body = {"payload": {"path": "{{event.path}}"}, "event": {"path": "/in"}}
    shown = api.client("tenant_admin").post("/triggers/preview", json=body).json()
    assert shown["payload"] == {"path": "/in"}


def test_an_interval_is_created_changed_and_previewed(
    api: ApiServer, schedule: dict[str, Any]
) -> None:
    admin = api.client("tenant_admin")
    path = f"/triggers/{schedule['id']}"
    assert admin.patch(path, json={"cron": "@every 30s"}).status_code == 204
    assert admin.get(path).json()["cron"] == "@every 30s"
    assert admin.get(f"{path}/next").json()["description"] == "Every 30 seconds"
    body = {"cron": "@every 30s", "timezone": "UTC", "after": "2026-03-07T12:00:10Z", "count": 2}
    shown = admin.post("/triggers/preview", json=body).json()
    assert [run["at"] for run in shown["runs"]] == ["2026-03-07T12:00:30Z", "2026-03-07T12:01:00Z"]
    refused = admin.patch(path, json={"cron": "@every 30"})
    assert (refused.status_code, refused.json()["facts"]) == (422, {"position": 6})


def test_a_viewer_sees_when_a_schedule_fires_within_its_bounds(
    api: ApiServer, schedule: dict[str, Any]
) -> None:
    path = f"/triggers/{schedule['id']}"
    shown = api.client("viewer").get(f"{path}/next").json()
    assert (shown["description"], shown["timezone"]) == ("At 09:00 every day", "Europe/Berlin")
    assert len(shown["runs"]) == 5
    bounds = {"starts_at": "2099-03-28T08:00:00Z", "ends_at": "2099-03-30T07:00:00Z"}
    assert api.client("tenant_admin").patch(path, json=bounds).status_code == 204
    runs = api.client("viewer").get(f"{path}/next").json()["runs"]
    assert [run["at"] for run in runs] == ["2099-03-28T08:00:00Z", "2099-03-29T07:00:00Z"]


def test_a_preview_uses_the_tenants_zone_and_the_fields_of_an_event(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    zone = {"timezone": "Asia/Kathmandu"}
    changed = api.client("super_admin").patch(f"/tenants/{api.a.tenant_id}", json=zone)
    assert changed.status_code == 204
    body: dict[str, Any] = {"cron": "0 9 * * *", "timezone": "tenant", "count": 1}
    shown = admin.post("/triggers/preview", json=body).json()
    assert shown["timezone"] == "Asia/Kathmandu"
    assert shown["runs"][0]["local"].endswith("09:00:00+05:45")
    event = {"name": "file.came", "data": {"path": "/in"}}
    created = admin.post("/events", json=event).json()["id"]
    body = {"payload": {"path": "{{event.path}}", "by": "{{meta.name}}"}, "event_id": created}
    shown = admin.post("/triggers/preview", json=body).json()
    assert shown["payload"] == {"path": "/in", "by": "file.came"}


def test_firings_are_requested_and_listed(api: ApiServer, schedule: dict[str, Any]) -> None:
    admin, path = api.client("tenant_admin"), f"/triggers/{schedule['id']}"
    asked = admin.post(f"{path}/run")
    assert asked.status_code == 202
    week = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-08T00:00:00Z"}
    assert admin.post(f"{path}/backfill", json=week).json() == {"firings": 7}
    assert admin.post(f"{path}/backfill", json=week).json() == {"firings": 0}
    first = admin.get(f"{path}/firings", params={"limit": 5}).json()
    assert first["items"][0]["fire_at"] == asked.json()["fire_at"]
    rest = admin.get(f"{path}/firings", params={"limit": 5, "cursor": first["next"]}).json()
    found = [*first["items"], *rest["items"]]
    assert [firing["kind"] for firing in found] == ["manual", *["backfill"] * 7]
    assert {firing["outcome"] for firing in found} == {"pending"}
    years = {"start": "2000-01-01T00:00:00Z", "end": "2026-01-08T00:00:00Z"}
    assert admin.post(f"{path}/backfill", json=years).status_code == 422


def test_the_client_has_all_trigger_methods(api: ApiServer) -> None:
    with Client(api.url, api.a.keys["tenant_admin"]) as client:
        settings = {name: value for name, value in DAILY.items() if name != "type"}
        created = client.create_trigger(TriggerType.SCHEDULE, settings)
        client.edit_trigger(created, {"jitter_s": 60})
        trigger = client.get_trigger(created)
        assert (trigger.jitter_s, trigger.zone, trigger.type) == (
            60,
            "Europe/Berlin",
            TriggerType.SCHEDULE,
        )
        which = TriggerFilter(type=TriggerType.SCHEDULE, enabled=True)
        assert trigger in client.list_triggers(which)
        fire_at = client.run_trigger(created)
        yesterday = datetime.now(UTC) - timedelta(days=1)
        assert client.backfill_trigger(created, [yesterday]) == 1
        now, past = client.list_firings(created)
        assert (now.fire_at, now.kind) == (fire_at, FiringKind.MANUAL)
        assert (past.fire_at, past.outcome) == (yesterday, FiringOutcome.PENDING)
        client.delete_trigger(created)
        with pytest.raises(NotFound):
            client.get_trigger(created)
        with pytest.raises(Invalid):
            client.create_trigger(TriggerType.SCHEDULE, {**settings, "cron": "nonsense"})


def test_a_tenants_worker_declares_schedules_only_for_its_tenant(api: ApiServer) -> None:
    settings = {"label": "plain", "definition": "plain", "cron": "@daily"}

    def declare(key: str, *tenants: str) -> int:
        of = {"name": "plain", "type": "schedule", "settings": settings}
        declared = [{**of, "tenant": each} for each in tenants]
        body = {"declared": declared, "definitions": ["plain"]}
        client = api.client_with_headers({"authorization": f"Bearer {key}"})
        return client.post("/worker/triggers", json=body).status_code

    own, everybody = api.a.keys["worker"], api.create_key("worker", None)
    assert declare(own, "*") == 204
    assert _declared_schedules(api) == {api.a.tenant_id}
    assert declare(own, str(api.b.tenant_id)) == 403
    assert declare(everybody, "*") == 204
    assert _declared_schedules(api) >= {api.a.tenant_id, api.b.tenant_id}
    assert declare(own) == 204
    assert api.a.tenant_id not in _declared_schedules(api)
    assert api.b.tenant_id in _declared_schedules(api)
    assert declare(everybody) == 204
    assert _declared_schedules(api) == set()


def _declared_schedules(api: ApiServer) -> set[UUID]:
    rows: list[engine.Row] = api.conn.execute(
        "select tenant_id from jobforge.triggers where declared is not null and deleted_at is null"
    ).fetchall()
    return {row["tenant_id"] for row in rows}

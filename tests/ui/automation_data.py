"""Workflows, triggers, events and webhooks of the dashboard's data."""

from dataclasses import dataclass, field
from typing import Any

from cluster import wait_until
from integration.webhook_receiver import PlannedResponse
from ui.dashboard_data import DashboardData

PHOTOS = 24  # more than a graph shows separately


@dataclass(frozen=True, slots=True)
class AutomationData:
    """`ids` has the ID of each object by a name that says what it shows."""

    dashboard: DashboardData
    ids: dict[str, str] = field(default_factory=dict)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self.dashboard.server.client("tenant_admin").post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        answer = self.dashboard.server.client("viewer").get(path)
        assert answer.is_success, answer.text
        return answer.json()


def create_automation(scene: DashboardData) -> AutomationData:
    ui_data = AutomationData(scene)
    _make_workflows(ui_data)
    _make_triggers(ui_data)
    _make_webhook(ui_data)
    ui_data.post("/connectors", _CONNECTOR)
    return ui_data


def _make_workflows(ui_data: AutomationData) -> None:
    ids = ui_data.ids
    ids["album"] = ui_data.post("/workflows", _album("summer", fails=False))["id"]
    failed = ui_data.post("/workflows", _album("winter", fails=True))
    ids["failed"] = failed["id"]
    jobs = [{"definition": "resize", "payload": {"photo": n}} for n in range(40)]
    ids["batch"] = ui_data.post("/batches", {"name": "thumbnails", "jobs": jobs})["id"]
    waiting = {"name": "order 4712", "nodes": _ORDER}
    ids["order"] = ui_data.post("/workflows", waiting)["id"]
    for name, state in (("album", "succeeded"), ("failed", "failed")):
        _wait_for(ui_data, f"/workflows/{ids[name]}", lambda read, end=state: read["state"] == end)
    _wait_for(ui_data, f"/batches/{ids['batch']}", lambda read: read["state"] == "succeeded")
    nodes = ui_data.get(f"/workflows/{ids['order']}")["nodes"]
    ids["shipping"] = next(node["job_id"] for node in nodes if node["node"] == "ship")
    wait_until(lambda: len(ui_data.get(f"/jobs/{ids['shipping']}/steps")["items"]) == 3)


def _wait_for(ui_data: AutomationData, path: str, is_so: Any) -> None:
    def read() -> Any:
        found = ui_data.get(path)
        return found.get("workflow", found)

    wait_until(lambda: is_so(read()), why=lambda: str(read()))


def _album(name: str, *, fails: bool) -> dict[str, Any]:
    resized = [
        {"name": f"photo-{n}", "definition": "resize", "payload": {"photo": n}, "after": ["charge"]}
        for n in range(PHOTOS)
    ]
    last = [node["name"] for node in resized]
    payload = {"album": name, "fails": fails}
    return {
        "name": f"album {name}",
        "input": {"album": name},
        "nodes": [
            {"name": "charge", "definition": "charge_card", "payload": {"order": 4711}},
            *resized,
            {"name": "publish", "definition": "publish", "payload": payload, "after": last},
            _welcome("tell the owner", "ada@example.com", ["publish"]),
            _welcome("tell friends", "friends@example.com", ["publish"]),
        ],
    }


def _welcome(name: str, to: str, after: list[str]) -> dict[str, Any]:
    node = name.replace(" ", "-")
    return {"name": node, "definition": "send_welcome", "payload": {"to": to}, "after": after}


_ORDER = [
    {"name": "charge", "definition": "charge_card", "payload": {"order": 4712}},
    {"name": "ship", "definition": "ship_order", "payload": {"order": 4712}, "after": ["charge"]},
    _welcome("thank", "ada@example.com", ["ship"]),
    {
        "name": "report",
        "definition": "make_report",
        "payload": {"month": "2026-11", "pages": 1},
        "after": ["charge"],
    },
]
_CONNECTOR = {
    "name": "billing",
    "settings": {
        "url": "https://api.billing.example/v1/",
        "headers": {"Authorization": "Bearer {{secret.token}}"},
    },
    "secrets": {"token": {"value": "s3cr3t-of-billing"}},
}
_SCHEDULE = {
    "type": "schedule",
    "label": "Morning report",
    "definition": "make_report",
    "cron": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "payload": {"month": "{{ schedule.fire_at }}", "pages": 1},
    "overlap": "skip",
}
_REACTION = {
    "type": "event",
    "label": "Receipt for a paid order",
    "definition": "send_welcome",
    "event": "order.paid",
    "filter": [{"path": "event.total", "op": "gt", "value": 10}],
    "payload": {"to": "{{ event.email }}", "name": '{{ event.name | default("you") }}'},
}


def _make_triggers(ui_data: AutomationData) -> None:
    ids = ui_data.ids
    ids["schedule"] = ui_data.post("/triggers", _SCHEDULE)["id"]
    ids["reaction"] = ui_data.post("/triggers", _REACTION)["id"]
    ui_data.post("/triggers", {**_SCHEDULE, "label": "Weekly digest", "cron": "0 6 * * MON"})
    ui_data.post(f"/triggers/{ids['schedule']}/run")
    order = {"order": 4711, "email": "ada@example.com", "name": "Ada", "total": 49}
    for data in ({**order, "total": 5}, order):
        ids["event"] = ui_data.post("/events", {"name": "order.paid", "data": data})["id"]
    wait_until(lambda: bool(ui_data.get(f"/events/{ids['event']}")["deliveries"]))
    ids["duplicate"] = ui_data.post("/events", {"name": "order.paid", "data": order})["id"]
    ui_data.post("/events", {"name": "order.seen", "data": {"order": 4711}})
    wait_until(lambda: bool(ui_data.get(f"/events/{ids['duplicate']}")["deliveries"]))
    wait_until(lambda: _has_fired(ui_data))


def _has_fired(ui_data: AutomationData) -> bool:
    firings = ui_data.get(f"/triggers/{ui_data.ids['schedule']}/firings")["items"]
    trigger = ui_data.get(f"/triggers/{ui_data.ids['schedule']}")
    return bool(firings) and firings[0]["job_id"] is not None and bool(trigger["next_run_at"])


def _make_webhook(ui_data: AutomationData) -> None:
    """Create a webhook that accepted one job event and refused another."""
    refusing = ui_data.dashboard.refusing
    refusing.responses = [
        PlannedResponse(204),
        PlannedResponse(422, b'{"error": "order 4799 is not known here"}'),
    ]
    body = {
        "url": refusing.url,
        "description": "notifies the shop's accounting",
        "definitions": ["charge_card"],
        "events": ["success", "dead"],
    }
    ui_data.ids["webhook"] = ui_data.post("/webhooks", body)["id"]
    path = f"/webhooks/{ui_data.ids['webhook']}/deliveries"
    for count, order in enumerate((4798, 4799), 1):
        ui_data.dashboard.enqueue("charge_card", {"order": order})
        wait_until(lambda: _attempts(ui_data, path) >= count)  # noqa: B023 - the loop waits for it


def _attempts(ui_data: AutomationData, path: str) -> int:
    return sum(delivery["attempts"] for delivery in ui_data.get(path)["items"])

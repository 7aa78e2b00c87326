"""What makes jobs by itself, added to the scene: workflows, triggers, events, webhooks."""

from dataclasses import dataclass, field
from typing import Any

from cluster import wait_until
from integration.webhook_receiver import Answer
from ui.dashboard_data import Scene

PHOTOS = 24  # more than a graph shows one by one


@dataclass(frozen=True, slots=True)
class Automation:
    """`ids` are by what is to be seen of them."""

    scene: Scene
    ids: dict[str, str] = field(default_factory=dict)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self.scene.house.client("tenant_admin").post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path: str) -> Any:
        answer = self.scene.house.client("viewer").get(path)
        assert answer.is_success, answer.text
        return answer.json()


def automation(scene: Scene) -> Automation:
    made = Automation(scene)
    _make_workflows(made)
    _make_triggers(made)
    _make_webhook(made)
    made.post("/connectors", _CONNECTOR)
    return made


def _make_workflows(made: Automation) -> None:
    ids = made.ids
    ids["album"] = made.post("/workflows", _album("summer", fails=False))["id"]
    failed = made.post("/workflows", _album("winter", fails=True))
    ids["failed"] = failed["id"]
    jobs = [{"definition": "resize", "payload": {"photo": n}} for n in range(40)]
    ids["batch"] = made.post("/batches", {"name": "thumbnails", "jobs": jobs})["id"]
    waiting = {"name": "order 4712", "nodes": _ORDER}
    ids["order"] = made.post("/workflows", waiting)["id"]
    for name, state in (("album", "succeeded"), ("failed", "failed")):
        _wait_for(made, f"/workflows/{ids[name]}", lambda told, end=state: told["state"] == end)
    _wait_for(made, f"/batches/{ids['batch']}", lambda told: told["state"] == "succeeded")
    nodes = made.get(f"/workflows/{ids['order']}")["nodes"]
    ids["shipping"] = next(node["job_id"] for node in nodes if node["node"] == "ship")
    wait_until(lambda: len(made.get(f"/jobs/{ids['shipping']}/steps")["items"]) == 3)


def _wait_for(made: Automation, path: str, is_so: Any) -> None:
    def told() -> Any:
        found = made.get(path)
        return found.get("workflow", found)

    wait_until(lambda: is_so(told()), why=lambda: str(told()))


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


def _make_triggers(made: Automation) -> None:
    ids = made.ids
    ids["schedule"] = made.post("/triggers", _SCHEDULE)["id"]
    ids["reaction"] = made.post("/triggers", _REACTION)["id"]
    made.post("/triggers", {**_SCHEDULE, "label": "Weekly digest", "cron": "0 6 * * MON"})
    made.post(f"/triggers/{ids['schedule']}/run")
    order = {"order": 4711, "email": "ada@example.com", "name": "Ada", "total": 49}
    for data in ({**order, "total": 5}, order):
        ids["event"] = made.post("/events", {"name": "order.paid", "data": data})["id"]
    wait_until(lambda: bool(made.get(f"/events/{ids['event']}")["deliveries"]))
    ids["duplicate"] = made.post("/events", {"name": "order.paid", "data": order})["id"]
    made.post("/events", {"name": "order.seen", "data": {"order": 4711}})
    wait_until(lambda: bool(made.get(f"/events/{ids['duplicate']}")["deliveries"]))
    wait_until(lambda: _has_fired(made))


def _has_fired(made: Automation) -> bool:
    firings = made.get(f"/triggers/{made.ids['schedule']}/firings")["items"]
    trigger = made.get(f"/triggers/{made.ids['schedule']}")
    return bool(firings) and firings[0]["job_id"] is not None and bool(trigger["next_run_at"])


def _make_webhook(made: Automation) -> None:
    """It heard of one job, and has no answer to another."""
    refusing = made.scene.refusing
    refusing.answers = [Answer(204), Answer(422, b'{"error": "order 4799 is not known here"}')]
    body = {
        "url": refusing.url,
        "description": "tells the shop's own books",
        "definitions": ["charge_card"],
        "events": ["success", "dead"],
    }
    made.ids["webhook"] = made.post("/webhooks", body)["id"]
    path = f"/webhooks/{made.ids['webhook']}/deliveries"
    for count, order in enumerate((4798, 4799), 1):
        made.scene.enqueue("charge_card", {"order": order})
        wait_until(lambda: _attempts(made, path) >= count)  # noqa: B023 - it ends in the loop


def _attempts(made: Automation, path: str) -> int:
    return sum(delivery["attempts"] for delivery in made.get(path)["items"])

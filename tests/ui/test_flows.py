"""What makes jobs by itself, and jobs that wait for each other, as the dashboard shows them."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from ui.looking import NARROW, WIDE, looking
from ui.scene import Scene

SIZES = {"wide": WIDE, "narrow": NARROW}


@pytest.fixture(scope="module")
def flows(shop: Scene) -> dict[str, str]:
    """Ids of a trigger of each kind, an event, a webhook that is off, and a workflow."""
    client = shop.house.client("tenant_admin")

    def make(path: str, body: dict[str, Any]) -> str:
        answer = client.post(path, json=body)
        assert answer.status_code < 300, answer.text
        return str(answer.json()["id"])

    return {
        "schedule": make(
            "/triggers",
            {
                "type": "schedule",
                "label": "Nightly greeting",
                "definition": "send_welcome",
                "cron": "30 2 * * *",
                "timezone": "Europe/Berlin",
                "payload": {"to": "night@example.com"},
            },
        ),
        "reaction": make(
            "/triggers",
            {
                "type": "event",
                "label": "Charge on payment",
                "definition": "charge_card",
                "event": "order.paid",
                "payload": {"order": "{{event.order}}"},
            },
        ),
        "event": make("/events", {"name": "order.paid", "data": {"order": 4711}}),
        "webhook": make("/webhooks", {"url": "https://shop.example/hooks", "enabled": False}),
        "workflow": make(
            "/workflows",
            {
                "name": "gallery",
                "nodes": [
                    {
                        "name": "fetch",
                        "definition": "send_welcome",
                        "payload": {"to": "a@b.example"},
                    },
                    {
                        "name": "charge",
                        "definition": "charge_card",
                        "payload": {"order": 1},
                        "after": ["fetch"],
                    },
                ],
            },
        ),
    }


PAGES = [
    ("triggers", "/triggers", "Nightly greeting"),
    ("trigger", "/triggers/{schedule}?tab=edit", "Europe/Berlin"),
    ("reaction", "/triggers/{reaction}?tab=edit", "The payload that comes of it"),
    ("events", "/events", "order.paid"),
    ("event", "/events/{event}", "4711"),
    ("webhooks", "/webhooks", "shop.example"),
    ("webhook", "/webhooks/{webhook}", "Nothing was sent yet"),
    ("workflows", "/workflows", "gallery"),
    ("workflow", "/workflows/{workflow}?node=charge", "Retry from here"),
    ("workflow-time", "/workflows/{workflow}?view=time", "charge"),
    ("workflow-table", "/workflows/{workflow}?view=table", "Took"),
]


@pytest.mark.timeout(300)  # it is many pages
@pytest.mark.parametrize("size", SIZES)
def test_every_page_of_them_is_sound(
    shop: Scene, browser: Browser, flows: dict[str, str], size: str
) -> None:
    with looking(browser, shop, shop.house.a.keys["tenant_admin"], size=SIZES[size]) as look:
        for name, path, words in PAGES:
            look.go(path.format(**flows))
            look.see(words)
            look.check_fits(name)
            look.check_access(part="main")
            look.page.emulate_media(color_scheme="dark")
            if size == "wide":
                look.check_access("color-contrast", part="main")
            look.page.emulate_media(color_scheme="light")


def test_a_schedule_is_made_and_shows_its_next_times(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, shop.house.a.keys["tenant_admin"]) as look:
        look.go("/triggers/new")
        look.page.get_by_label("Label").fill("Every morning")
        look.page.get_by_label("Cron").fill("0 9 * * MON-FRI")
        look.page.get_by_label("Time zone").fill("Europe/Berlin")
        expect(look.page.get_by_role("listitem").filter(has_text="UTC")).to_have_count(5)
        look.page.get_by_role("combobox", name=re.compile(r"^Runs\b")).select_option("send_welcome")
        look.page.get_by_role("textbox", name=re.compile(r"^to\b")).fill("ada@example.com")
        look.press("Make it")
        expect(look.page.get_by_role("heading", name="Every morning")).to_be_visible()
        look.press("Run now")
        expect(look.page.get_by_role("table")).to_contain_text("enqueued")


def test_a_workflow_is_seen_as_a_graph(
    shop: Scene, browser: Browser, flows: dict[str, str]
) -> None:
    with looking(browser, shop, shop.house.a.keys["tenant_admin"]) as look:
        look.go(f"/workflows/{flows['workflow']}")
        expect(look.page.locator("[data-workflow]")).to_have_attribute("data-workflow", "succeeded")
        look.page.locator(".react-flow__node", has_text="charge").click()
        expect(look.page).to_have_url(re.compile("node=charge"))
        look.see("Retry from here")

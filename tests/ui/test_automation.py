"""Workflows, triggers, events, webhooks and connectors: each page is sound, and what people do
there works."""

import re

import pytest
from playwright.sync_api import Browser, expect
from ui.automation_data import PHOTOS, Automation, automation
from ui.dashboard_data import Scene
from ui.page_checks import Spot, check_soundness
from ui.page_session import Look, looking

PAGES = [
    Spot("workflows", "/workflows", "album winter", "wide"),
    Spot("workflow", "/workflows/{failed}?node=publish", "album winter is locked", "wide narrow"),
    Spot("workflow-gantt", "/workflows/{album}?view=gantt", "tell-friends", "wide"),
    Spot("workflow-table", "/workflows/{order}?view=table", "thank"),
    Spot("batch", "/batches/{batch}", "40 of 40 jobs have ended"),
    Spot("triggers", "/triggers", "Receipt for a paid order", "wide"),
    Spot("trigger-schedule", "/triggers/{schedule}", "At 02:30", "wide"),
    Spot("trigger-event", "/triggers/{reaction}", "event.total"),
    Spot("trigger-new", "/triggers/new?definition=make_report", "pages", "narrow"),
    Spot("trigger-edit", "/triggers/{reaction}?edit=1", "On a real event", "wide"),
    Spot("events", "/events", "order.seen"),
    Spot("event", "/events/{event}", "Job made", "wide"),
    Spot("webhooks", "/webhooks", "tells the shop's own books"),
    Spot("webhook", "/webhooks/{webhook}", "Is a message ours?", "wide"),
    Spot("connectors", "/settings?tab=connectors", "billing"),
    Spot("job-steps", "/jobs/{shipping}", "print the label", "wide"),
]
# Of these a viewer's are looked at: one for each kind of action.
LOOKED_AT = {
    *("workflow", "triggers", "trigger-schedule", "trigger-event"),
    *("event", "webhook", "connectors"),
}


@pytest.fixture(scope="session")
def shop_at_work(shop: Scene) -> Automation:
    return automation(shop)


def _admin(made: Automation) -> str:
    return made.scene.house.a.keys["tenant_admin"]


@pytest.mark.timeout(300)  # it is many pages
def test_every_page_is_sound(shop_at_work: Automation, browser: Browser) -> None:
    with looking(browser, shop_at_work.scene, _admin(shop_at_work)) as look:
        for spot in PAGES:
            check_soundness(look, spot, shop_at_work.ids)


def test_a_cron_trigger_is_made_with_its_next_runs_in_sight(
    shop_at_work: Automation, browser: Browser
) -> None:
    with looking(browser, shop_at_work.scene, _admin(shop_at_work)) as look:
        look.go("/triggers")
        look.press("New trigger")
        look.page.get_by_label("Name").fill("Nightly report")
        look.page.get_by_label("Runs").select_option("make_report")
        look.page.get_by_role("textbox", name="Cron").fill("61 2 * * *")
        expect(look.page.get_by_role("alert")).to_be_visible()
        look.page.get_by_role("textbox", name="Cron").fill("30 2 * * *")
        look.page.get_by_role("combobox", name="Time zone").fill("Europe/Berlin")
        look.see("At 02:30")
        runs = look.page.get_by_role("table", name="Next runs")
        expect(runs.get_by_role("row")).to_have_count(6)
        look.page.get_by_role("textbox", name="month").fill("{{ schedule.fire_at }}")
        look.press("Make the trigger")
        look.see("It has not fired yet")
        look.press("Run now")
        expect(look.page.get_by_role("region", name="Firings")).to_contain_text("Job made")
        look.page.get_by_role("switch").click()
        expect(look.page.get_by_role("switch")).to_have_attribute("aria-checked", "false")
        look.complaints[:] = [each for each in look.complaints if "422" not in each]


def test_a_workflow_is_seen_as_a_graph_and_retried(
    shop_at_work: Automation, browser: Browser
) -> None:
    with looking(browser, shop_at_work.scene, _admin(shop_at_work)) as look:
        look.go("/workflows?kind=workflow")
        look.press("album winter", role="link")
        # Many alike nodes are one.
        expect(look.page.locator("[data-node]")).to_have_count(5)
        look.press(f"{PHOTOS} \N{MULTIPLICATION SIGN} resize")
        look.see(f"{PHOTOS} succeeded")
        look.press("publish, Dead")
        look.see("PermissionError")
        expect(look.page).to_have_url(re.compile("node=publish"))
        look.page.keyboard.press("k")
        expect(look.page).not_to_have_url(re.compile("node=publish"))
        look.press("Retry…")
        look.press("Retry", exact=True)
        look.see("jobs were made")
        expect(look.page.get_by_role("main")).to_contain_text(re.compile("Failed"))


def test_what_runs_in_a_workflow_is_followed(shop_at_work: Automation, browser: Browser) -> None:
    payload = {"month": "2026-11", "pages": 3000}
    nodes = [{"name": "read", "definition": "make_report", "payload": payload}]
    made = shop_at_work.post("/workflows", {"name": "long", "nodes": nodes})["id"]
    with looking(browser, shop_at_work.scene, _admin(shop_at_work)) as look:
        look.go(f"/workflows/{made}")
        look.press("Follow what runs")
        follow = look.page.get_by_role("button", name="Follow what runs")
        expect(follow).to_have_attribute("aria-pressed", "true")
        look.check_access(part="main")
    shop_at_work.post(f"/workflows/{made}/cancel")


def test_the_secret_of_a_webhook_is_seen_once(shop_at_work: Automation, browser: Browser) -> None:
    with looking(browser, shop_at_work.scene, _admin(shop_at_work)) as look:
        look.go("/webhooks")
        look.press("New webhook")
        look.page.get_by_label("URL").fill(shop_at_work.scene.receiver.url)
        look.page.get_by_label("All definitions").uncheck()
        look.page.get_by_label("ship_order").check()
        look.check_access(part="dialog")
        look.press("Make it")
        secret = look.page.get_by_text(re.compile(r"^whsec_\S+$"))
        expect(secret).to_be_visible()
        text = secret.text_content()
        look.press("I have kept it")
        expect(secret).to_have_count(0)
        look.see("Nothing was sent yet")
        look.press("Send a test")
        look.press("webhook.test")
        look.see("no job: a test")
        expect(look.page.get_by_role("main")).to_contain_text("204")
        assert shop_at_work.scene.receiver.received[-1].verified(str(text))
        look.press("Edit")
        look.page.get_by_label("URL").fill(shop_at_work.scene.refusing.url)
        expect(look.page.get_by_role("button", name="Save")).to_be_disabled()
        look.page.get_by_label("Secret").fill(str(text))
        look.press("Save")
        look.see(shop_at_work.scene.refusing.url)


def test_an_event_is_sent_and_shows_what_it_caused(
    shop_at_work: Automation, browser: Browser
) -> None:
    with looking(browser, shop_at_work.scene, _admin(shop_at_work)) as look:
        look.go("/events")
        look.press("Send an event")
        look.page.get_by_role("dialog").get_by_label("Name").fill("order.paid")
        look.page.get_by_label("Data").fill('{"email": "eve@example.com", "total": 12}')
        look.check_access(part="dialog")
        look.press("Send", exact=True)
        look.see("Job made")
        look.press("Receipt for a paid order", role="link")
        look.press("Try", exact=True)
        look.see("eve@example.com")
        _sees_no_secret(look)


def test_a_trigger_shows_how_many_events_it_deduplicated_and_the_job_that_covers_each(
    shop_at_work: Automation, browser: Browser
) -> None:
    made = shop_at_work
    [delivery] = made.get(f"/events/{made.ids['event']}")["deliveries"]
    with looking(browser, made.scene, _admin(made)) as look:
        look.go(f"/triggers/{made.ids['reaction']}")
        look.see("Deduplicated events")
        count = look.page.locator("dt", has_text="Deduplicated events").locator("+ dd")
        expect(count).to_have_text("1")
        deliveries = look.page.get_by_role("region", name="Deliveries")
        row = deliveries.get_by_role("row").filter(has_text="Deduplicated")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("This job covers the event.")
        job, event = row.get_by_role("link").all()
        expect(event).to_have_attribute("href", re.compile(made.ids["duplicate"]))
        job.click()
        expect(look.page).to_have_url(re.compile(f"/jobs/{delivery['job_id']}"))


def _sees_no_secret(look: Look) -> None:
    look.go("/settings?tab=connectors")
    look.press("Edit billing")
    expect(look.page.get_by_label("Kind of secret 1")).to_have_value("kept")
    assert "s3cr3t-of-billing" not in look.page.content()


def test_a_viewer_looks_and_is_offered_no_action(
    shop_at_work: Automation, browser: Browser
) -> None:
    made = shop_at_work
    viewer = made.scene.house.a.keys["viewer"]
    actions = re.compile(
        r"\b(New|Send|Edit|Delete|Cancel|Retry|Run now|Backfill|Replay|Rotate|Close it)\b"
    )
    with looking(browser, made.scene, viewer) as look:
        for spot in PAGES:
            if spot.name not in LOOKED_AT:
                continue
            look.turn_to(spot.path.format(**made.ids))
            look.see(spot.words)
            expect(look.page.get_by_role("main").get_by_role("button", name=actions)).to_have_count(
                0
            )
            expect(look.page.get_by_role("switch")).to_have_count(0)
            if spot.name == "trigger-schedule":
                runs = look.page.get_by_role("table", name="Next runs")
                expect(runs.get_by_role("row")).to_have_count(6)

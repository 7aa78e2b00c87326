"""Workflows, triggers, events, webhooks and connectors: each page passes the checks, and its
actions work.
"""

import re

import pytest
from playwright.sync_api import Browser, expect
from ui.automation_data import PHOTOS, AutomationData, create_automation
from ui.dashboard_data import DashboardData
from ui.page_checks import PageView, check_page
from ui.page_session import PageSession, open_page

PAGES = [
    PageView("workflows", "/workflows", "album winter", "wide"),
    PageView(
        "workflow", "/workflows/{failed}?node=publish", "album winter is locked", "wide narrow"
    ),
    PageView("workflow-gantt", "/workflows/{album}?view=gantt", "tell-friends", "wide"),
    PageView("workflow-table", "/workflows/{order}?view=table", "thank"),
    PageView("batch", "/batches/{batch}", "40 of 40 jobs finished"),
    PageView("triggers", "/triggers", "Receipt for a paid order", "wide"),
    PageView("trigger-schedule", "/triggers/{schedule}", "At 02:30", "wide"),
    PageView("trigger-event", "/triggers/{reaction}", "event.total"),
    PageView("trigger-new", "/triggers/new?definition=make_report", "pages", "narrow"),
    PageView("trigger-edit", "/triggers/{reaction}?edit=1", "Preview with a recent event", "wide"),
    PageView("events", "/events", "order.seen"),
    PageView("event", "/events/{event}", "Job created", "wide"),
    PageView("webhooks", "/webhooks", "notifies the shop's accounting"),
    PageView("webhook", "/webhooks/{webhook}", "Verify a webhook signature", "wide"),
    PageView("connectors", "/settings?tab=connectors", "billing"),
    PageView("job-steps", "/jobs/{shipping}", "print the label", "wide"),
]
# The pages that a viewer's test covers: one for each kind of action.
LOOKED_AT = {
    *("workflow", "triggers", "trigger-schedule", "trigger-event"),
    *("event", "webhook", "connectors"),
}


@pytest.fixture(scope="session")
def shop_at_work(dashboard: DashboardData) -> AutomationData:
    return create_automation(dashboard)


def _admin(created: AutomationData) -> str:
    return created.dashboard.server.a.keys["tenant_admin"]


@pytest.mark.timeout(300)  # it covers many pages
def test_every_page_passes_the_checks(shop_at_work: AutomationData, browser: Browser) -> None:
    with open_page(browser, shop_at_work.dashboard, _admin(shop_at_work)) as session:
        for view in PAGES:
            check_page(session, view, shop_at_work.ids)


def test_a_cron_trigger_is_created_with_a_preview_of_its_next_runs(
    shop_at_work: AutomationData, browser: Browser
) -> None:
    with open_page(browser, shop_at_work.dashboard, _admin(shop_at_work)) as session:
        session.load("/triggers")
        session.click("Create trigger")
        session.page.get_by_label("Name").fill("Nightly report")
        session.page.get_by_label("Definition").select_option("make_report")
        session.page.get_by_role("textbox", name="Cron").fill("61 2 * * *")
        expect(session.page.get_by_role("alert")).to_be_visible()
        session.page.get_by_role("textbox", name="Cron").fill("30 2 * * *")
        session.page.get_by_role("combobox", name="Time zone").fill("Europe/Berlin")
        session.expect_text("At 02:30")
        runs = session.page.get_by_role("table", name="Next runs")
        expect(runs.get_by_role("row")).to_have_count(6)
        session.page.get_by_role("textbox", name="month").fill("{{ schedule.fire_at }}")
        session.click("Create trigger")
        session.expect_text("No firings yet")
        session.click("Run now")
        expect(session.page.get_by_role("region", name="Firings")).to_contain_text("Job created")
        session.page.get_by_role("switch").click()
        expect(session.page.get_by_role("switch")).to_have_attribute("aria-checked", "false")
        session.complaints[:] = [each for each in session.complaints if "422" not in each]


def test_an_interval_is_shown_in_words(shop_at_work: AutomationData, browser: Browser) -> None:
    settings = {"type": "schedule", "label": "Prices", "definition": "make_report"}
    created = shop_at_work.post("/triggers", {**settings, "cron": "@every 30s"})["id"]
    with open_page(browser, shop_at_work.dashboard, _admin(shop_at_work)) as session:
        session.load("/triggers")
        session.expect_text("every 30 s")
        session.load(f"/triggers/{created}")
        session.expect_text("Every 30 seconds")
        session.expect_text("every 30 s")


def test_a_workflow_is_shown_as_a_graph_and_retried(
    shop_at_work: AutomationData, browser: Browser
) -> None:
    with open_page(browser, shop_at_work.dashboard, _admin(shop_at_work)) as session:
        session.load("/workflows?kind=workflow")
        session.click("album winter", role="link")
        # Many nodes of one definition are shown as one.
        expect(session.page.locator("[data-node]")).to_have_count(5)
        session.click(f"{PHOTOS} \N{MULTIPLICATION SIGN} resize")
        session.expect_text(f"{PHOTOS} succeeded")
        session.click("publish, Dead")
        session.expect_text("PermissionError")
        expect(session.page).to_have_url(re.compile("node=publish"))
        session.page.keyboard.press("k")
        expect(session.page).not_to_have_url(re.compile("node=publish"))
        session.click("Retry…")
        session.click("Retry", exact=True)
        session.expect_text("jobs created")
        expect(session.page.get_by_role("main")).to_contain_text(re.compile("Failed"))


def test_a_running_workflow_is_followed(shop_at_work: AutomationData, browser: Browser) -> None:
    payload = {"month": "2026-11", "pages": 3000}
    nodes = [{"name": "read", "definition": "make_report", "payload": payload}]
    created = shop_at_work.post("/workflows", {"name": "long", "nodes": nodes})["id"]
    with open_page(browser, shop_at_work.dashboard, _admin(shop_at_work)) as session:
        session.load(f"/workflows/{created}")
        session.click("Follow running nodes")
        follow = session.page.get_by_role("button", name="Follow running nodes")
        expect(follow).to_have_attribute("aria-pressed", "true")
        session.check_access(part="main")
    shop_at_work.post(f"/workflows/{created}/cancel")


def test_the_secret_of_a_webhook_is_shown_once(
    shop_at_work: AutomationData, browser: Browser
) -> None:
    with open_page(browser, shop_at_work.dashboard, _admin(shop_at_work)) as session:
        session.load("/webhooks")
        session.click("Create webhook")
        session.page.get_by_label("URL").fill(shop_at_work.dashboard.receiver.url)
        session.page.get_by_label("All definitions").uncheck()
        session.page.get_by_label("ship_order").check()
        session.check_access(part="dialog")
        session.click("Create", exact=True)
        secret = session.page.get_by_text(re.compile(r"^whsec_\S+$"))
        expect(secret).to_be_visible()
        text = secret.text_content()
        session.click("I've saved it")
        expect(secret).to_have_count(0)
        session.expect_text("No messages yet")
        session.click("Send test")
        session.click("webhook.test")
        session.expect_text("none (test message)")
        expect(session.page.get_by_role("main")).to_contain_text("204")
        assert shop_at_work.dashboard.receiver.received[-1].verify(str(text))
        session.click("Edit")
        session.page.get_by_label("URL").fill(shop_at_work.dashboard.refusing.url)
        expect(session.page.get_by_role("button", name="Save")).to_be_disabled()
        session.page.get_by_label("Secret").fill(str(text))
        session.click("Save")
        session.expect_text(shop_at_work.dashboard.refusing.url)


def test_an_event_is_sent_and_shows_its_effects(
    shop_at_work: AutomationData, browser: Browser
) -> None:
    with open_page(browser, shop_at_work.dashboard, _admin(shop_at_work)) as session:
        session.load("/events")
        session.click("Emit event")
        session.page.get_by_role("dialog").get_by_label("Name").fill("order.paid")
        session.page.get_by_label("Data").fill('{"email": "eve@example.com", "total": 12}')
        session.check_access(part="dialog")
        session.click("Emit", exact=True)
        session.expect_text("Job created")
        session.click("Receipt for a paid order", role="link")
        session.click("Test", exact=True)
        session.expect_text("eve@example.com")
        _sees_no_secret(session)


def test_a_trigger_shows_its_deduplicated_events_and_the_job_that_covers_each(
    shop_at_work: AutomationData, browser: Browser
) -> None:
    created = shop_at_work
    [delivery] = created.get(f"/events/{created.ids['event']}")["deliveries"]
    with open_page(browser, created.dashboard, _admin(created)) as session:
        session.load(f"/triggers/{created.ids['reaction']}")
        session.expect_text("Deduplicated events")
        count = session.page.locator("dt", has_text="Deduplicated events").locator("+ dd")
        expect(count).to_have_text("1")
        deliveries = session.page.get_by_role("region", name="Event deliveries")
        row = deliveries.get_by_role("row").filter(has_text="Deduplicated")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("This job covers the event.")
        job, event = row.get_by_role("link").all()
        expect(event).to_have_attribute("href", re.compile(created.ids["duplicate"]))
        job.click()
        expect(session.page).to_have_url(re.compile(f"/jobs/{delivery['job_id']}"))


def _sees_no_secret(session: PageSession) -> None:
    session.load("/settings?tab=connectors")
    session.click("Edit billing")
    expect(session.page.get_by_label("Type of secret 1")).to_have_value("kept")
    assert "s3cr3t-of-billing" not in session.page.content()


def test_a_viewer_is_offered_no_action(shop_at_work: AutomationData, browser: Browser) -> None:
    created = shop_at_work
    viewer = created.dashboard.server.a.keys["viewer"]
    actions = re.compile(
        r"\b(Create|Emit|Send|Edit|Delete|Cancel|Retry|Run now|Backfill|Test|Replay|Rotate"
        r"|Close batch|Enable|Disable)\b"
    )
    with open_page(browser, created.dashboard, viewer) as session:
        for view in PAGES:
            if view.name not in LOOKED_AT:
                continue
            session.navigate(view.path.format(**created.ids))
            session.expect_text(view.expected_text)
            expect(
                session.page.get_by_role("main").get_by_role("button", name=actions)
            ).to_have_count(0)
            expect(session.page.get_by_role("switch")).to_have_count(0)
            if view.name == "trigger-schedule":
                runs = session.page.get_by_role("table", name="Next runs")
                expect(runs.get_by_role("row")).to_have_count(6)

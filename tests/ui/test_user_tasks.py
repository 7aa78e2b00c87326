"""What people come to the dashboard for, from the first click to the last."""

import ast
import json
import re
from uuid import uuid4

import pytest
from attacks import Attempts
from cluster import wait_until
from playwright.sync_api import Browser, expect
from psycopg.types.json import Jsonb
from ui.dashboard_data import BIG, Scene
from ui.page_session import NARROW, Look, looking

from jobforge.api.serve import serve_in_thread
from jobforge.config import Config
from jobforge.security.api_keys import parse_api_key


def _admin(shop: Scene) -> str:
    return shop.house.a.keys["tenant_admin"]


def _state(look: Look, state: str) -> None:
    expect(look.page.locator("[data-state]")).to_have_attribute("data-state", state)


def test_a_deep_link_asks_for_a_key_and_leads_back(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, None) as look:
        look.go(f"/jobs/{shop.jobs['big']}")
        look.page.get_by_label("API key").fill("jf_wrong")
        look.press("Sign in")
        expect(look.page.get_by_role("alert")).to_be_visible()
        look.page.get_by_label("API key").fill(_admin(shop))
        look.press("Sign in")
        look.see("charge_card")
        expect(look.page).to_have_url(re.compile(f"/ui/jobs/{shop.jobs['big']}$"))
        expect(look.page.get_by_role("region", name="Payload")).to_contain_text(str(BIG))
        # The browser tells of the key that was refused, and of the session that was not there.
        assert all("401" in each for each in look.complaints)
        look.complaints.clear()


def test_a_ticket_signs_in_once(shop: Scene, browser: Browser) -> None:
    key = parse_api_key(shop.house.super_key)
    assert key is not None
    database_url = shop.house.database.url_as("server_login")
    config = Config(database_url=database_url, server_port=0, access_log=False)
    with serve_in_thread(config) as served:
        link = served.create_sign_in_link(key, "acme")
        for is_first in (True, False):
            with looking(browser, shop, None) as look:
                look.page.goto(link)
                look.see("You act as" if is_first else "Sign in to JobForge")
                assert "ticket" not in look.page.url
                assert all("401" in each for each in look.complaints)
                look.complaints.clear()


@pytest.mark.attack("sessions")
def test_an_api_key_in_a_link_does_not_sign_in(
    shop: Scene, browser: Browser, attempts: Attempts
) -> None:
    attacker = shop.house.b.keys["tenant_admin"]
    for signed_in in (None, _admin(shop)):
        with looking(browser, shop, signed_in) as look:
            look.page.goto(f"{shop.url}/ui/#ticket={attacker}")
            look.see("charge_card" if signed_in else "Sign in to JobForge")
            asked = look.page.context.request.get(f"{shop.url}/api/v1/session")
            assert asked.status == (200 if signed_in else 401)
            assert not signed_in or asked.json()["tenant_id"] == str(shop.house.a.tenant_id)
            look.complaints.clear()
    attempts(2)


@pytest.mark.attack("sessions")
def test_a_ticket_replaces_a_live_session_only_when_its_holder_agrees(
    shop: Scene, browser: Browser
) -> None:
    key = parse_api_key(shop.house.super_key)
    assert key is not None
    database_url = shop.house.database.url_as("server_login")
    config = Config(database_url=database_url, server_port=0, access_log=False)
    with serve_in_thread(config) as served, looking(browser, shop, None) as look:
        request = look.page.context.request
        request.post(f"{served.url}/api/v1/session", data={"key": _admin(shop)})
        choices = {"Keep my session": "tenant_admin", "Switch session": "super_admin"}
        for answer, role in choices.items():
            look.page.goto("about:blank")
            look.page.goto(served.create_sign_in_link(key, "acme"))
            look.see("Switch session?")
            assert request.get(f"{served.url}/api/v1/session").json()["role"] == "tenant_admin"
            look.check_access(part="main")
            look.press(answer)
            look.see("You act as" if role == "super_admin" else "charge_card")
            assert request.get(f"{served.url}/api/v1/session").json()["role"] == role


def test_a_job_is_watched_while_it_runs_and_canceled(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        job = shop.enqueue("make_report", {"month": "2026-09", "pages": 3000})
        look.go(f"/jobs/{job}")
        _state(look, "running")
        log = look.page.get_by_role("log")
        expect(log).to_contain_text("page=3")
        look.press("Cancel")
        look.page.get_by_label("Reason").fill("the wrong month")
        look.check_access(part="dialog")
        look.press("Cancel the job")
        _state(look, "canceled")
        look.see("the wrong month")


def test_a_dead_job_is_run_again_with_another_payload(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go(f"/jobs/{shop.jobs['refused']}")
        look.see("card type diners is not accepted")
        look.press("Edit and retry")
        payload = look.page.get_by_role("textbox", name="Payload")
        expect(payload).to_have_value(re.compile("diners"))
        payload.fill(f'{{"order": {BIG}, "card": "visa"}}')
        look.press("Make the new job")
        expect(look.page).not_to_have_url(re.compile(shop.jobs["refused"]))
        _state(look, "succeeded")
        look.see(f"R-{BIG}")


def test_a_double_click_retries_once(shop: Scene, browser: Browser) -> None:
    done = shop.enqueue("send_welcome", {"to": "twice@example.com"}, correlation_id="clicked twice")
    shop.wait_for(done, "succeeded")
    with looking(browser, shop, _admin(shop)) as look:
        look.go(f"/jobs/{done}")
        look.page.get_by_role("button", name="Retry", exact=True).dblclick()
        expect(look.page).not_to_have_url(re.compile(done))
        _state(look, "succeeded")
    found = shop.house.client("viewer").get("/jobs", params={"correlation_id": "clicked twice"})
    assert len(found.json()["items"]) == 2


def test_an_address_without_a_page_leads_on(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/nowhere")
        look.see("There is no such page")
        look.press("Jobs", role="link", exact=True)
        look.see("make_report")


def test_a_page_not_seen_before_waits_for_a_server_that_is_away(
    shop: Scene, browser: Browser
) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/jobs")
        look.see("make_report")
        look.page.route("**/*", lambda route: route.abort())
        look.press("Operations", role="link", exact=True)
        look.see("No connection")
        look.page.unroute("**/*")
        look.press("Try again")
        look.see("Done in the background")
        look.complaints.clear()  # what could not be had


def test_a_dialog_stays_while_text_is_marked_and_hands_the_focus_back(
    shop: Scene, browser: Browser
) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go(f"/jobs/{shop.jobs['dead']}")
        look.press("Edit and retry")
        payload = look.page.get_by_role("textbox", name="Payload")
        payload.fill('{"order": 1}')
        box = payload.bounding_box()
        assert box is not None
        look.page.mouse.move(box["x"] + 40, box["y"] + 15)
        look.page.mouse.down()
        look.page.mouse.move(box["x"] - 100, box["y"] + 15)
        look.page.mouse.up()
        expect(payload).to_have_value('{"order": 1}')
        look.page.keyboard.press("Escape")
        expect(payload).to_have_count(0)
        expect(look.page.get_by_role("button", name="Edit and retry")).to_be_focused()


def test_two_attempts_show_how_their_errors_differ(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go(f"/jobs/{shop.jobs['twice']}")
        look.press("What changed since try 1")
        changes = look.page.get_by_label("What changed", exact=True)
        expect(changes).to_contain_text(
            "- ValueError: card type amex is not accepted, as was said 1"
        )
        expect(changes).to_contain_text(
            "+ ValueError: card type amex is not accepted, as was said 2"
        )


def test_the_figures_of_a_definition_lead_to_its_jobs(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/?range=6h")
        table = look.page.get_by_role("region", name="By definition")
        table.get_by_role("link", name="charge_card").click()
        look.see("Ended of charge_card")
        chart = look.page.get_by_role("img", name=re.compile("Attempts of the last 6 h"))
        expect(chart).to_have_accessible_name(re.compile(r"ended well \d+, failed \d\d+"))
        expect(chart.locator("canvas")).to_be_visible()
        row = table.get_by_role("row", name=re.compile("charge_card"))
        row.get_by_role("link", name=re.compile("%")).click()
        expect(look.page).to_have_url(re.compile("definition=charge_card&state=failed,dead"))
        look.see("ConnectionError")


def test_a_group_of_failures_is_run_again_behind_a_canary(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look, shop.bank_is_down():
        look.go("/failures")
        group = look.page.get_by_role("button", name="ConnectionError in charge_card@1 New")
        expect(group.get_by_role("img")).to_have_accessible_name("6 died in the last 24 hours")
        look.press("ConnectionError in charge_card")
        look.press("Run again…")
        look.press("Start")
        look.see("Stopped by its canary")
        (shop.folder / "bank-is-down").unlink()
        look.press("Run again…")
        look.page.get_by_label("Jobs per second").fill("")
        look.press("Start")
        wait_until(lambda: shop.state_of(shop.jobs["dead"]) == "succeeded")
        expect(
            look.page.get_by_role("button", name="ConnectionError in charge_card")
        ).to_have_count(0)


def test_all_that_match_are_canceled_in_the_background(shop: Scene, browser: Browser) -> None:
    jobs = [
        shop.enqueue("send_welcome", {"to": "x@example.com"}, delay_s=3600, tags=["wrong"])
        for _ in range(3)
    ]
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/jobs?tag=wrong")
        expect(look.page.locator("[data-job]")).to_have_count(3)
        look.page.keyboard.press("j")
        look.page.keyboard.press("x")
        look.see("1 chosen")
        look.press("Choose all that match")
        look.press("Cancel…")
        look.press("Cancel 3 jobs")
        look.see("3 of 3")
        wait_until(lambda: all(shop.state_of(job) == "canceled" for job in jobs))
        look.go("/operations")
        look.see("Canceled")


def test_the_filter_box_writes_the_address(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/jobs")
        look.see("make_report")
        look.page.keyboard.press("/")
        look.page.keyboard.type("state:de")
        look.page.keyboard.press("ArrowDown")
        look.page.keyboard.press("Enter")
        expect(look.page).to_have_url(re.compile(r"/jobs\?state=dead$"))
        look.press("Running")
        expect(look.page).to_have_url(re.compile(r"state=running"))
        _view_is_saved(look)
        look.page.keyboard.press("?")
        look.see("next, previous row")
        look.check_access(part="dialog")
        look.page.keyboard.press("Escape")
        look.page.keyboard.press("Control+k")
        look.page.get_by_placeholder("Go to a page").fill("fail")
        look.check_access(part="dialog")
        look.page.keyboard.press("Enter")
        expect(look.page).to_have_url(re.compile("/failures$"))


def test_a_table_is_sorted_by_its_address_and_walked_by_keys(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/definitions?sort=-ran-in-24-h")
        rows = look.page.get_by_role("row")
        expect(rows.nth(1)).to_contain_text("send_welcome")
        look.press("Definition", role="link", exact=True)
        expect(look.page).to_have_url(re.compile(r"sort=definition$"))
        expect(rows.nth(1)).to_contain_text("charge_card")
        look.page.evaluate("document.activeElement.blur()")
        look.page.keyboard.press("j")
        look.page.keyboard.press("j")
        look.page.keyboard.press("k")
        look.page.keyboard.press("Enter")
        expect(look.page).to_have_url(re.compile("/definitions/charge_card"))


def _view_is_saved(look: Look) -> None:
    look.press("Views")
    look.press("Save this view…", role="menuitem")
    look.page.get_by_role("textbox", name="Name").fill("at work")
    look.press("Save", exact=True)
    look.press("All", exact=True)
    expect(look.page).to_have_url(re.compile(r"/jobs$"))
    look.press("Views")
    look.press("at work", role="menuitem")
    expect(look.page).to_have_url(re.compile("state=running"))
    look.press("at work")
    look.press("Forget at work", role="menuitem")
    expect(look.page.get_by_role("button", name="Views")).to_be_visible()


def test_tabs_share_one_stream_and_rows_stay_under_the_pointer(
    shop: Scene, browser: Browser
) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/jobs?queue=mail")
        look.press("Live")
        look.see("Paused")
        look.press("Paused")
        streams: list[str] = []
        second = look.page.context.new_page()
        second.on("request", lambda asked: streams.append(asked.url))
        second.goto(f"{look.base}/jobs?queue=mail")
        expect(second.get_by_role("button", name="Live")).to_be_visible()
        first = look.page.locator("[data-job]").first
        first.hover()
        held = first.get_attribute("data-job")
        made = shop.enqueue("send_welcome", {"to": "late@example.com"})
        expect(second.locator(f"[data-job='{made}']")).to_be_visible()
        assert not [url for url in streams if url.endswith("/stream")]
        look.page.bring_to_front()
        expect(look.page.get_by_role("button", name="1 new")).to_be_visible()
        assert first.get_attribute("data-job") == held
        look.press("1 new")
        expect(look.page.locator(f"[data-job='{made}']")).to_be_visible()


def test_a_list_says_all_of_a_job_in_a_row_and_begins_with_the_oldest_when_asked(
    shop: Scene, browser: Browser
) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/jobs")
        headings = look.page.get_by_role("columnheader")
        titles = "State Job Id Queue Source Try Queued Started Finished Worker Actions"
        expect(headings).to_have_text(["", *titles.split()])
        look.press("Newest first")
        expect(look.page).to_have_url(re.compile("order=oldest$"))
        [oldest] = shop.house.client("viewer").get("/jobs?order=oldest&limit=1").json()["items"]
        row = look.page.locator("[data-job]").first
        expect(row).to_have_attribute("data-job", oldest["id"])


def test_a_table_is_saved_from_the_palette(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/queues")
        look.see("payments")
        look.page.keyboard.press("Control+k")
        look.page.get_by_role("combobox", name="Go to or do").fill("Save Queues as CSV")
        with look.page.expect_download() as saved:
            look.page.keyboard.press("Enter")
        assert saved.value.suggested_filename == "queues.csv"
        lines = saved.value.path().read_text().splitlines()
        assert lines[0].startswith("name,paused_at,max_running")
        assert [line for line in lines if line.startswith("payments,")]


def test_a_definition_is_run_from_its_form(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/definitions/send_welcome")
        look.page.get_by_role("textbox", name="to").fill("new@example.com")
        look.press("Run", exact=True)
        _state(look, "succeeded")
        look.see("Welcome, Ada!")


def test_a_queue_is_paused_and_resumed_by_an_operator(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, shop.house.super_key) as look:
        look.go("/admin/queues")
        look.press("Pause mail")
        look.press("Resume mail")
        expect(look.page.get_by_role("button", name="Pause mail")).to_be_visible()


def test_an_operator_sees_which_times_made_no_job_and_who_acts(
    shop: Scene, browser: Browser
) -> None:
    with looking(browser, shop, shop.house.super_key) as look:
        look.go("/admin/scheduler")
        turns = look.page.get_by_role("region", name="Upkeep")
        expect(turns.get_by_role("row", name=re.compile(r"statistics .* \S+:\d+"))).to_be_visible()
        misses = look.page.get_by_role("region", name="Times that made no job")
        expect(misses).to_contain_text("there is no definition make_export")
        look.press("Skipped", role="link")
        expect(look.page).to_have_url(re.compile("outcome=skipped$"))
        expect(misses.get_by_role("row")).to_have_count(2)
        misses.get_by_role("link", name="Nightly export").click()
        expect(look.page).to_have_url(re.compile("/t/globex/triggers/"))
        look.see("the job of the time before has not ended")


def test_an_operator_sees_who_has_fallen_silent(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, shop.house.super_key) as look:
        look.go("/admin/workers")
        expect(look.page.get_by_role("alert")).to_contain_text("not heard from for a minute")
        row = look.page.get_by_role("row", name=re.compile("batch-7"))
        expect(row).to_contain_text("Stale")
        expect(row).to_contain_text("212 MB")
        expect(row).to_contain_text("+4.2 s")


def test_a_deployment_is_marked_in_the_chart(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, shop.house.super_key) as look:
        look.go("/admin/fleet")
        chart = look.page.get_by_role("img", name=re.compile(r"failed \d+, 2026\.11\.2 at "))
        expect(chart.locator("canvas")).to_be_visible()
        assert "2026.11.1" not in str(chart.get_attribute("aria-label"))


def test_viewing_as_a_tenant_changes_nothing_unless_asked(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, shop.house.super_key) as look:
        look.go("/admin/tenants")
        look.press("View as globex")
        look.see("You look at")
        look.go(f"/t/globex/jobs/{shop.jobs['foreign']}")
        look.see("secret@globex.example")
        expect(look.page.get_by_role("button", name="Retry", exact=True)).to_have_count(0)
        look.press("Allow actions")
        expect(look.page.get_by_role("button", name="Retry", exact=True)).to_be_visible()


def test_a_tenant_opens_no_job_of_another(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        for path in (f"/jobs/{shop.jobs['foreign']}", f"/jobs/{uuid4()}"):
            look.go(path)
            look.see("Not found")
            expect(look.page.get_by_text("globex")).to_have_count(0)
        look.complaints[:] = [each for each in look.complaints if "404" not in each]


def test_a_tenant_has_no_admin_area(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, _admin(shop)) as look:
        look.go("/admin/tenants")
        look.see("Not allowed")
        expect(look.page.get_by_text("Globex")).to_have_count(0)
        expect(look.page.get_by_text("New tenant")).to_have_count(0)
        look.complaints[:] = [each for each in look.complaints if "403" not in each]


def test_a_viewer_is_offered_nothing_that_would_be_refused(shop: Scene, browser: Browser) -> None:
    viewer = shop.house.a.keys["viewer"]
    with looking(browser, shop, viewer, size=NARROW) as look:
        look.go(f"/jobs/{shop.jobs['waiting']}")
        look.see("queue_not_served")
        for name in ("Cancel", "Retry", "Edit and retry"):
            expect(look.page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        look.go("/definitions/send_welcome")
        look.see("makes no jobs")
        look.press("Menu")
        expect(look.page.get_by_role("dialog", name="Menu")).to_contain_text("Failures")


def test_long_names_fit_a_phone(shop: Scene, browser: Browser) -> None:
    name, queue = f"reconcile.{'all_invoices_' * 14}", f"reconciliation_{'x' * 34}"
    settings = Jsonb({"queue": queue, "description": "d" * 300})
    shop.house.conn.execute("select jobforge.put_definition(%s, 1, %s)", [name, settings])
    job = shop.enqueue(name, {})
    with looking(browser, shop, _admin(shop), size=NARROW) as look:
        for path in ("/jobs", f"/jobs/{job}", "/definitions", f"/definitions/{name}", "/queues"):
            look.go(path)
            look.see("reconcil")
            look.check_fits(path)


# What is written on canvases, and how far down.
WRITTEN = """
window.written = new Set();
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  window.written.add(JSON.stringify([text, y]));
  write.call(this, text, x, y);
};
"""


def test_a_new_tenant_is_offered_what_works_and_sees_an_empty_chart(
    shop: Scene, browser: Browser
) -> None:
    key = shop.house.make_key("tenant_admin", uuid4())
    with looking(browser, shop, key) as look:
        look.page.add_init_script(WRITTEN)
        look.go("/")
        steps = look.page.locator("section").filter(has_text="First steps")
        expect(steps).to_contain_text("You may run charge_card from here")  # it has a parameter
        expect(steps).not_to_contain_text("jobforge enqueue")
        wait_until(lambda: len(_times(look)) > 1)
        assert _times(look) == sorted(set(_times(look)))


def _times(look: Look) -> list[str]:
    """Labels of the axis that has times."""
    written = [json.loads(each)[0] for each in look.page.evaluate("[...written]")]
    return sorted(text for text in written if text.endswith(" ms"))


def test_a_copied_job_is_python_whatever_its_payload_is_called(
    shop: Scene, browser: Browser
) -> None:
    shop.house.conn.execute("select jobforge.put_definition('import_order', 1)")
    job = shop.enqueue("import_order", {"shop": "x", "order-id": 7, "class": None})
    with looking(browser, shop, _admin(shop)) as look:
        look.go(f"/jobs/{job}")
        look.page.evaluate("navigator.clipboard.writeText = async text => { window.copied = text }")
        look.press("Copy as")
        look.press("Copy as Python", role="menuitem")
        look.see("Copied as Python.")
        copied = str(look.page.evaluate("copied"))
    call = ast.parse(copied, mode="eval").body
    assert isinstance(call, ast.Call)
    [named, rest] = call.keywords
    assert (named.arg, ast.literal_eval(named.value)) == ("shop", "x")
    assert (rest.arg, ast.literal_eval(rest.value)) == (None, {"order-id": 7, "class": None})

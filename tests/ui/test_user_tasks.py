"""The tasks of dashboard users, from the first click to the last."""

import ast
import json
import re
from uuid import uuid4

import pytest
from attacks import Attempts
from cluster import wait_until
from playwright.sync_api import Browser, expect
from psycopg.types.json import Jsonb
from ui.dashboard_data import UNSAFE_INTEGER, DashboardData
from ui.page_session import NARROW, PageSession, open_page

from jobforge.api.serve import serve_in_thread
from jobforge.config import Config
from jobforge.security.api_keys import parse_api_key


def _admin(dashboard: DashboardData) -> str:
    return dashboard.server.a.keys["tenant_admin"]


def _state(session: PageSession, state: str) -> None:
    expect(session.page.locator("[data-state]")).to_have_attribute("data-state", state)


def test_a_deep_link_asks_for_a_key_and_returns_to_its_page(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, None) as session:
        session.load(f"/jobs/{dashboard.jobs['big']}")
        session.page.get_by_label("API key").fill("jf_wrong")
        session.click("Sign in")
        expect(session.page.get_by_role("alert")).to_be_visible()
        session.page.get_by_label("API key").fill(_admin(dashboard))
        session.click("Sign in")
        session.expect_text("charge_card")
        expect(session.page).to_have_url(re.compile(f"/ui/jobs/{dashboard.jobs['big']}$"))
        expect(session.page.get_by_role("region", name="Payload")).to_contain_text(
            str(UNSAFE_INTEGER)
        )
        # The browser complains about the refused key, and about the missing session.
        assert all("401" in each for each in session.complaints)
        session.complaints.clear()


def test_a_ticket_signs_in_once(dashboard: DashboardData, browser: Browser) -> None:
    key = parse_api_key(dashboard.server.super_key)
    assert key is not None
    database_url = dashboard.server.database.url_as("server_login")
    config = Config(database_url=database_url, server_port=0, access_log=False)
    with serve_in_thread(config) as served:
        link = served.create_sign_in_link(key, "acme")
        for is_first in (True, False):
            with open_page(browser, dashboard, None) as session:
                session.page.goto(link)
                session.expect_text("You are acting as" if is_first else "Sign in to JobForge")
                assert "ticket" not in session.page.url
                assert all("401" in each for each in session.complaints)
                session.complaints.clear()


@pytest.mark.attack("sessions")
def test_an_api_key_in_a_link_does_not_sign_in(
    dashboard: DashboardData, browser: Browser, attempts: Attempts
) -> None:
    attacker = dashboard.server.b.keys["tenant_admin"]
    for signed_in in (None, _admin(dashboard)):
        with open_page(browser, dashboard, signed_in) as session:
            session.page.goto(f"{dashboard.url}/ui/#ticket={attacker}")
            session.expect_text("charge_card" if signed_in else "Sign in to JobForge")
            asked = session.page.context.request.get(f"{dashboard.url}/api/v1/session")
            assert asked.status == (200 if signed_in else 401)
            assert not signed_in or asked.json()["tenant_id"] == str(dashboard.server.a.tenant_id)
            session.complaints.clear()
    attempts(2)


@pytest.mark.attack("sessions")
def test_a_ticket_replaces_a_live_session_only_with_consent(
    dashboard: DashboardData, browser: Browser
) -> None:
    key = parse_api_key(dashboard.server.super_key)
    assert key is not None
    database_url = dashboard.server.database.url_as("server_login")
    config = Config(database_url=database_url, server_port=0, access_log=False)
    with serve_in_thread(config) as served, open_page(browser, dashboard, None) as session:
        request = session.page.context.request
        request.post(f"{served.url}/api/v1/session", data={"key": _admin(dashboard)})
        choices = {"Keep my session": "tenant_admin", "Switch session": "super_admin"}
        for answer, role in choices.items():
            session.page.goto("about:blank")
            session.page.goto(served.create_sign_in_link(key, "acme"))
            session.expect_text("Switch session?")
            assert request.get(f"{served.url}/api/v1/session").json()["role"] == "tenant_admin"
            session.check_access(part="main")
            session.click(answer)
            session.expect_text("You are acting as" if role == "super_admin" else "charge_card")
            assert request.get(f"{served.url}/api/v1/session").json()["role"] == role


def test_a_running_job_is_watched_and_canceled(dashboard: DashboardData, browser: Browser) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        job = dashboard.enqueue("make_report", {"month": "2026-09", "pages": 3000})
        session.load(f"/jobs/{job}")
        _state(session, "running")
        log = session.page.get_by_role("log")
        expect(log).to_contain_text("page=3")
        session.click("Cancel")
        session.page.get_by_label("Reason").fill("the wrong month")
        session.check_access(part="dialog")
        session.click("Cancel job")
        _state(session, "canceled")
        session.expect_text("the wrong month")


def test_a_dead_job_is_run_again_with_another_payload(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load(f"/jobs/{dashboard.jobs['refused']}")
        session.expect_text("card type diners is not accepted")
        session.click("Edit and retry")
        payload = session.page.get_by_role("textbox", name="Payload")
        expect(payload).to_have_value(re.compile("diners"))
        payload.fill(f'{{"order": {UNSAFE_INTEGER}, "card": "visa"}}')
        session.click("Create job")
        expect(session.page).not_to_have_url(re.compile(dashboard.jobs["refused"]))
        _state(session, "succeeded")
        session.expect_text(f"R-{UNSAFE_INTEGER}")


def test_a_double_click_retries_once(dashboard: DashboardData, browser: Browser) -> None:
    done = dashboard.enqueue(
        "send_welcome", {"to": "twice@example.com"}, correlation_id="clicked twice"
    )
    dashboard.wait_for(done, "succeeded")
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load(f"/jobs/{done}")
        session.page.get_by_role("button", name="Retry", exact=True).dblclick()
        expect(session.page).not_to_have_url(re.compile(done))
        _state(session, "succeeded")
    found = dashboard.server.client("viewer").get(
        "/jobs", params={"correlation_id": "clicked twice"}
    )
    assert len(found.json()["items"]) == 2


def test_an_unknown_path_links_to_existing_pages(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/nowhere")
        session.expect_text("This page does not exist")
        session.click("Jobs", role="link", exact=True)
        session.expect_text("make_report")


def test_an_uncached_page_waits_for_an_unreachable_server(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/jobs")
        session.expect_text("make_report")
        session.page.route("**/*", lambda route: route.abort())
        session.click("Operations", role="link", exact=True)
        session.expect_text("No connection")
        session.page.unroute("**/*")
        session.click("Try again")
        session.expect_text("run in the background")
        session.complaints.clear()  # failed requests


def test_a_dialog_stays_open_while_text_is_selected_and_returns_the_focus(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load(f"/jobs/{dashboard.jobs['dead']}")
        session.click("Edit and retry")
        payload = session.page.get_by_role("textbox", name="Payload")
        payload.fill('{"order": 1}')
        box = payload.bounding_box()
        assert box is not None
        session.page.mouse.move(box["x"] + 40, box["y"] + 15)
        session.page.mouse.down()
        session.page.mouse.move(box["x"] - 100, box["y"] + 15)
        session.page.mouse.up()
        expect(payload).to_have_value('{"order": 1}')
        session.page.keyboard.press("Escape")
        expect(payload).to_have_count(0)
        expect(session.page.get_by_role("button", name="Edit and retry")).to_be_focused()


def test_two_attempts_show_how_their_errors_differ(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load(f"/jobs/{dashboard.jobs['twice']}")
        session.click("Compare with attempt 1")
        changes = session.page.get_by_label("Differences", exact=True)
        expect(changes).to_contain_text("- ValueError: card type amex is not accepted (attempt 1)")
        expect(changes).to_contain_text("+ ValueError: card type amex is not accepted (attempt 2)")


def test_the_figures_of_a_definition_link_to_its_jobs(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/?range=6h")
        table = session.page.get_by_role("region", name="By definition")
        table.get_by_role("link", name="charge_card").click()
        session.expect_text("Attempts of charge_card")
        chart = session.page.get_by_role("img", name=re.compile("Attempts in the last 6 h"))
        expect(chart).to_have_accessible_name(re.compile(r"succeeded \d+, failed \d\d+"))
        expect(chart.locator("canvas")).to_be_visible()
        row = table.get_by_role("row", name=re.compile("charge_card"))
        row.get_by_role("link", name=re.compile("%")).click()
        expect(session.page).to_have_url(re.compile("definition=charge_card&state=failed,dead"))
        session.expect_text("ConnectionError")


def test_a_failure_group_is_redriven_behind_a_canary(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session, dashboard.bank_is_down():
        session.load("/failures")
        group = session.page.get_by_role("button", name="ConnectionError in charge_card@1 New")
        expect(group.get_by_role("img")).to_have_accessible_name("6 dead jobs in the last 24 hours")
        session.click("ConnectionError in charge_card")
        session.click("Redrive…")
        session.click("Start redrive")
        session.expect_text("Redrive: stopped by its canary jobs")
        (dashboard.folder / "bank-is-down").unlink()
        session.click("Redrive…")
        session.page.get_by_label("Jobs per second").fill("")
        session.click("Start redrive")
        wait_until(lambda: dashboard.state_of(dashboard.jobs["dead"]) == "succeeded")
        expect(
            session.page.get_by_role("button", name="ConnectionError in charge_card")
        ).to_have_count(0)


def test_all_matching_jobs_are_canceled_in_the_background(
    dashboard: DashboardData, browser: Browser
) -> None:
    jobs = [
        dashboard.enqueue("send_welcome", {"to": "x@example.com"}, delay_s=3600, tags=["wrong"])
        for _ in range(3)
    ]
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/jobs?tag=wrong")
        expect(session.page.locator("[data-job]")).to_have_count(3)
        session.page.keyboard.press("j")
        session.page.keyboard.press("x")
        session.expect_text("1 selected")
        session.click("Select all matching jobs")
        session.click("Cancel…")
        session.click("Cancel 3 jobs")
        session.expect_text("3 of 3")
        wait_until(lambda: all(dashboard.state_of(job) == "canceled" for job in jobs))
        session.load("/operations")
        session.expect_text("Cancel jobs: done")


def test_the_filter_box_updates_the_url(dashboard: DashboardData, browser: Browser) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/jobs")
        session.expect_text("make_report")
        session.page.keyboard.press("/")
        session.page.keyboard.type("state:de")
        session.page.keyboard.press("ArrowDown")
        session.page.keyboard.press("Enter")
        expect(session.page).to_have_url(re.compile(r"/jobs\?state=dead$"))
        session.click("Running")
        expect(session.page).to_have_url(re.compile(r"state=running"))
        _view_is_saved(session)
        session.page.keyboard.press("?")
        session.expect_text("next row, previous row")
        session.check_access(part="dialog")
        session.page.keyboard.press("Escape")
        session.page.keyboard.press("Control+k")
        session.page.get_by_placeholder("Search pages").fill("fail")
        session.check_access(part="dialog")
        session.page.keyboard.press("Enter")
        expect(session.page).to_have_url(re.compile("/failures$"))


def test_a_table_is_sorted_by_its_url_and_navigated_with_keys(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/definitions?sort=-attempts-in-24-h")
        rows = session.page.get_by_role("row")
        expect(rows.nth(1)).to_contain_text("send_welcome")
        session.click("Definition", role="link", exact=True)
        expect(session.page).to_have_url(re.compile(r"sort=definition$"))
        expect(rows.nth(1)).to_contain_text("charge_card")
        session.page.evaluate("document.activeElement.blur()")
        session.page.keyboard.press("j")
        session.page.keyboard.press("j")
        session.page.keyboard.press("k")
        session.page.keyboard.press("Enter")
        expect(session.page).to_have_url(re.compile("/definitions/charge_card"))


def _view_is_saved(session: PageSession) -> None:
    session.click("Views")
    session.click("Save this view…", role="menuitem")
    session.page.get_by_role("textbox", name="Name").fill("at work")
    session.click("Save", exact=True)
    session.click("All", exact=True)
    expect(session.page).to_have_url(re.compile(r"/jobs$"))
    session.click("Views")
    session.click("at work", role="menuitem")
    expect(session.page).to_have_url(re.compile("state=running"))
    session.click("at work")
    session.click("Delete at work", role="menuitem")
    expect(session.page.get_by_role("button", name="Views")).to_be_visible()


def test_tabs_share_one_stream_and_rows_stay_under_the_pointer(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/jobs?queue=mail")
        session.click("Live")
        session.expect_text("Paused")
        session.click("Paused")
        streams: list[str] = []
        second = session.page.context.new_page()
        second.on("request", lambda asked: streams.append(asked.url))
        second.goto(f"{session.base}/jobs?queue=mail")
        expect(second.get_by_role("button", name="Live")).to_be_visible()
        first = session.page.locator("[data-job]").first
        first.hover()
        held = first.get_attribute("data-job")
        created = dashboard.enqueue("send_welcome", {"to": "late@example.com"})
        expect(second.locator(f"[data-job='{created}']")).to_be_visible()
        assert not [url for url in streams if url.endswith("/stream")]
        session.page.bring_to_front()
        expect(session.page.get_by_role("button", name="1 new")).to_be_visible()
        assert first.get_attribute("data-job") == held
        session.click("1 new")
        expect(session.page.locator(f"[data-job='{created}']")).to_be_visible()


def test_a_list_shows_each_job_in_one_row_and_can_start_with_the_oldest(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/jobs")
        headings = session.page.get_by_role("columnheader")
        titles = "State Job ID Queue Source Attempt Queued Started Finished Worker Actions"
        expect(headings).to_have_text(["", *titles.split()])
        session.click("Newest first")
        expect(session.page).to_have_url(re.compile("order=oldest$"))
        [oldest] = (
            dashboard.server.client("viewer").get("/jobs?order=oldest&limit=1").json()["items"]
        )
        row = session.page.locator("[data-job]").first
        expect(row).to_have_attribute("data-job", oldest["id"])


def test_a_table_is_exported_from_the_palette(dashboard: DashboardData, browser: Browser) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/queues")
        session.expect_text("payments")
        session.page.keyboard.press("Control+k")
        session.page.get_by_role("combobox", name="Search pages and actions").fill(
            "Export Queues as CSV"
        )
        with session.page.expect_download() as saved:
            session.page.keyboard.press("Enter")
        assert saved.value.suggested_filename == "queues.csv"
        lines = saved.value.path().read_text().splitlines()
        assert lines[0].startswith("name,paused_at,max_running")
        assert [line for line in lines if line.startswith("payments,")]


def test_a_definition_is_run_from_its_form(dashboard: DashboardData, browser: Browser) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/definitions/send_welcome")
        session.page.get_by_role("textbox", name="to").fill("new@example.com")
        session.click("Run", exact=True)
        _state(session, "succeeded")
        session.expect_text("Welcome, Ada!")


def test_a_queue_is_paused_and_resumed_by_an_operator(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, dashboard.server.super_key) as session:
        session.load("/admin/queues")
        session.click("Pause mail")
        session.click("Resume mail")
        expect(session.page.get_by_role("button", name="Pause mail")).to_be_visible()


def test_an_operator_sees_missed_runs_and_running_schedulers(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, dashboard.server.super_key) as session:
        session.load("/admin/scheduler")
        turns = session.page.get_by_role("region", name="Maintenance tasks")
        expect(turns.get_by_role("row", name=re.compile(r"statistics .* \S+:\d+"))).to_be_visible()
        misses = session.page.get_by_role("region", name="Missed runs")
        expect(misses).to_contain_text("definition make_export not found")
        session.click("Skipped", role="link")
        expect(session.page).to_have_url(re.compile("outcome=skipped$"))
        expect(misses.get_by_role("row")).to_have_count(2)
        misses.get_by_role("link", name="Nightly export").click()
        expect(session.page).to_have_url(re.compile("/t/globex/triggers/"))
        session.expect_text("the previous run is not finished")


def test_an_operator_sees_workers_without_heartbeats(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, dashboard.server.super_key) as session:
        session.load("/admin/workers")
        expect(session.page.get_by_role("alert")).to_contain_text(
            "1 worker has sent no heartbeat for a minute"
        )
        row = session.page.get_by_role("row", name=re.compile("batch-7"))
        expect(row).to_contain_text("Stale")
        expect(row).to_contain_text("212 MB")
        expect(row).to_contain_text("+4.2 s")


def test_a_deployment_is_marked_in_the_chart(dashboard: DashboardData, browser: Browser) -> None:
    with open_page(browser, dashboard, dashboard.server.super_key) as session:
        session.load("/admin/fleet")
        chart = session.page.get_by_role("img", name=re.compile(r"failed \d+, 2026\.11\.2 at "))
        expect(chart.locator("canvas")).to_be_visible()
        assert "2026.11.1" not in str(chart.get_attribute("aria-label"))


def test_viewing_as_a_tenant_changes_nothing_without_confirmation(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, dashboard.server.super_key) as session:
        session.load("/admin/tenants")
        session.click("View as globex")
        session.expect_text("You are viewing")
        session.load(f"/t/globex/jobs/{dashboard.jobs['foreign']}")
        session.expect_text("secret@globex.example")
        expect(session.page.get_by_role("button", name="Retry", exact=True)).to_have_count(0)
        session.click("Allow actions")
        expect(session.page.get_by_role("button", name="Retry", exact=True)).to_be_visible()


def test_a_tenant_cannot_open_a_job_of_another(dashboard: DashboardData, browser: Browser) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        for path in (f"/jobs/{dashboard.jobs['foreign']}", f"/jobs/{uuid4()}"):
            session.load(path)
            session.expect_text("Not found")
            expect(session.page.get_by_text("globex")).to_have_count(0)
        session.complaints[:] = [each for each in session.complaints if "404" not in each]


def test_a_tenant_has_no_admin_area(dashboard: DashboardData, browser: Browser) -> None:
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load("/admin/tenants")
        session.expect_text("Not allowed")
        expect(session.page.get_by_text("Globex")).to_have_count(0)
        expect(session.page.get_by_text("Create tenant")).to_have_count(0)
        session.complaints[:] = [each for each in session.complaints if "403" not in each]


def test_a_viewer_is_offered_no_forbidden_action(
    dashboard: DashboardData, browser: Browser
) -> None:
    viewer = dashboard.server.a.keys["viewer"]
    with open_page(browser, dashboard, viewer, size=NARROW) as session:
        session.load(f"/jobs/{dashboard.jobs['waiting']}")
        session.expect_text("queue_not_served")
        for name in ("Cancel", "Retry", "Edit and retry"):
            expect(session.page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        session.load("/definitions/send_welcome")
        session.expect_text("Your key is read-only")
        session.click("Menu")
        expect(session.page.get_by_role("dialog", name="Menu")).to_contain_text("Failures")


def test_long_names_fit_a_phone(dashboard: DashboardData, browser: Browser) -> None:
    name, queue = f"reconcile.{'all_invoices_' * 14}", f"reconciliation_{'x' * 34}"
    settings = Jsonb({"queue": queue, "description": "d" * 300})
    dashboard.server.conn.execute("select jobforge.put_definition(%s, 1, %s)", [name, settings])
    job = dashboard.enqueue(name, {})
    with open_page(browser, dashboard, _admin(dashboard), size=NARROW) as session:
        for path in ("/jobs", f"/jobs/{job}", "/definitions", f"/definitions/{name}", "/queues"):
            session.load(path)
            session.expect_text("reconcil")
            session.check_fits(path)


# The strings drawn on canvases, and their vertical positions.
WRITTEN = """
window.written = new Set();
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  window.written.add(JSON.stringify([text, y]));
  write.call(this, text, x, y);
};
"""


def test_a_new_tenant_is_offered_working_actions_and_sees_an_empty_chart(
    dashboard: DashboardData, browser: Browser
) -> None:
    key = dashboard.server.create_key("tenant_admin", uuid4())
    with open_page(browser, dashboard, key) as session:
        session.page.add_init_script(WRITTEN)
        session.load("/")
        steps = session.page.locator("section").filter(has_text="First steps")
        expect(steps).to_contain_text(
            "You can run charge_card in the dashboard"
        )  # it has a parameter
        expect(steps).not_to_contain_text("jobforge enqueue")
        wait_until(lambda: len(_times(session)) > 1)
        assert _times(session) == sorted(set(_times(session)))


def _times(session: PageSession) -> list[str]:
    """Return the labels of the time axis."""
    written = [json.loads(each)[0] for each in session.page.evaluate("[...written]")]
    return sorted(text for text in written if text.endswith(" ms"))


def test_a_job_copied_as_python_is_valid_whatever_its_payload_fields_are_called(
    dashboard: DashboardData, browser: Browser
) -> None:
    dashboard.server.conn.execute("select jobforge.put_definition('import_order', 1)")
    job = dashboard.enqueue("import_order", {"shop": "x", "order-id": 7, "class": None})
    with open_page(browser, dashboard, _admin(dashboard)) as session:
        session.load(f"/jobs/{job}")
        session.page.evaluate(
            "navigator.clipboard.writeText = async text => { window.copied = text }"
        )
        session.click("Copy as")
        session.click("Copy as Python", role="menuitem")
        session.expect_text("Copied as Python.")
        copied = str(session.page.evaluate("copied"))
    call = ast.parse(copied, mode="eval").body
    assert isinstance(call, ast.Call)
    [named, rest] = call.keywords
    assert (named.arg, ast.literal_eval(named.value)) == ("shop", "x")
    assert (rest.arg, ast.literal_eval(rest.value)) == (None, {"order-id": 7, "class": None})

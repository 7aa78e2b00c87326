"""Every page of a tenant and of an operator passes the page checks."""

import re

import pytest
from playwright.sync_api import Browser
from ui.dashboard_data import DashboardData
from ui.page_checks import PageView, check_page
from ui.page_session import open_page

CHART_LEGEND = re.compile(r"^succeeded\s*\d")

TENANT_PAGES = [
    PageView("overview", "/", CHART_LEGEND, "wide narrow"),
    PageView("jobs", "/jobs", "make_report", "wide narrow"),
    PageView("jobs-dead", "/jobs?state=dead&definition=charge_card", "ConnectionError"),
    PageView("job-running", "/jobs/{running}", "month=", "wide"),
    PageView("job-dead", "/jobs/{dead}", "no response from bank.example", "wide narrow"),
    PageView("job-waiting", "/jobs/{waiting}", "queue_not_served", "wide"),
    PageView("failures", "/failures?group={fingerprint}", "Redrive…", "wide narrow"),
    PageView("definitions", "/definitions", "Charge an order to the card."),
    PageView("definition", "/definitions/charge_card", CHART_LEGEND, "wide"),
    PageView("queues", "/queues", "payments", "wide"),
    PageView("operations", "/operations", "No operations yet"),
    PageView("settings", "/settings", "API keys", "wide"),
    PageView("audit", "/settings?tab=audit", "Actor"),
    PageView("limits", "/settings?tab=limits", "Running jobs"),
]
ADMIN_PAGES = [
    PageView("fleet", "/admin/fleet", "Noisy", "wide"),
    PageView("tenants", "/admin/tenants", "Globex", "wide"),
    PageView("workers", "/admin/workers", "batch-7", "wide"),
    PageView("admin-queues", "/admin/queues?queue=reports", "1 for acme", "wide"),
    PageView("database", "/admin/database", "Transactions blocking vacuum", "wide"),
    PageView("scheduler", "/admin/scheduler", "Nightly export", "wide"),
    PageView("admin-audit", "/admin/audit", "Actor"),
]


@pytest.mark.timeout(300)  # it covers many pages
def test_every_page_of_a_tenant_passes_the_checks(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, dashboard.server.a.keys["tenant_admin"]) as session:
        for view in TENANT_PAGES:
            check_page(session, view, dashboard.jobs)


@pytest.mark.timeout(300)  # it covers many pages
def test_every_page_of_an_operator_passes_the_checks(
    dashboard: DashboardData, browser: Browser
) -> None:
    with open_page(browser, dashboard, dashboard.server.super_key) as session:
        for view in ADMIN_PAGES:
            check_page(session, view, dashboard.jobs)
        session.load("/t/acme/jobs")
        session.expect_text("make_report")
        session.check_access()


def test_the_sign_in_page_passes_the_checks(dashboard: DashboardData, browser: Browser) -> None:
    with open_page(browser, dashboard, None) as session:
        session.load("/sign-in")
        session.expect_text("Sign in to JobForge")
        session.check_access()

"""Every page of a tenant and of an operator."""

import pytest
from playwright.sync_api import Browser
from ui.dashboard_data import Scene
from ui.page_checks import Spot, check_soundness
from ui.page_session import looking

TENANT_PAGES = [
    Spot("overview", "/", "ended well", "wide narrow"),
    Spot("jobs", "/jobs", "make_report", "wide narrow"),
    Spot("jobs-dead", "/jobs?state=dead&definition=charge_card", "ConnectionError"),
    Spot("job-running", "/jobs/{running}", "month=", "wide"),
    Spot("job-dead", "/jobs/{dead}", "no answer from bank.example", "wide narrow"),
    Spot("job-waiting", "/jobs/{waiting}", "queue_not_served", "wide"),
    Spot("failures", "/failures?group={fingerprint}", "Run again…", "wide narrow"),
    Spot("definitions", "/definitions", "Charges an order to the card."),
    Spot("definition", "/definitions/charge_card", "ended well", "wide"),
    Spot("queues", "/queues", "payments", "wide"),
    Spot("operations", "/operations", "No operations yet"),
    Spot("settings", "/settings", "API keys", "wide"),
    Spot("audit", "/settings?tab=audit", "When"),
    Spot("limits", "/settings?tab=limits", "Running at once"),
]
ADMIN_PAGES = [
    Spot("fleet", "/admin/fleet", "Noisy", "wide"),
    Spot("tenants", "/admin/tenants", "Globex", "wide"),
    Spot("workers", "/admin/workers", "batch-7", "wide"),
    Spot("admin-queues", "/admin/queues?queue=reports", "1 by acme", "wide"),
    Spot("database", "/admin/database", "Who keeps dead rows", "wide"),
    Spot("scheduler", "/admin/scheduler", "Nightly export", "wide"),
    Spot("admin-audit", "/admin/audit", "When"),
]


@pytest.mark.timeout(300)  # it is many pages
def test_every_page_of_a_tenant_is_sound(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, shop.house.a.keys["tenant_admin"]) as look:
        for spot in TENANT_PAGES:
            check_soundness(look, spot, shop.jobs)


@pytest.mark.timeout(300)  # it is many pages
def test_every_page_of_an_operator_is_sound(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, shop.house.super_key) as look:
        for spot in ADMIN_PAGES:
            check_soundness(look, spot, shop.jobs)
        look.go("/t/acme/jobs")
        look.see("make_report")
        look.check_access()


def test_the_page_to_sign_in_is_sound(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, None) as look:
        look.go("/sign-in")
        look.see("Sign in to JobForge")
        look.check_access()

"""Every page in both themes, on a screen and on a phone: nothing breaks, everybody can use it.

With JOBFORGE_SHOTS the pictures of the documentation are written to that folder."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from ui.looking import NARROW, WIDE, Look, looking
from ui.scene import Scene

SHOTS = os.environ.get("JOBFORGE_SHOTS")

# Name, path, and words that are there when it has loaded. {…} is a job of the scene.
TENANT_PAGES = [
    ("overview", "/", "Newest jobs"),
    ("jobs", "/jobs", "make_report"),
    ("jobs-dead", "/jobs?state=dead&definition=charge_card", "ConnectionError"),
    ("job-running", "/jobs/{running}", "month="),
    ("job-dead", "/jobs/{dead}", "no answer from bank.example"),
    ("job-waiting", "/jobs/{waiting}", "queue_not_served"),
    ("failures", "/failures?group={fingerprint}", "Run again…"),
    ("definitions", "/definitions", "Charges an order to the card."),
    ("definition", "/definitions/charge_card", "What holds"),
    ("queues", "/queues", "payments"),
    ("operations", "/operations", "No operations yet"),
    ("settings", "/settings", "API keys"),
    ("audit", "/settings?tab=audit", "When"),
]
ADMIN_PAGES = [
    ("fleet", "/admin/fleet", "Who gets the workers"),
    ("tenants", "/admin/tenants", "Globex"),
    ("workers", "/admin/workers", "batch-7"),
    ("admin-queues", "/admin/queues", "payments"),
    ("admin-audit", "/admin/audit", "When"),
    ("view-as-tenant", "/t/acme/jobs", "make_report"),
]
SIZES = {"wide": WIDE, "narrow": NARROW}
# Of which the documentation has pictures.
SHOWN = {
    "wide": {
        "overview",
        "jobs",
        "job-running",
        "job-dead",
        "job-waiting",
        "failures",
        "definition",
        "queues",
        "settings",
        "fleet",
        "tenants",
        "workers",
    },
    "narrow": {"overview", "jobs", "job-dead", "failures"},
}


@pytest.mark.timeout(300)  # it is many pages
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("role", ["tenant_admin", "super_admin"])
def test_every_page_is_sound(shop: Scene, browser: Browser, role: str, size: str) -> None:
    is_tenant = role == "tenant_admin"
    key = shop.house.a.keys[role] if is_tenant else shop.house.super_key
    with looking(browser, shop, key, size=SIZES[size]) as look:
        for name, path, words in TENANT_PAGES if is_tenant else ADMIN_PAGES:
            look.go(path.format(**shop.jobs))
            look.see(words)
            look.check_fits(name)
            # What is around every page is looked at once; colours are the same at every size.
            look.check_access(part="body" if path == "/" else "main")
            _keep(look, name, size, "light")
            look.page.emulate_media(color_scheme="dark")
            if size == "wide":
                look.check_access("color-contrast", part="body" if path == "/" else "main")
            _keep(look, name, size, "dark")
            look.page.emulate_media(color_scheme="light")


def test_the_page_to_sign_in_is_sound(shop: Scene, browser: Browser) -> None:
    with looking(browser, shop, None) as look:
        look.go("/sign-in")
        look.see("Sign in to JobForge")
        look.check_access()


def _keep(look: Look, name: str, size: str, theme: str) -> None:
    if SHOTS and name in SHOWN[size]:
        look.page.screenshot(path=Path(SHOTS) / f"{name}-{size}-{theme}.png")

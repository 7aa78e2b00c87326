"""Scripts in every field that a tenant, a worker or a job fills: none runs on any page.

The browser ignores the Content-Security-Policy, which would stop most of them, because pages must
be safe without it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

import pytest
from api.api_server import open_api_server
from attacks import Attempts
from cluster import fresh_database
from playwright.sync_api import Browser, Error, Page, Route, expect
from ui.script_injection import (
    ELSEWHERE,
    FORMS,
    RUN,
    InjectedTenant,
    annotate_failures,
    inject_scripts,
)

from jobforge.embedded import PostgresServer

_WITHIN_MS = 60_000
# Elements and attributes that no page has unless a string became markup.
_FOUND = """
() => {
  const found = window.hostileRan === undefined ? [] : ["a script ran"];
  const addresses = ["href", "src", "srcdoc", "action", "formaction", "data", "xlink:href"];
  const isOwn = (text) =>
    URL.canParse(text, location.href) && new URL(text, location.href).origin === location.origin;
  for (const each of document.querySelectorAll("*"))
    for (const { name, value } of each.attributes) {
      const isElsewhere =
        addresses.includes(name) && !isOwn(value);
      const loads = name === "style" && /url\\s*\\(|expression/.test(value);
      if (name.startsWith("on") || isElsewhere || loads || name === "srcdoc")
        found.push(`<${each.localName} ${name}=${value}>`);
    }
  return found;
}
"""


@dataclass
class Visitor:
    """A page, and the violations found in it."""

    page: Page
    base: str
    found: list[str] = field(default_factory=list)
    visited: int = 0

    def visit(self, path: str, text: str = "") -> None:
        """Visit a page that must show this string as text."""
        push = "url => history.pushState({}, '', url)"
        if self.page.url == "about:blank":
            self.page.goto(self.base + path)
        else:
            self.page.evaluate(push, f"{self.base}/admin/nowhere")
            expect(self.page.get_by_text("This page does not exist").first).to_be_visible(
                timeout=_WITHIN_MS
            )
            self.page.evaluate(push, self.base + path)
        if text:
            expect(self.page.get_by_text(text).first).to_be_attached(timeout=_WITHIN_MS)
        loading = self.page.get_by_role("status", name="Loading")
        expect(loading).to_have_count(0, timeout=_WITHIN_MS)
        self.found += [f"{path}: {each}" for each in self.page.evaluate(_FOUND)]
        self.visited += 1


@contextmanager
def visiting(browser: Browser, url: str, key: str | None) -> Iterator[Visitor]:
    context = browser.new_context(bypass_csp=True, reduced_motion="reduce")
    context.set_default_timeout(_WITHIN_MS)
    try:
        if key is not None:
            context.request.post(f"{url}/api/v1/session", data={"key": key})
        page = context.new_page()
        visitor = Visitor(page, f"{url}/ui")
        page.on("dialog", lambda dialog: visitor.found.append(f"dialog {dialog.message}"))
        context.on("request", lambda sent: _note(visitor, url, sent.url))
        context.on("page", lambda opened: visitor.found.append(f"window {opened.url}"))
        page.on("pageerror", lambda error: visitor.found.append(f"error {error}"))
        yield visitor
    finally:
        context.close()


def _note(visitor: Visitor, url: str, asked: str) -> None:
    if not asked.startswith((url, "data:", "blob:")):
        visitor.found.append(f"request to {asked}")


@pytest.fixture(scope="module")
def hostile(server: PostgresServer) -> Iterator[InjectedTenant]:
    with fresh_database(server) as database, open_api_server(database) as opened:
        created = inject_scripts(opened)
        annotate_failures(created)
        yield created


def test_the_browser_would_detect_an_injected_script(browser: Browser) -> None:
    """Most forms have an effect in a page that does not escape text; the others need a place in an
    attribute or a template, or a click.
    """
    unnoticed = []
    with visiting(browser, "http://page.test", None) as visitor:
        for number, form in enumerate(FORMS):
            page = f"<p>{form}</p>"
            answer = partial(_answer, page=page)
            visitor.page.route(f"http://page.test/{number}", answer)
            visitor.page.route(f"http://{ELSEWHERE}/**", partial(_answer, page=""))
            visitor.found.clear()
            with suppress(Error):  # some forms navigate the browser to another page
                visitor.page.goto(f"http://page.test/{number}", wait_until="domcontentloaded")
                visitor.found += visitor.page.evaluate(_FOUND)
            if not visitor.found:
                unnoticed.append(form)
    assert len(unnoticed) <= 14, unnoticed


def _answer(route: Route, page: str) -> None:
    route.fulfill(body=page, content_type="text/html; charset=utf-8")


LISTS = [
    *("/jobs", "/jobs?state=dead", "/workflows", "/failures", "/definitions", "/triggers"),
    *("/webhooks", "/settings", "/settings?tab=connectors"),
]
OTHER_LISTS = [
    *("/", "/events", "/queues", "/operations", "/settings?tab=you", "/settings?tab=limits"),
    "/settings?tab=audit",
]
DETAILS = {
    "job": "/jobs/{}",
    "dead": "/jobs/{}",
    "failure": "/failures?group={}",
    "workflow": "/workflows/{}?view=table",
    "batch": "/batches/{}",
    "trigger": "/triggers/{}?edit=1",
    "schedule": "/triggers/{}",
    "event": "/events/{}",
    "webhook": "/webhooks/{}",
}
ADMIN_LISTS = ["/admin/tenants", "/admin/workers"]
OTHER_ADMIN_LISTS = [
    *("/admin/fleet", "/admin/queues", "/admin/database", "/admin/scheduler", "/admin/audit"),
]


def _needle(form: str) -> str:
    return "hostileRan" if RUN in form else ELSEWHERE


@pytest.mark.attack("XSS")
@pytest.mark.timeout(600)  # it covers many pages
def test_no_list_runs_a_tenants_script(
    hostile: InjectedTenant, browser: Browser, attempts: Attempts
) -> None:
    with visiting(browser, hostile.server.url, hostile.server.a.keys["tenant_admin"]) as visitor:
        for path in LISTS:
            visitor.visit(path, "hostileRan")
        for path in OTHER_LISTS:
            visitor.visit(path)
        for number in range(len(FORMS)):
            visitor.visit(f"/definitions/kind-{number}", _needle(FORMS[number]))
    assert visitor.found == []
    assert hostile.injected - hostile.refused > 20 * len(FORMS)
    attempts(hostile.injected)


@pytest.mark.attack("XSS")
@pytest.mark.timeout(600)  # it covers many pages
@pytest.mark.parametrize("kind", DETAILS)
def test_no_detail_page_runs_a_tenants_script(
    hostile: InjectedTenant, browser: Browser, attempts: Attempts, kind: str
) -> None:
    with visiting(browser, hostile.server.url, hostile.server.a.keys["tenant_admin"]) as visitor:
        for number, thing in hostile.ids[kind].items():
            visitor.visit(DETAILS[kind].format(thing), _needle(FORMS[number]))
    assert visitor.found == []
    attempts(visitor.visited)


@pytest.mark.attack("XSS")
@pytest.mark.timeout(600)  # it covers many pages
def test_no_operator_page_runs_a_tenants_script(
    hostile: InjectedTenant, browser: Browser, attempts: Attempts
) -> None:
    with visiting(browser, hostile.server.url, hostile.server.super_key) as visitor:
        for path in ADMIN_LISTS:
            visitor.visit(path, "hostileRan")
        for path in OTHER_ADMIN_LISTS:
            visitor.visit(path)
    assert visitor.found == []
    attempts(visitor.visited)

"""A signed-in browser page that records every complaint of the browser."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]  # has none
from cluster import wait_until
from playwright.sync_api import Browser, BrowserContext, Page, expect
from ui.dashboard_data import DashboardData

WIDE, NARROW = (1280, 800), (390, 844)
_WITHIN_MS = 30_000
_AXE = {"resultTypes": ["violations"], "preload": False, "iframes": False, "selectors": False}
# The rules that another theme can break: a theme moves nothing.
THEME_RULES = ["color-contrast", "link-in-text-block"]
# Rows after the first ones are like them, and each would take axe equally long.
_REPEATED_ROWS = [
    "[role=log] > :nth-child(n+7)",
    "tr:nth-child(n+7)",
    "li:nth-child(n+13)",
    "[data-job]:nth-child(n+13)",
]


@dataclass(slots=True)
class PageSession:
    """A page, and the browser's complaints about it."""

    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)

    def load(self, path: str) -> None:
        self.page.goto(self.base + path)

    def navigate(self, path: str) -> None:
        """Navigate as a link in the page does, without loading resources again.

        It goes through a page that does not exist, so that content of the previous page cannot be
        mistaken for the new one.
        """
        if self.page.url == "about:blank":
            self.load(path)
            return
        push = "url => history.pushState({}, '', url)"
        self.page.evaluate(push, f"{self.base}/admin/nowhere")
        self.expect_text("This page does not exist")
        self.page.evaluate(push, self.base + path)

    def expect_text(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible()

    def click(self, name: str, *, role: str = "button", exact: bool = False) -> None:
        self.page.get_by_role(role, name=name, exact=exact).first.click()  # type: ignore[arg-type]

    def check_fits(self, name: str) -> None:
        """Check that no element makes the page wider than the screen, once the layout has followed
        its size.
        """

        def overhang() -> int:
            return int(
                self.page.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
            )

        wait_until(
            lambda: overhang() <= 0, why=lambda: f"{name} is {overhang()} wider than the screen"
        )

    def check_access(self, part: str = "body", *, rules: Sequence[str] = ()) -> None:
        """Check accessibility with axe, by all rules or by some."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE_SCRIPT)
        context = {"include": [part], "exclude": _REPEATED_ROWS}
        how = {**_AXE, "runOnly": list(rules)} if rules else _AXE
        found = self.page.evaluate("([what, how]) => axe.run(what, how)", [context, how])
        broken = [
            (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
            for each in found["violations"]
        ]
        assert broken == [], broken


@contextmanager
def open_page(
    browser: Browser,
    dashboard: DashboardData,
    key: str | None,
    *,
    size: tuple[int, int] = WIDE,
) -> Iterator[PageSession]:
    """Open a page signed in with the key; at the end, the browser must have no complaints."""
    context = browser.contexts[0] if browser.contexts else _context(browser)
    if key is not None:
        answer = context.request.post(f"{dashboard.url}/api/v1/session", data={"key": key})
        assert answer.status == 201, answer.text()
    page = context.new_page()
    page.set_viewport_size({"width": size[0], "height": size[1]})
    session = PageSession(page, f"{dashboard.url}/ui")
    page.on(
        "console",
        lambda output: _record_complaint(
            session, output.type, f"{output.text} {output.location['url']}"
        ),
    )
    page.on("pageerror", lambda error: _record_complaint(session, "error", str(error)))
    try:
        yield session
        assert session.complaints == [], session.complaints
    finally:
        _reset_context(context)


def _context(browser: Browser) -> BrowserContext:
    """Create the context of a test module: files are loaded once, and each test's
    state is cleared.
    """
    context = browser.new_context(
        reduced_motion="reduce", locale="en-GB", timezone_id="Europe/Berlin"
    )
    context.set_default_timeout(_WITHIN_MS)
    expect.set_options(timeout=_WITHIN_MS)
    return context


def _reset_context(context: BrowserContext) -> None:
    for page in context.pages:
        if page.url.startswith("http"):
            page.evaluate("localStorage.clear()")
        page.close()
    context.clear_cookies()


def _record_complaint(session: PageSession, kind: str, text: str) -> None:
    if kind in {"error", "warning"}:
        session.complaints.append(text)

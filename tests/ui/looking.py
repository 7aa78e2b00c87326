"""A person at the browser: signed in, and noticing everything that goes wrong in the page."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from axe_playwright_python.sync_playwright import (  # type: ignore[import-untyped]  # has none
    Axe,
)
from playwright.sync_api import Browser, Page, expect
from ui.scene import Scene

WIDE, NARROW = (1280, 800), (390, 844)
_WITHIN_MS = 30_000


@dataclass(slots=True)
class Look:
    """A page, and what the browser complained about."""

    page: Page
    base: str
    complaints: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(self.base + path)

    def see(self, text: str) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible()

    def press(self, name: str, *, role: str = "button", exact: bool = False) -> None:
        self.page.get_by_role(role, name=name, exact=exact).first.click()  # type: ignore[arg-type]

    def check_fits(self, name: str) -> None:
        """Nothing makes the page itself wider than the screen."""
        wide, screen = self.page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide <= screen, f"{name} is {wide} wide on {screen}"

    def check_access(self, *rules: str, part: str = "body") -> None:
        """What axe finds wrong for people who see, hear or move otherwise."""
        options: dict[str, object] = {"resultTypes": ["violations"]}
        if rules:
            options["runOnly"] = list(rules)
        found = Axe().run(self.page, context=part, options=options).response
        broken = [
            (each["id"], [node["html"][:200] for node in each["nodes"][:3]])
            for each in found["violations"]
        ]
        assert broken == []


@contextmanager
def looking(
    browser: Browser,
    shop: Scene,
    key: str | None,
    *,
    size: tuple[int, int] = WIDE,
) -> Iterator[Look]:
    """Signed in with the key; at the end nothing must have gone wrong in the page."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="Europe/Berlin",
    )
    context.set_default_timeout(_WITHIN_MS)
    expect.set_options(timeout=_WITHIN_MS)
    if key is not None:
        answer = context.request.post(f"{shop.url}/api/v1/session", data={"key": key})
        assert answer.status == 201, answer.text()
    page = context.new_page()
    look = Look(page, f"{shop.url}/ui")
    page.on("console", lambda said: _note(look, said.type, said.text))
    page.on("pageerror", lambda error: _note(look, "error", str(error)))
    try:
        yield look
        assert look.complaints == []
    finally:
        context.close()


def _note(look: Look, kind: str, text: str) -> None:
    if kind in {"error", "warning"}:
        look.complaints.append(text)

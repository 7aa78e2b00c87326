"""Checks of a page in both themes, on a screen and on a phone: layout and accessibility.

JOBFORGE_SHOTS is a folder for the pictures of the documentation; with JOBFORGE_SHOTS_OF=all, every
page is pictured.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import expect
from ui.page_session import NARROW, THEME_RULES, WIDE, PageSession

_PICTURE_FOLDER = os.environ.get("JOBFORGE_SHOTS")
_TAKES_ALL_PICTURES = os.environ.get("JOBFORGE_SHOTS_OF") == "all"


@dataclass(frozen=True, slots=True)
class PageView:
    """`expected_text` is visible when the page has loaded; {…} in the path is an ID of the data.
    The documentation has pictures of the sizes in `picture_sizes`.
    """

    name: str
    path: str
    expected_text: str | re.Pattern[str]
    picture_sizes: str = ""


def check_page(session: PageSession, view: PageView, things: Mapping[str, str]) -> None:
    session.navigate(view.path.format(**things))
    session.expect_text(view.expected_text)
    expect(session.page.locator("figure:not(:has(canvas))")).to_have_count(0)
    # The frame of all pages is checked once. In each size all rules come first, and then the rules
    # that another theme can break.
    part = "body" if view.path == "/" else "main"
    session.check_fits(view.name)
    session.check_access(part=part)
    _save_picture(session, view, "wide", "light")
    session.page.emulate_media(color_scheme="dark")
    session.check_access(part=part, rules=THEME_RULES)
    _save_picture(session, view, "wide", "dark")
    session.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    session.check_fits(f"{view.name} on a phone")
    session.check_access(part=part)
    _save_picture(session, view, "narrow", "dark")
    session.page.emulate_media(color_scheme="light")
    session.check_access(part=part, rules=THEME_RULES)
    _save_picture(session, view, "narrow", "light")
    session.page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})


def _save_picture(session: PageSession, view: PageView, size: str, theme: str) -> None:
    if _PICTURE_FOLDER and (_TAKES_ALL_PICTURES or size in view.picture_sizes):
        path = Path(_PICTURE_FOLDER) / f"{view.name}-{size}-{theme}.png"
        session.page.screenshot(path=path, full_page=_TAKES_ALL_PICTURES)

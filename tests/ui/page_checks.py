"""A page in both themes, on a screen and on a phone: nothing breaks, everybody can use it.

With JOBFORGE_SHOTS the pictures of the documentation are written to that folder; with
JOBFORGE_SHOTS_OF=all those of every page.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import expect
from ui.page_session import COLOURS, NARROW, WIDE, Look

_SHOTS = os.environ.get("JOBFORGE_SHOTS")
_ALL = os.environ.get("JOBFORGE_SHOTS_OF") == "all"


@dataclass(frozen=True, slots=True)
class Spot:
    """`words` are there when it has loaded; {…} in the path is a thing of the scene. The
    documentation has pictures of the sizes in `shown`.
    """

    name: str
    path: str
    words: str
    shown: str = ""


def check_soundness(look: Look, spot: Spot, things: Mapping[str, str]) -> None:
    look.turn_to(spot.path.format(**things))
    look.see(spot.words)
    expect(look.page.locator("figure:not(:has(canvas))")).to_have_count(0)
    # What is around every page is looked at once. In each size all rules come first, and then those
    # that another theme can break.
    part = "body" if spot.path == "/" else "main"
    look.check_fits(spot.name)
    look.check_access(part=part)
    _keep(look, spot, "wide", "light")
    look.page.emulate_media(color_scheme="dark")
    look.check_access(part=part, rules=COLOURS)
    _keep(look, spot, "wide", "dark")
    look.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    look.check_fits(f"{spot.name} on a phone")
    look.check_access(part=part)
    _keep(look, spot, "narrow", "dark")
    look.page.emulate_media(color_scheme="light")
    look.check_access(part=part, rules=COLOURS)
    _keep(look, spot, "narrow", "light")
    look.page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})


def _keep(look: Look, spot: Spot, size: str, theme: str) -> None:
    if _SHOTS and (_ALL or size in spot.shown):
        path = Path(_SHOTS) / f"{spot.name}-{size}-{theme}.png"
        look.page.screenshot(path=path, full_page=_ALL)

"""Fixtures of the dashboard's tests: one scene and one browser for each module."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import fresh_database, make_folder
from playwright.sync_api import Browser, sync_playwright
from ui.scene import Scene, find_browser, scene

from jobforge.embedded import Server

_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These come first: tests that begin a run are handed out in long stretches, so that no scene
    is made a second time by another process.
    """
    items.sort(key=lambda item: not item.path.is_relative_to(Path(__file__).parent))


@pytest.fixture(scope="module")
def shop(server: Server, browser: Browser) -> Iterator[Scene]:  # noqa: ARG001 - nothing without it
    folder = make_folder("jobforge-ui-")
    try:
        with fresh_database(server) as database, scene(database, folder) as made:
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip("there is no Chromium; JOBFORGE_CHROMIUM names one")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=_OPTIONS)
        yield opened
        opened.close()

"""Fixtures of the dashboard's tests: one server with data and one browser for all of them."""

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from cluster import fresh_database, make_folder
from playwright.sync_api import Browser, sync_playwright
from ui.dashboard_data import DashboardData, find_browser, open_dashboard

from jobforge.embedded import PostgresServer

_SHARED = pytest.StashKey[ExitStack]()
_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests first: pytest-xdist hands out the first tests in long runs, so that no second
    process creates the data again. Tests that only read pages come before tests that add data.
    """
    items.sort(key=lambda item: (not _is_ours(item), item.path.name != "test_pages.py"))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close what these tests share after the last of them: in the event loop of the browser's
    driver, other tests cannot run their own loop.
    """
    if nextitem is None or not _is_ours(nextitem):
        item.config.stash.setdefault(_SHARED, ExitStack()).close()


def _is_ours(item: pytest.Item) -> bool:
    return item.path.is_relative_to(Path(__file__).parent)


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> ExitStack:
    return request.config.stash.setdefault(_SHARED, ExitStack())


@pytest.fixture(scope="session")
def dashboard(server: PostgresServer, browser: Browser, shared: ExitStack) -> DashboardData:  # noqa: ARG001 - nothing without it
    folder = make_folder("jobforge-ui-")
    shared.callback(shutil.rmtree, folder, ignore_errors=True)
    database = shared.enter_context(fresh_database(server))
    return shared.enter_context(open_dashboard(database, folder))


@pytest.fixture(scope="session")
def browser(shared: ExitStack) -> Browser:
    path = find_browser()
    if path is None:
        pytest.skip(
            "Chromium not found: run `make system-deps` as root on Debian, or set JOBFORGE_CHROMIUM"
        )
    playwright = shared.enter_context(sync_playwright())
    opened = playwright.chromium.launch(executable_path=path, args=_OPTIONS)
    shared.callback(opened.close)
    return opened

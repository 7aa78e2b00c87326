"""The web application of examples/ that streams the progress of a job to a browser."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
from integration.example_programs import load_example
from starlette.testclient import TestClient

from jobforge.embedded import PostgresServer
from jobforge.testing import Kit
from jobforge.testing.cluster import Postgres
from jobforge.testing.kit import open_kit

Event = dict[str, Any]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_example("progress", "app.py")


@pytest.fixture(scope="module")
def kit(server: PostgresServer, example: ModuleType) -> Iterator[Kit]:
    with open_kit(Postgres(server.url(), is_durable=False)) as kit:
        kit.use(example.jf)
        yield kit


@pytest.fixture
def browser(kit: Kit, example: ModuleType) -> Iterator[TestClient]:
    with example.jf.tenant(kit.tenant(f"shop-{uuid4()}")), TestClient(example.web) as browser:
        yield browser


def start(browser: TestClient) -> str:
    response = browser.post("/exports", params={"months": 2, "seconds_per_month": 0})
    assert response.status_code == 202
    return f"/exports/{response.json()['id']}/events"


def receive(browser: TestClient, url: str, last_event_id: str | None = None) -> list[Event]:
    headers = {} if last_event_id is None else {"last-event-id": last_event_id}
    response = browser.get(url, headers=headers)
    assert response.headers["content-type"].startswith("text/event-stream")
    blocks = response.text.strip().split("\n\n")
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]


def test_a_browser_receives_the_progress_of_a_job_until_its_end(
    kit: Kit, browser: TestClient
) -> None:
    url = start(browser)
    with ThreadPoolExecutor(1) as threads:
        draining = threads.submit(kit.drain)
        events = receive(browser, url)
        draining.result()
    assert [event["event"] for event in events] == [*["log", "progress"] * 2, "end"]
    shown = [json.loads(event["data"]) for event in events]
    assert (shown[0]["message"], shown[0]["month"]) == ("exported", 1)
    assert (shown[3]["done"], shown[3]["total"]) == (2, 2)
    assert shown[4] == {"state": "succeeded"}
    assert receive(browser, url, events[2]["id"]) == events[3:]


def test_the_page_closes_its_stream_at_the_end(browser: TestClient) -> None:
    page = browser.get("/").text
    assert all(f'listen("{kind}"' in page for kind in ("log", "progress", "end"))
    assert "events.close()" in page


def test_an_unknown_export_is_not_found(browser: TestClient) -> None:
    assert browser.get(f"/exports/{uuid4()}/events").status_code == 404

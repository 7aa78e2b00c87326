"""Fixtures for fault tests, and their position in a run of all tests."""

import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from cluster import Database
from faults.scenario import SEED, Scenario

FIGURES = "faults"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the slow fault tests: otherwise one worker of a parallel run would get them all."""
    slow = [item for item in items if "scenario" in getattr(item, "fixturenames", ())]
    quick = [item for item in items if item not in slow]
    every = max(1, len(quick) // max(1, len(slow)))
    spread: list[pytest.Item] = []
    for number, item in enumerate(slow):
        spread += [item, *quick[number * every : (number + 1) * every]]
    items[:] = [*spread, *quick[len(slow) * every :]]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the figures of all fault tests, including those in other processes."""
    for report in chain(*terminalreporter.stats.values()):
        if getattr(report, "when", None) == "teardown":
            figures = dict(report.user_properties).get(FIGURES)
            if figures:
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {figures}")


@pytest.fixture
def scenario(database: Database, folder: Path) -> Iterator[Scenario]:
    """A scenario on the server that all tests share."""
    created = Scenario(database, folder)
    yield created
    created.close()


@pytest.fixture
def figures(record_property: Any) -> Iterator[dict[str, object]]:
    """The figures of a test; printed with the seed by `make faults`, and when the test fails."""
    counted: dict[str, object] = {"seed": SEED}
    yield counted
    text = json.dumps(counted, default=str)
    record_property(FIGURES, text)
    sys.stdout.write(text + "\n")

"""Count the attempts of the attack tests by area and print them at the end of a run.

A test marked `@pytest.mark.attack("ssrf")` counts as one attempt in that area. A test that makes
more than one takes the `attempts` fixture and calls it with their number. `--attack-report FILE`
also writes the counts as the table of docs/attacks.md.
"""

from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

Attempts = Callable[[int], None]
PROPERTY = "attack"
REPORT = pytest.StashKey["Report"]()
COUNT = pytest.StashKey["_Item"]()

HEADER = """\
| Area | Attempts | Refused | Tests |
| --- | ---: | ---: | ---: |
"""


class Report:
    """The attempts of one run, and how many were refused, by area."""

    def __init__(self) -> None:
        self.attempts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def add(self, area: str, attempts: int, *, passed: bool) -> None:
        self.tests[area] += 1
        self.attempts[area] += attempts
        self.refused[area] += attempts if passed else 0

    def as_table(self) -> str:
        rows = [
            f"| {area} | {self.attempts[area]:,} | {self.refused[area]:,} | {self.tests[area]:,} |"
            for area in sorted(self.tests)
        ]
        total = f"| **Total** | {self.attempts.total():,} | {self.refused.total():,} "
        return HEADER + "\n".join([*rows, f"{total}| {self.tests.total():,} |"]) + "\n"


class _Item:
    """The number of attempts of one test while it runs."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, count: int) -> None:
        self.count += count


@pytest.fixture
def attempts(request: pytest.FixtureRequest) -> Attempts:
    """Record that the test made this many attempts (instead of one)."""
    made = _Item()
    request.node.stash[COUNT] = made
    return made


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--attack-report", type=Path, help="write the attack counts to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REPORT] = Report()
    config.pluginmanager.register(_Listener(config.stash[REPORT]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send the count with the report, which reaches the controller of a parallel run."""
    mark = item.get_closest_marker("attack")
    if mark is not None and call.when == "call":
        made = item.stash.get(COUNT, None)
        item.user_properties.append((PROPERTY, (mark.args[0], made.count if made else 1)))
    return (yield)


class _Listener:
    """Adds up the reports of all tests in the process that prints the summary."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" or report.skipped:
            return
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, (tuple, list)):
                area, count = value
                self.report.add(str(area), int(count), passed=report.passed)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    report = config.stash[REPORT]
    if not report.tests:
        return
    terminalreporter.section("attacks")
    terminalreporter.write(report.as_table())
    target: Path | None = config.getoption("--attack-report")
    if target is not None:
        _write(target, report.as_table())


def _write(page: Path, table: str) -> None:
    """Replace the table in the page, and keep the text around it."""
    before, _, rest = page.read_text().partition(HEADER)
    after = rest.partition("\n\n")[2]
    page.write_text(before + table + (f"\n{after}" if after else ""))

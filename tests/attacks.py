"""Count the attacks of the security tests by area and print them at the end of a run.

A test marked `@pytest.mark.attack("SSRF")` counts as one attack in that area. A test that makes
more than one takes the `attempts` fixture and calls it with their number. `--attack-report FOLDER`
also writes the counts into the pages of this folder: the table of attacks.md, and the total that
security.md quotes.

Counts of 100 or more are rounded down to two significant digits. Some depend on the number of
processes on the machine, and the pages must not change without reason.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

Attempts = Callable[[int], None]
PROPERTY = "attack"
REPORT = pytest.StashKey["Report"]()
COUNT = pytest.StashKey["_Item"]()

TABLE_PAGE, TOTAL_PAGE = "attacks.md", "security.md"
# The total in security.md.
TOTAL = re.compile(r"(?P<attempts>[\d,]+) attacks(?=, none of which succeeded)")
HEADER = """\
| Area | What the tests try | Attacks | Tests |
| --- | --- | ---: | ---: |
"""
AREAS = {
    "advisory locks": "Block jobs with advisory locks of an unprivileged login",
    "API keys": "Send invalid, revoked or expired keys; create a key with more rights",
    "command arguments": "Inject arguments, a shell or variables into a program",
    "connectors": "Send a stored secret to another origin by changing a URL",
    "credentials": "Read database passwords and keys from processes, files and settings",
    "hostile handlers": "Exceed limits, flood the output, ignore signals, leave processes behind",
    "HTTP header injection": "Add a header to an outgoing request",
    "HTTP routes by role": "Call every route with every role",
    "HTTP routes, with another tenant's IDs": "Read or change another tenant's objects",
    "isolation": "Reach other jobs, the worker or the host from a job, at each level",
    "log floods": "Delay other jobs with a flood of log lines",
    "limits": "Exhaust the server with connections, requests and bodies",
    "malformed HTTP requests": "Send invalid requests, headers, bodies and JSON",
    "messages to the worker": "Send forged messages from a job's process to its worker",
    "payloads": "Stop other tenants' jobs with very large or deep values",
    "redaction": "Print secrets in encoded form; read or remove the secrets of other tenants",
    "redirects": "Redirect a request so that it carries credentials elsewhere",
    "reports": "Put formulas, HTML and invisible characters into reports",
    "response bombs": "Send endless, very slow or decompression-bomb responses",
    "secrets": "Read secrets in views, errors and settings, and from other tenants' jobs",
    "session settings": "Forge every `jobforge.*` setting of a session",
    "sessions": "Forge, prolong or take over sessions of the dashboard",
    "SQL functions, by another tenant": "Call every function with another tenant's IDs",
    "SSRF": "Reach private addresses through URLs, names and redirects",
    "tables and views, by another tenant": "Read every table and view as another tenant",
    "tenancy": "Bypass row-level security, raise privileges, leave a bound login",
    "terminal escapes": "Control the reader's terminal through output",
    "tokens": "Present invalid tokens of an application",
    "XSS": "Run a script in the dashboard through every displayed value",
}


class Report:
    """The attacks and tests of one run, by area. The pages are not written if a test has failed."""

    def __init__(self) -> None:
        self.attempts: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()
        self.has_failed = False

    def add(self, area: str, attempts: int) -> None:
        self.tests[area] += 1
        self.attempts[area] += attempts

    def as_table(self) -> str:
        rows = [
            f"| {area} | {AREAS[area]} | {_rounded(self.attempts[area])} | {self.tests[area]:,} |"
            for area in sorted(self.tests, key=str.casefold)
        ]
        total = f"| **Total** | All areas | {self.total} | {self.tests.total():,} |"
        return HEADER + "\n".join([*rows, total]) + "\n"

    @property
    def total(self) -> str:
        return _rounded(self.attempts.total())


def _rounded(count: int) -> str:
    """Round down to two digits, so that the count is a lower bound."""
    unit = 10 ** max(0, len(str(count)) - 2)
    return f"{count // unit * unit:,}"


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
    help_ = "write the attack counts into the pages of this folder"
    parser.addoption("--attack-report", type=Path, metavar="FOLDER", help=help_)


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
        self.report.has_failed |= report.failed
        if report.when != "call" or report.skipped:
            return
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, (tuple, list)):
                area, count = value
                self.report.add(str(area), int(count))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    report = config.stash[REPORT]
    if not report.tests or hasattr(config, "workerinput"):  # a process of xdist has only a part
        return
    terminalreporter.section("attacks")
    terminalreporter.write(report.as_table())
    folder: Path | None = config.getoption("--attack-report")
    if folder is None:
        return
    if report.has_failed or config.getoption("keyword"):
        terminalreporter.write_line(
            "the pages were not written: tests have failed or were left out"
        )
    else:
        write_pages(folder, report)


def write_pages(folder: Path, report: Report) -> None:
    """Replace the table and the total, and keep the text around them."""
    page = folder / TABLE_PAGE
    before, _, rest = page.read_text(encoding="utf-8").partition(HEADER)
    after = rest.partition("\n\n")[2]
    table = before + report.as_table() + (f"\n{after}" if after else "")
    page.write_text(table, encoding="utf-8")
    page = folder / TOTAL_PAGE
    text = page.read_text(encoding="utf-8")
    page.write_text(TOTAL.sub(f"{report.total} attacks", text), encoding="utf-8")


def read_pages(folder: Path) -> tuple[dict[str, tuple[str, str]], str | None]:
    """Return the rows of attacks.md by area (attacks, tests), and the total in
    security.md."""
    _, _, rest = (folder / TABLE_PAGE).read_text(encoding="utf-8").partition(HEADER)
    rows = {}
    for line in rest.partition("\n\n")[0].splitlines():
        area, _, attempts, tests = (cell.strip() for cell in line.strip("|").split(" | "))
        rows[area] = attempts, tests
    found = TOTAL.search((folder / TOTAL_PAGE).read_text(encoding="utf-8"))
    return rows, found and found["attempts"]

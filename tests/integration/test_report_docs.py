"""The example of examples/reports works as shown, and the pages are complete."""

import csv
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from cluster import Connection, Database
from integration.call_setup import TENANT_A
from integration.terminal import InProcessTerminal, Terminal

from jobforge.connectors.report_generate import ReportJobFilter, ReportRequest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "reports"


def _commands() -> Iterator[tuple[str | None, str]]:
    """Return the commands, each with the variable that stores its output."""
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ (?:(\w+)=\$\()?jobforge (.*?)\)?$", text, re.MULTILINE)
    yield from ((name or None, words) for name, words in lines)


def test_the_example_reports_its_sales(database: Database, conn: Connection, folder: Path) -> None:
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    settings = {
        "JOBFORGE_DATABASE_URL": database.url,
        "JOBFORGE_TENANT": "acme",
        "JOBFORGE_ARTIFACTS": str(folder / "artifacts"),
    }
    shell = InProcessTerminal(folder, **settings)
    output: dict[str, str] = {}
    with Terminal(folder, **settings).start("worker", str(EXAMPLE / "app.py")) as worker:
        worker.wait_for("worker.started")
        (_, dev), *commands = _commands()
        assert dev == "dev examples/reports/app.py"
        for name, words in commands:
            known = re.sub(
                r"\$(\w+)", lambda found: output[found[1]], words.replace("'$JOB'", "$JOB")
            )
            output[name or "shown"] = shell.read(*shlex.split(known))
    with (folder / "sales.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert len(lines) == 20_001
    assert lines[:2] == [["number", "customer"], ["0", "Ada"]]
    assert lines[3][1].startswith("'=HYPERLINK")


def test_the_page_names_every_member_of_the_payload() -> None:
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    for name in (*ReportRequest.model_fields, *ReportJobFilter.model_fields):
        assert f"`{name}`" in page, name

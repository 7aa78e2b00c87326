"""docs/events.md and examples/events work as shown."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from cluster import Connection, Database, wait_until
from integration.call_setup import TENANT_A
from integration.page_runner import run_page
from integration.terminal import InProcessTerminal, Terminal
from integration.test_declared_event_triggers import dispatch

from jobforge.scheduler import event_filter, template

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "events.md"
EXAMPLE = ROOT / "examples" / "events"
EVENT = {"order": 7, "address": {"city": "Rome"}}


def _commands() -> Iterator[list[str]]:
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    for line in re.findall(r"^\$ jobforge (.*)$", text, re.MULTILINE):
        yield shlex.split(line)


def test_the_example_ships_a_paid_order_and_thanks_for_a_large_one(
    database: Database, conn: Connection, folder: Path
) -> None:
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    settings = {"JOBFORGE_DATABASE_URL": database.url, "JOBFORGE_TENANT": "acme"}
    shell = InProcessTerminal(folder, **settings)
    with Terminal(folder, **settings).start("worker", str(EXAMPLE / "app.py")) as worker:
        worker.wait_for("worker.started")
        dev, *commands = _commands()
        assert dev == ["dev", "examples/events/app.py"]
        for words in commands:
            shell.read(*words)
        wait_until(lambda: len(_results(conn)) == 2)
    assert _results(conn) == ["Dear Ada, thank you for 120.00!", "order 7 to Rome"]


def _results(conn: Connection) -> list[str]:
    rows = conn.execute("select result from jobforge.finished_jobs where state = 'succeeded'")
    return sorted(row["result"] for row in rows)


def test_the_python_of_the_page_runs(database: Database, conn: Connection) -> None:
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    conn.execute("create table orders (id int, paid bool)")
    run_page(PAGE, database)
    emitted = conn.execute("select name from jobforge.events order by id").fetchall()
    assert [row["name"] for row in emitted] == ["order.paid", "order.sent", "invoice.paid"]
    dispatch(database)
    [job] = conn.execute("select definition, payload from jobforge.jobs").fetchall()
    assert job["definition"] == "book_payment"
    assert job["payload"] == {"invoice": "I-7", "total": 120, "currency": "EUR"}


def test_the_templates_and_the_filter_of_the_page_work_as_described() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r'^\| `("\{\{.*?|"order .*?)` \| (?:the text )?`(.*?)`', text, re.MULTILINE)
    assert len(rows) == 5
    for written, becomes in rows:
        rendered = template.render(json.loads(written.replace("\\|", "|")), {"event": EVENT})
        expected = becomes if "json" in written else json.loads(becomes)
        assert rendered == expected, written
    [filter_] = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    conditions = event_filter.parse(json.loads(filter_))
    assert event_filter.matches(conditions, {"event": {**EVENT, "total": 120}})
    assert not event_filter.matches(conditions, {"event": {**EVENT, "total": 120, "test": None}})

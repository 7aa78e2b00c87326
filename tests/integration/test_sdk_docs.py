"""The examples of the guide to the Python API run, and its tables are complete."""

import re
from pathlib import Path

from cluster import Connection, Database
from integration.call_setup import TENANT_A
from integration.page_runner import run_page

from jobforge import Context, Handle
from jobforge.sdk.definition_settings import JobSettings
from jobforge.sdk.enqueue_options import EnqueueOptions

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "python.md"
_UPGRADED = "{'customer': 'Ada', 'cents': 150}"


def test_the_examples_of_the_guide_run_from_top_to_bottom(
    database: Database, conn: Connection
) -> None:
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    conn.execute("create table users (email text)")
    printed = run_page(PAGE, database)
    assert "created" in printed
    for result in ("left", "1000", "3", "1", "canceled", "invalid_payload", _UPGRADED):
        assert result in printed.splitlines()
    assert conn.execute("select email from users").fetchall() == [{"email": "ada@example.com"}]


def test_the_guide_explains_every_option_and_every_setting() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    wanted = {
        *EnqueueOptions.__annotations__,
        *JobSettings.__annotations__,
    }
    assert sorted(wanted - named) == []


def test_the_guide_lists_all_of_handle_and_context() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for kind in (Handle, Context):
        for name in vars(kind):
            if not name.startswith("_") and name not in _NOT_FOR_HANDLERS:
                assert name in text, f"{kind.__name__}.{name}"


# The other names of both are for runners and for JobForge itself.
_NOT_FOR_HANDLERS = {
    *("has_seen_stop_request", "is_stop_requested", "payload_json", "read_result", "request_stop"),
    *("traceparent", "was_completed", "with_job_fields"),
}

"""The Python of pages with fragments runs, with the surrounding code that a page assumes."""

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from cluster import Connection, Database
from integration.call_setup import TENANT_A

ROOT = Path(__file__).parents[2]

APP = """
from jobforge import Context, JobForge
jf = JobForge(tenant="acme")
"""

# The code that a page assumes at its beginning.
SURROUNDINGS = {
    "docs/dashboard.md": "",
    "docs/embedded.md": "",
    "docs/limits.md": "",
    "docs/redaction.md": "",
    "docs/pgbouncer.md": "",
    "docs/sql.md": "",
    "docs/workflows.md": "",
    "docs/commands.md": APP,
    "docs/resource-limits.md": APP,
    "docs/reports.md": APP,
    "docs/tracing.md": APP,
    "docs/connectors.md": f"""{APP}
lent = jf.transaction()
tx = lent.__enter__()
""",
}

# Pages that need more than that have separate tests.
ELSEWHERE = {
    "README.md": "integration/test_readme.py",
    "docs/events.md": "integration/test_event_docs.py",
    "docs/howto/middleware.md": "integration/test_middleware.py",
    "docs/howto/migrate-from-celery.md": "integration/test_howto_docs.py",
    "docs/howto/migrate-from-rq.md": "integration/test_howto_docs.py",
    "docs/howto/multi-tenant.md": "integration/test_howto_docs.py",
    "docs/howto/recipes.md": "integration/test_recipes.py",
    "docs/howto/transactional-enqueue.md": "integration/test_howto_docs.py",
    "docs/http-client.md": "api/test_client.py",
    "docs/python.md": "integration/test_sdk_docs.py",
    "docs/quickstart.md": "integration/test_cli_dev.py",
    "docs/schedules.md": "integration/test_cli_triggers.py",
    "docs/steps.md": "integration/test_durable.py",
    "docs/testing.md": "integration/test_pytest_plugin.py",
    "docs/tutorial.md": "integration/test_tutorial.py",
    "docs/webhooks.md": "integration/test_webhook_docs.py",
    "docs/worker.md": "integration/test_worker_docs.py",
}


def test_every_page_with_python_is_run_by_a_test() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = [page for page in pages if "```python\n" in page.read_text(encoding="utf-8")]
    known = [*SURROUNDINGS, *ELSEWHERE]
    assert sorted(known) == sorted(page.relative_to(ROOT).as_posix() for page in shown)
    for page, test in ELSEWHERE.items():
        assert Path(page).stem in (ROOT / "tests" / test).read_text(encoding="utf-8"), page


@pytest.mark.parametrize("page", SURROUNDINGS)
def test_the_python_of_a_page_runs(
    page: str,
    database: Database,
    conn: Connection,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JOBFORGE_DATABASE_URL", database.url)
    monkeypatch.chdir(folder)
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    for definition in ("report", "connector.http.request", "connector.report.generate"):
        conn.execute("select jobforge.put_definition(%s, 1)", [definition])
    names: dict[str, Any] = {"__name__": "page"}
    with asyncio.Runner() as runner:
        for block in (SURROUNDINGS[page], *_blocks(page)):
            _run(block.replace("postgresql://app@db.example.com/app", database.url), names, runner)
    if "lent" in names:
        names["lent"].__exit__(None, None, None)
    if "jf" in names:
        names["jf"].close()


def _blocks(page: str) -> list[str]:
    """Return the blocks with definitions first, because a page may begin with their use."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    # No worker runs here, so nothing waits for a result.
    blocks = [re.sub(r"handle\.result\(.*?\)", "handle.detail()", block) for block in blocks]
    return sorted(blocks, key=lambda block: not block.startswith(("@", "from ", "import ")))


def _run(block: str, names: dict[str, Any], runner: asyncio.Runner) -> None:
    code = compile(block, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    answer = eval(code, names)  # noqa: S307 - the project's own page
    if inspect.iscoroutine(answer):
        runner.run(answer)
    if "jf" in names:
        names["jf"].register()

"""The Python of the README runs."""

import re
from pathlib import Path
from typing import Any

from cluster import Connection, Database
from integration.call_setup import TENANT_A

from jobforge import JobForge

ROOT = Path(__file__).parent.parent.parent

# The code that the README leaves to its reader.
AROUND = """
def send_mail(to: str, text: str) -> str:
    return text


@jf.job
def load(source: str) -> int:
    return 1


@jf.job
def summarize(ctx: Context) -> int:
    return 1
"""


def test_the_python_of_the_readme_runs(database: Database, conn: Connection) -> None:
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    conn.execute("create table users (email text)")
    conn.execute("create table orders (id integer, paid boolean)")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    there: dict[str, Any] = {}
    for block in (blocks[0], AROUND, *blocks[1:]):
        exec(block, there)  # noqa: S102 - the README is part of the project
    jf: JobForge = there["jf"]
    with jf.connected_to(database.url), jf.tenant("acme"):
        jf.register()
        there["sign_up"]("ada@example.com", "Ada")
        there["nightly"]("2026-11-15")
        there["pay"](7, "ada@example.com")
        there["onboard"].enqueue(email="ada@example.com")
    created = conn.execute("select definition, state from jobforge.jobs order by 1, 2").fetchall()
    assert [(job["definition"], job["state"]) for job in created] == [
        ("load", "queued"),
        ("load", "queued"),
        ("onboard", "queued"),
        ("send_welcome", "queued"),
        ("summarize", "blocked"),
    ]
    (trigger,) = conn.execute("select cron, timezone from jobforge.triggers").fetchall()
    assert (trigger["cron"], trigger["timezone"]) == ("0 9 * * mon-fri", "tenant")
    (event,) = conn.execute("select name from jobforge.events").fetchall()
    assert event["name"] == "order.paid"

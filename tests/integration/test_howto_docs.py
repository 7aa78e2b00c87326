"""The Python of the how-to pages runs, with the connections of each library."""

import re
from pathlib import Path

from cluster import Connection, Database
from integration.call_setup import TENANT_A
from integration.page_runner import run_page

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
# Jobs of the first page's app run; the other pages only enqueue.
PAGES = ("transactional-enqueue", "multi-tenant", "migrate-from-celery", "migrate-from-rq")


def test_the_python_of_the_pages_runs_and_enqueues_with_each_library(
    database: Database, conn: Connection, tmp_path: Path
) -> None:
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    conn.execute("create table users (email text)")
    together = tmp_path / "howto.md"
    together.write_text("\n".join(map(_read, PAGES)), encoding="utf-8")
    printed = run_page(together, database)
    assert printed == "no tenant, no job\n"
    users = {row["email"] for row in conn.execute("select email from users")}
    assert users <= _welcomed(conn)
    assert len(users) == _read(PAGES[0]).count('"insert into users')


def _read(page: str) -> str:
    return (HOWTO / f"{page}.md").read_text(encoding="utf-8")


def _welcomed(conn: Connection) -> set[str]:
    rows = conn.execute(
        "select payload ->> 'to' as to from jobforge.all_jobs where definition = 'send_welcome'"
    )
    return {row["to"] for row in rows}


def test_every_library_of_the_guide_has_a_page() -> None:
    guide = (HOWTO.parent / "python.md").read_text(encoding="utf-8")
    table = guide.split("| Library |")[1].split("\n\n")[0]
    libraries = re.findall(r"^\| ([A-Za-z]\w+)", table, re.MULTILINE)
    assert len(libraries) == 4
    for library in libraries:
        assert re.search(rf"^## {library}", _read(PAGES[0]), re.MULTILINE), library

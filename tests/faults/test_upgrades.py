"""The schema of the next release is installed while workers of the previous one run."""

import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import psycopg
import pytest
from cluster import Database, connect_to, fresh_database, wait_until
from faults.scenario import Scenario
from rights import rights

from jobforge.db.migrate import migrate
from jobforge.db.schema_files import SQL, read_revision, read_scripts
from jobforge.embedded import PostgresServer

ROOT = Path(__file__).parents[2]
GIT = shutil.which("git")
SLOTS = 4

# Changes that a release may contain: workers read and write both tables all the time.
NEXT = """
alter table jobforge.jobs add column of_the_next_release text;
alter table jobforge.attempts add column of_the_next_release text;
"""


@pytest.fixture
def previous(folder: Path) -> Path:
    """The folder from which Python imports the previous release, or if there is none, an earlier
    commit."""
    commit = _find_previous_release()
    if GIT is None or commit is None:  # no history: use this release as the previous one
        return ROOT
    packed = subprocess.run(
        [GIT, "archive", commit, "jobforge"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder / "previous", filter="data")
    return folder / "previous"


def _find_previous_release() -> str | None:
    """Return the last tag, else the newest commit with other SQL that can be upgraded."""
    last = _git("log", "-1", "--format=%H", "--", "jobforge/sql")
    candidates = [_git("describe", "--tags", "--abbrev=0"), f"{last}~1", last]
    return next((each for each in candidates if each and _can_be_upgraded(each)), None)


def _can_be_upgraded(commit: str) -> bool:
    """Until the first release migrations are edited; afterwards they are only added."""
    return (
        _git("diff", "--name-only", "--diff-filter=a", commit, "--", str(SQL / "migrations")) == ""
    )


def _git(*arguments: str) -> str | None:
    if GIT is None:
        return None
    done = subprocess.run([GIT, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@pytest.fixture
def scenario(server: PostgresServer, folder: Path, previous: Path) -> Iterator[Scenario]:
    """A scenario in a database that the previous release has created."""
    with fresh_database(server, template="template1") as database:
        _migrate(database, previous / "jobforge" / "sql")
        created = Scenario(database, folder)
        yield created
        created.close()


def test_workers_of_the_previous_release_keep_working_while_the_schema_is_migrated(
    scenario: Scenario,
    server: PostgresServer,
    folder: Path,
    previous: Path,
    figures: dict[str, object],
) -> None:
    with (
        scenario.worker_group(lease_s=10, heartbeat_s=1, slots=SLOTS) as group,
        scenario.producer() as producer,
    ):
        old = group.start(PYTHONPATH=str(previous))
        scenario.wait_until_ready(old)
        held = producer.enqueue([scenario.request("hold", gate=str(scenario.gate()))] * 2)
        load = threading.Thread(
            target=producer.keep_enqueuing,
            args=[lambda: [scenario.request("light", seconds=0)] * 2],
        )
        load.start()
        wait_until(lambda: set(held) <= set(scenario.running_on(old)) and scenario.has_finished(20))
        _install_the_next_release(scenario.database, folder / "next")
        done = scenario.count("succeeded")
        wait_until(lambda: scenario.count("succeeded") > done + 20)
        producer.stop()
        load.join()
        scenario.gate().touch()
        new = group.start()
        scenario.wait_until_ready(new)
        producer.enqueue([scenario.request("hold", gate=str(scenario.gate("both")))] * 2 * SLOTS)
        wait_until(lambda: all(len(scenario.running_on(each)) == SLOTS for each in (old, new)))
        scenario.gate("both").touch()
        scenario.finish(group)
    evidence = scenario.check()

    figures |= {"jobs": len(evidence.states), "refused": producer.refused}
    assert set(scenario.outcomes()) == {"succeeded"}
    assert scenario.values("select distinct attempt from jobforge.finished_jobs") == [1]
    assert group.logged('"level":"error"') == 0
    recorded = scenario.conn.execute("select name, checksum from jobforge.migrations").fetchall()
    assert {row["name"]: row["checksum"] for row in recorded} == {
        script.name: script.checksum for script in read_scripts(folder / "next")
    } | {"revision": str(read_revision())}
    with fresh_database(server, template="template1") as fresh:
        _migrate(fresh, folder / "next")
        with connect_to(fresh.url) as conn:
            assert rights(scenario.conn) == rights(conn)
        assert scenario.database.definitions() == fresh.definitions()


def _install_the_next_release(database: Database, root: Path) -> None:
    """Install this release with changes: altered tables, and every function created again."""
    shutil.copytree(SQL, root)
    (root / "migrations" / "9999_next.sql").write_text(NEXT, encoding="utf-8")
    with (root / "functions" / "foundation" / "now.sql").open("a", encoding="utf-8") as function:
        function.write("-- of the next release\n")
    _migrate(database, root)


def _migrate(database: Database, root: Path) -> None:
    with psycopg.connect(database.url, autocommit=True) as conn:
        migrate(conn, root=root)

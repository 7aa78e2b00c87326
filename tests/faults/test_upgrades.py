"""F19: the schema of the next release comes while workers of the one before are at work."""

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
from faults.scenario import Trial
from rights import rights

from jobforge.db.migrate import migrate
from jobforge.db.schema_files import SQL, read_revision, read_scripts
from jobforge.embedded import PostgresServer

ROOT = Path(__file__).parents[2]
GIT = shutil.which("git")
SLOTS = 4

# What a release may bring: workers read and write both tables all the time.
NEXT = """
alter table jobforge.jobs add column of_the_next_release text;
alter table jobforge.attempts add column of_the_next_release text;
"""


@pytest.fixture
def before(folder: Path) -> Path:
    """Where Python finds the release before this one, for want of one an earlier commit."""
    commit = _release_before()
    if GIT is None or commit is None:  # no history: this release is the one before the next
        return ROOT
    packed = subprocess.run(
        [GIT, "archive", commit, "jobforge"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder / "before", filter="data")
    return folder / "before"


def _release_before() -> str | None:
    """The last tag, else the newest commit with other SQL from which an upgrade is possible."""
    last = _git("log", "-1", "--format=%H", "--", "jobforge/sql")
    candidates = [_git("describe", "--tags", "--abbrev=0"), f"{last}~1", last]
    return next((each for each in candidates if each and _can_be_upgraded(each)), None)


def _can_be_upgraded(commit: str) -> bool:
    """Until the first release migrations are edited; from then on they are only added."""
    return (
        _git("diff", "--name-only", "--diff-filter=a", commit, "--", str(SQL / "migrations")) == ""
    )


def _git(*arguments: str) -> str | None:
    if GIT is None:
        return None
    done = subprocess.run([GIT, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


@pytest.fixture
def trial(server: PostgresServer, folder: Path, before: Path) -> Iterator[Trial]:
    """In a database that the release before has made."""
    with fresh_database(server, template="template1") as database:
        _migrate(database, before / "jobforge" / "sql")
        made = Trial(database, folder)
        yield made
        made.close()


def test_workers_of_the_release_before_work_on_while_the_schema_is_migrated(
    trial: Trial, server: PostgresServer, folder: Path, before: Path, figures: dict[str, object]
) -> None:
    with (
        trial.crew(lease_s=10, heartbeat_s=1, slots=SLOTS) as crew,
        trial.producer() as producer,
    ):
        old = crew.start(PYTHONPATH=str(before))
        trial.wait_until_ready(old)
        held = producer.enqueue([trial.request("hold", gate=str(trial.gate()))] * 2)
        load = threading.Thread(
            target=producer.keep_enqueuing, args=[lambda: [trial.request("light", seconds=0)] * 2]
        )
        load.start()
        wait_until(lambda: set(held) <= set(trial.running_on(old)) and trial.has_come_to(20))
        _bring_the_next_release(trial.database, folder / "next")
        done = trial.count("succeeded")
        wait_until(lambda: trial.count("succeeded") > done + 20)
        producer.stop()
        load.join()
        trial.gate().touch()
        new = crew.start()
        trial.wait_until_ready(new)
        producer.enqueue([trial.request("hold", gate=str(trial.gate("both")))] * 2 * SLOTS)
        wait_until(lambda: all(len(trial.running_on(each)) == SLOTS for each in (old, new)))
        trial.gate("both").touch()
        trial.finish(crew)
    evidence = trial.check()

    figures |= {"jobs": len(evidence.states), "refused": producer.refused}
    assert set(trial.outcomes()) == {"succeeded"}
    assert trial.values("select distinct attempt from jobforge.finished_jobs") == [1]
    assert crew.logged('"level":"error"') == 0
    recorded = trial.conn.execute("select name, checksum from jobforge.migrations").fetchall()
    assert {row["name"]: row["checksum"] for row in recorded} == {
        script.name: script.checksum for script in read_scripts(folder / "next")
    } | {"revision": str(read_revision())}
    with fresh_database(server, template="template1") as fresh:
        _migrate(fresh, folder / "next")
        with connect_to(fresh.url) as conn:
            assert rights(trial.conn) == rights(conn)
        assert trial.database.definitions() == fresh.definitions()


def _bring_the_next_release(database: Database, root: Path) -> None:
    """What this release has, and more: tables that change, and every function anew."""
    shutil.copytree(SQL, root)
    (root / "migrations" / "9999_next.sql").write_text(NEXT, encoding="utf-8")
    with (root / "functions" / "foundation" / "now.sql").open("a", encoding="utf-8") as function:
        function.write("-- of the next release\n")
    _migrate(database, root)


def _migrate(database: Database, root: Path) -> None:
    with psycopg.connect(database.url, autocommit=True) as conn:
        migrate(conn, root=root)

"""The pytest plugin, in pytest runs in separate processes, as its users have it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster import wait_until

from jobforge.embedded import PostgresServer

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parent.parent.parent / "docs" / "testing.md"

APP = """
from jobforge import JobForge

jf = JobForge()

@jf.job
def job() -> None: ...
"""

# Writes the address of its server to a separate file.
TESTS = """
import pytest
from pathlib import Path
from app import job
from psycopg.conninfo import conninfo_to_dict

@pytest.mark.parametrize("number", range(4))
def test_it(jf_test, number):
    jf_test.refute_enqueued(job)
    job.using(tenant="acme").enqueue()
    jf_test.assert_enqueued(job, tenant="acme", count=1)
    assert jf_test.drain().succeeded == 1
    host = conninfo_to_dict(jf_test.url)["host"]
    Path(f"server.{number}").write_text(host)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\njobforge_app = app.py:jf\njobforge_tenants = acme globex")
    pytester.makepyfile(app=APP)
    pytester.syspathinsert()
    return pytester


@pytest.fixture
def existing_server(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests of the plugin's run use the server of this run."""
    monkeypatch.setenv("JOBFORGE_TEST_DATABASE_URL", server.url())


def _servers(project: pytest.Pytester) -> set[str]:
    return {path.read_text() for path in project.path.glob("server.*")}


@pytest.mark.usefixtures("existing_server")
def test_the_quick_start_of_the_docs_runs(pytester: pytest.Pytester) -> None:
    text = DOCS.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w+\n# (\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names = ["pyproject.toml", "app.py", "test_app.py", "test_clean_up.py", "test_signup.py"]
    assert [name for name, _ in blocks] == names
    for name, block in blocks:
        (pytester.path / name).write_text(block, encoding="utf-8")
    pytester.syspathinsert()
    pytester.runpytest_subprocess().assert_outcomes(passed=5)
    ran = subprocess.run(
        [sys.executable, "-m", "unittest", "-v", "test_signup"],
        capture_output=True,
        text=True,
        check=False,
        cwd=pytester.path,
    )
    assert (ran.returncode, "Ran 1 test" in ran.stderr) == (0, True), ran.stderr


# Django's own database is not the database of the kit.
DJANGO = """
import os

import django
import pytest
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

parts = conninfo_to_dict(os.environ["JOBFORGE_TEST_DATABASE_URL"])
names = {"NAME": "dbname", "USER": "user", "HOST": "host", "PORT": "port"}
default = {ours: parts[theirs] for ours, theirs in names.items()}
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **default}})
django.setup()

from django.db import transaction
from django.test import TestCase

from jobforge import JobForge

shop = JobForge(django="default", tenant="acme")

@shop.job
def index(product: int) -> None: ...

class IndexTest(TestCase):
    @pytest.fixture(autouse=True)
    def kit(self, jf_test):
        jf_test.use(shop)
        self.jf_test = jf_test

    def test_jobs_are_in_the_database_of_the_kit(self):
        with pytest.raises(KeyError), transaction.atomic():
            index.enqueue(1)
            raise KeyError
        self.jf_test.assert_enqueued(index, product=1)
        assert self.jf_test.drain().succeeded == 1

    async def test_async_ones_too(self):
        await index.aenqueue(product=2)
        self.jf_test.assert_enqueued(index, product=2, count=1)
"""


@pytest.mark.usefixtures("existing_server")
def test_a_django_test_case_can_use_the_kit(project: pytest.Pytester) -> None:
    project.makepyfile(DJANGO)
    project.runpytest_subprocess().assert_outcomes(passed=2)


@pytest.mark.usefixtures("existing_server")
def test_every_test_starts_clean_on_the_configured_server(
    project: pytest.Pytester, server: PostgresServer
) -> None:
    project.makepyfile(TESTS)
    project.runpytest_subprocess().assert_outcomes(passed=4)
    assert _servers(project) == {str(server.socket_dir)}


def test_the_processes_of_a_run_share_a_server_that_stops_with_them(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(TESTS)
    result = project.runpytest_subprocess("-n2")
    result.assert_outcomes(passed=4)
    (place,) = _servers(project)
    wait_until(lambda: not Path(place).parent.exists())


def test_the_server_of_a_killed_run_stops_too(project: pytest.Pytester) -> None:
    project.makepyfile(f"{TESTS}    Path('ready').touch()\n    import signal; signal.pause()\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.DEVNULL) as run:
        wait_until((project.path / "ready").exists)
        (place,) = _servers(project)
        assert Path(place).exists()
        os.kill(run.pid, signal.SIGKILL)
    wait_until(lambda: not Path(place).parent.exists())


@pytest.mark.usefixtures("existing_server")
def test_an_app_that_cannot_be_found_is_reported_at_the_test(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\njobforge_app = missing.py:jf")
    pytester.makepyfile("def test_it(jf_test): ...")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*File *missing.py not found*"])

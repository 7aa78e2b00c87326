"""The pytest plugin: the fixture `jf_test` and its settings.

pytest loads this module in every run where JobForge is installed. It imports and starts nothing
before a test uses the fixture. jobforge.testing implements the fixture.
"""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from jobforge.testing import Kit
    from jobforge.testing.cluster import Postgres


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("jobforge_app", "App under test: app.py:jf or package.module:jf", default="")
    parser.addini("jobforge_tenants", "Slugs of the tenants that exist in every test", default="")


@pytest.fixture
def jf_test(request: pytest.FixtureRequest, jobforge_postgres: "Postgres") -> "Iterator[Kit]":
    """JobForge on a separate database for this test: enqueue, run and inspect jobs."""
    from jobforge.testing import kit  # noqa: PLC0415 - import only if a test uses the fixture

    with pytest.MonkeyPatch.context() as environment, kit.open_kit(jobforge_postgres) as opened:
        # Processes that the test starts must connect to this database, never to another one.
        environment.setenv("JOBFORGE_DATABASE_URL", opened.url)
        environment.delenv("JOBFORGE_LISTEN_URL", raising=False)
        for slug in _read_words(request.config, "jobforge_tenants"):
            opened.tenant(slug)
        for target in _read_words(request.config, "jobforge_app"):
            opened.use(_load_app(target, request.config.rootpath))
        yield opened


@pytest.fixture(scope="session")
def jobforge_postgres(request: pytest.FixtureRequest) -> "Iterator[Postgres]":
    """The Postgres server for test databases. A conftest can override it."""
    from jobforge.testing.cluster import hold_postgres  # noqa: PLC0415 - import only if a test uses the fixture

    with hold_postgres(find_run_id(request.config)) as postgres:
        yield postgres


def find_run_id(config: pytest.Config) -> str:
    """Return an ID that all processes of this run share."""
    given: dict[str, str] = getattr(config, "workerinput", {})  # set by xdist
    return given.get("testrunuid") or uuid4().hex


def _read_words(config: pytest.Config, name: str) -> list[str]:
    return shlex.split(str(config.getini(name)))


def _load_app(target: str, root: Path) -> Any:  # noqa: ANN401 - the app's type depends on the file
    """Load the app. File paths are relative to the project's root."""
    from jobforge.sdk.loader import load_app  # noqa: PLC0415 - import only if a test uses the fixture

    file, colon, name = target.partition(":")
    if file.endswith(".py"):
        return load_app(f"{root / file}{colon}{name}")
    return load_app(target)

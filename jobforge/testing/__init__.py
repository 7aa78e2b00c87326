"""Test applications with real jobs on a real Postgres, with a separate database per test.

The fixture `jf_test` of the pytest plugin returns a `Kit`. Names are imported on first use, because
pytest loads pytest_plugin.py in every run where JobForge is installed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobforge.testing.database import EnqueuedJob
    from jobforge.testing.drain import Drained, Ran
    from jobforge.testing.kit import Kit
    from jobforge.testing.notes import Notes
    from jobforge.testing.unittest_case import JobForgeTestCase

__all__ = ["Drained", "EnqueuedJob", "JobForgeTestCase", "Kit", "Notes", "Ran"]

_MODULES = {
    "Drained": "drain",
    "EnqueuedJob": "database",
    "JobForgeTestCase": "unittest_case",
    "Kit": "kit",
    "Notes": "notes",
    "Ran": "drain",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type depends on the name
    from importlib import import_module  # noqa: PLC0415 - import on first use

    if name not in _MODULES:
        raise AttributeError(f"jobforge.testing has no {name}")
    found = getattr(import_module(f"jobforge.testing.{_MODULES[name]}"), name)
    globals()[name] = found  # later lookups do not call this function
    return found

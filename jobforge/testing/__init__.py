"""For tests of applications: real jobs on a real Postgres, in a database for each test.

The fixture `jf_test` of the pytest plugin gives a `Kit`. Each name is imported when it is first
used: pytest_plugin.py is loaded in every run of pytest where JobForge is installed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobforge.testing.database import EnqueuedJob
    from jobforge.testing.drain import Drained, Ran
    from jobforge.testing.kit import Kit
    from jobforge.testing.notes import Notes

__all__ = ["Drained", "EnqueuedJob", "Kit", "Notes", "Ran"]

_MODULES = {
    "Drained": "drain",
    "EnqueuedJob": "database",
    "Kit": "kit",
    "Notes": "notes",
    "Ran": "drain",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whichever of the names
    from importlib import import_module  # noqa: PLC0415 - see above

    if name not in _MODULES:
        raise AttributeError(f"jobforge.testing has no {name}")
    found = getattr(import_module(f"jobforge.testing.{_MODULES[name]}"), name)
    globals()[name] = found  # from now on without this function
    return found

"""The variables of this process, and which of them hold credentials."""

import os
from collections import ChainMap
from collections.abc import Mapping

PASSWORD = "PGPASSWORD"  # noqa: S105 - the name of a variable

_HARMLESS = frozenset(("JOBFORGE_LOG_LEVEL", "JOBFORGE_LOG_FORMAT", "JOBFORGE_TENANT"))
# What is set later, in os.environ, comes first.
_environment: ChainMap[str, str] = ChainMap(os.environ)


def environment() -> Mapping[str, str]:
    """The variables of this process, with those that `withhold_credentials` removed from it."""
    return _environment


def withheld_variables() -> Mapping[str, str]:
    """The variables that `withhold_credentials` removed."""
    return ChainMap(*_environment.maps[1:])


def withhold_credentials(received: Mapping[str, str]) -> None:
    """Remove the variables with credentials from os.environ; only this module still has them.

    Programs that this process starts do not inherit them. `received` are variables that the parent
    process sent instead of putting them into the environment.
    """
    removed = {name: value for name, value in os.environ.items() if is_credential(name)}
    for name in removed:
        del os.environ[name]
    _environment.maps.append({**removed, **received})


def is_credential(name: str) -> bool:
    """Whether no other process may see the value of this variable."""
    return name == PASSWORD or (name.startswith("JOBFORGE_") and name not in _HARMLESS)


def is_withheld(name: str) -> bool:
    """Whether jobs, and the process that they are forked from, must not have this variable."""
    return is_credential(name) or name.startswith("PG")

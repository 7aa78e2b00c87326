"""The environment variables of this process, and which of them have credentials."""

import os
from collections import ChainMap
from collections.abc import Iterable, Mapping

PASSWORD = "PGPASSWORD"  # noqa: S105 - a variable's name, not a password

_HARMLESS = frozenset(("JOBFORGE_LOG_LEVEL", "JOBFORGE_LOG_FORMAT", "JOBFORGE_TENANT"))
# Variables that are set later, in os.environ, take precedence.
_environment: ChainMap[str, str] = ChainMap(os.environ)


def environment() -> Mapping[str, str]:
    """Return this process's variables, including those that `withhold_credentials` removed."""
    return _environment


def withheld_variables() -> Mapping[str, str]:
    """Return the variables that `withhold_credentials` removed."""
    return ChainMap(*_environment.maps[1:])


def withhold_credentials(received: Mapping[str, str]) -> None:
    """Remove variables with credentials from os.environ; only this module keeps them.

    Programs that this process starts do not inherit them. `received` has variables that the parent
    process sent over a socket instead of the environment.
    """
    removed = {name: value for name, value in os.environ.items() if is_credential(name)}
    for name in removed:
        del os.environ[name]
    _environment.maps.append({**removed, **received})


def is_credential(name: str) -> bool:
    """Return whether other processes must not see this variable."""
    return name == PASSWORD or (name.startswith("JOBFORGE_") and name not in _HARMLESS)


def is_withheld(name: str) -> bool:
    """Return whether jobs, and the process they are forked from, must not get this variable."""
    return is_credential(name) or name.startswith("PG")


def select_variables(patterns: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the names that jobs get: `AWS_*` matches names by their beginning, `*` all names."""
    exact = set(patterns)
    prefixes = tuple(pattern[:-1] for pattern in exact if pattern.endswith("*"))
    return [
        name
        for name in names
        if (name in exact or name.startswith(prefixes)) and not is_withheld(name)
    ]

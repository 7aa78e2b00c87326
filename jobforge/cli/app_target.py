"""Find the app that a command loads."""

from pathlib import Path

from jobforge.config import load
from jobforge.errors import ConfigError

_DEFAULT_APP = "app.py"


def find_target(given: str | None) -> str:
    """Return the app from the argument or the settings, or app.py in this folder.

    Raises ConfigError if there is none.
    """
    found = find_target_or_none(given)
    if found is None:
        raise ConfigError(
            "No app specified, and there is no app.py in this folder",
            hint="Pass an app (app.py, package.module:name), set JOBFORGE_APP, or set app in "
            "jobforge.toml",
        )
    return found


def find_target_or_none(given: str | None) -> str | None:
    named = load(flags={"app": given}).app
    if named is not None:
        return named
    return _DEFAULT_APP if Path(_DEFAULT_APP).is_file() else None

"""Which app a command works on."""

from pathlib import Path

from jobforge.config import load
from jobforge.errors import ConfigError

_USUAL = "app.py"


def find_target(given: str | None) -> str:
    """The app that was named, in the command or the settings, or app.py here."""
    found = look_for_target(given)
    if found is None:
        raise ConfigError(
            "no app is named, and there is no app.py here",
            hint="give it (app.py, package.module:name), set JOBFORGE_APP, or app in jobforge.toml",
        )
    return found


def look_for_target(given: str | None) -> str | None:
    named = load(flags={"app": given}).app
    if named is not None:
        return named
    return _USUAL if Path(_USUAL).is_file() else None

"""Find the app that a command loads."""

from pathlib import Path

from jobforge.config import Config
from jobforge.errors import ConfigError

_DEFAULT_APP = "app.py"


def find_target(config: Config) -> str:
    """Return the app from the settings, or app.py in this folder.

    Raises ConfigError if there is none.
    """
    found = find_target_or_none(config)
    if found is None:
        raise ConfigError(
            "No app specified, and there is no app.py in this folder",
            hint="Pass an app (app.py, package.module:name), set JOBFORGE_APP, or set app in "
            "jobforge.toml",
        )
    return found


def find_target_or_none(config: Config) -> str | None:
    if config.app is not None:
        return config.app
    return _DEFAULT_APP if Path(_DEFAULT_APP).is_file() else None

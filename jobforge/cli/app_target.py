"""Find the app that a command loads."""

from pathlib import Path

from jobforge.config import Config
from jobforge.errors import ConfigError

_DEFAULT_APP = "app.py"
_COMMANDS_APP = "jobforge.sdk.commands_app:jf"


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


def find_worker_target(config: Config) -> str | None:
    """Return the app of a worker, or None. Commands in the settings need no app of the user."""
    return find_target_or_none(config) or (_COMMANDS_APP if config.commands else None)


def find_target_or_none(config: Config) -> str | None:
    if config.app is not None:
        return config.app
    return _DEFAULT_APP if Path(_DEFAULT_APP).is_file() else None

"""The default artifact store: with `jobforge dev`, a folder next to its database.

With any other database there is no default. A folder relative to the current directory would differ
between processes, so one process could not read what another wrote.
"""

from dataclasses import replace

from jobforge.config import Config
from jobforge.embedded import Embedded


def with_default_artifacts(config: Config, database_url: str | None) -> Config:
    """Return the settings with the default store of this database, if no store is set.

    A `database_url` of None means the database of `jobforge dev`.
    """
    if config.artifacts is not None or not _is_of_dev(config, database_url):
        return config
    return replace(config, artifacts=str(config.data_dir.absolute() / "artifacts"))


def _is_of_dev(config: Config, database_url: str | None) -> bool:
    return database_url is None or Embedded(config.postgres_dir).is_at(database_url)

"""Where artifacts are when no setting says so: with `jobforge dev`, a folder next to its database.

With any other database there is no store. A folder of the current directory would be another one
for each process, and what one of them puts there the others would not find.
"""

from dataclasses import replace

from jobforge.config import Config
from jobforge.embedded import Embedded


def with_default_artifacts(config: Config, database_url: str | None) -> Config:
    """The settings, with the store that belongs to this database. None is that of dev."""
    if config.artifacts is not None or not _is_of_dev(config, database_url):
        return config
    return replace(config, artifacts=str(config.data_dir.absolute() / "artifacts"))


def _is_of_dev(config: Config, database_url: str | None) -> bool:
    return database_url is None or Embedded(config.postgres_dir).is_at(database_url)

"""Finds an app's database or server, its artifact store, and its default tenant.

Arguments of the app take precedence over the configuration. Without either, the database is that of
`jobforge dev`. The configuration is read on first use.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from jobforge.client.address import ServerAddress, address_from_config, server_address
from jobforge.errors import ConfigError
from jobforge.sdk.enqueue_options import TenantRef

if TYPE_CHECKING:
    from jobforge.artifacts import Artifacts
    from jobforge.config import Config


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """The URL of a database, and whether a connection pooler is in front of it."""

    url: str
    behind_pooler: bool = False


class AppLocation:
    """Locations of one app. With `has_database`, it looks for no server."""

    def __init__(  # noqa: PLR0913 - one parameter per argument of the app
        self,
        database_url: str | None,
        *,
        has_database: bool,
        behind_pooler: bool | None,
        server: str | None,
        key: str | None,
        tenant: TenantRef | None,
    ) -> None:
        self._database_url = database_url
        self._has_database = has_database
        self._behind_pooler = behind_pooler
        self._given_server = server
        self._key = key
        self._tenant = tenant

    def find_server(self) -> ServerAddress | None:
        """Return the server, or None when the app has a database."""
        return self._server

    def find_address(self) -> DatabaseAddress:
        """Return the address of the database."""
        behind_pooler = self._behind_pooler
        if behind_pooler is None:
            behind_pooler = self._config.behind_pooler
        url = self._database_url or self._config.database_url
        return DatabaseAddress(url or self._dev_url(), behind_pooler=behind_pooler)

    def default_tenant(self) -> TenantRef | None:
        return self._config.tenant if self._tenant is None else self._tenant

    def artifacts(self) -> "Artifacts":
        return self._artifacts

    @cached_property
    def _config(self) -> "Config":
        from jobforge import config  # noqa: PLC0415 - a job's process needs no configuration

        return config.load()

    @cached_property
    def _server(self) -> ServerAddress | None:
        if self._has_database:
            return None
        if self._given_server is None:
            return address_from_config(self._config)
        key = self._key or self._config.key
        if key is None:
            raise ConfigError("A server requires a key: JobForge(server, key=…), or JOBFORGE_KEY")
        return server_address(self._given_server, key)

    @cached_property
    def _artifacts(self) -> "Artifacts":
        from jobforge.artifacts import open_artifacts  # noqa: PLC0415 - few apps need a store
        from jobforge.artifacts.default_location import with_default_artifacts  # noqa: PLC0415 - few apps need a store

        url = self._database_url or self._config.database_url
        if url is None and self._has_database:  # a Django database
            return open_artifacts(self._config)
        return open_artifacts(with_default_artifacts(self._config, url))

    def _dev_url(self) -> str:
        from jobforge.embedded import Embedded  # noqa: PLC0415 - it loads the driver

        server = Embedded(self._config.postgres_dir).running()
        if server is None:
            raise ConfigError(
                "No database specified, and 'jobforge dev' is not running in this folder; use"
                " JobForge(database_url), set JOBFORGE_DATABASE_URL, or start 'jobforge dev'"
            )
        return server.url()

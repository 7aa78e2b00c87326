"""A server's address and the API key for it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import UUID

from jobforge.errors import ConfigError

if TYPE_CHECKING:
    from jobforge.config import Config

_PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a server's API. `tenant` is sent with requests that do not name a tenant."""

    url: str
    key: str = field(repr=False)
    tenant: str | None = None
    timeout_s: float = 30
    retries: int = 4
    trust_env: bool = False

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https:")


def server_address(  # noqa: PLR0913 - one parameter per setting
    server: str,
    key: str,
    *,
    tenant: UUID | str | None = None,
    timeout_s: float = 30,
    retries: int = 4,
    trust_env: bool = False,
) -> ServerAddress:
    """Return the address. Raises ConfigError for an invalid URL or key."""
    tenant_name = None if tenant is None else str(tenant)
    return ServerAddress(_url(server), _key(key), tenant_name, timeout_s, retries, trust_env)


def address_from_config(config: "Config") -> ServerAddress | None:
    """Return the configured server, if any. Raises ConfigError if a database is set too."""
    if config.server is None:
        return None
    if config.database_url is not None:
        raise ConfigError(
            "server and database_url can't be used together",
            field="server",
            hint="Set --server or --database-url, JOBFORGE_SERVER or JOBFORGE_DATABASE_URL",
        )
    if config.key is None:
        raise ConfigError(
            "A server requires an API key",
            field="key",
            hint="Set JOBFORGE_KEY or key_file, or use --api-key, as --key may be that of a job; "
            "an operator creates API keys with: jobforge keys create",
        )
    return server_address(config.server, config.key)


def _key(text: str) -> str:
    key = text.strip()
    # httpx would quote a key that is invalid in a header, and so leak it in its error.
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("key must be one word of printable ASCII characters", field="key")
    return key


def _url(server: str) -> str:
    try:
        parts = urlsplit(server.strip())
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
        is_alone = not (parts.username or parts.password or parts.query or parts.fragment)
        _ = parts.port
    except ValueError:
        is_address = is_alone = False
    if not is_address:
        raise ConfigError("server must be a URL such as https://jobs.example.com", field="server")
    if not is_alone:
        raise ConfigError(
            "server must not contain a user, password, query or fragment; set the key separately",
            field="server",
        )
    return server.strip().rstrip("/").removesuffix(_PREFIX) + _PREFIX

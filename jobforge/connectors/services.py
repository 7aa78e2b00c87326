"""Services that the connectors of one worker share, each loaded on first use."""

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from jobforge.artifacts import Artifacts, open_artifacts
from jobforge.calls import Call
from jobforge.config import Config
from jobforge.db.protocols import RunCall
from jobforge.security.secret_lookup import Secrets

if TYPE_CHECKING:
    from jobforge.connectors.egress import EgressClient
    from jobforge.security.vault import Vault

T = TypeVar("T")


class ConnectorServices:
    """The worker's calls, the guarded client, the vault and the artifacts."""

    def __init__(self, run: RunCall, config: Config) -> None:
        self._run = run
        self._config = config
        self._is_ready = False

    async def preload(self) -> None:
        """Load the client in a thread: its import and DNS lookups would block the event loop."""
        if not self._is_ready:
            await asyncio.to_thread(getattr, self, "egress")
            self._is_ready = True

    async def run(self, call: Call[T]) -> T:
        result: T = await self._run(call)
        return result

    @property
    def config(self) -> Config:
        return self._config

    @cached_property
    def secrets(self) -> Secrets:
        return Secrets(self._config.secrets_dir)

    @cached_property
    def egress(self) -> "EgressClient":
        from jobforge.connectors.egress import open_egress  # noqa: PLC0415 - imports the HTTP client only when needed

        return open_egress(self._config)

    @cached_property
    def vault(self) -> "Vault":
        from jobforge.security.vault import open_vault  # noqa: PLC0415 - imports cryptography only when needed

        return open_vault(self._config)

    @cached_property
    def artifacts(self) -> Artifacts:
        return open_artifacts(self._config)

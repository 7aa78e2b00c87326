"""What the connectors of one worker share. Nothing is loaded or read before it is first used."""

import asyncio
from collections.abc import Awaitable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

from jobforge.artifacts import Artifacts, open_artifacts
from jobforge.calls import Call
from jobforge.config import Config
from jobforge.security.secret_lookup import Secrets

if TYPE_CHECKING:
    from jobforge.connectors.egress import EgressClient
    from jobforge.security.vault import Vault

T = TypeVar("T")


class CallRunner(Protocol):
    """What runs calls: the worker's database."""

    def run(self, call: Call[T]) -> Awaitable[T]: ...


class ConnectorServices:
    """The engine, the guarded client, the vault and the artifacts."""

    def __init__(self, engine: CallRunner, config: Config) -> None:
        self._engine = engine
        self._config = config
        self._is_ready = False

    async def preload(self) -> None:
        """Before the first job: to load a client and to look up names would hold up the loop."""
        if not self._is_ready:
            await asyncio.to_thread(getattr, self, "egress")
            self._is_ready = True

    async def run(self, call: Call[T]) -> T:
        return await self._engine.run(call)

    @property
    def config(self) -> Config:
        return self._config

    @cached_property
    def secrets(self) -> Secrets:
        return Secrets(self._config.secrets_dir)

    @cached_property
    def egress(self) -> "EgressClient":
        from jobforge.connectors.egress import open_egress  # noqa: PLC0415 - it loads the HTTP client

        return open_egress(self._config)

    @cached_property
    def vault(self) -> "Vault":
        from jobforge.security.vault import open_vault  # noqa: PLC0415 - it loads cryptography

        return open_vault(self._config)

    @cached_property
    def artifacts(self) -> Artifacts:
        return open_artifacts(self._config)

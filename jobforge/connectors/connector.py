"""A connector, and the job that its handler receives."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel

from jobforge.artifacts import Artifacts
from jobforge.calls import Call
from jobforge.connectors.services import ConnectorServices
from jobforge.errors import Json
from jobforge.payloads.signature import ANYTHING, Parameters, Shape
from jobforge.redact import connector_scope
from jobforge.sdk.definition import Definition
from jobforge.sdk.definition_settings import DefinitionSettings
from jobforge.sdk.engine_client import EngineClient
from jobforge.sdk.hooks import Hooks
from jobforge.sdk.outcome_exceptions import Retry
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob

if TYPE_CHECKING:
    from jobforge.connectors.egress import EgressClient
    from jobforge.security.vault import Vault

QUEUE = "connectors"

P = TypeVar("P", bound=BaseModel)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConnectorJob(Generic[P]):
    """One attempt: the validated payload, and the services that a handler may use."""

    payload: P
    claimed: ClaimedJob
    worker_id: UUID
    services: ConnectorServices

    @property
    def tenant_id(self) -> UUID:
        return self.claimed.tenant_id

    @property
    def job_id(self) -> UUID:
        return self.claimed.job_id

    @property
    def fence(self) -> str:
        """`<job id>.<lease>`, which grows with each attempt, so receivers can reject older ones."""
        return f"{self.claimed.job_id}.{self.claimed.lease}"

    @property
    def traceparent(self) -> str | None:
        return self.claimed.traceparent

    @property
    def egress(self) -> "EgressClient":
        """The guarded HTTP client, the only one that a handler may use."""
        return self.services.egress

    @property
    def vault(self) -> "Vault":
        return self.services.vault

    @property
    def artifacts(self) -> Artifacts:
        """The artifact store. A file that the result names as `artifact` becomes the job's."""
        return self.services.artifacts

    async def call(self, call: Call[T]) -> T:
        """Run a call for the job's tenant, under the job's lease."""
        return await self.services.run(call.under_lease(self.worker_id, self.claimed.token))


@dataclass(frozen=True, slots=True)
class Connector(Generic[P]):
    """A connector: its key, the model of its payloads, and its handler."""

    key: str
    payload: type[P]
    run: Callable[[ConnectorJob[P]], Awaitable[Json]]
    description: str
    version: int = 1
    timeout_s: int = 120
    retry: Retry = field(default_factory=Retry)

    @property
    def settings(self) -> DefinitionSettings:
        return DefinitionSettings(
            key=self.key,
            version=self.version,
            queue=QUEUE,
            timeout_s=self.timeout_s,
            max_attempts=self.retry.max_attempts,
            backoff_base_s=self.retry.base_s,
            backoff_cap_s=self.retry.cap_s,
            give_up_on=self.retry.give_up_on,
            isolation="inline",
            description=self.description,
        )


class ConnectorTarget:
    """A connector as an app enqueues jobs for it."""

    def __init__(self, connector: Connector[Any], client: EngineClient) -> None:
        self.settings = connector.settings
        self.client = client
        self._payload = Shape(connector.payload)

    @property
    def parameters(self) -> Parameters:
        return _FieldParameters((), self._payload, None, 0)

    @property
    def result(self) -> Shape:
        return ANYTHING


class _FieldParameters(Parameters):
    """Takes the payload's fields as arguments by name."""

    def build_payload(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Json]:
        given = self.bind(args, kwargs)
        self.read_arguments(given)
        return given


class ConnectorDefinition(Definition[..., Json]):
    """A connector as a worker serves it."""

    can_create_artifacts = True
    build_redaction_scope = staticmethod(connector_scope)

    def __init__(
        self,
        connector: Connector[Any],
        worker_id: UUID,
        services: ConnectorServices,
        client: EngineClient,
    ) -> None:
        self._connector = connector
        self._worker_id = worker_id
        self._services = services
        self.parameters = Parameters(("payload",), Shape(connector.payload), "payload", 1)
        self.result = ANYTHING
        super().__init__(self._run, connector.settings, client, Hooks(_do_nothing))

    async def _run(self, payload: Any) -> Json:  # noqa: ANN401 - the connector's model
        claimed = CURRENT_JOB.get()
        assert claimed is not None  # noqa: S101 - the runner has set it
        await self._services.preload()
        return await self._connector.run(
            ConnectorJob(payload, claimed, self._worker_id, self._services)
        )


def _do_nothing() -> None:
    """Stand in for the handler of Hooks; connectors have no hooks."""

"""Open the engine for a command: a database connection, or a server over HTTP with an API key."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from jobforge.client.address import ServerAddress, address_from_config
from jobforge.config import Config
from jobforge.errors import (
    ConfigError,
    Denied,
    InvalidPayload,
    Json,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from jobforge.process import interrupts

if TYPE_CHECKING:
    from jobforge.artifacts import Artifacts
    from jobforge.artifacts.artifact_reference import ArtifactSource
    from jobforge.calls import Call
    from jobforge.client.transport import Transport
    from jobforge.db import Connection
    from jobforge.security.vault import TenantKey
    from jobforge.types.jobs import Job, JobRequest

T = TypeVar("T")

_RETRIES = 2  # few, because a user is waiting


@dataclass(frozen=True, slots=True)
class DirectEngine:
    """The engine over a database connection. Work that a server does otherwise is done here."""

    conn: "Connection"
    config: Config

    def run(self, call: "Call[T]") -> T:
        from jobforge import db

        return db.run(self.conn, call)

    def own_tenant(self) -> UUID | None:
        """Return None: a database login does not name a tenant."""
        return None

    def prepare_job(self, job: "JobRequest", tenant_id: UUID) -> "JobRequest":
        """Check the payload, and move it to the artifact store if it is too large for a row."""
        from jobforge.payloads.size import has_large_payload

        self._check_payload(job)
        if not has_large_payload([job.payload]):
            return job
        (fitting,) = self._open_artifacts().put_payloads(tenant_id, [job])
        return fitting

    def _check_payload(self, job: "JobRequest") -> None:
        """Check the payload against the definition's schema, as a server does.

        If the definition cannot be read, the engine and the worker check the job instead.
        """
        from jobforge import calls
        from jobforge.payloads import schema_validation

        key, _, version = job.definition.partition("@")
        if version and not version.isdecimal():
            return
        try:
            found = self.run(calls.get_definition(key, version=int(version) if version else None))
        except (Denied, NotFound):
            return
        try:
            schema_validation.check_payload(
                schema_validation.compile_validator(key, found.parameters), job.payload
            )
        except InvalidPayload as error:
            hint = f"jobforge definitions schema {job.definition}"
            raise InvalidPayload(error.message, field=error.field, hint=hint) from error

    @contextmanager
    def open_artifact(self, job: "Job", of: "ArtifactSource | None") -> "Iterator[Iterator[bytes]]":
        """Yield the chunks of a job's artifact."""
        from jobforge.artifacts.artifact_reference import find_artifact_key

        path = find_artifact_key(job, of).path  # first: NotFound must not require a store
        yield self._open_artifacts().store.open(path)

    def open_tenant_key(self, tenant_id: UUID) -> "TenantKey":
        """Return the key that seals the tenant's secrets."""
        from jobforge.security.vault import open_vault

        return self.run(open_vault(self.config).build_tenant_key_call(tenant_id))

    def check_scopes(self, scopes: Iterable[str]) -> None:
        """Check the scopes of a new API key."""
        from jobforge.api.auth.permissions import check_scopes

        check_scopes(scopes)

    def check_url(self, url: str) -> None:
        """Check the URL against the egress policy."""
        from jobforge.connectors.egress import policy_from_config, read_url

        read_url(url, policy_from_config(self.config))

    def prepare_connector(
        self, config_id: UUID, given: Mapping[str, Json], tenant_id: UUID
    ) -> Mapping[str, Json]:
        """Check a connector configuration, and seal its secrets."""
        from jobforge.connectors.configuration import needs_seal, prepare_config
        from jobforge.connectors.egress import policy_from_config

        key = self.open_tenant_key(tenant_id) if needs_seal(given) else None
        return prepare_config(given, config_id, key, policy_from_config(self.config))

    def erase_job(self, job_id: UUID, tenant_id: UUID) -> None:
        """Erase a job's data and delete its artifacts."""
        from jobforge import calls
        from jobforge.artifacts.erasure import delete_folders

        folders = self.run(calls.erase_job(job_id).for_tenant(tenant_id))
        delete_folders(self._open_artifacts(), folders)

    def advance_erasure(self, tenant_id: UUID) -> bool:
        """Run one step of the tenant's erasure. Return False if no step is due."""
        from jobforge import calls

        if self.run(calls.advance_operations().for_tenant(tenant_id)) is not None:
            return True
        artifacts = self._open_artifacts()
        waiting = calls.next_erasure(has_store=artifacts.is_configured)
        erasure = self.run(waiting.for_tenant(tenant_id))
        if erasure is None:
            return False
        found = artifacts.delete_tenant(tenant_id)
        return self.run(calls.confirm_erasure(erasure, found=found))

    def _open_artifacts(self) -> "Artifacts":
        from jobforge.artifacts import open_artifacts
        from jobforge.artifacts.default_location import with_default_artifacts

        return open_artifacts(with_default_artifacts(self.config, self.conn.info.dsn))


@dataclass(frozen=True, slots=True)
class RemoteEngine:
    """The engine over a server's HTTP API. The server checks what it stores, and seals secrets."""

    transport: "Transport"

    def run(self, call: "Call[T]") -> T:
        return self.transport.run(call)

    def own_tenant(self) -> UUID | None:
        """Return the tenant of the API key, or None for a key without a tenant."""
        from jobforge.client.http_only_requests import whoami

        return self.transport.run(whoami()).tenant_id

    def prepare_job(self, job: "JobRequest", tenant_id: UUID) -> "JobRequest":  # noqa: ARG002 - same signature as DirectEngine
        return job

    @contextmanager
    def open_artifact(self, job: "Job", of: "ArtifactSource | None") -> "Iterator[Iterator[bytes]]":
        from jobforge.client.artifact import ArtifactRequest, open_chunks

        with open_chunks(self.transport, ArtifactRequest(job.id, of, job.tenant_id)) as found:
            yield found

    def open_tenant_key(self, tenant_id: UUID) -> None:
        """Return None: the server has the key."""

    def check_scopes(self, scopes: Iterable[str]) -> None:
        """Do nothing: the server knows its scopes."""

    def check_url(self, url: str) -> None:
        """Do nothing: the server has the egress policy."""

    def prepare_connector(
        self,
        config_id: UUID,  # noqa: ARG002 - same signature as DirectEngine
        given: Mapping[str, Json],
        tenant_id: UUID,  # noqa: ARG002 - same signature as DirectEngine
    ) -> Mapping[str, Json]:
        return given

    def erase_job(self, job_id: UUID, tenant_id: UUID) -> None:
        """Erase a job's data. The server deletes the artifacts."""
        from jobforge import calls

        self.run(calls.erase_job(job_id).for_tenant(tenant_id))

    def advance_erasure(self, tenant_id: UUID) -> bool:  # noqa: ARG002 - same signature as DirectEngine
        """Return False: workers and servers run the steps."""
        return False


CliEngine = DirectEngine | RemoteEngine


@contextmanager
def open_engine(config: Config) -> Iterator[CliEngine]:
    """Open a DirectEngine or a RemoteEngine. Connection errors get a hint."""
    server = config.server and address_from_config(config)
    if server:
        with open_remote_engine(server) as engine:
            yield engine
        return
    from jobforge import db

    with interrupts.enforce_exit(), explain_database_errors(), db.connect(find_url(config)) as conn:
        yield DirectEngine(conn, config)


def find_url(config: Config) -> str:
    """Return the configured database URL, or the URL of the running `jobforge dev`."""
    if config.database_url is None and config.server is not None:
        raise ConfigError(
            "This command needs a database, but the settings specify a server",
            hint="Pass --database-url, or set JOBFORGE_DATABASE_URL instead of JOBFORGE_SERVER",
        )
    return config.database_url or _dev_url(config)


def _dev_url(config: Config) -> str:
    from jobforge.embedded import Embedded

    server = Embedded(config.postgres_dir).running()
    if server is None:
        raise ConfigError(
            "No database specified, and `jobforge dev` is not running in this folder",
            hint="Pass --database-url, set JOBFORGE_DATABASE_URL, or run: jobforge dev",
        )
    return server.url()


@contextmanager
def explain_database_errors() -> Iterator[None]:
    """Add a hint to the error raised when the database is unreachable."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(
            f"Cannot connect to the database: {error.message}",
            hint="Check that it is running and that the URL is correct: --database-url or "
            "JOBFORGE_DATABASE_URL",
        ) from error


@contextmanager
def explain_server_errors() -> Iterator[None]:
    """Add hints to the errors for an unreachable server, an invalid API key and a wrong address."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(
            error.message,
            detail=error.detail,
            hint="Check that it is running and that the URL is correct: --server or "
            "JOBFORGE_SERVER",
        ) from error
    except Unauthenticated as error:
        raise Unauthenticated(
            "Invalid API key",
            hint="Set JOBFORGE_KEY to a valid key; this one may be wrong, revoked or expired",
        ) from error
    except NotFound as error:
        if error.detail.get("code") != "no_such_route":
            raise
        raise NotFound(
            error.message,
            hint="Set --server or JOBFORGE_SERVER to the URL of a JobForge server, such as "
            "https://jobs.example.com; an older server may also lack the route",
        ) from error


@contextmanager
def open_remote_engine(server: ServerAddress) -> Iterator[RemoteEngine]:
    """Open a RemoteEngine for the server."""
    try:
        from jobforge.client.transport import Transport
    except ImportError as error:
        raise ConfigError(str(error)) from error
    transport = Transport(replace(server, retries=_RETRIES))
    try:
        with interrupts.enforce_exit(), explain_server_errors():
            yield RemoteEngine(transport)
    finally:
        transport.close()

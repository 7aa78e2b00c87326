"""Open the engine for a command: a database connection, or a server over HTTP with an API key."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from jobforge.cli.database import DatabaseUrlOption, find_url
from jobforge.cli.options import CommandFunction, replace_parameter
from jobforge.config import load
from jobforge.errors import (
    ConfigError,
    Denied,
    Invalid,
    InvalidPayload,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from jobforge.process import interrupts

if TYPE_CHECKING:
    from jobforge.artifacts import Artifacts
    from jobforge.artifacts.marker import ArtifactSource
    from jobforge.calls import Call
    from jobforge.client.address import ServerAddress
    from jobforge.client.transport import Transport
    from jobforge.db import Connection
    from jobforge.types.api_keys import Role
    from jobforge.types.jobs import Job, JobRequest

T = TypeVar("T")

ServerUrlOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Server URL, instead of a database. Default: JOBFORGE_SERVER or jobforge.toml.",
    ),
]
_KEY_HELP = "API key for the server. Prefer JOBFORGE_KEY: other users can see arguments."
ApiKeyOption = Annotated[
    str | None, typer.Option("--api-key", "--key", metavar="KEY", help=_KEY_HELP)
]
# For commands whose --key is a job's idempotency key.
ApiKeyOptionWithoutAlias = Annotated[
    str | None, typer.Option("--api-key", metavar="KEY", help=_KEY_HELP)
]

KeyIdAndText = tuple[UUID, str]  # the key itself is shown only once
_RETRIES = 2  # few, because a user is waiting


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The options that select the database or the server."""

    database_url: str | None = None
    server: str | None = None
    api_key: str | None = None

    def find_server(self) -> "ServerAddress | None":
        """Return the server's address, or None if the command uses a database.

        Raises ConfigError if both are set in the same place, or if the server has no API key.
        """
        from jobforge.client.address import address_from_config

        flags = {"database_url": self.database_url, "server": self.server, "key": self.api_key}
        return address_from_config(load(flags=flags))


@dataclass(frozen=True, slots=True)
class DirectEngine:
    """The engine over a database connection. Work that a server does otherwise is done here."""

    conn: "Connection"

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
        from jobforge.payloads import json_schema

        key, _, version = job.definition.partition("@")
        if version and not version.isdecimal():
            return
        try:
            found = self.run(calls.get_definition(key, version=int(version) if version else None))
        except (Denied, NotFound):
            return
        try:
            json_schema.check_payload(
                json_schema.compile_validator(key, found.parameters), job.payload
            )
        except InvalidPayload as error:
            hint = f"jobforge definitions schema {job.definition}"
            raise InvalidPayload(error.message, field=error.field, hint=hint) from error

    @contextmanager
    def open_artifact(self, job: "Job", of: "ArtifactSource | None") -> "Iterator[Iterator[bytes]]":
        """Yield the chunks of a job's artifact."""
        from jobforge.artifacts.marker import find_artifact_key

        path = find_artifact_key(job, of).path  # first: NotFound must not require a store
        yield self._open_artifacts().store.open(path)

    def create_key(
        self,
        name: str,
        role: "Role",
        *,
        scopes: Sequence[str] | None,
        expires_at: datetime | None,
        tenant_id: UUID | None,
    ) -> KeyIdAndText:
        from jobforge import calls
        from jobforge.api.auth.permissions import SCOPES
        from jobforge.security.api_keys import generate_api_key

        for scope in set(scopes or ()) - set(SCOPES):
            hint = "Use AREA:read or AREA:write, such as jobs:read"
            raise Invalid(f"Invalid scope {scope!r}", field="scopes", hint=hint)
        created = generate_api_key()
        call = calls.create_api_key(
            name,
            role,
            lookup=created.lookup,
            hash=created.hash,
            scopes=scopes,
            expires_at=expires_at,
            tenant_id=tenant_id,
        )
        return self.run(call), created.text

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

    def rotate_key(self, key_id: UUID, *, overlap_s: float) -> KeyIdAndText:
        from jobforge import calls
        from jobforge.security.api_keys import generate_api_key

        created = generate_api_key()
        call = calls.rotate_api_key(
            key_id, lookup=created.lookup, hash=created.hash, overlap_s=overlap_s
        )
        return self.run(call), created.text

    def _open_artifacts(self) -> "Artifacts":
        from jobforge.artifacts import open_artifacts
        from jobforge.artifacts.default_location import with_default_artifacts

        return open_artifacts(with_default_artifacts(load(), self.conn.info.dsn))


@dataclass(frozen=True, slots=True)
class RemoteEngine:
    """The engine over a server's HTTP API. The server generates keys and checks payloads."""

    transport: "Transport"

    def run(self, call: "Call[T]") -> T:
        return self.transport.run(call)

    def own_tenant(self) -> UUID | None:
        """Return the tenant of the API key, or None for a key without a tenant."""
        from jobforge.client.requests import whoami

        return self.transport.run(whoami()).tenant_id

    def prepare_job(self, job: "JobRequest", tenant_id: UUID) -> "JobRequest":  # noqa: ARG002 - same signature as DirectEngine
        """Return the job unchanged: the server checks and stores its payload."""
        return job

    @contextmanager
    def open_artifact(self, job: "Job", of: "ArtifactSource | None") -> "Iterator[Iterator[bytes]]":
        from jobforge.client.artifact import ArtifactRequest, open_chunks

        with open_chunks(self.transport, ArtifactRequest(job.id, of, job.tenant_id)) as found:
            yield found

    def create_key(
        self,
        name: str,
        role: "Role",
        *,
        scopes: Sequence[str] | None,
        expires_at: datetime | None,
        tenant_id: UUID | None,
    ) -> KeyIdAndText:
        from jobforge.client.requests import create_key

        created = self.transport.run(
            create_key(name, role, scopes=scopes, expires_at=expires_at, tenant_id=tenant_id)
        )
        return created.id, created.text

    def erase_job(self, job_id: UUID, tenant_id: UUID) -> None:
        """Erase a job's data. The server deletes the artifacts."""
        from jobforge import calls

        self.run(calls.erase_job(job_id).for_tenant(tenant_id))

    def advance_erasure(self, tenant_id: UUID) -> bool:  # noqa: ARG002 - same signature as DirectEngine
        """Return False: workers and servers run the steps."""
        return False

    def rotate_key(self, key_id: UUID, *, overlap_s: float) -> KeyIdAndText:
        from jobforge.client.requests import rotate_key

        created = self.transport.run(rotate_key(key_id, overlap_s=overlap_s))
        return created.id, created.text


CliEngine = DirectEngine | RemoteEngine


@contextmanager
def open_engine(connection: ConnectionOptions) -> Iterator[CliEngine]:
    """Open a DirectEngine or a RemoteEngine. Connection errors get a hint."""
    server = connection.find_server()
    if server is not None:
        with open_remote_engine(server) as engine:
            yield engine
        return
    from jobforge import db

    with (
        interrupts.enforce_exit(),
        explain_database_errors(),
        db.connect(find_url(connection.database_url)) as conn,
    ):
        yield DirectEngine(conn)


def with_engine(command: CommandFunction) -> CommandFunction:
    """Decorate a command: pass it an open `engine` and add the connection options."""

    @wraps(command)
    def run(
        *, database_url: str | None, server: str | None, api_key: str | None, **arguments: object
    ) -> None:
        with open_engine(ConnectionOptions(database_url, server, api_key)) as engine:
            command(engine=engine, **arguments)

    return replace_parameter(run, "engine", connection_options(command))


def connection_options(command: CommandFunction) -> dict[str, Any]:
    """Return the connection options. A command with its own `key` option gets no --key alias."""
    key = (
        ApiKeyOptionWithoutAlias if "key" in inspect.signature(command).parameters else ApiKeyOption
    )
    return {"database_url": DatabaseUrlOption, "server": ServerUrlOption, "api_key": key}


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
def open_remote_engine(server: "ServerAddress") -> Iterator[RemoteEngine]:
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

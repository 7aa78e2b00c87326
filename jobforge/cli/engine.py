"""How a command reaches the engine: by a connection to its database, or over HTTP with a key."""

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
    from jobforge.artifacts.artifact_reference import ArtifactSource
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
        help="A server instead of a database; otherwise JOBFORGE_SERVER or jobforge.toml.",
    ),
]
_KEY_HELP = "The key to the server; better by JOBFORGE_KEY, which nobody sees."
ApiKeyOption = Annotated[
    str | None, typer.Option("--api-key", "--key", metavar="KEY", help=_KEY_HELP)
]
# Where --key is that of a job.
ApiKeyOptionWithoutAlias = Annotated[
    str | None, typer.Option("--api-key", metavar="KEY", help=_KEY_HELP)
]

KeyIdAndText = tuple[UUID, str]  # its id, and its text, which is shown once
_RETRIES = 2  # somebody waits


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What the flags of a command say of it."""

    database_url: str | None = None
    server: str | None = None
    api_key: str | None = None

    def find_server(self) -> "ServerAddress | None":
        """None when a database is meant. ConfigError when both are named, or no key is."""
        from jobforge.client.address import address_from_config

        flags = {"database_url": self.database_url, "server": self.server, "key": self.api_key}
        return address_from_config(load(flags=flags))


@dataclass(frozen=True, slots=True)
class DirectEngine:
    """A connection to the database, of which the engine's errors are ours."""

    conn: "Connection"

    def run(self, call: "Call[T]") -> T:
        from jobforge import db

        return db.run(self.conn, call)

    def own_tenant(self) -> UUID | None:
        """A login has none."""
        return None

    def prepare_job(self, job: "JobRequest", tenant_id: UUID) -> "JobRequest":
        """The job to be enqueued: its payload checked, and in the store if no row can hold it."""
        from jobforge.payloads.size import has_large_payload

        self._check_payload(job)
        if not has_large_payload([job.payload]):
            return job
        (fitting,) = self._open_artifacts().put_payloads(tenant_id, [job])
        return fitting

    def _check_payload(self, job: "JobRequest") -> None:
        """As a server does. What cannot be seen is left to the engine and the worker."""
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
        """The pieces of a job's artifact."""
        from jobforge.artifacts.artifact_reference import find_artifact_key

        path = find_artifact_key(job, of).path  # also without a store, a job may have none
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
            raise Invalid(f"there is no scope {scope}", field="scopes", hint="such as jobs:read")
        made = generate_api_key()
        call = calls.create_api_key(
            name,
            role,
            lookup=made.lookup,
            hash=made.hash,
            scopes=scopes,
            expires_at=expires_at,
            tenant_id=tenant_id,
        )
        return self.run(call), made.text

    def erase_job(self, job_id: UUID, tenant_id: UUID) -> None:
        """Erases a job's data, with its artifacts."""
        from jobforge import calls
        from jobforge.artifacts.erasure import delete_folders

        folders = self.run(calls.erase_job(job_id).for_tenant(tenant_id))
        delete_folders(self._open_artifacts(), folders)

    def advance_erasure(self, tenant_id: UUID) -> bool:
        """Makes one step of the tenant's erasure; False when no step is due."""
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

        made = generate_api_key()
        call = calls.rotate_api_key(key_id, lookup=made.lookup, hash=made.hash, overlap_s=overlap_s)
        return self.run(call), made.text

    def _open_artifacts(self) -> "Artifacts":
        from jobforge.artifacts import open_artifacts
        from jobforge.artifacts.default_location import with_default_artifacts

        return open_artifacts(with_default_artifacts(load(), self.conn.info.dsn))


@dataclass(frozen=True, slots=True)
class RemoteEngine:
    """A server, which makes keys by itself."""

    transport: "Transport"

    def run(self, call: "Call[T]") -> T:
        return self.transport.run(call)

    def own_tenant(self) -> UUID | None:
        """That of the key, if it is of one."""
        from jobforge.client.http_only_requests import whoami

        return self.transport.run(whoami()).tenant_id

    def prepare_job(self, job: "JobRequest", tenant_id: UUID) -> "JobRequest":  # noqa: ARG002 - of the protocol
        """The server sees to it."""
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
        from jobforge.client.http_only_requests import create_key

        made = self.transport.run(
            create_key(name, role, scopes=scopes, expires_at=expires_at, tenant_id=tenant_id)
        )
        return made.id, made.text

    def erase_job(self, job_id: UUID, tenant_id: UUID) -> None:
        """The server deletes the artifacts."""
        from jobforge import calls

        self.run(calls.erase_job(job_id).for_tenant(tenant_id))

    def advance_erasure(self, tenant_id: UUID) -> bool:  # noqa: ARG002 - of the protocol
        """The server makes the steps."""
        return False

    def rotate_key(self, key_id: UUID, *, overlap_s: float) -> KeyIdAndText:
        from jobforge.client.http_only_requests import rotate_key

        made = self.transport.run(rotate_key(key_id, overlap_s=overlap_s))
        return made.id, made.text


CliEngine = DirectEngine | RemoteEngine


@contextmanager
def open_engine(way: ConnectionOptions) -> Iterator[CliEngine]:
    """The engine, by whichever way; what cannot be reached is told with what to do."""
    server = way.find_server()
    if server is not None:
        with open_remote_engine(server) as engine:
            yield engine
        return
    from jobforge import db

    with (
        interrupts.enforce_exit(),
        explain_database_errors(),
        db.connect(find_url(way.database_url)) as conn,
    ):
        yield DirectEngine(conn)


def with_engine(command: CommandFunction) -> CommandFunction:
    """A command that gets the `engine`; the options that say where it is are added to it."""

    @wraps(command)
    def run(
        *, database_url: str | None, server: str | None, api_key: str | None, **given: object
    ) -> None:
        with open_engine(ConnectionOptions(database_url, server, api_key)) as engine:
            command(engine=engine, **given)

    return replace_parameter(run, "engine", connection_options(command))


def connection_options(command: CommandFunction) -> dict[str, Any]:
    """Those that lead to the engine. A key that the command knows already is that of a job."""
    key = (
        ApiKeyOptionWithoutAlias if "key" in inspect.signature(command).parameters else ApiKeyOption
    )
    return {"database_url": DatabaseUrlOption, "server": ServerUrlOption, "api_key": key}


@contextmanager
def explain_database_errors() -> Iterator[None]:
    """Within it, a database that cannot be reached is told with what to do."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(
            f"the database cannot be reached: {error.message}",
            hint="is it running, and is the URL right? --database-url or JOBFORGE_DATABASE_URL",
        ) from error


@contextmanager
def explain_server_errors() -> Iterator[None]:
    """As `explained`, for a server and its key."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(
            error.message,
            detail=error.detail,
            hint="is it running, and is the address right? --server or JOBFORGE_SERVER",
        ) from error
    except Unauthenticated as error:
        raise Unauthenticated(
            "the server does not take this key",
            hint="it may be wrong, revoked or expired; set JOBFORGE_KEY to another",
        ) from error
    except NotFound as error:
        if error.detail.get("code") != "no_such_route":
            raise
        raise NotFound(
            error.message,
            hint="this is not the address of a JobForge server, or that is an older one; "
            "--server or JOBFORGE_SERVER, such as https://jobs.example.com",
        ) from error


@contextmanager
def open_remote_engine(server: "ServerAddress") -> Iterator[RemoteEngine]:
    """As `reached`, where a server is meant for certain."""
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

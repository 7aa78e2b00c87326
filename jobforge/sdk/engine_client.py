"""Sends what an app enqueues and reads its jobs.

There are three ways to the engine: the app's own pools, of a database or a server; a connection
that the caller gives; and for a running job its worker (job_scope.py).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from jobforge import calls, integrations
from jobforge.artifacts import Artifacts, marker_in
from jobforge.calls import Call
from jobforge.client.request import TENANT_HEADER, Request
from jobforge.errors import (
    ConfigError,
    Conflict,
    Denied,
    JobForgeError,
    Json,
    NotFound,
    TenantRequired,
    Unavailable,
    UnknownDefinition,
)
from jobforge.observability import tracing
from jobforge.sdk import enqueue_calls
from jobforge.sdk.job_scope import (
    Answer,
    Host,
    check_own,
    enqueue_by,
    enqueue_through,
    find_door,
    flowing,
    here,
    refuse_inside_job,
    refuse_to_emit,
)
from jobforge.sdk.options import Tenant, as_given
from jobforge.sdk.pools import Pools
from jobforge.sdk.tenancy import Slugs, as_uuid, choose
from jobforge.types.current_job import CURRENT
from jobforge.types.jobs import Enqueued, Job, JobRequest
from jobforge.types.jsonb import decode

T = TypeVar("T")
Build = Callable[[UUID], Call[T]]  # a call that names its tenant by argument
Conn = Any  # a connection of one of the libraries in integrations/

_RECORD_EVERY_S = 3600.0
_THAT_OF_THE_KEY = ""  # no slug; a server knows
_NO_OWN_WAY = (NotFound, ConfigError, Denied, Unavailable)


class Submission(NamedTuple, Generic[T]):
    """Something to be made that is no plain job: as a call, and as what a worker is asked."""

    build: Build[T]
    kind: str
    data: Json
    read: Callable[[Json], T]


class Client:
    """The way of one app's definitions to the database. Opens nothing before its first use."""

    def __init__(
        self,
        pools: Pools,
        *,
        tenant: Callable[[], Tenant | None],
        artifacts: Callable[[], Artifacts],
        django: str | None = None,
    ) -> None:
        self.pools = pools
        self.django = django
        self.slugs = Slugs()
        self._default_tenant = tenant
        self._find_artifacts = artifacts
        self._moved_artifacts: Callable[[], Artifacts] | None = None
        self._host: Host | None = None
        self._record_store_at = 0.0

    def enqueue(self, jobs: Sequence[JobRequest], tenant: Tenant | None, conn: Conn) -> Answer:
        """All or nothing."""
        with tracing.enqueuing(jobs) as traced:
            return self._enqueue(here(flowing, traced), tenant, conn)

    async def aenqueue(
        self, jobs: Sequence[JobRequest], tenant: Tenant | None, conn: Conn
    ) -> Answer:
        """As `enqueue`, for async code."""
        with tracing.enqueuing(jobs) as traced:
            return await self._aenqueue(here(flowing, traced), tenant, conn)

    def _enqueue(self, jobs: Sequence[JobRequest], tenant: Tenant | None, conn: Conn) -> Answer:
        door = find_door()
        if conn is None and door is not None:
            return enqueue_through(door, jobs, tenant)
        self._refuse_connection(conn)
        self._refuse_to_block(conn)
        conn = self.django if conn is None else conn
        tenant_id = self.tenant_id(tenant, conn)
        try:
            if conn is not None:
                return tenant_id, enqueue_calls.joined(
                    integrations.run(conn, self._fitting(tenant_id, batch))
                    for batch in enqueue_calls.batches(jobs)
                )
            if len(jobs) <= enqueue_calls.STREAMED_JOBS or self.pools.is_remote:
                return tenant_id, self.run_as(tenant_id, self._fitting(tenant_id, jobs))
            return tenant_id, self._stream(tenant_id, jobs)
        except JobForgeError as error:
            raise advised(error, conn) from error

    async def _aenqueue(
        self, jobs: Sequence[JobRequest], tenant: Tenant | None, conn: Conn
    ) -> Answer:
        door = find_door()
        if conn is None and door is not None:
            return enqueue_through(door, jobs, tenant)
        self._refuse_connection(conn)
        job = CURRENT.get() if conn is None else None
        if self._host is not None and job is not None:
            return await enqueue_by(self._host, job, jobs, tenant)
        if conn is None and self.django is not None:
            return await integrations.in_thread_of_django(self._enqueue, jobs, tenant, None)
        tenant_id = await self.atenant_id(tenant, conn)
        try:
            if conn is not None:
                return tenant_id, enqueue_calls.joined(
                    [
                        await integrations.arun(conn, await self._afitting(tenant_id, batch))
                        for batch in enqueue_calls.batches(jobs)
                    ]
                )
            if len(jobs) <= enqueue_calls.STREAMED_JOBS or self.pools.is_remote:
                call = await self._afitting(tenant_id, jobs)
                return tenant_id, await self.arun_as(tenant_id, call)
            return tenant_id, await self._astream(tenant_id, jobs)
        except JobForgeError as error:
            raise advised(error, conn) from error

    def emit(self, emitting: Build[UUID], tenant: Tenant | None, conn: Conn) -> UUID:
        """An event, in the transaction of the connection or in one of its own."""
        refuse_to_emit(conn)
        self._refuse_connection(conn)
        conn = self.django if conn is None else conn
        tenant_id = self.tenant_id(tenant, conn)
        try:
            if conn is not None:
                return integrations.run(conn, emitting(tenant_id))
            return self.run_for(tenant_id, emitting)
        except JobForgeError as error:
            raise advised(error, conn) from error

    async def aemit(self, emitting: Build[UUID], tenant: Tenant | None, conn: Conn) -> UUID:
        """As `emit`, for async code."""
        refuse_to_emit(conn)
        self._refuse_connection(conn)
        if conn is None and self.django is not None:
            return await integrations.in_thread_of_django(self.emit, emitting, tenant, None)
        tenant_id = await self.atenant_id(tenant, conn)
        try:
            if conn is not None:
                return await integrations.arun(conn, emitting(tenant_id))
            return await self.arun_for(tenant_id, emitting)
        except JobForgeError as error:
            raise advised(error, conn) from error

    def _fitting(self, tenant_id: UUID, jobs: Sequence[JobRequest]) -> enqueue_calls.Enqueuing:
        """The call for these jobs; what is too large for a row is in the store by then."""
        call = self._as_call(tenant_id, jobs)
        if call is not None:
            return call
        return enqueue_calls.as_call(self._put_payloads(tenant_id, jobs), tenant_id)

    async def _afitting(
        self, tenant_id: UUID, jobs: Sequence[JobRequest]
    ) -> enqueue_calls.Enqueuing:
        call = self._as_call(tenant_id, jobs)
        if call is not None:
            return call
        smaller = await self._aput_payloads(tenant_id, jobs)
        return enqueue_calls.as_call(smaller, tenant_id)

    def _as_call(
        self, tenant_id: UUID, jobs: Sequence[JobRequest]
    ) -> enqueue_calls.Enqueuing | None:
        """None where a payload may be too large for a row; a server sees to that by itself."""
        if self.pools.is_remote:
            return enqueue_calls.as_call(list(jobs), tenant_id)  # it has one way for many jobs
        call = enqueue_calls.as_call(jobs, tenant_id)
        return None if enqueue_calls.may_be_large(jobs, call) else call

    def _stream(self, tenant_id: UUID, jobs: Sequence[JobRequest]) -> Iterable[Enqueued]:
        database = self.pools.database()
        try:
            return enqueue_calls.joined(database.run_all(tenant_id, enqueue_calls.streamed(jobs)))
        except enqueue_calls.Large:  # nothing was committed
            smaller = self._put_payloads(tenant_id, jobs)
            return enqueue_calls.joined(
                database.run_all(tenant_id, enqueue_calls.streamed(smaller))
            )

    async def _astream(self, tenant_id: UUID, jobs: Sequence[JobRequest]) -> Iterable[Enqueued]:
        database = await self.pools.database_of_this_loop()
        try:
            return enqueue_calls.joined(
                await database.run_all(tenant_id, enqueue_calls.streamed(jobs))
            )
        except enqueue_calls.Large:  # as above
            smaller = await self._aput_payloads(tenant_id, jobs)
            return enqueue_calls.joined(
                await database.run_all(tenant_id, enqueue_calls.streamed(smaller))
            )

    def _artifacts(self) -> Artifacts:
        return (self._moved_artifacts or self._find_artifacts)()

    def _put_payloads(self, tenant_id: UUID, jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
        artifacts = self._artifacts()
        smaller = artifacts.put_payloads(tenant_id, jobs)
        self._record_store(artifacts)
        return smaller

    async def _aput_payloads(
        self, tenant_id: UUID, jobs: Sequence[JobRequest]
    ) -> Sequence[JobRequest]:
        artifacts = self._artifacts()
        smaller = await _in_thread(artifacts.put_payloads, tenant_id, jobs)
        await self._arecord_store(artifacts)
        return smaller

    def _record_store(self, artifacts: Artifacts) -> None:
        if self._is_to_record_store():
            with suppress(JobForgeError):  # it is for the doctor alone
                self.run(_recording(artifacts))

    async def _arecord_store(self, artifacts: Artifacts) -> None:
        if self._is_to_record_store():
            with suppress(JobForgeError):  # as above
                await self.arun(await _in_thread(_recording, artifacts))

    def _is_to_record_store(self) -> bool:
        """Once in an hour, over a connection of our own: the caller's transaction is not ours."""
        now = monotonic()
        is_due = self.django is None and now >= self._record_store_at
        if is_due:
            self._record_store_at = now + _RECORD_EVERY_S
        return is_due

    def submit(self, made: Submission[T], tenant: Tenant | None, conn: Conn) -> tuple[UUID, T]:
        """All or nothing, as `enqueue`, for what is made by one call."""
        door = find_door()
        if conn is None and door is not None:
            check_own(tenant, door.tenant_id)
            return door.tenant_id, made.read(door.ask(made.kind, made.data))
        self._refuse_connection(conn)
        self._refuse_to_block(conn)
        conn = self.django if conn is None else conn
        tenant_id = self.tenant_id(tenant, conn)
        try:
            if conn is not None:
                return tenant_id, integrations.run(conn, made.build(tenant_id))
            return tenant_id, self.run_for(tenant_id, made.build)
        except JobForgeError as error:
            raise advised(error, conn) from error

    async def asubmit(
        self, made: Submission[T], tenant: Tenant | None, conn: Conn
    ) -> tuple[UUID, T]:
        """As `submit`, for async code."""
        if conn is None and find_door() is not None:
            return self.submit(made, tenant, conn)
        self._refuse_connection(conn)
        job = CURRENT.get() if conn is None else None
        if self._host is not None and job is not None:
            check_own(tenant, job.tenant_id)
            return job.tenant_id, made.read(await self._host.ask(job, made.kind, made.data))
        tenant_id = await self.atenant_id(tenant, conn)
        try:
            if conn is not None:
                return tenant_id, await integrations.arun(conn, made.build(tenant_id))
            return tenant_id, await self.arun_for(tenant_id, made.build)
        except JobForgeError as error:
            raise advised(error, conn) from error

    def set_host(self, host: Host) -> None:
        """From now on what jobs in this process's loop enqueue goes through their worker."""
        self._host = host

    def move(
        self, pools: Pools, django: str | None, artifacts: Callable[[], Artifacts] | None
    ) -> tuple[Pools, str | None, Callable[[], Artifacts] | None]:
        """To another database, and another store if one is given; returns what was moved before."""
        before = self.pools, self.django, self._moved_artifacts
        self.pools, self.django, self._moved_artifacts = pools, django, artifacts
        self._record_store_at = 0.0
        self.slugs.forget()
        return before

    def own_pools(self) -> Pools:
        """Conflict where Django's connections are used."""
        if self.django is not None:
            raise Conflict("this app is on a Django database: use django.db.transaction.atomic")
        return self.pools

    def run(self, call: Call[T]) -> T:
        """A call in a transaction of its own, on a connection of the app's own."""
        refuse_inside_job()
        if self.django is not None:
            return integrations.run(self.django, call)
        return self.pools.sync().pool.run(call)

    async def arun(self, call: Call[T]) -> T:
        refuse_inside_job()
        if self.django is not None:
            return await integrations.in_thread_of_django(integrations.run, self.django, call)
        return await (await self.pools.of_this_loop()).pool.run(call)

    def run_for(self, tenant_id: UUID, build: Build[T]) -> T:
        """A call for a tenant: one round trip, whatever the login may do."""
        return self.run_as(tenant_id, build(tenant_id))

    async def arun_for(self, tenant_id: UUID, build: Build[T]) -> T:
        return await self.arun_as(tenant_id, build(tenant_id))

    def run_as(self, tenant_id: UUID, call: Call[T]) -> T:
        """The call names its tenant; for a login that may not, the transaction has it too."""
        refuse_inside_job()
        if self.django is not None:
            return integrations.run(self.django, call)
        source = self.pools.sync()
        return source.pool.run(call if source.is_service else call.for_tenant(tenant_id))

    async def arun_as(self, tenant_id: UUID, call: Call[T]) -> T:
        refuse_inside_job()
        if self.django is not None:
            return await integrations.in_thread_of_django(integrations.run, self.django, call)
        source = await self.pools.of_this_loop()
        return await source.pool.run(call if source.is_service else call.for_tenant(tenant_id))

    def get_job(self, tenant_id: UUID, job_id: UUID) -> Job:
        return self.run_for(tenant_id, lambda tenant: calls.get_job(job_id, tenant_id=tenant)).job

    def get_result(self, job: Job) -> Json:
        """What it returned, from wherever that lies."""
        marker = marker_in(job.result)
        if marker is None:
            return job.result
        refuse_inside_job()
        if self.pools.is_remote:
            return self.pools.transport().run(_download(job))
        artifacts = self._artifacts()
        self._record_store(artifacts)  # first: a read from the wrong store fails
        return decode(artifacts.read(marker, job.tenant_id))

    async def aget_result(self, job: Job) -> Json:
        marker = marker_in(job.result)
        if marker is None:
            return job.result
        refuse_inside_job()
        if self.pools.is_remote:
            return await (await self.pools.transport_of_this_loop()).run(_download(job))
        artifacts = self._artifacts()
        await self._arecord_store(artifacts)
        return decode(await _in_thread(artifacts.read, marker, job.tenant_id))

    async def aget_job(self, tenant_id: UUID, job_id: UUID) -> Job:
        history = await self.arun_for(
            tenant_id, lambda tenant: calls.get_job(job_id, tenant_id=tenant)
        )
        return history.job

    def tenant_id(self, named: Tenant | None, conn: Conn = None) -> UUID:
        """Of the tenant that is named, ambient or the default."""
        tenant = self._choose(named)
        tenant_id = self._known(tenant)
        if tenant_id is not None:
            return tenant_id
        finding = calls.find_tenant(str(tenant))
        try:
            # What is committed may be remembered. What the given connection sees may not: the
            # tenant may have been made in its transaction, and be rolled back.
            if self.django is None:
                return self.slugs.keep(str(tenant), self.run(finding))
        except _NO_OWN_WAY as error:
            if conn is None:
                raise about_slug(error, tenant) from error
        try:
            return integrations.run(conn, finding)
        except (NotFound, Denied) as error:
            raise about_slug(error, tenant) from error

    async def atenant_id(self, named: Tenant | None, conn: Conn = None) -> UUID:
        """As `tenant_id`, for async code."""
        tenant = self._choose(named)
        tenant_id = self._known(tenant)
        if tenant_id is not None:
            return tenant_id
        finding = calls.find_tenant(str(tenant))
        try:
            return self.slugs.keep(str(tenant), await self.arun(finding))
        except _NO_OWN_WAY as error:
            if conn is None:
                raise about_slug(error, tenant) from error
        try:
            return await integrations.arun(conn, finding)
        except (NotFound, Denied) as error:
            raise about_slug(error, tenant) from error

    def _choose(self, named: Tenant | None) -> Tenant:
        try:
            return choose(named, self._tenant_of_job_or_app)
        except TenantRequired:
            if not self.pools.is_remote:
                raise
            return _THAT_OF_THE_KEY

    def _tenant_of_job_or_app(self) -> Tenant | None:
        door = find_door()
        return self._default_tenant() if door is None else door.tenant_id

    def _refuse_connection(self, conn: Conn) -> None:
        if conn is not None and self.pools.is_remote:
            raise Conflict(
                "this app makes its jobs over HTTP, so they cannot join a transaction: leave conn"
                " out, or give the app a database"
            )

    def _refuse_to_block(self, conn: Conn) -> None:
        if conn is None and self._host is not None and CURRENT.get() is not None:
            raise Conflict("in a worker's loop, over HTTP, await aenqueue(…), or use async with")

    def _known(self, tenant: Tenant) -> UUID | None:
        return as_uuid(tenant) or self.slugs.get(str(tenant))


def _recording(artifacts: Artifacts) -> calls.Call[None]:
    from jobforge.artifacts.store_identity import recording  # noqa: PLC0415 - for large payloads alone

    return recording("app", artifacts)


async def _in_thread(function: Callable[..., T], *args: Any) -> T:  # noqa: ANN401 - its own
    import asyncio  # noqa: PLC0415 - not in a zygote: worker/isolation/async_handler.py says why

    return await asyncio.to_thread(function, *args)


def _download(job: Job) -> Request[Json]:
    return Request(
        "GET",
        f"/jobs/{job.id}/artifact",
        lambda document: document,
        query=(("proxied", "true"),),
        headers={TENANT_HEADER: str(job.tenant_id)},
        is_repeatable=True,
    )


def advised(error: JobForgeError, conn: Any) -> JobForgeError:  # noqa: ANN401 - of any library
    """The error of an enqueue, with advice; `conn` is the caller's connection, if there was one."""
    advice = None
    if isinstance(error, UnknownDefinition):
        advice = "start a worker of this app, or call jf.register() with a login that may"
    elif isinstance(error, TenantRequired) and conn is not None:
        advice = (
            "the login of the connection may not name a tenant: grant jobforge_service to it, or"
            " set app.tenant_id in its transaction"
        )
    elif type(error) is Denied and not error.detail:
        advice = "grant jobforge_client to the login of the connection"
    if advice is None:
        return as_given(error)
    message = f"{error.message}; {advice}"
    return type(error)(message, field=error.field, detail=error.detail, hint=advice)


def about_slug(error: JobForgeError, tenant: Tenant) -> JobForgeError:
    """The error of a look for a tenant, which names it."""
    if isinstance(error, NotFound):
        return NotFound(f"there is no tenant {tenant}", field="tenant")
    if isinstance(error, Denied) and "request_id" not in error.detail:
        return Denied(
            f"this login may not look up the tenant {tenant}: name it by its UUID, or grant"
            " jobforge_service to the login",
            field="tenant",
        )
    return error

"""Sends an app's jobs and events to the engine, and reads jobs.

A call reaches the engine in one of three ways: through the app's own pools to a database or a
server, on a connection that the caller passes, or, for a running job, through its worker
(job_scope.py).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from jobforge import calls, integrations
from jobforge.artifacts import Artifacts, marker_from_json
from jobforge.calls import Call
from jobforge.client.request import TENANT_HEADER, ApiRequest
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
from jobforge.sdk.enqueue_options import TenantRef, rename_error_field
from jobforge.sdk.pools import Pools
from jobforge.sdk.running_job import (
    LoopJobServices,
    TenantEnqueued,
    check_own_tenant,
    enqueue_over_channel,
    enqueue_with_services,
    find_process_channel,
    inherit_correlation,
    inherit_from_current_job,
    refuse_inside_job,
    refuse_to_emit,
)
from jobforge.sdk.tenancy import TenantIdCache, choose_tenant, parse_tenant_uuid
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import Enqueued, Job, JobRequest
from jobforge.types.jsonb import decode

T = TypeVar("T")
CallBuilder = Callable[[UUID], Call[T]]  # takes the tenant ID, which the call has as argument
Conn = Any  # a connection of one of the libraries in integrations/

_RECORD_EVERY_S = 3600.0
_TENANT_OF_API_KEY = ""  # not a slug: the server uses the API key's tenant
_TENANT_LOOKUP_ERRORS = (NotFound, ConfigError, Denied, Unavailable)


class Submission(NamedTuple, Generic[T]):
    """A request such as a workflow: as an engine call, and as a message to a job's worker."""

    build: CallBuilder[T]
    kind: str
    data: Json
    read: Callable[[Json], T]


class EngineClient:
    """Connects one app's definitions to the engine. Opens no connection before first use."""

    def __init__(
        self,
        pools: Pools,
        *,
        tenant: Callable[[], TenantRef | None],
        artifacts: Callable[[], Artifacts],
        django: str | None = None,
    ) -> None:
        self.pools = pools
        self.django = django
        self.tenant_ids = TenantIdCache()
        self._default_tenant = tenant
        self._find_artifacts = artifacts
        self._artifacts_override: Callable[[], Artifacts] | None = None
        self._job_services: LoopJobServices | None = None
        self._record_store_at = 0.0

    def enqueue(
        self, jobs: Sequence[JobRequest], tenant: TenantRef | None, conn: Conn
    ) -> TenantEnqueued:
        """Enqueue these jobs, all or none; return the tenant ID and one result per job."""
        with tracing.enqueue_span(jobs) as traced:
            return self._enqueue(
                inherit_from_current_job(inherit_correlation, traced), tenant, conn
            )

    async def aenqueue(
        self, jobs: Sequence[JobRequest], tenant: TenantRef | None, conn: Conn
    ) -> TenantEnqueued:
        """Like `enqueue`, for async code."""
        with tracing.enqueue_span(jobs) as traced:
            return await self._aenqueue(
                inherit_from_current_job(inherit_correlation, traced), tenant, conn
            )

    def _enqueue(
        self, jobs: Sequence[JobRequest], tenant: TenantRef | None, conn: Conn
    ) -> TenantEnqueued:
        channel = find_process_channel()
        if conn is None and channel is not None:
            return enqueue_over_channel(channel, jobs, tenant)
        self._refuse_connection(conn)
        self._refuse_to_block(conn)
        conn = self.django if conn is None else conn
        tenant_id = self.tenant_id(tenant, conn)
        try:
            if conn is not None:
                return tenant_id, enqueue_calls.join_enqueued(
                    integrations.run(conn, self._build_enqueue_call(tenant_id, batch))
                    for batch in enqueue_calls.split_batches(jobs)
                )
            if len(jobs) <= enqueue_calls.STREAM_BATCH_SIZE or self.pools.is_remote:
                return tenant_id, self.run_with_tenant(
                    tenant_id, self._build_enqueue_call(tenant_id, jobs)
                )
            return tenant_id, self._stream(tenant_id, jobs)
        except JobForgeError as error:
            raise with_hint(error, conn) from error

    async def _aenqueue(
        self, jobs: Sequence[JobRequest], tenant: TenantRef | None, conn: Conn
    ) -> TenantEnqueued:
        channel = find_process_channel()
        if conn is None and channel is not None:
            return enqueue_over_channel(channel, jobs, tenant)
        self._refuse_connection(conn)
        job = CURRENT_JOB.get() if conn is None else None
        if self._job_services is not None and job is not None:
            return await enqueue_with_services(self._job_services, job, jobs, tenant)
        if conn is None and self.django is not None:
            return await integrations.in_thread_of_django(self._enqueue, jobs, tenant, None)
        tenant_id = await self.atenant_id(tenant, conn)
        try:
            if conn is not None:
                return tenant_id, enqueue_calls.join_enqueued(
                    [
                        await integrations.arun(
                            conn, await self._abuild_enqueue_call(tenant_id, batch)
                        )
                        for batch in enqueue_calls.split_batches(jobs)
                    ]
                )
            if len(jobs) <= enqueue_calls.STREAM_BATCH_SIZE or self.pools.is_remote:
                call = await self._abuild_enqueue_call(tenant_id, jobs)
                return tenant_id, await self.arun_with_tenant(tenant_id, call)
            return tenant_id, await self._astream(tenant_id, jobs)
        except JobForgeError as error:
            raise with_hint(error, conn) from error

    def emit(self, build: CallBuilder[UUID], tenant: TenantRef | None, conn: Conn) -> UUID:
        """Emit an event in the transaction of `conn`, or in a separate one without it."""
        refuse_to_emit(conn)
        self._refuse_connection(conn)
        conn = self.django if conn is None else conn
        tenant_id = self.tenant_id(tenant, conn)
        try:
            if conn is not None:
                return integrations.run(conn, build(tenant_id))
            return self.run_for_tenant(tenant_id, build)
        except JobForgeError as error:
            raise with_hint(error, conn) from error

    async def aemit(self, build: CallBuilder[UUID], tenant: TenantRef | None, conn: Conn) -> UUID:
        """Like `emit`, for async code."""
        refuse_to_emit(conn)
        self._refuse_connection(conn)
        if conn is None and self.django is not None:
            return await integrations.in_thread_of_django(self.emit, build, tenant, None)
        tenant_id = await self.atenant_id(tenant, conn)
        try:
            if conn is not None:
                return await integrations.arun(conn, build(tenant_id))
            return await self.arun_for_tenant(tenant_id, build)
        except JobForgeError as error:
            raise with_hint(error, conn) from error

    def _build_enqueue_call(
        self, tenant_id: UUID, jobs: Sequence[JobRequest]
    ) -> enqueue_calls.EnqueueCall:
        """Return the call for these jobs, after storing payloads that are too large for a row."""
        call = self._build_call_if_small(tenant_id, jobs)
        if call is not None:
            return call
        return enqueue_calls.build_call(self._put_payloads(tenant_id, jobs), tenant_id)

    async def _abuild_enqueue_call(
        self, tenant_id: UUID, jobs: Sequence[JobRequest]
    ) -> enqueue_calls.EnqueueCall:
        call = self._build_call_if_small(tenant_id, jobs)
        if call is not None:
            return call
        stored = await self._aput_payloads(tenant_id, jobs)
        return enqueue_calls.build_call(stored, tenant_id)

    def _build_call_if_small(
        self, tenant_id: UUID, jobs: Sequence[JobRequest]
    ) -> enqueue_calls.EnqueueCall | None:
        """Return the call, or None when a payload may be too large for a row.

        With a server, always return the call: the server stores large payloads.
        """
        if self.pools.is_remote:
            # A list, not UniformJobs: the HTTP API has no separate call for uniform jobs.
            return enqueue_calls.build_call(list(jobs), tenant_id)
        call = enqueue_calls.build_call(jobs, tenant_id)
        return None if enqueue_calls.may_be_large(jobs, call) else call

    def _stream(self, tenant_id: UUID, jobs: Sequence[JobRequest]) -> Iterable[Enqueued]:
        database = self.pools.database()
        try:
            return enqueue_calls.join_enqueued(
                database.run_all(tenant_id, enqueue_calls.stream_calls(jobs))
            )
        except enqueue_calls.LargePayloadFound:  # nothing was committed
            stored = self._put_payloads(tenant_id, jobs)
            return enqueue_calls.join_enqueued(
                database.run_all(tenant_id, enqueue_calls.stream_calls(stored))
            )

    async def _astream(self, tenant_id: UUID, jobs: Sequence[JobRequest]) -> Iterable[Enqueued]:
        database = await self.pools.database_of_this_loop()
        try:
            return enqueue_calls.join_enqueued(
                await database.run_all(tenant_id, enqueue_calls.stream_calls(jobs))
            )
        except enqueue_calls.LargePayloadFound:  # nothing was committed
            stored = await self._aput_payloads(tenant_id, jobs)
            return enqueue_calls.join_enqueued(
                await database.run_all(tenant_id, enqueue_calls.stream_calls(stored))
            )

    def _artifacts(self) -> Artifacts:
        return (self._artifacts_override or self._find_artifacts)()

    def _put_payloads(self, tenant_id: UUID, jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
        artifacts = self._artifacts()
        stored = artifacts.put_payloads(tenant_id, jobs)
        self._record_store(artifacts)
        return stored

    async def _aput_payloads(
        self, tenant_id: UUID, jobs: Sequence[JobRequest]
    ) -> Sequence[JobRequest]:
        artifacts = self._artifacts()
        stored = await _in_thread(artifacts.put_payloads, tenant_id, jobs)
        await self._arecord_store(artifacts)
        return stored

    def _record_store(self, artifacts: Artifacts) -> None:
        if self._is_store_record_due():
            with suppress(JobForgeError):  # only `jobforge doctor` needs the record
                self.run(_build_store_record_call(artifacts))

    async def _arecord_store(self, artifacts: Artifacts) -> None:
        if self._is_store_record_due():
            with suppress(JobForgeError):  # only `jobforge doctor` needs the record
                await self.arun(await _in_thread(_build_store_record_call, artifacts))

    def _is_store_record_due(self) -> bool:
        """Whether to record the artifact store: once an hour, and never on a Django database.

        The record is written on the app's own connection, never in the caller's transaction.
        """
        now = monotonic()
        is_due = self.django is None and now >= self._record_store_at
        if is_due:
            self._record_store_at = now + _RECORD_EVERY_S
        return is_due

    def submit(
        self, submission: Submission[T], tenant: TenantRef | None, conn: Conn
    ) -> tuple[UUID, T]:
        """Submit one request, all or nothing; return the tenant ID and the result."""
        channel = find_process_channel()
        if conn is None and channel is not None:
            check_own_tenant(tenant, channel.tenant_id)
            return channel.tenant_id, submission.read(
                channel.request(submission.kind, submission.data)
            )
        self._refuse_connection(conn)
        self._refuse_to_block(conn)
        conn = self.django if conn is None else conn
        tenant_id = self.tenant_id(tenant, conn)
        try:
            if conn is not None:
                return tenant_id, integrations.run(conn, submission.build(tenant_id))
            return tenant_id, self.run_for_tenant(tenant_id, submission.build)
        except JobForgeError as error:
            raise with_hint(error, conn) from error

    async def asubmit(
        self, submission: Submission[T], tenant: TenantRef | None, conn: Conn
    ) -> tuple[UUID, T]:
        """Like `submit`, for async code."""
        if conn is None and find_process_channel() is not None:
            return self.submit(submission, tenant, conn)
        self._refuse_connection(conn)
        job = CURRENT_JOB.get() if conn is None else None
        if self._job_services is not None and job is not None:
            check_own_tenant(tenant, job.tenant_id)
            return job.tenant_id, submission.read(
                await self._job_services.request(job, submission.kind, submission.data)
            )
        tenant_id = await self.atenant_id(tenant, conn)
        try:
            if conn is not None:
                return tenant_id, await integrations.arun(conn, submission.build(tenant_id))
            return tenant_id, await self.arun_for_tenant(tenant_id, submission.build)
        except JobForgeError as error:
            raise with_hint(error, conn) from error

    def set_job_services(self, services: LoopJobServices) -> None:
        """Route requests of jobs in this process's event loop through their worker."""
        self._job_services = services

    def switch_database(
        self, pools: Pools, django: str | None, artifacts: Callable[[], Artifacts] | None
    ) -> tuple[Pools, str | None, Callable[[], Artifacts] | None]:
        """Switch to another database and artifact store; return the previous ones.

        With `artifacts` None, the app's configured store stays in use.
        """
        previous = self.pools, self.django, self._artifacts_override
        self.pools, self.django, self._artifacts_override = pools, django, artifacts
        self._record_store_at = 0.0
        self.tenant_ids.clear()
        return previous

    def own_pools(self) -> Pools:
        """Return the app's pools; raise Conflict when the app uses Django's connections."""
        if self.django is not None:
            raise Conflict("this app is on a Django database: use django.db.transaction.atomic")
        return self.pools

    def run(self, call: Call[T]) -> T:
        """Run a call in a separate transaction on one of the app's own connections."""
        refuse_inside_job()
        if self.django is not None:
            return integrations.run(self.django, call)
        return self.pools.get_sync_pool().pool.run(call)

    async def arun(self, call: Call[T]) -> T:
        refuse_inside_job()
        if self.django is not None:
            return await integrations.in_thread_of_django(integrations.run, self.django, call)
        return await (await self.pools.get_loop_pool()).pool.run(call)

    def run_for_tenant(self, tenant_id: UUID, build: CallBuilder[T]) -> T:
        """Run a call for a tenant in one round trip, whatever the login's rights are."""
        return self.run_with_tenant(tenant_id, build(tenant_id))

    async def arun_for_tenant(self, tenant_id: UUID, build: CallBuilder[T]) -> T:
        return await self.arun_with_tenant(tenant_id, build(tenant_id))

    def run_with_tenant(self, tenant_id: UUID, call: Call[T]) -> T:
        """Run a call that names its tenant.

        A login that may not name a tenant gets the tenant set in the transaction as well.
        """
        refuse_inside_job()
        if self.django is not None:
            return integrations.run(self.django, call)
        engine_pool = self.pools.get_sync_pool()
        return engine_pool.pool.run(call if engine_pool.is_service else call.for_tenant(tenant_id))

    async def arun_with_tenant(self, tenant_id: UUID, call: Call[T]) -> T:
        refuse_inside_job()
        if self.django is not None:
            return await integrations.in_thread_of_django(integrations.run, self.django, call)
        engine_pool = await self.pools.get_loop_pool()
        return await engine_pool.pool.run(
            call if engine_pool.is_service else call.for_tenant(tenant_id)
        )

    def get_job(self, tenant_id: UUID, job_id: UUID) -> Job:
        return self.run_for_tenant(
            tenant_id, lambda tenant: calls.get_job(job_id, tenant_id=tenant)
        ).job

    def get_result(self, job: Job) -> Json:
        """Return the job's result, from its row or from the artifact store."""
        marker = marker_from_json(job.result)
        if marker is None:
            return job.result
        refuse_inside_job()
        if self.pools.is_remote:
            return self.pools.transport().run(_download(job))
        artifacts = self._artifacts()
        self._record_store(artifacts)  # before the read, which fails in the wrong store
        return decode(artifacts.read(marker, job.tenant_id))

    async def aget_result(self, job: Job) -> Json:
        marker = marker_from_json(job.result)
        if marker is None:
            return job.result
        refuse_inside_job()
        if self.pools.is_remote:
            return await (await self.pools.transport_of_this_loop()).run(_download(job))
        artifacts = self._artifacts()
        await self._arecord_store(artifacts)
        return decode(await _in_thread(artifacts.read, marker, job.tenant_id))

    async def aget_job(self, tenant_id: UUID, job_id: UUID) -> Job:
        history = await self.arun_for_tenant(
            tenant_id, lambda tenant: calls.get_job(job_id, tenant_id=tenant)
        )
        return history.job

    def tenant_id(self, named: TenantRef | None, conn: Conn = None) -> UUID:
        """Return the ID of the tenant that is named, ambient, or the default."""
        tenant = self._choose(named)
        tenant_id = self._get_cached_tenant_id(tenant)
        if tenant_id is not None:
            return tenant_id
        call = calls.find_tenant(str(tenant))
        try:
            # Cache committed tenants only. A tenant that `conn` sees may have been created in the
            # open transaction of `conn` and may be rolled back.
            if self.django is None:
                return self.tenant_ids.put(str(tenant), self.run(call))
        except _TENANT_LOOKUP_ERRORS as error:
            if conn is None:
                raise tenant_lookup_error(error, tenant) from error
        try:
            return integrations.run(conn, call)
        except (NotFound, Denied) as error:
            raise tenant_lookup_error(error, tenant) from error

    async def atenant_id(self, named: TenantRef | None, conn: Conn = None) -> UUID:
        """Like `tenant_id`, for async code."""
        tenant = self._choose(named)
        tenant_id = self._get_cached_tenant_id(tenant)
        if tenant_id is not None:
            return tenant_id
        call = calls.find_tenant(str(tenant))
        try:
            return self.tenant_ids.put(str(tenant), await self.arun(call))
        except _TENANT_LOOKUP_ERRORS as error:
            if conn is None:
                raise tenant_lookup_error(error, tenant) from error
        try:
            return await integrations.arun(conn, call)
        except (NotFound, Denied) as error:
            raise tenant_lookup_error(error, tenant) from error

    def _choose(self, named: TenantRef | None) -> TenantRef:
        try:
            return choose_tenant(named, self._tenant_of_job_or_app)
        except TenantRequired:
            if not self.pools.is_remote:
                raise
            return _TENANT_OF_API_KEY

    def _tenant_of_job_or_app(self) -> TenantRef | None:
        channel = find_process_channel()
        return self._default_tenant() if channel is None else channel.tenant_id

    def _refuse_connection(self, conn: Conn) -> None:
        if conn is not None and self.pools.is_remote:
            raise Conflict(
                "this app makes its jobs over HTTP, so they cannot join a transaction: leave conn"
                " out, or give the app a database"
            )

    def _refuse_to_block(self, conn: Conn) -> None:
        if conn is None and self._job_services is not None and CURRENT_JOB.get() is not None:
            raise Conflict("in a worker's loop, over HTTP, await aenqueue(…), or use async with")

    def _get_cached_tenant_id(self, tenant: TenantRef) -> UUID | None:
        return parse_tenant_uuid(tenant) or self.tenant_ids.get(str(tenant))


def _build_store_record_call(artifacts: Artifacts) -> calls.Call[None]:
    from jobforge.artifacts.store_identity import build_store_record_call  # noqa: PLC0415 - needed only for large payloads

    return build_store_record_call("app", artifacts)


async def _in_thread(function: Callable[..., T], *args: Any) -> T:  # noqa: ANN401 - the function's arguments
    import asyncio  # noqa: PLC0415 - keeps asyncio out of zygotes, see worker/isolation/async_handler.py

    return await asyncio.to_thread(function, *args)


def _download(job: Job) -> ApiRequest[Json]:
    return ApiRequest(
        "GET",
        f"/jobs/{job.id}/artifact",
        lambda document: document,
        query=(("proxied", "true"),),
        headers={TENANT_HEADER: str(job.tenant_id)},
        is_repeatable=True,
    )


def with_hint(error: JobForgeError, conn: Any) -> JobForgeError:  # noqa: ANN401 - a connection of any library
    """Return the error of an enqueue with a hint; `conn` is the caller's connection, if any."""
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
        return rename_error_field(error)
    message = f"{error.message}; {advice}"
    return type(error)(message, field=error.field, detail=error.detail, hint=advice)


def tenant_lookup_error(error: JobForgeError, tenant: TenantRef) -> JobForgeError:
    """Return the error of a tenant lookup, with the tenant in its message."""
    if isinstance(error, NotFound):
        return NotFound(f"there is no tenant {tenant}", field="tenant")
    if isinstance(error, Denied) and "request_id" not in error.detail:
        return Denied(
            f"this login may not look up the tenant {tenant}: name it by its UUID, or grant"
            " jobforge_service to the login",
            field="tenant",
        )
    return error

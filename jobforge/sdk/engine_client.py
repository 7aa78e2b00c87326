"""Sends what an app does to the engine: "this, for that tenant, by that way".

There are three ways: through the app's own pools to a database or a server (pools.py), on a
connection that the caller passes, or, for a running job, through its worker (call_context.py).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from jobforge import calls
from jobforge.artifacts import Artifacts
from jobforge.calls import Call
from jobforge.errors import (
    ConfigError,
    Conflict,
    Denied,
    Invalid,
    JobForgeError,
    Json,
    NotFound,
    TenantRequired,
    Unavailable,
)
from jobforge.observability import tracing
from jobforge.payloads.signature import locate_refusal
from jobforge.payloads.size import (
    PAYLOAD_LIMIT,
    SURELY_SMALL_LENGTH,
    find_large_payloads,
    fits,
    has_large_payload,
    may_have_large_payload,
)
from jobforge.sdk.call_context import (
    JobProcessChannel,
    LoopJobServices,
    TenantIdCache,
    check_own_tenant,
    choose_tenant,
    find_process_channel,
    inherit_correlation,
    parse_tenant_uuid,
    refuse_inside_job,
    refuse_to_emit,
)
from jobforge.sdk.enqueue_errors import tenant_lookup_error, with_hint
from jobforge.sdk.enqueue_options import TenantRef
from jobforge.sdk.large_payloads import LargePayloads
from jobforge.sdk.pools import CallFunction, ClientSteps, Conn, Pools, SendCall, SendCalls
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.job_history import JobHistory
from jobforge.types.jobs import ClaimedJob, Enqueued, Job, JobRequest, UniformJobs

T = TypeVar("T")
CallBuilder = Callable[[UUID], Call[T]]  # takes the tenant ID, which the call has as argument
EnqueueCall = Call[Iterable[Enqueued]]
TenantEnqueued = tuple[UUID, Iterable[Enqueued]]  # the tenant, and the result of each request

# Jobs per call in a stream: the client encodes the next batch while the engine runs this one.
_STREAM_BATCH_SIZE = 1_000
_MOST_JOBS = 5_000  # per statement
_TENANT_OF_API_KEY = ""  # not a slug: the server uses the API key's tenant
_TENANT_LOOKUP_ERRORS = (NotFound, ConfigError, Denied, Unavailable)


class Submission(NamedTuple, Generic[T]):
    """A request such as a workflow: as an engine call, and as a message to a job's worker."""

    build: CallBuilder[T]
    kind: str
    data: Json
    read: Callable[[Json], T]


class LargePayloadFound(Exception):
    """A payload in a stream of jobs is too large for a row."""


class JobWorker(Protocol):
    """The worker of the running job. In an event loop, its methods return awaitables."""

    @property
    def tenant_id(self) -> UUID: ...

    def enqueue(self, jobs: Sequence[JobRequest]) -> Any: ...  # noqa: ANN401 - a list of Enqueued

    def request(self, kind: str, data: Json) -> Any: ...  # noqa: ANN401 - JSON


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
        self._find_app_tenant = tenant
        self._find_artifacts = artifacts
        self._large_payloads = LargePayloads(artifacts, is_recorded=django is None)
        self._job_services: LoopJobServices | None = None

    def enqueue(
        self, jobs: Sequence[JobRequest], tenant: TenantRef | None, conn: Conn
    ) -> TenantEnqueued:
        """Enqueue these jobs, all or none; return the tenant ID and one result per job."""
        worker = self._find_worker(conn, is_async=False)
        with tracing.enqueue_span(jobs) as traced:
            steps = self._enqueue(_inherit(traced), tenant, conn, worker)
            tenant_id, enqueued = self.pools.run(steps)
            return tenant_id, tracing.record_enqueued(jobs, enqueued)

    async def aenqueue(
        self, jobs: Sequence[JobRequest], tenant: TenantRef | None, conn: Conn
    ) -> TenantEnqueued:
        """Like `enqueue`, for async code."""
        worker = self._find_worker(conn, is_async=True)
        with tracing.enqueue_span(jobs) as traced:
            steps = self._enqueue(_inherit(traced), tenant, conn, worker)
            tenant_id, enqueued = await self.pools.arun(steps)
            return tenant_id, tracing.record_enqueued(jobs, enqueued)

    def submit(
        self, submission: Submission[T], tenant: TenantRef | None, conn: Conn
    ) -> tuple[UUID, T]:
        """Submit one request, all or nothing; return the tenant ID and the result."""
        worker = self._find_worker(conn, is_async=False)
        return self.pools.run(self._submit(submission, tenant, conn, worker))

    async def asubmit(
        self, submission: Submission[T], tenant: TenantRef | None, conn: Conn
    ) -> tuple[UUID, T]:
        """Like `submit`, for async code."""
        worker = self._find_worker(conn, is_async=True)
        return await self.pools.arun(self._submit(submission, tenant, conn, worker))

    def emit(self, build: CallBuilder[UUID], tenant: TenantRef | None, conn: Conn) -> UUID:
        """Emit an event in the transaction of `conn` or, without `conn`, in a separate one."""
        refuse_to_emit(conn)
        return self.pools.run(self._send(build, tenant, conn))[1]

    async def aemit(self, build: CallBuilder[UUID], tenant: TenantRef | None, conn: Conn) -> UUID:
        """Like `emit`, for async code."""
        refuse_to_emit(conn)
        return (await self.pools.arun(self._send(build, tenant, conn)))[1]

    def run(self, call: Call[T]) -> T:
        """Run a call in a separate transaction on one of the app's own connections."""
        refuse_inside_job()
        return self.pools.run(self._run(call))

    async def arun(self, call: Call[T]) -> T:
        refuse_inside_job()
        return await self.pools.arun(self._run(call))

    def run_for_tenant(self, tenant_id: UUID, build: CallBuilder[T]) -> T:
        """Run a call for a tenant in one round trip, whatever the login's rights are."""
        refuse_inside_job()
        return self.pools.run(self._run(build(tenant_id), tenant_id))

    async def arun_for_tenant(self, tenant_id: UUID, build: CallBuilder[T]) -> T:
        refuse_inside_job()
        return await self.pools.arun(self._run(build(tenant_id), tenant_id))

    def get_job(self, tenant_id: UUID, job_id: UUID) -> Job:
        return self.run_for_tenant(tenant_id, _build_get_call(job_id)).job

    async def aget_job(self, tenant_id: UUID, job_id: UUID) -> Job:
        return (await self.arun_for_tenant(tenant_id, _build_get_call(job_id))).job

    def get_result(self, job: Job) -> Json:
        """Return the job's result, from its row or from the artifact store."""
        return self.pools.run(self._large_payloads.read_result(job, self.pools))

    async def aget_result(self, job: Job) -> Json:
        return await self.pools.arun(self._large_payloads.read_result(job, self.pools))

    def tenant_id(self, named: TenantRef | None) -> UUID:
        """Return the ID of the tenant that is named, ambient, or the default."""
        return self.pools.run(self._find_tenant(named, self.django))

    async def atenant_id(self, named: TenantRef | None) -> UUID:
        """Like `tenant_id`, for async code."""
        return await self.pools.arun(self._find_tenant(named, self.django))

    def set_job_services(self, services: LoopJobServices) -> None:
        """Route requests of jobs in this process's event loop through their worker."""
        self._job_services = services

    def switch_database(
        self, pools: Pools, django: str | None, artifacts: Callable[[], Artifacts] | None
    ) -> tuple[Pools, str | None, Callable[[], Artifacts] | None]:
        """Switch to another database and artifact store; return the previous ones.

        With `artifacts` None, the app's configured store stays in use.
        """
        previous = self.pools, self.django, self._large_payloads.find_artifacts
        self.pools, self.django = pools, django
        self._large_payloads = LargePayloads(
            artifacts or self._find_artifacts, is_recorded=django is None
        )
        self.tenant_ids.clear()
        return previous

    def own_pools(self) -> Pools:
        """Return the app's pools; raise Conflict when the app uses Django's connections."""
        if self.django is not None:
            raise Conflict("The app uses a Django database; use django.db.transaction.atomic")
        return self.pools

    def _enqueue(
        self,
        jobs: Sequence[JobRequest],
        tenant: TenantRef | None,
        conn: Conn,
        worker: JobWorker | None,
    ) -> ClientSteps[TenantEnqueued]:
        if worker is not None:
            results = []
            check_own_tenant(tenant, worker.tenant_id)
            for batch in _split_batches(jobs, _MOST_JOBS):
                enqueued = yield CallFunction(worker.enqueue, batch)
                results.append(enqueued)
            return worker.tenant_id, chain.from_iterable(results)
        conn = self.django if conn is None else conn
        chosen = self._choose_tenant(tenant)
        tenant_id = self._get_known_tenant_id(chosen)
        if tenant_id is None:
            tenant_id = yield from self._look_up_tenant(chosen, conn)
        try:
            if len(jobs) <= _STREAM_BATCH_SIZE:
                call = self._build_call(tenant_id, jobs)
                if call is None:
                    stored = yield from self._large_payloads.store(tenant_id, jobs)
                    call = _build_call(stored, tenant_id)
                return tenant_id, (yield SendCall(call, conn, tenant_id))
            return tenant_id, (yield from self._enqueue_many(jobs, tenant_id, conn))
        except JobForgeError as error:
            raise with_hint(error, conn) from error

    def _enqueue_many(
        self, jobs: Sequence[JobRequest], tenant_id: UUID, conn: Conn
    ) -> ClientSteps[Iterable[Enqueued]]:
        if conn is None and not self.pools.is_remote:
            return (yield from self._stream(tenant_id, jobs))
        results = []
        # A connection of the caller can run several calls in its transaction.
        for batch in [jobs] if conn is None else _split_batches(jobs, _MOST_JOBS):
            call = self._build_call(tenant_id, batch)
            if call is None:
                stored = yield from self._large_payloads.store(tenant_id, batch)
                call = _build_call(stored, tenant_id)
            enqueued = yield SendCall(call, conn, tenant_id)
            results.append(enqueued)
        return chain.from_iterable(results)

    def _stream(
        self, tenant_id: UUID, jobs: Sequence[JobRequest]
    ) -> ClientSteps[Iterable[Enqueued]]:
        try:
            results = yield SendCalls(tenant_id, _build_stream(jobs))
        except LargePayloadFound:  # nothing was committed
            stored = yield from self._large_payloads.store(tenant_id, jobs)
            results = yield SendCalls(tenant_id, _build_stream(stored))
        return chain.from_iterable(results)

    def _build_call(self, tenant_id: UUID, jobs: Sequence[JobRequest]) -> EnqueueCall | None:
        """Return the call for these jobs, or None when a payload may be too large for a row."""
        if self.pools.is_remote:
            # A list, not UniformJobs: the HTTP API has no separate call for uniform jobs. The
            # server stores large payloads.
            return _build_call(list(jobs), tenant_id)
        call = _build_call(jobs, tenant_id)
        return None if _may_be_large(jobs, call) else call

    def _submit(
        self,
        submission: Submission[T],
        tenant: TenantRef | None,
        conn: Conn,
        worker: JobWorker | None,
    ) -> ClientSteps[tuple[UUID, T]]:
        if worker is None:
            return (yield from self._send(submission.build, tenant, conn))
        check_own_tenant(tenant, worker.tenant_id)
        answer = yield CallFunction(worker.request, submission.kind, submission.data)
        return worker.tenant_id, submission.read(answer)

    def _send(
        self, build: CallBuilder[T], tenant: TenantRef | None, conn: Conn
    ) -> ClientSteps[tuple[UUID, T]]:
        self._refuse_connection(conn)
        conn = self.django if conn is None else conn
        tenant_id = yield from self._find_tenant(tenant, conn)
        try:
            return tenant_id, (yield SendCall(build(tenant_id), conn, tenant_id))
        except JobForgeError as error:
            raise with_hint(error, conn) from error

    def _run(self, call: Call[T], tenant_id: UUID | None = None) -> ClientSteps[T]:
        result: T = yield SendCall(call, self.django, tenant_id)
        return result

    def _find_tenant(self, named: TenantRef | None, conn: Conn) -> ClientSteps[UUID]:
        """Return the ID of the tenant that is named, ambient, or the default."""
        tenant = self._choose_tenant(named)
        known = self._get_known_tenant_id(tenant)
        return known or (yield from self._look_up_tenant(tenant, conn))

    def _get_known_tenant_id(self, tenant: TenantRef) -> UUID | None:
        return parse_tenant_uuid(tenant) or self.tenant_ids.get(str(tenant))

    def _look_up_tenant(self, tenant: TenantRef, conn: Conn) -> ClientSteps[UUID]:
        call = calls.find_tenant(str(tenant))
        try:
            # Cache committed tenants only. A tenant that `conn` sees may have been created in the
            # open transaction of `conn` and may be rolled back.
            if self.django is None:
                refuse_inside_job()
                return self.tenant_ids.put(str(tenant), (yield SendCall(call)))
        except _TENANT_LOOKUP_ERRORS as error:
            if conn is None:
                raise tenant_lookup_error(error, tenant) from error
        try:
            found: UUID = yield SendCall(call, conn)
        except (NotFound, Denied) as error:
            raise tenant_lookup_error(error, tenant) from error
        return found

    def _choose_tenant(self, named: TenantRef | None) -> TenantRef:
        try:
            return choose_tenant(named, self._tenant_of_job_or_app)
        except TenantRequired:
            if not self.pools.is_remote:
                raise
            return _TENANT_OF_API_KEY

    def _tenant_of_job_or_app(self) -> TenantRef | None:
        channel = find_process_channel()
        return self._app_tenant if channel is None else channel.tenant_id

    @cached_property
    def _app_tenant(self) -> TenantRef | None:
        return self._find_app_tenant()

    def _find_worker(self, conn: Conn, *, is_async: bool) -> JobWorker | None:
        """Return the worker of the running job; None if the engine is reached in another way."""
        if conn is not None:
            self._refuse_connection(conn)
            return None
        channel: JobProcessChannel | None = find_process_channel()
        job = CURRENT_JOB.get()
        if channel is not None or self._job_services is None or job is None:
            return channel
        if not is_async:
            raise Conflict("In a worker's loop over HTTP, await aenqueue(…), or use async with")
        return _LoopWorker(self._job_services, job)

    def _refuse_connection(self, conn: Conn) -> None:
        if conn is not None and self.pools.is_remote:
            raise Conflict(
                "The app enqueues over HTTP, so its jobs cannot join a transaction; omit conn,"
                " or set the app's database"
            )


class _LoopWorker(NamedTuple):
    """The worker of a job in this event loop."""

    services: LoopJobServices
    job: ClaimedJob

    @property
    def tenant_id(self) -> UUID:
        return self.job.tenant_id

    def enqueue(self, jobs: Sequence[JobRequest]) -> Any:  # noqa: ANN401 - an awaitable
        return self.services.enqueue(self.job, jobs)

    def request(self, kind: str, data: Json) -> Any:  # noqa: ANN401 - an awaitable
        return self.services.request(self.job, kind, data)


def _inherit(jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
    job = CURRENT_JOB.get()
    return jobs if job is None else inherit_correlation(job, jobs)


def _build_get_call(job_id: UUID) -> CallBuilder[JobHistory]:
    return lambda tenant_id: calls.get_job(job_id, tenant_id=tenant_id)


def _build_call(jobs: Sequence[JobRequest], tenant_id: UUID | None = None) -> EnqueueCall:
    """Return the call that enqueues these jobs.

    The engine has cheaper functions for one job, and for jobs that differ in their payloads only.
    """
    try:
        if isinstance(jobs, UniformJobs):
            return calls.enqueue_payloads(jobs, tenant_id=tenant_id)
        if len(jobs) == 1:
            return calls.enqueue_job(jobs[0], tenant_id=tenant_id).map_result(_to_list)
        return calls.enqueue_jobs(jobs, tenant_id=tenant_id)
    except Invalid as error:
        faulty = jobs[error.detail.get("index", 0)]
        if error.field != "payload" or faulty.payload is None:
            raise
        raise locate_refusal(error, faulty.payload) from error


def _to_list(enqueued: Enqueued) -> list[Enqueued]:
    return [enqueued]


def _may_be_large(jobs: Sequence[JobRequest], call: EnqueueCall) -> bool:
    """Whether a payload may be too large for a row, judged by the encoded text of the call."""
    if isinstance(jobs, UniformJobs):
        is_small = len(str(call.arguments["payloads"])) <= SURELY_SMALL_LENGTH
        return not is_small and has_large_payload(jobs.payloads)
    if len(jobs) == 1:
        return not fits(str(call.arguments["payload"]), PAYLOAD_LIMIT)
    return may_have_large_payload(str(call.arguments["jobs"]))


def _build_stream(jobs: Sequence[JobRequest]) -> Iterator[EnqueueCall]:
    """Yield one call per batch of jobs; raise LargePayloadFound for a payload too large for a row.

    Storing such a payload as an artifact takes longer than a transaction should stay open.
    """
    for batch in _split_batches(jobs, _STREAM_BATCH_SIZE):
        call = _build_call(batch)
        if _may_be_large(batch, call) and find_large_payloads(batch):
            raise LargePayloadFound
        yield call


def _split_batches(jobs: Sequence[JobRequest], size: int) -> Iterator[Sequence[JobRequest]]:
    return (jobs[start : start + size] for start in range(0, len(jobs), size))

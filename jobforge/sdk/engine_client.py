"""Sends what an app does to the engine: "this, for that tenant, by that way".

There are three ways: through the app's own pools to a database or a server (pools.py), on a
connection that the caller passes (integrations/), or, for a running job, through its worker
(call_context.py).

An operation is written once for sync and async code: as a coroutine that takes a sender. With a
BlockingSender it never suspends, so `complete` runs it to its end without an event loop.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import cached_property, partial
from inspect import isawaitable
from itertools import chain
from typing import Any, NamedTuple, TypeVar
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
from jobforge.integrations import find_arun, find_run
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
    check_own_tenant,
    choose_tenant,
    find_process_channel,
    parse_tenant_uuid,
    refuse_inside_job,
)
from jobforge.sdk.enqueue_errors import tenant_lookup_error, with_hint
from jobforge.sdk.enqueue_options import TenantRef
from jobforge.sdk.inheritance import inherit_correlation
from jobforge.sdk.large_payloads import LargePayloads
from jobforge.sdk.pools import AsyncSender, BlockingSender, Pools, Sender
from jobforge.sdk.worker_requests import (
    EnqueueJobs,
    TenantRequest,
    WorkerRequest,
    inherit_from_current_job,
)
from jobforge.timing.ttl_cache import TtlCache
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, Enqueued, Job, JobRequest, UniformJobs

T = TypeVar("T")
Conn = Any  # a connection of one of the libraries in integrations/
CallBuilder = Callable[[UUID], Call[T]]  # takes the tenant ID, which the call has as argument
EnqueueCall = Call[Iterable[Enqueued]]
SendToWorker = Callable[[ClaimedJob, WorkerRequest[Any]], Awaitable[Any]]
TenantEnqueued = tuple[UUID, Iterable[Enqueued]]  # the tenant, and the result of each request

# Jobs per call in a stream: the client encodes the next batch while the engine runs this one.
_STREAM_BATCH_SIZE = 1_000
_MOST_JOBS = 5_000  # per statement
_TENANT_ID_TTL_S = 60.0
_TENANT_OF_API_KEY = ""  # not a slug: the server uses the API key's tenant
_TENANT_LOOKUP_ERRORS = (NotFound, ConfigError, Denied, Unavailable)


class LargePayloadFound(Exception):
    """A payload in a stream of jobs is too large for a row."""


class JobWorker(NamedTuple):
    """The worker of the running job. In an event loop, `send` returns an awaitable."""

    tenant_id: UUID
    send: Callable[[WorkerRequest[Any]], Any]


def complete(operation: Coroutine[Any, Any, T]) -> T:
    """Run an operation whose sender is a BlockingSender, and return its result."""
    try:
        operation.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    operation.close()
    raise RuntimeError("An operation with a blocking sender must not suspend")


class EngineClient:
    """Connects one app's definitions to the engine. Opens no connection before first use.

    Each operation takes `blocking`, in code that passes it to `complete`, or `awaiting`.
    """

    def __init__(
        self,
        pools: Pools,
        *,
        tenant: Callable[[], TenantRef | None],
        artifacts: Callable[[], Artifacts],
        django: str | None = None,
    ) -> None:
        self.tenant_ids: TtlCache[str, UUID] = TtlCache(_TENANT_ID_TTL_S)  # by slug
        self._find_app_tenant = tenant
        self._find_artifacts = artifacts
        self._send_request: SendToWorker | None = None
        self._use_pools(pools, django, artifacts)

    def _use_pools(
        self, pools: Pools, django: str | None, artifacts: Callable[[], Artifacts]
    ) -> None:
        self.pools = pools
        self.django = django
        self.blocking, self.awaiting = BlockingSender(pools), AsyncSender(pools)
        self._large_payloads = LargePayloads(artifacts, is_recorded=django is None)

    async def enqueue(
        self, sender: Sender, jobs: Sequence[JobRequest], tenant: TenantRef | None, conn: Conn
    ) -> TenantEnqueued:
        """Enqueue these jobs, all or none; return the tenant ID and one result per job."""
        worker = self._find_worker(sender, conn)
        with tracing.enqueue_span(jobs) as traced:
            jobs = _inherit(traced)
            if worker is not None:
                tenant_id, enqueued = await _enqueue_by_worker(worker, jobs, tenant)
            else:
                tenant_id, enqueued = await self._enqueue_for_tenant(sender, jobs, tenant, conn)
            return tenant_id, tracing.record_enqueued(jobs, enqueued)

    async def submit(
        self, sender: Sender, request: TenantRequest[T], tenant: TenantRef | None, conn: Conn
    ) -> tuple[UUID, T]:
        """Submit one request, all or nothing; return the tenant ID and the result."""
        worker = self._find_worker(sender, conn)
        request = inherit_from_current_job(request)
        if worker is None:
            return await self.run_for_tenant(sender, request.build_tenant_call, tenant, conn)
        check_own_tenant(tenant, worker.tenant_id)
        return worker.tenant_id, await _resolve(worker.send(request))

    async def run_for_tenant(
        self, sender: Sender, build: CallBuilder[T], tenant: TenantRef | None, conn: Conn
    ) -> tuple[UUID, T]:
        """Run a call for a tenant, in the transaction of `conn` or, without it, a separate one."""
        self._refuse_connection(conn)
        conn = self.django if conn is None else conn
        tenant_id = await self._find_tenant(sender, tenant, conn)
        try:
            return tenant_id, await _send(sender, build(tenant_id), conn, tenant_id)
        except JobForgeError as error:
            raise with_hint(error, conn) from error

    def run(self, call: Call[T], tenant_id: UUID | None = None) -> T:
        """Run a call in a separate transaction on one of the app's own connections.

        A call for a tenant names the tenant itself too, so that it takes one round trip whatever
        the login's rights are.
        """
        return complete(self.run_separately(self.blocking, call, tenant_id))

    async def arun(self, call: Call[T], tenant_id: UUID | None = None) -> T:
        """Like `run`, for async code."""
        return await self.run_separately(self.awaiting, call, tenant_id)

    async def run_separately(self, sender: Sender, call: Call[T], tenant_id: UUID | None) -> T:
        """Like `run`, as an operation."""
        refuse_inside_job()
        return await _send(sender, call, self.django, tenant_id)

    async def get_result(self, sender: Sender, job: Job) -> Json:
        """Return the job's result, from its row or from the artifact store."""
        is_remote = self.pools.is_remote
        return await self._large_payloads.read_result(sender, job, is_remote=is_remote)

    async def find_tenant(self, sender: Sender, named: TenantRef | None) -> UUID:
        """Return the ID of the tenant that is named, ambient, or the default."""
        return await self._find_tenant(sender, named, self.django)

    def set_request_sender(self, send: SendToWorker) -> None:
        """Send the requests of jobs in this process's event loop to their worker."""
        self._send_request = send

    def switch_database(
        self, pools: Pools, django: str | None, artifacts: Callable[[], Artifacts] | None
    ) -> tuple[Pools, str | None, Callable[[], Artifacts] | None]:
        """Switch to another database and artifact store; return the previous ones.

        With `artifacts` None, the app's configured store stays in use.
        """
        previous = self.pools, self.django, self._large_payloads.find_artifacts
        self._use_pools(pools, django, artifacts or self._find_artifacts)
        self.tenant_ids.clear()
        return previous

    def own_pools(self) -> Pools:
        """Return the app's pools; raise Conflict when the app uses Django's connections."""
        if self.django is not None:
            raise Conflict("The app uses a Django database; use django.db.transaction.atomic")
        return self.pools

    async def _enqueue_for_tenant(
        self, sender: Sender, jobs: Sequence[JobRequest], tenant: TenantRef | None, conn: Conn
    ) -> TenantEnqueued:
        conn = self.django if conn is None else conn
        tenant_id = await self._find_tenant(sender, tenant, conn)
        try:
            return tenant_id, await self._enqueue(sender, jobs, tenant_id, conn)
        except JobForgeError as error:
            raise with_hint(error, conn) from error

    async def _enqueue(
        self, sender: Sender, jobs: Sequence[JobRequest], tenant_id: UUID, conn: Conn
    ) -> Iterable[Enqueued]:
        if len(jobs) <= _STREAM_BATCH_SIZE:
            return await self._enqueue_batch(sender, jobs, tenant_id, conn)
        if conn is None and not self.pools.is_remote:
            return await self._stream(sender, jobs, tenant_id)
        # A connection of the caller can run several calls in its transaction.
        batches = [jobs] if conn is None else _split_batches(jobs, _MOST_JOBS)
        return chain.from_iterable(
            [await self._enqueue_batch(sender, batch, tenant_id, conn) for batch in batches]
        )

    async def _enqueue_batch(
        self, sender: Sender, jobs: Sequence[JobRequest], tenant_id: UUID, conn: Conn
    ) -> Iterable[Enqueued]:
        # The HTTP API has no separate call for uniform jobs, and the server stores large payloads.
        is_remote = self.pools.is_remote
        call = _build_call(list(jobs) if is_remote else jobs, tenant_id)
        if not is_remote and _may_be_large(jobs, call):
            stored = await self._large_payloads.store(sender, tenant_id, jobs)
            call = _build_call(stored, tenant_id)
        return await _send(sender, call, conn, tenant_id)

    async def _stream(
        self, sender: Sender, jobs: Sequence[JobRequest], tenant_id: UUID
    ) -> Iterable[Enqueued]:
        try:
            results = await sender.send_all(tenant_id, _build_stream(jobs))
        except LargePayloadFound:  # nothing was committed
            stored = await self._large_payloads.store(sender, tenant_id, jobs)
            results = await sender.send_all(tenant_id, _build_stream(stored))
        return chain.from_iterable(results)

    async def _find_tenant(self, sender: Sender, named: TenantRef | None, conn: Conn) -> UUID:
        """Return the ID of the tenant that is named, ambient, or the default."""
        tenant = self._choose_tenant(named)
        known = parse_tenant_uuid(tenant) or self.tenant_ids.get(str(tenant))
        return known or await self._look_up_tenant(sender, str(tenant), conn)

    async def _look_up_tenant(self, sender: Sender, slug: str, conn: Conn) -> UUID:
        call = calls.find_tenant(slug)
        try:
            # Cache committed tenants only. A tenant that `conn` sees may have been created in the
            # open transaction of `conn` and may be rolled back.
            if self.django is None:
                refuse_inside_job()
                return self.tenant_ids.put(slug, await sender.send(call))
        except _TENANT_LOOKUP_ERRORS as error:
            if conn is None:
                raise tenant_lookup_error(error, slug) from error
        try:
            return await _send(sender, call, conn)
        except (NotFound, Denied) as error:
            raise tenant_lookup_error(error, slug) from error

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

    def _find_worker(self, sender: Sender, conn: Conn) -> JobWorker | None:
        """Return the worker of the running job; None if the engine is reached in another way."""
        if conn is not None:
            self._refuse_connection(conn)
            return None
        channel = find_process_channel()
        if channel is not None:
            return JobWorker(channel.tenant_id, channel.request)
        job = CURRENT_JOB.get()
        if self._send_request is None or job is None:
            return None
        if not sender.is_async:
            raise Conflict("In a worker's loop over HTTP, await aenqueue(…), or use async with")
        return JobWorker(job.tenant_id, partial(self._send_request, job))

    def _refuse_connection(self, conn: Conn) -> None:
        if conn is not None and self.pools.is_remote:
            raise Conflict(
                "The app enqueues over HTTP, so its jobs cannot join a transaction; omit conn,"
                " or set the app's database"
            )


async def _enqueue_by_worker(
    worker: JobWorker, jobs: Sequence[JobRequest], tenant: TenantRef | None
) -> TenantEnqueued:
    check_own_tenant(tenant, worker.tenant_id)
    batches = _split_batches(jobs, _MOST_JOBS)
    results = [await _resolve(worker.send(EnqueueJobs(batch))) for batch in batches]
    return worker.tenant_id, chain.from_iterable(results)


def _inherit(jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
    job = CURRENT_JOB.get()
    return jobs if job is None else inherit_correlation(job, jobs)


async def _resolve(answer: Any) -> Any:  # noqa: ANN401 - an answer of the job's worker
    return await answer if isawaitable(answer) else answer


async def _send(sender: Sender, call: Call[T], conn: Conn, tenant_id: UUID | None = None) -> T:
    """Run a call on a connection of the caller or, without one, on one of the app's own."""
    if conn is None:
        return await sender.send(call, tenant_id)
    result: T
    if sender.is_async:
        result = await find_arun(conn.__class__)(conn, call)
    else:
        result = find_run(conn.__class__)(conn, call)
    return result


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
